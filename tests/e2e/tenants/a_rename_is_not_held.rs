//! A rename is not a deletion: objects that a new Kustomization takes over do not count, and are
//! not deleted.

use super::children::{apps, child, is_held};
use super::*;
use std::collections::BTreeMap;
use std::time::Duration;

const ROOT: &str = "flux-system";

/// Returns a Kustomization of a directory in any namespace, with more fields in its spec.
fn child_of(name: &str, namespace: &str, directory: &str, more: &str) -> String {
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
         spec: {{interval: 10m, path: {directory}, prune: true, sourceRef: {{kind: GitRepository, name: flux-system, namespace: flux-system}}{more}}}\n"
    )
}

/// Returns ConfigMaps with the names `PREFIX-0`, ...
fn named(prefix: &str, count: usize) -> String {
    let all: Vec<String> = (0..count)
        .map(|n| config(&format!("{prefix}-{n}")))
        .collect();
    all.join("---\n")
}

/// Returns the uids of the tenants' ConfigMaps by their names.
fn uids(world: &Embedded) -> BTreeMap<String, String> {
    let path = "/api/v1/namespaces/team-b/configmaps";
    let list = world.cluster("hub").send("GET", path, "", None);
    let list = list.expect("a list");
    let items = list["items"].as_array().expect("items").iter();
    let text = |item: &Value, field: &str| item["metadata"][field].as_str().map(str::to_owned);
    let uid = |item: &Value| Some((text(item, "name")?, text(item, "uid")?));
    items.filter_map(uid).collect()
}

/// Returns the Kustomization in a ConfigMap's labels, as `NAMESPACE/NAME`.
fn owner(world: &Embedded, name: &str) -> String {
    let object = world.cluster("hub").get(&path("ConfigMap", "team-b", name));
    let label = |key: &str| {
        let labels = &object["metadata"]["labels"];
        labels[&format!("kustomize.toolkit.fluxcd.io/{key}")]
            .as_str()
            .unwrap_or("none")
            .to_owned()
    };
    format!("{}/{}", label("namespace"), label("name"))
}

fn is_gone(world: &Embedded, namespace: &str, name: &str) -> Result<(), String> {
    let found = world
        .cluster("hub")
        .find(&path("Kustomization", namespace, name));
    match found {
        None => Ok(()),
        Some(_) => Err(format!("Kustomization/{namespace}/{name} is there")),
    }
}

/// Pushes, and waits until the root is ready at that commit and the old Kustomization is deleted.
fn rename(world: &Embedded, changes: &[Change], (namespace, old): (&str, &str)) {
    world.push(FLEET, changes);
    let sha = world.head(FLEET);
    let site: &dyn Site = world;
    site.eventually("the rename", || {
        is_ready(world.cluster("hub"), ROOT, ROOT, &sha)?;
        is_gone(world, namespace, old)
    });
    world.settle();
    is_true(world, "Kustomization", ROOT, ROOT);
}

#[test]
fn of_a_child_with_the_same_directory() {
    let world = start(&[
        Change::write("clusters/hub/child.yaml", child("apps", "./apps", true)),
        Change::write("apps/apps.yaml", configs(40)),
    ]);
    is_true(&world, "Kustomization", ROOT, "apps");
    let before = uids(&world);
    assert_eq!(apps(&world), 40);
    let changes = [Change::write(
        "clusters/hub/child.yaml",
        child("web", "./apps", true),
    )];
    rename(&world, &changes, (ROOT, "apps"));
    assert_eq!(uids(&world), before);
    assert_eq!(inventory(&world, ROOT, "web").len(), 40);
    assert_eq!(owner(&world, "app-7"), "flux-system/web");

    // In the other direction, and with one object less, which is pruned.
    let changes = [
        Change::write("clusters/hub/child.yaml", child("apps", "./apps", true)),
        Change::write("apps/apps.yaml", configs(39)),
    ];
    rename(&world, &changes, (ROOT, "web"));
    let mut left = before;
    left.remove("app-39");
    assert_eq!(uids(&world), left);
    assert_eq!(owner(&world, "app-7"), "flux-system/apps");
}

