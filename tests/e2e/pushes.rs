//! What a push costs: the requests of the objects that it touches, and those of the others, whose
//! revision moves.

use driftless_harness::github::Change;
use driftless_tests::embedded::Embedded;
use driftless_tests::site::*;
use serde_json::{Value, json};
use std::time::Duration;

const FLEET: &str = "acme/pushes";
const HUB: [HubSpec<'static>; 1] = one_hub(FLEET);
const KUSTOMIZATIONS: usize = 12;
const KINDS: [&str; 4] = ["ConfigMap", "Service", "Secret", "Deployment"];

fn kustomization(number: usize) -> Change {
    let spec = json!({"interval": "10m", "path": format!("./apps/{number}"), "prune": true,
        "sourceRef": {"kind": "GitRepository", "name": "flux-system"}});
    let metadata = json!({"name": format!("app-{number}"), "namespace": "flux-system"});
    let object = json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": metadata, "spec": spec});
    let file = format!("clusters/hub/app-{number}.yaml");
    Change::write(&file, object.to_string())
}

/// Returns the four objects of an application, all of which have the value.
fn objects(number: usize, value: &str) -> Change {
    let name = format!("a{number}");
    let metadata = json!({"name": name, "namespace": "default", "labels": {"value": value}});
    let selector = json!({"app": name});
    let pod = json!({"metadata": {"labels": selector},
        "spec": {"containers": [{"name": "web", "image": "web:1"}]}});
    let objects = [
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": value}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata,
            "spec": {"selector": selector, "ports": [{"port": 80}]}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {"selector": {"matchLabels": selector}, "template": pod}}),
    ];
    let text: Vec<String> = objects.iter().map(Value::to_string).collect();
    Change::write(&format!("apps/{number}/all.yaml"), text.join("\n---\n"))
}

/// Returns a hub with the fleet at rest. Each application has a base outside of its path.
fn world() -> Embedded {
    let world = Embedded::start(&HUB, &[]);
    let mut files = vec![
        Change::write("base/kustomization.yaml", "resources: [base.yaml]\n"),
        base("1"),
    ];
    for number in 0..KUSTOMIZATIONS {
        files.extend([kustomization(number), objects(number, "1")]);
        let text = format!("namePrefix: a{number}-\nresources: [../../../base]\n");
        let at = format!("apps/{number}/based/kustomization.yaml");
        files.push(Change::write(&at, text));
    }
    world.commit(FLEET, &files);
    for _ in 0..2 {
        world.sweep();
        world.settle();
        world.advance(Duration::from_secs(120));
    }
    check_revision(&world);
    world.steps();
    world
}

fn base(value: &str) -> Change {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "base", "namespace": "default"}, "data": {"a": value}});
    Change::write("base/base.yaml", object.to_string())
}

/// Checks that all Kustomizations are ready at the newest revision.
fn check_revision(world: &Embedded) {
    let revision = format!("main@sha1:{}", world.head(FLEET));
    for number in 0..KUSTOMIZATIONS {
        let at = path("Kustomization", "flux-system", &format!("app-{number}"));
        let object = world.cluster("hub").get(&at);
        let status = &object["status"];
        assert_eq!(status["lastAppliedRevision"], *revision, "{object}");
        assert_eq!(status["lastAttemptedRevision"], *revision, "{object}");
        let (ready, _, message) = ready(
            world.cluster("hub"),
            "Kustomization",
            "flux-system",
            &format!("app-{number}"),
        );
        assert_eq!(ready, "True", "{message}");
        assert!(message.contains(&revision), "{message}");
    }
}

/// Pushes changes, and returns the requests that follow, as `VERB path`, without events.
fn push(world: &Embedded, changes: &[Change]) -> Vec<String> {
    let hub = world.cluster("hub");
    let before = request_count(hub);
    accepted(&world.push(FLEET, changes));
    world.settle();
    let requests = hub.requests().into_iter().skip(before);
    requests
        .filter(|request| request.resource != "events")
        .map(|request| format!("{} {}", request.verb, request.uri))
        .collect()
}

fn of<'r>(requests: &'r [String], name: &str) -> Vec<&'r str> {
    let of_name = |request: &&String| {
        let path = request.split('?').next().unwrap_or_default();
        path.split('/').any(|part| part == name)
    };
    requests
        .iter()
        .filter(of_name)
        .map(String::as_str)
        .collect()
}

