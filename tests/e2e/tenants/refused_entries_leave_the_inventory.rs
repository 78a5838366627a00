//! An object whose apply was refused leaves the inventory; an object that was applied stays in it,
//! also if the account loses its rights later.

use super::*;

/// An account that may do everything in its own namespace, and nothing elsewhere.
const TENANT: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: {name: team-a, namespace: team-a}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: admin, namespace: team-a}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: team-a, namespace: team-a}]
";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/team-b/rolebindings";

fn own() -> String {
    config("own").replace("team-b", "team-a")
}

/// Starts a hub with another tenant's ConfigMap, and the tenant's Kustomization of a directory with
/// these files.
fn start_tenant(files: &[Change]) -> Embedded {
    let world = start(&[
        Change::write("clusters/hub/tenant.yaml", TENANT),
        Change::write("clusters/hub/theirs.yaml", config("theirs")),
    ]);
    world.push(FLEET, files);
    world.settle();
    let mut apps = sync("./apps");
    apps["serviceAccountName"] = json!("team-a");
    create(&world, "Kustomization", "team-a", "apps", apps);
    world
}

fn bind(world: &Embedded) {
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "guest"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "team-a", "namespace": "team-a"}]});
    world.cluster("hub").create(BINDINGS, &binding);
}

/// Adds entries to a Kustomization's inventory.
fn list(world: &Embedded, name: &str, ids: &[&str]) {
    let object = path("Kustomization", "team-a", name);
    let mut listed = inventory(world, "team-a", name);
    listed.extend(ids.iter().map(|id| (*id).to_owned()));
    let entries: Vec<Value> = listed
        .iter()
        .map(|id| json!({"id": id, "v": "v1"}))
        .collect();
    let status = json!({"status": {"inventory": {"entries": entries}}});
    world
        .cluster("hub")
        .patch(&format!("{object}/status"), &status);
}

#[test]
fn when_they_are_removed_again() {
    let foreign: Vec<String> = (0..30).map(|n| config(&format!("foreign-{n}"))).collect();
    let foreign = format!("{}---\n{}", config("theirs"), foreign.join("---\n"));
    let world = start_tenant(&[
        Change::write("apps/own.yaml", own()),
        Change::write("apps/foreign.yaml", foreign),
    ]);
    let (_, reason, message) = condition(&world, "Kustomization", "team-a", "apps");
    assert_eq!(reason, "ReconciliationFailed");
    assert!(
        message.contains("ConfigMap/team-b/theirs dry-run failed (Forbidden)"),
        "{message}"
    );
    assert_eq!(
        inventory(&world, "team-a", "apps"),
        ["team-a_own__ConfigMap"]
    );

    world.push(FLEET, &[Change::remove("apps/foreign.yaml")]);
    world.settle();
    is_true(&world, "Kustomization", "team-a", "apps");
    assert_eq!(
        inventory(&world, "team-a", "apps"),
        ["team-a_own__ConfigMap"]
    );
    let theirs = world
        .cluster("hub")
        .get(&path("ConfigMap", "team-b", "theirs"));
    let label = &theirs["metadata"]["labels"]["kustomize.toolkit.fluxcd.io/name"];
    assert_eq!(label, "flux-system");
}

/// Entries that an interrupted step between inventory and apply, or an earlier version, has left.
#[test]
fn when_their_origin_is_unknown() {
    let world = start_tenant(&[Change::write("apps/own.yaml", own())]);
    is_true(&world, "Kustomization", "team-a", "apps");
    let ids = ["team-b_theirs__ConfigMap", "team-b_none__ConfigMap"];
    list(&world, "apps", &ids);
    look(&world, "Kustomization", "team-a", "apps");
    is_true(&world, "Kustomization", "team-a", "apps");
    assert_eq!(
        inventory(&world, "team-a", "apps"),
        ["team-a_own__ConfigMap"]
    );

    // They do not block the deletion of the Kustomization either.
    list(&world, "apps", &ids);
    let hub = world.cluster("hub");
    hub.delete(&path("Kustomization", "team-a", "apps"));
    world.sweep();
    world.settle();
    assert!(hub.find(&path("Kustomization", "team-a", "apps")).is_none());
    assert!(hub.find(&path("ConfigMap", "team-a", "own")).is_none());
    assert!(hub.find(&path("ConfigMap", "team-b", "theirs")).is_some());
}

/// Objects that were applied while the account had the rights stay listed until they can be
/// deleted.
#[test]
fn but_applied_objects_stay() {
    let world = start_tenant(&[Change::write("apps/own.yaml", own())]);
    bind(&world);
    world.push(FLEET, &[Change::write("apps/guest.yaml", config("guest"))]);
    world.settle();
    is_true(&world, "Kustomization", "team-a", "apps");
    let hub = world.cluster("hub");
    hub.delete(&format!("{BINDINGS}/guest"));
    let guest = path("ConfigMap", "team-b", "guest");

    // An object that is still rendered stays listed when its apply is refused.
    world.push(
        FLEET,
        &[Change::write(
            "apps/guest.yaml",
            config("guest").replace("a: b", "a: c"),
        )],
    );
    world.settle();
    let (_, reason, message) = condition(&world, "Kustomization", "team-a", "apps");
    assert_eq!(reason, "ReconciliationFailed", "{message}");
    let listed = ["team-a_own__ConfigMap", "team-b_guest__ConfigMap"];
    assert_eq!(inventory(&world, "team-a", "apps"), listed);

    world.push(FLEET, &[Change::remove("apps/guest.yaml")]);
    world.settle();
    let (_, reason, message) = condition(&world, "Kustomization", "team-a", "apps");
    assert_eq!(reason, "PruneFailed", "{message}");
    assert!(
        message.contains("ConfigMap/team-b/guest delete failed"),
        "{message}"
    );
    assert_eq!(inventory(&world, "team-a", "apps"), listed);
    assert!(hub.find(&guest).is_some());

    bind(&world);
    look(&world, "Kustomization", "team-a", "apps");
    is_true(&world, "Kustomization", "team-a", "apps");
    assert!(hub.find(&guest).is_none());
    assert_eq!(
        inventory(&world, "team-a", "apps"),
        ["team-a_own__ConfigMap"]
    );
}