#[test]
fn of_each_child_of_a_small_fleet_in_turn() {
    let names = ["a", "b", "c", "d", "e"];
    let file = |name: &str| format!("clusters/hub/{name}.yaml");
    let mut files = Vec::new();
    for name in names {
        let directory = format!("./apps/{name}");
        files.push(Change::write(&file(name), child(name, &directory, true)));
        files.push(Change::write(
            &format!("apps/{name}/apps.yaml"),
            named(name, 20),
        ));
    }
    let world = start(&files);
    let before = uids(&world);
    for name in names {
        let directory = format!("./apps/{name}");
        let changes = [Change::write(
            &file(name),
            child(&format!("{name}-new"), &directory, true),
        )];
        rename(&world, &changes, (ROOT, name));
        assert_eq!(uids(&world), before, "{name}");
    }
    // All at once.
    let changes = names.map(|name| {
        let directory = format!("./apps/{name}");
        Change::write(
            &file(name),
            child(&format!("{name}-newer"), &directory, true),
        )
    });
    rename(&world, &changes, (ROOT, "e-new"));
    assert_eq!(uids(&world), before);
}

#[test]
fn into_another_namespace_and_directory() {
    let world = start(&[
        Change::write("clusters/hub/child.yaml", child("apps", "./apps", true)),
        Change::write("apps/apps.yaml", configs(40)),
    ]);
    let before = uids(&world);
    let changes = [
        Change::write(
            "clusters/hub/child.yaml",
            child_of("apps", "team-b", "./team/apps", ""),
        ),
        Change::remove("apps/apps.yaml"),
        Change::write("team/apps/apps.yaml", configs(40)),
    ];
    rename(&world, &changes, (ROOT, "apps"));
    assert_eq!(uids(&world), before);
    assert_eq!(owner(&world, "app-7"), "team-b/apps");
}

/// The objects of a small child are not deleted and created again either, and an heir with
/// dependencies is waited for.
#[test]
fn of_a_small_child_with_a_dependency() {
    let world = start(&[
        Change::write("clusters/hub/infra.yaml", child("infra", "./infra", true)),
        Change::write("infra/infra.yaml", config("infra")),
        Change::write("clusters/hub/child.yaml", child("apps", "./apps", true)),
        Change::write("apps/apps.yaml", configs(4)),
    ]);
    let before = uids(&world);
    let after = ", dependsOn: [{name: infra}]";
    let changes = [Change::write(
        "clusters/hub/child.yaml",
        child_of("web", ROOT, "./apps", after),
    )];
    rename(&world, &changes, (ROOT, "apps"));
    assert_eq!(uids(&world), before);
}

/// Objects that move from the root into a new child, and a grandchild whose parent is renamed.
#[test]
fn of_a_parent_and_into_a_new_child() {
    let world = start(&[
        Change::write("clusters/hub/apps.yaml", configs(30)),
        Change::write("clusters/hub/child.yaml", child("child", "./child", true)),
        Change::write("child/grandchild.yaml", child("leaf", "./leaf", true)),
        Change::write("leaf/leaf.yaml", named("leaf", 30)),
    ]);
    is_true(&world, "Kustomization", ROOT, "leaf");
    let before = uids(&world);
    let changes = [
        Change::remove("clusters/hub/apps.yaml"),
        Change::write("apps/apps.yaml", configs(30)),
        Change::write("clusters/hub/child.yaml", child("parent", "./child", true)),
        Change::write("clusters/hub/moved.yaml", child("apps", "./apps", true)),
    ];
    rename(&world, &changes, (ROOT, "child"));
    assert_eq!(uids(&world), before);
    assert_eq!(owner(&world, "app-7"), "flux-system/apps");
    let leaf = world
        .cluster("hub")
        .get(&path("Kustomization", ROOT, "leaf"));
    let label = &leaf["metadata"]["labels"]["kustomize.toolkit.fluxcd.io/name"];
    assert_eq!(label, "parent");
}

