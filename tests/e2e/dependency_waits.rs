//! An object that becomes ready requeues exactly its dependents, without a search of the hub, and
//! no object is reconciled unnecessarily.

use driftless_harness::github::Change;
use driftless_tests::embedded::Embedded;
use driftless_tests::site::*;
use serde_json::{Value, json};

const FLEET: &str = "acme/waiting";
const HUB: [HubSpec<'static>; 1] = one_hub(FLEET);

/// Returns a Kustomization of the directory `apps` that prefixes its ConfigMap with its name.
fn sync(name: &str, depends_on: &[&str]) -> Change {
    let depends_on: String = depends_on
        .iter()
        .map(|on| format!("  - name: {on}\n"))
        .collect();
    let depends_on = match depends_on.as_str() {
        "" => String::new(),
        list => format!("  dependsOn:\n{list}"),
    };
    let text = format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata:\n  name: {name}\n  namespace: flux-system\n\
         spec:\n  interval: 10m\n  path: ./apps\n  prune: true\n  namePrefix: {name}-\n  sourceRef:\n    kind: GitRepository\n    \
         name: flux-system\n{depends_on}"
    );
    Change::write(&format!("clusters/hub/{name}.yaml"), text)
}

fn applied(hub: &dyn Node) -> Vec<String> {
    let list = hub.send("GET", "/api/v1/namespaces/default/configmaps", "", None);
    let list = list.expect("a list");
    let items = list["items"].as_array().expect("items");
    let name = |item: &serde_json::Value| item["metadata"]["name"].as_str().map(str::to_owned);
    items
        .iter()
        .filter_map(name)
        .filter(|name| name.ends_with("-app"))
        .collect()
}

#[test]
fn a_ready_object_requeues_its_dependents() {
    let world = Embedded::start(&HUB, &[]);
    let app = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: app\n  namespace: default\n";
    // The steps run in the order of the names: each runs before its dependencies.
    let changes = [
        Change::write("apps/app.yaml", app),
        sync("a", &["b", "c"]),
        sync("b", &["c"]),
        sync("c", &[]),
        sync("never", &["absent"]),
    ];
    world.commit(FLEET, &changes);
    world.sweep();
    world.settle();
    let hub = world.cluster("hub");
    assert_eq!(
        applied(hub),
        ["a-app", "b-app", "c-app"],
        "no timer was needed"
    );
    let (status, reason, message) = ready(hub, "Kustomization", "flux-system", "never");
    assert_eq!((&*status, &*reason), ("False", "DependencyNotReady"));
    assert!(
        message.contains("dependency 'flux-system/absent' not found"),
        "{message}"
    );
    assert_eq!(
        world.stored("waits/"),
        ["waits/hub/kustomizations/flux-system/absent/kustomizations/flux-system/never"],
        "requeued objects have no note"
    );
    let searches = |requests: Vec<driftless_harness::cluster::Request>| {
        let lists = requests.into_iter().filter(|one| {
            one.verb == "list" && one.resource == "kustomizations" && one.namespace.is_empty()
        });
        lists.count()
    };
    let before = searches(hub.requests());

    // The missing dependency is created.
    world.push(FLEET, &[sync("absent", &[])]);
    world.settle();
    assert_eq!(applied(hub).len(), 5);
    assert!(world.stored("waits/").is_empty());
    let after = searches(hub.requests());
    assert_eq!(
        after - before,
        1,
        "one LIST for a push's consumers, none for dependents"
    );
}

/// A health check may name a namespace for a cluster-scoped object: the namespace is ignored.
#[test]
fn a_health_check_finds_an_object_without_a_namespace() {
    let world = Embedded::start(&HUB, &[]);
    let app = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop\n";
    let checked = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata:\n  name: shop\n  namespace: flux-system\n\
         spec:\n  interval: 10m\n  path: ./apps\n  prune: true\n  sourceRef:\n    kind: GitRepository\n    name: flux-system\n  \
         healthChecks:\n  - apiVersion: v1\n    kind: Namespace\n    name: shop\n    namespace: flux-system\n";
    let changes = [
        Change::write("apps/app.yaml", app),
        Change::write("clusters/hub/shop.yaml", checked),
    ];
    world.commit(FLEET, &changes);
    world.sweep();
    world.settle();
    let (status, reason, message) =
        ready(world.cluster("hub"), "Kustomization", "flux-system", "shop");
    assert_eq!(status, "True", "{reason}: {message}");
}