#[test]
fn a_changed_kustomization_costs_its_writes_and_two_requests() {
    let world = world();
    let requests = push(&world, &[objects(3, "2")]);
    let own = of(&requests, "app-3");
    assert_eq!(own.len(), 2, "{requests:#?}");
    let written = of(&requests, "a3");
    assert_eq!(written.len(), KINDS.len(), "{requests:#?}");
    assert!(written.iter().all(|request| request.starts_with("patch ")));
    for kind in KINDS {
        let object = world.cluster("hub").get(&path(kind, "default", "a3"));
        assert_eq!(object["metadata"]["labels"]["value"], "2", "{kind}");
    }
    // No live object was listed, and the revision of each other object moved by one write.
    let listed = |plural: &str| {
        let lists = requests.iter().filter(|request| {
            let path = request.split('?').next().unwrap_or_default();
            path.ends_with(plural)
        });
        lists.count()
    };
    let plurals = ["/configmaps", "/services", "/secrets", "/deployments"];
    assert_eq!(plurals.map(listed), [0; 4], "{requests:#?}");
    for number in (0..KUSTOMIZATIONS).filter(|number| *number != 3) {
        let own = of(&requests, &format!("app-{number}"));
        assert_eq!(own.len(), 1, "{requests:#?}");
    }
    check_revision(&world);
    println!("{} requests, without events", requests.len());
}

#[test]
fn what_a_push_touches_has_its_own_message_before_the_others() {
    let world = world();
    accepted(&world.push(FLEET, &[objects(7, "2")]));
    assert!(world.step(), "the step of the source");
    world.steps();
    assert!(world.step(), "the first step after it");
    let touched: Vec<String> = world.steps().into_keys().collect();
    assert_eq!(touched, ["Kustomization/flux-system/app-7"]);
    // The root Kustomization is at rest as well.
    assert!(world.step(), "the message of the others");
    assert_eq!(world.steps().len(), KUSTOMIZATIONS);
    world.settle();
    check_revision(&world);
}

#[test]
fn a_base_outside_of_the_path_is_noticed() {
    let world = world();
    push(&world, &[base("2")]);
    for number in 0..KUSTOMIZATIONS {
        let at = path("ConfigMap", "default", &format!("a{number}-base"));
        assert_eq!(world.cluster("hub").get(&at)["data"]["a"], "2");
    }
    check_revision(&world);
}

#[test]
fn the_state_of_a_live_object_counts_although_it_is_not_read() {
    let world = world();
    let hub = world.cluster("hub");
    let disabled = json!({"metadata":
        {"annotations": {"kustomize.toolkit.fluxcd.io/reconcile": "disabled"}}});
    hub.patch(&path("ConfigMap", "default", "a1"), &disabled);
    hub.delete(&path("Service", "default", "a1"));
    hub.patch(
        &path("Deployment", "default", "a1"),
        &json!({"spec": {"replicas": 4}}),
    );
    let requests = push(&world, &[objects(1, "2")]);
    let value = |kind: &str| {
        let object = hub.get(&path(kind, "default", "a1"));
        object["metadata"]["labels"]["value"].clone()
    };
    assert_eq!(KINDS.map(value), ["1", "2", "2", "2"], "{requests:#?}");
    let deployment = hub.get(&path("Deployment", "default", "a1"));
    assert_eq!(deployment["spec"]["replicas"], 4);
    check_revision(&world);
}

#[test]
fn another_process_that_applied_meanwhile_counts() {
    let mut world = world();
    let hub_value = |world: &Embedded| {
        let object = world
            .cluster("hub")
            .get(&path("ConfigMap", "default", "a5"));
        object["data"]["a"].clone()
    };
    // The caches of this process, and then those of another one.
    let caches = (world.ports.files.clone(), world.ports.watches.clone());
    push(&world, &[objects(5, "2")]);
    world.ports.files = Default::default();
    world.ports.watches = Default::default();
    push(&world, &[objects(5, "3")]);
    assert_eq!(hub_value(&world), "3");
    // The first process knows the objects of the commit before: its next push is to them again.
    (world.ports.files, world.ports.watches) = caches;
    push(&world, &[objects(5, "2")]);
    assert_eq!(hub_value(&world), "2");
    check_revision(&world);
}