/// A new child that does not build the objects does not take them over.
#[test]
fn a_rename_to_a_child_without_objects_is_held() {
    let world = start(&[
        Change::write("clusters/hub/child.yaml", child("apps", "./apps", true)),
        Change::write("apps/apps.yaml", configs(40)),
    ]);
    let before = uids(&world);
    let changes = [
        Change::write("clusters/hub/child.yaml", child("web", "./empty", true)),
        Change::write("empty/other.yaml", config("other")),
    ];
    world.push(FLEET, &changes);
    let site: &dyn Site = &world;
    site.eventually("a held prune", || {
        let (_, reason, message) = condition(&world, "Kustomization", ROOT, ROOT);
        (reason == "PruneHeld").then_some(()).ok_or(message)
    });
    is_held(
        &world,
        &[
            "41 of 43 objects would be deleted",
            "40 of them with Kustomization/flux-system/apps: Kustomization/flux-system/apps, ConfigMap/team-b/app-0, ConfigMap/team-b/app-1, …; ",
        ],
    );
    let mut left = uids(&world);
    left.remove("other");
    assert_eq!(left, before);
    // With the right path the rename succeeds.
    let changes = [Change::write(
        "clusters/hub/child.yaml",
        child("web", "./apps", true),
    )];
    rename(&world, &changes, (ROOT, "apps"));
    assert_eq!(uids(&world), before);
}

/// A new child that fails is waited for until the timeout; then objects that it has not applied
/// count.
#[test]
fn a_rename_to_a_child_that_fails_is_held() {
    let world = start(&[
        Change::write("clusters/hub/child.yaml", child("apps", "./apps", true)),
        Change::write("apps/apps.yaml", configs(40)),
    ]);
    let before = uids(&world);
    let sync = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: web, namespace: flux-system}\n\
                spec: {interval: 10m, path: ./apps, prune: true, serviceAccountName: absent, \
                sourceRef: {kind: GitRepository, name: flux-system}}\n";
    world.push(FLEET, &[Change::write("clusters/hub/child.yaml", sync)]);
    // The root's timeout is shorter than this.
    world.until(Duration::from_secs(700), "a held prune", &mut || {
        let (_, reason, message) = condition(&world, "Kustomization", ROOT, ROOT);
        (reason == "PruneHeld").then_some(()).ok_or(message)
    });
    is_held(
        &world,
        &[
            "41 of 43 objects would be deleted",
            "Kustomization/flux-system/web would take over the objects that it lists, but it is not ready: ",
        ],
    );
    assert_eq!(uids(&world), before);
}

/// Two deleted children do not inherit each other's objects.
#[test]
fn of_two_deleted_children_is_held() {
    let world = start(&[
        Change::write("clusters/hub/a.yaml", child("a", "./apps", true)),
        Change::write("clusters/hub/b.yaml", child("b", "./apps", true)),
        Change::write("apps/apps.yaml", configs(40)),
    ]);
    let before = uids(&world);
    world.push(
        FLEET,
        &[
            Change::remove("clusters/hub/a.yaml"),
            Change::remove("clusters/hub/b.yaml"),
        ],
    );
    world.settle();
    is_held(&world, &["42 of 43 objects would be deleted"]);
    assert_eq!(uids(&world), before);
    // One of the two may be deleted.
    let changes = [Change::write(
        "clusters/hub/b.yaml",
        child("b", "./apps", true),
    )];
    rename(&world, &changes, (ROOT, "a"));
    assert_eq!(uids(&world), before);
}

/// A renamed HelmRelease is another release: the old one is uninstalled, and its objects count.
#[test]
fn of_a_helm_release_is_held() {
    let release = |name: &str| {
        format!(
            "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: {name}, namespace: flux-system}}\n\
             spec:\n  interval: 10m\n  chart: {{spec: {{chart: ./chart, sourceRef: {{kind: GitRepository, name: flux-system}}}}}}\n"
        )
    };
    let world = start(&[
        Change::write(
            "chart/Chart.yaml",
            "apiVersion: v2\nname: app\nversion: 1.0.0\n",
        ),
        Change::write("chart/templates/apps.yaml", configs(12)),
        Change::write("clusters/hub/release.yaml", release("web")),
    ]);
    is_true(&world, "HelmRelease", ROOT, "web");
    let before = uids(&world);
    world.push(
        FLEET,
        &[Change::write("clusters/hub/release.yaml", release("shop"))],
    );
    world.settle();
    is_held(
        &world,
        &[
            "13 of 14 objects would be deleted",
            "12 of them with HelmRelease/flux-system/web",
        ],
    );
    assert_eq!(uids(&world), before);
    let shop = path("HelmRelease", ROOT, "shop");
    assert!(world.cluster("hub").find(&shop).is_none());
}