/// Suspends or resumes these Kustomizations.
fn suspend_all(hub: &dyn Node, names: &[&str], suspend: Value) {
    for name in names {
        let patch = json!({"spec": {"suspend": suspend}});
        hub.patch(&path("Kustomization", "flux-system", name), &patch);
    }
}

/// The change of a dependency requeues its dependents, as in Flux: none waits for a timer.
#[test]
fn resume_requeues_dependents() {
    let world = Embedded::start(&HUB, &[]);
    let app = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: app\n  namespace: default\n";
    let changes = [
        Change::write("apps/app.yaml", app),
        sync("a", &["b"]),
        sync("b", &["c"]),
        sync("c", &["d"]),
        sync("d", &[]),
    ];
    let head = world.commit(FLEET, &changes);
    world.sweep();
    world.settle();
    let (hub, names) = (world.cluster("hub"), ["a", "b", "c", "d"]);
    suspend_all(hub, &names, json!(true));
    world.sweep();
    world.pump();
    suspend_all(hub, &names, Value::Null);
    let (before, _) = (world.now(), world.steps());
    world.sweep();
    world.pump();
    for name in names {
        is_ready(hub, "flux-system", name, &head).expect("ready");
        let object = hub.get(&path("Kustomization", "flux-system", name));
        let observed = &object["status"]["observedGeneration"];
        assert_eq!(observed, &object["metadata"]["generation"], "{name}");
    }
    assert_eq!(world.now(), before, "no time must pass");
    assert!(world.stored("waits/").is_empty(), "no note is left");
    let steps = world.steps();
    assert!(steps.values().all(|count| *count <= 2), "{steps:?}");
}

/// Sweeps run between the steps: those that a change of the hub causes, and the timer's.
#[test]
fn the_first_sync_runs_one_step_for_each_object() {
    let world = Embedded::start(&HUB, &[]);
    let app = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: app\n  namespace: default\n";
    let names: Vec<String> = (0..10).map(|number| format!("app-{number}")).collect();
    let mut changes = vec![Change::write("apps/app.yaml", app)];
    changes.extend(names.iter().map(|name| sync(name, &[])));
    let head = world.commit(FLEET, &changes);
    world.sweep();
    while world.step() {
        world.sweep();
    }
    let hub = world.cluster("hub");
    for name in &names {
        is_ready(hub, "flux-system", name, &head).expect("ready");
    }
    let steps = world.steps();
    assert_eq!(steps.len(), 12, "{steps:?}");
    assert!(steps.values().all(|count| *count == 1), "{steps:?}");
    // A push runs one step of the source and one of each object that follows it.
    world.push(
        FLEET,
        &[Change::write(
            "apps/app.yaml",
            app.replace("app\n", "app2\n"),
        )],
    );
    while world.step() {
        world.sweep();
    }
    let steps = world.steps();
    assert_eq!(steps.len(), 12, "{steps:?}");
    assert!(steps.values().all(|count| *count == 1), "{steps:?}");
}

#[test]
fn a_release_reports_its_charts_failure_at_once() {
    let world = Embedded::start(&HUB, &[]);
    let release = |chart: &str| {
        let text = format!(
            "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata:\n  name: web\n  namespace: flux-system\n\
             spec:\n  interval: 10m\n  chart:\n    spec:\n      chart: {chart}\n      sourceRef:\n        kind: GitRepository\n        \
             name: flux-system\n"
        );
        Change::write("clusters/hub/web.yaml", text)
    };
    world.commit(FLEET, &[release("./charts/absent")]);
    let before = world.now();
    world.sweep();
    world.pump();
    let hub = world.cluster("hub");
    let (status, reason, chart) = ready(hub, "HelmChart", "flux-system", "flux-system-web");
    assert_eq!(status, "False", "{reason}: {chart}");
    let (status, reason, message) = ready(hub, "HelmRelease", "flux-system", "web");
    assert_eq!((&*status, &*reason), ("False", "SourceNotReady"));
    assert!(message.contains(&chart), "{message} of {chart}");
    assert_eq!(world.now(), before, "no time must pass");
}
