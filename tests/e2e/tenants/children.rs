//! The guard against mass deletions also counts the objects of Kustomizations and HelmReleases that
//! a prune deletes.

use super::*;

/// Returns a Kustomization of a directory as YAML.
pub(super) fn child(name: &str, directory: &str, prune: bool) -> String {
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: {name}, namespace: flux-system}}\n\
         spec: {{interval: 10m, path: {directory}, prune: {prune}, sourceRef: {{kind: GitRepository, name: flux-system}}}}\n"
    )
}

#[track_caller]
pub(super) fn is_held(world: &Embedded, parts: &[&str]) {
    let (status, reason, message) = condition(world, "Kustomization", "flux-system", "flux-system");
    assert_eq!((&*status, &*reason), ("False", "PruneHeld"), "{message}");
    for part in parts {
        assert!(message.contains(part), "{message}");
    }
}

pub(super) fn apps(world: &Embedded) -> usize {
    let path = "/api/v1/namespaces/team-b/configmaps";
    let list = world.cluster("hub").send("GET", path, "", None);
    let list = list.expect("a list");
    let items = list["items"].as_array().expect("items");
    let name = |item: &Value| item["metadata"]["name"].as_str().map(str::to_owned);
    let names = items.iter().filter_map(name);
    names.filter(|name| name.starts_with("app-")).count()
}

#[test]
fn guard_counts_children() {
    let world = start(&[
        Change::write("clusters/hub/child.yaml", child("child", "./child", true)),
        Change::write(
            "child/grandchild.yaml",
            child("grandchild", "./grandchild", true),
        ),
        Change::write("grandchild/apps.yaml", configs(12)),
    ]);
    is_true(&world, "Kustomization", "flux-system", "grandchild");
    assert_eq!(apps(&world), 12);

    // The child, the grandchild, and the grandchild's objects.
    let sha = world.commit(FLEET, &[Change::write("clusters/hub/child.yaml", "")]);
    world.sweep();
    look(&world, "GitRepository", "flux-system", "flux-system");
    is_held(
        &world,
        &[
            "14 of 15 objects would be deleted",
            "13 of them with Kustomization/flux-system/child",
            "driftless.dev/prune-approved=",
        ],
    );
    assert_eq!(apps(&world), 12);

    // With the approval it is deleted.
    let approved = json!({"metadata": {"annotations": {"driftless.dev/prune-approved": format!("main@sha1:{sha}")}}});
    let root = path("Kustomization", "flux-system", "flux-system");
    world.cluster("hub").patch(&root, &approved);
    for _ in 0..2 {
        for name in ["flux-system", "child", "grandchild"] {
            look(&world, "Kustomization", "flux-system", name);
        }
    }
    assert_eq!(apps(&world), 0);
}

#[test]
fn children_that_leave_their_objects_do_not_count() {
    let world = start(&[
        Change::write("clusters/hub/child.yaml", child("child", "./child", false)),
        Change::write("child/apps.yaml", configs(12)),
    ]);
    is_true(&world, "Kustomization", "flux-system", "child");
    world.push(FLEET, &[Change::remove("clusters/hub/child.yaml")]);
    world.settle();
    is_true(&world, "Kustomization", "flux-system", "flux-system");
    look(&world, "Kustomization", "flux-system", "child");
    let child = path("Kustomization", "flux-system", "child");
    assert!(world.cluster("hub").find(&child).is_none());
    assert_eq!(apps(&world), 12);
}

#[test]
fn a_helm_release_counts_with_its_objects() {
    let chart = [
        Change::write(
            "chart/Chart.yaml",
            "apiVersion: v2\nname: app\nversion: 1.0.0\n",
        ),
        Change::write("chart/templates/apps.yaml", configs(12)),
        Change::write(
            "clusters/hub/release.yaml",
            "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: web, namespace: flux-system}\n\
             spec:\n  interval: 10m\n  chart: {spec: {chart: ./chart, sourceRef: {kind: GitRepository, name: flux-system}}}\n",
        ),
    ];
    let world = start(&chart);
    is_true(&world, "HelmRelease", "flux-system", "web");
    assert_eq!(apps(&world), 12);
    let held = "12 of them with HelmRelease/flux-system/web";
    world.push(FLEET, &[Change::remove("clusters/hub/release.yaml")]);
    world.settle();
    is_held(&world, &["13 of 14 objects would be deleted", held]);

    // The objects of a release without an inventory are counted by its record.
    let web = path("HelmRelease", "flux-system", "web");
    let unlisted = json!({"status": {"inventory": null}});
    let hub = world.cluster("hub");
    hub.patch(&format!("{web}/status"), &unlisted);
    look(&world, "Kustomization", "flux-system", "flux-system");
    is_held(&world, &[held]);
    assert_eq!(apps(&world), 12);

    // A suspended release is deleted without an uninstall.
    hub.patch(&web, &json!({"spec": {"suspend": true}}));
    look(&world, "Kustomization", "flux-system", "flux-system");
    is_true(&world, "Kustomization", "flux-system", "flux-system");
    look(&world, "HelmRelease", "flux-system", "web");
    assert!(hub.find(&web).is_none());
    assert_eq!(apps(&world), 12);
}
