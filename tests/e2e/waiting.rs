//! `dependsOn`: who waits is woken by what becomes ready, nobody else is, and no hub is searched for it.

use crate::embedded::Embedded;
use crate::site::*;
use driftless_tests::github::Change;

const FLEET: &str = "acme/waiting";
const HUB: [HubSpec<'static>; 1] = [HubSpec {
    name: "hub",
    repository: FLEET,
    branch: "main",
    path: "./clusters/hub",
}];

/// A Kustomization of the folder `apps` with a ConfigMap of its own name.
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
fn what_becomes_ready_wakes_those_that_wait() {
    let world = Embedded::start(&HUB, &[]);
    let app = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: app\n  namespace: default\n";
    // The steps run in the order of the names: each comes before what it depends on.
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
        "who was woken waits no more"
    );
    let searches = |requests: Vec<driftless_tests::cluster::Request>| {
        let lists = requests.into_iter().filter(|one| {
            one.verb == "list" && one.resource == "kustomizations" && one.namespace.is_empty()
        });
        lists.count()
    };
    let before = searches(hub.requests());

    // The missing one comes.
    world.push(FLEET, &[sync("absent", &[])]);
    world.settle();
    assert_eq!(applied(hub).len(), 5);
    assert!(world.stored("waits/").is_empty());
    let after = searches(hub.requests());
    assert_eq!(
        after - before,
        1,
        "one look at a push's consumers, none at dependents"
    );
}
