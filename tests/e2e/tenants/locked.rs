//! A hub that is locked down as documented: its root works, and tenants act as their own accounts.

use super::*;

const ROOT: &str = "flux-system";

fn lock(world: &Embedded) {
    world.change("hub", |settings| {
        settings.default_service_account = Some("default".to_owned());
        settings.no_cross_namespace_refs = true;
    });
}

#[test]
fn a_locked_hub_has_a_root() {
    let shared = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shared}\n";
    let world = start(&[]);
    lock(&world);
    world.push(FLEET, &[Change::write("clusters/hub/shared.yaml", shared)]);
    world.settle();
    is_true(&world, "Kustomization", ROOT, ROOT);
    let hub = world.cluster("hub");
    assert!(hub.find(&path("Namespace", "", "shared")).is_some());

    // A tenant's object without an account acts as the default account of its namespace.
    let source = json!({"interval": "10m", "url": format!("https://github.com/{FLEET}"), "ref": {"branch": "main"}});
    create(&world, "GitRepository", "team-a", "fleet", source);
    let apps = json!({"interval": "10m", "path": "./clusters/hub", "prune": true,
        "sourceRef": {"kind": "GitRepository", "name": "fleet"}});
    create(&world, "Kustomization", "team-a", "apps", apps);
    let (_, reason, message) = condition(&world, "Kustomization", "team-a", "apps");
    assert_eq!(reason, "ReconciliationFailed", "{message}");
    for part in [
        "Forbidden",
        "it acts as ServiceAccount team-a/default, the hub's --default-service-account",
        "set spec.serviceAccountName",
    ] {
        assert!(message.contains(part), "{message}");
    }
}

/// A root that `flux bootstrap` created names no account: the message has the line to add.
#[test]
fn a_root_without_an_account_gets_the_missing_line() {
    let world = start(&[]);
    let hub = world.cluster("hub");
    let root = path("Kustomization", ROOT, ROOT);
    hub.patch(&root, &json!({"spec": {"serviceAccountName": null}}));
    let shared = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shared}\n";
    world.push(FLEET, &[Change::write("clusters/hub/shared.yaml", shared)]);
    world.settle();
    is_true(&world, "Kustomization", ROOT, ROOT);
    lock(&world);
    let newer = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shared, labels: {a: b}}\n";
    world.push(FLEET, &[Change::write("clusters/hub/shared.yaml", newer)]);
    world.settle();
    let (_, reason, message) = condition(&world, "Kustomization", ROOT, ROOT);
    assert_eq!(reason, "ReconciliationFailed", "{message}");
    for part in [
        "Namespace/shared dry-run failed (Forbidden)",
        "it acts as ServiceAccount flux-system/default",
        "add 'serviceAccountName: kustomize-controller' to its spec",
    ] {
        assert!(message.contains(part), "{message}");
    }
    // With that line it works.
    hub.patch(
        &root,
        &json!({"spec": {"serviceAccountName": "kustomize-controller"}}),
    );
    look(&world, "Kustomization", ROOT, ROOT);
    is_true(&world, "Kustomization", ROOT, ROOT);
}
