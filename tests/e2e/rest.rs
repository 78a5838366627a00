//! An object at rest: the sweep sees that nothing has changed, and queues no step of it.

use driftless_harness::github::Change;
use driftless_tests::embedded::Embedded;
use driftless_tests::site::*;
use serde_json::{Value, json};
use std::time::Duration;

const FLEET: &str = "acme/rest";
const HUB: [HubSpec<'static>; 1] = one_hub(FLEET);
/// Longer than each interval of the fleet.
const INTERVAL: Duration = Duration::from_secs(11 * 60);
const DAY: Duration = Duration::from_secs(24 * 3600);
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/web";
const COLORS: &str = "/api/v1/namespaces/flux-system/configmaps/colors";

const APPS: &str = "apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata:
  name: apps
  namespace: flux-system
spec:
  interval: 10m
  path: ./apps
  prune: true
  wait: true
  timeout: 1m
  sourceRef:
    kind: GitRepository
    name: flux-system
  postBuild:
    substituteFrom:
      - kind: ConfigMap
        name: colors
";

const WEB: &str = "apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: default
  annotations:
    color: ${COLOR}
spec:
  replicas: 1
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
        - name: web
          image: web:1
";

/// Writes the status that the Deployment's controller would write.
fn set_available(hub: &dyn Node, is_available: bool) {
    let generation = hub.get(DEPLOYMENT)["metadata"]["generation"].clone();
    let (count, status) = match is_available {
        true => (1, "True"),
        false => (0, "False"),
    };
    let status = json!({"status": {"observedGeneration": generation, "replicas": 1,
        "updatedReplicas": 1, "readyReplicas": count, "availableReplicas": count,
        "unavailableReplicas": 1 - count, "conditions": [
            {"type": "Available", "status": status, "reason": "Test", "message": "-"},
            {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", "message": "-"}]}});
    hub.patch(&format!("{DEPLOYMENT}/status"), &status);
}

fn color(hub: &dyn Node) -> Value {
    hub.get(DEPLOYMENT)["metadata"]["annotations"]["color"].clone()
}

/// Returns the hub with its fleet ready.
fn world() -> Embedded {
    let world = Embedded::start(&HUB, &[]);
    let hub = world.cluster("hub");
    let colors = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "colors"},
        "data": {"COLOR": "red"}});
    hub.create("/api/v1/namespaces/flux-system/configmaps", &colors);
    let changes = [
        Change::write("apps/web.yaml", WEB),
        Change::write("clusters/hub/apps.yaml", APPS),
    ];
    world.commit(FLEET, &changes);
    world.sweep();
    while hub.find(DEPLOYMENT).is_none() {
        assert!(world.step(), "the Deployment is applied");
    }
    set_available(hub, true);
    world.settle();
    let (status, _, message) = ready(hub, "Kustomization", "flux-system", "apps");
    assert_eq!(status, "True", "{message}");
    world.sweep_after(Duration::from_secs(120));
    world.steps();
    world
}

/// Lets the interval end, and returns the objects for which the sweep queued a step.
fn after_interval(world: &Embedded) -> Vec<String> {
    world.sweep_after(INTERVAL);
    world.steps().into_keys().collect()
}

const NONE: [&str; 0] = [];
const ALL: [&str; 3] = [
    "GitRepository/flux-system/flux-system",
    "Kustomization/flux-system/apps",
    "Kustomization/flux-system/flux-system",
];

#[test]
fn an_object_at_rest_has_no_step() {
    let world = world();
    let writes = world.cluster("hub").writes();
    for _ in 0..5 {
        assert_eq!(after_interval(&world), NONE);
    }
    assert_eq!(world.cluster("hub").writes(), writes);
    // Once a day, each object is reconciled in full, and still nothing is written.
    world.advance(DAY);
    assert_eq!(after_interval(&world), ALL);
    assert_eq!(after_interval(&world), NONE);
    assert_eq!(world.cluster("hub").writes(), writes);
}

#[test]
fn the_sweep_finds_what_has_changed() {
    let world = world();
    let hub = world.cluster("hub");

    // A variable.
    hub.patch(COLORS, &json!({"data": {"COLOR": "green"}}));
    assert_eq!(after_interval(&world), [ALL[1]]);
    assert_eq!(color(hub), "green");
    set_available(hub, true);
    world.settle();
    world.steps();

    // The health of an applied object, whose status is not part of what was applied.
    set_available(hub, false);
    assert!(after_interval(&world).contains(&ALL[1].to_owned()));
    let (status, reason, message) = ready(hub, "Kustomization", "flux-system", "apps");
    assert_ne!(status, "True", "{reason}: {message}");
    set_available(hub, true);
    for _ in 0..3 {
        after_interval(&world);
    }
    assert_eq!(ready(hub, "Kustomization", "flux-system", "apps").0, "True");
    assert_eq!(after_interval(&world), NONE);

    // A commit whose webhook is lost.
    let changed = WEB.replace("image: web:1", "image: web:2");
    world.commit(FLEET, &[Change::write("apps/web.yaml", changed)]);
    assert!(after_interval(&world).contains(&ALL[0].to_owned()));
    let containers = &hub.get(DEPLOYMENT)["spec"]["template"]["spec"]["containers"];
    assert_eq!(containers[0]["image"], "web:2");
}
