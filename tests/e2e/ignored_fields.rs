//! Fields of applied objects that `spec.ignore` leaves to other writers.

use driftless_tests::embedded::Embedded;
use driftless_tests::objects::{apps, deployment};
use driftless_tests::site::*;
use serde_json::{Value, json};
use std::time::Duration;

const FLEET: &str = "acme/fleet";
const HUB: [HubSpec<'static>; 1] = one_hub(FLEET);
/// A time after which all sources and Kustomizations are due.
const INTERVAL: Duration = Duration::from_secs(900);
const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web";

const IGNORE: &str =
    "  ignore:\n  - paths: [/spec/replicas]\n    target:\n      kind: Deployment\n";

/// Reads the cluster again, as the timer does for an object that is due.
fn reconcile(world: &Embedded) {
    world.request("hub", "Kustomization", "flux-system", "apps");
    world.settle();
}

/// Returns the replicas and the image.
fn state(world: &Embedded) -> (Value, Value) {
    let web = world.cluster("hub").get(WEB);
    let container = &web["spec"]["template"]["spec"]["containers"][0];
    (web["spec"]["replicas"].clone(), container["image"].clone())
}

fn start(ignore: &str) -> Embedded {
    let world = Embedded::start(&HUB, &[]);
    world.commit(FLEET, &[apps(ignore), deployment("web:1")]);
    world.sweep_after(INTERVAL);
    world
}

/// An autoscaler updates the field; driftless neither takes it back nor writes for it.
#[test]
fn a_value_of_another_writer_stays() {
    let world = start(IGNORE);
    assert_eq!(state(&world), (json!(1), json!("web:1")));
    let hub = world.cluster("hub");
    hub.patch(WEB, &json!({"spec": {"replicas": 5}}));
    let still = NoWrites::watch(&[hub]);
    reconcile(&world);
    still.check();
    // Another field is put back, and the autoscaler's value goes with it.
    let image = json!([{"name": "web", "image": "web:mine"}]);
    hub.patch(
        WEB,
        &json!({"spec": {"template": {"spec": {"containers": image}}}}),
    );
    reconcile(&world);
    assert_eq!(state(&world), (json!(5), json!("web:1")));
    world.commit(FLEET, &[deployment("web:2")]);
    world.sweep_after(INTERVAL);
    assert_eq!(state(&world), (json!(5), json!("web:2")));
    // Without the rule the value is that of the repository.
    world.commit(FLEET, &[apps("")]);
    world.sweep_after(INTERVAL);
    assert_eq!(state(&world), (json!(1), json!("web:2")));
}

/// A field that another manager has applied is left out of the next apply.
#[test]
fn a_field_that_another_manager_applied_becomes_its_own() {
    let world = start(IGNORE);
    let hub = world.cluster("hub");
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"}, "spec": {"replicas": 7}});
    let uri = format!("{WEB}?fieldManager=autoscaler&force=true");
    hub.send("PATCH", &uri, "application/apply-patch+yaml", Some(&object))
        .expect("apply the replicas");
    world.commit(FLEET, &[deployment("web:2")]);
    world.sweep_after(INTERVAL);
    assert_eq!(state(&world), (json!(7), json!("web:2")));
    let web = hub.get(WEB);
    let managers = web["metadata"]["managedFields"]
        .as_array()
        .expect("managers");
    let owns = |manager: &str| {
        let mut entries = managers.iter();
        entries.any(|entry| {
            entry["manager"] == manager && entry.pointer("/fieldsV1/f:spec/f:replicas").is_some()
        })
    };
    assert!(
        owns("autoscaler") && !owns("kustomize-controller"),
        "{managers:#?}"
    );
}

/// An object that exists before its first apply also keeps the value.
#[test]
fn an_object_that_exists_keeps_the_value() {
    let world = Embedded::start(&HUB, &[]);
    let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template":
            {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:0"}]}}}});
    let hub = world.cluster("hub");
    hub.create("/apis/apps/v1/namespaces/default/deployments", &object);
    world.commit(FLEET, &[apps(IGNORE), deployment("web:1")]);
    world.sweep_after(INTERVAL);
    assert_eq!(state(&world), (json!(3), json!("web:1")));
}

#[test]
fn rules_that_are_not_valid_stop_the_apps() {
    for (ignore, expected) in [
        (
            "  ignore:\n  - paths: ['']\n",
            "spec.ignore[0].paths: '' is not a JSON pointer to a field: expected a path such as /spec/replicas",
        ),
        (
            "  ignore:\n  - paths: [spec.replicas]\n",
            "spec.ignore[0].paths: 'spec.replicas'",
        ),
        (
            "  ignore:\n  - paths: [/spec]\n    target: {name: '('}\n",
            "spec.ignore[0].target: ",
        ),
    ] {
        let world = start(ignore);
        let hub = world.cluster("hub");
        let (status, _, message) = ready(hub, "Kustomization", "flux-system", "apps");
        assert_eq!(status, "False", "{message}");
        assert!(message.contains(expected), "{message}");
        assert!(hub.find(WEB).is_none());
    }
}
