//! Digests: an Alert with `driftless.dev/digest` sends one message for each push.

use crate::notifications::{SPACE, alert, provider, state};
use driftless_harness::github::Change;
use driftless_harness::service::Service;
use driftless_tests::embedded::Embedded;
use driftless_tests::site::*;
use serde_json::{Value, json};
use std::time::Duration;

const FLEET: &str = "acme/fleet";
const HUB: [HubSpec<'static>; 1] = one_hub(FLEET);

/// Returns a Kustomization of a directory with its own name.
fn kustomization(name: &str, namespace: &str, more: &str) -> Change {
    let text = format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata:\n  name: {name}\n  namespace: {namespace}\n\
         spec:\n  interval: 10m\n  path: ./{name}\n  prune: true\n  sourceRef:\n    kind: GitRepository\n    name: flux-system\n    \
         namespace: flux-system\n{more}"
    );
    Change::write(&format!("clusters/hub/{name}.yaml"), text)
}

fn config(directory: &str, value: &str) -> Change {
    let text = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {directory}\n  namespace: default\ndata:\n  value: \"{value}\"\n"
    );
    Change::write(&format!("{directory}/config.yaml"), text)
}

/// A Deployment, which never becomes ready: no controller runs here.
fn deployment(directory: &str) -> Change {
    let text = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {directory}\n  namespace: default\nspec:\n  \
         selector:\n    matchLabels: {{app: web}}\n  template:\n    metadata:\n      labels: {{app: web}}\n    \
         spec:\n      containers:\n      - name: web\n        image: web\n"
    );
    Change::write(&format!("{directory}/web.yaml"), text)
}

/// Returns a world with three Kustomizations: two on the hub, one on a remote cluster.
fn world() -> Embedded {
    let world = Embedded::start(&HUB, &["far"]);
    world.allow_local("hub");
    world.cluster("hub").namespace("team-a");
    let kubeconfig = json!({"value": world.cluster("far").kubeconfig()});
    world.cluster("hub").secret(SPACE, "far", &kubeconfig);
    let remote = "  kubeConfig:\n    secretRef:\n      name: far\n";
    world.commit(
        FLEET,
        &[
            kustomization("one", SPACE, ""),
            kustomization("two", SPACE, remote),
            kustomization("three", "team-a", ""),
            config("one", "1"),
            config("two", "1"),
            config("three", "1"),
        ],
    );
    world.advance(Duration::from_secs(900));
    world.sweep();
    settle(&world);
    world
}

fn settle(world: &Embedded) {
    world.settle();
    for _ in 0..3 {
        world.sweep_after(Duration::from_secs(60));
    }
}

/// Creates a Provider, and an Alert with annotations for it.
fn digest(world: &Embedded, service: &Service, spec: Value) {
    provider(world, "service", service);
    alert(world, "service", spec);
    annotate(world, &json!({"driftless.dev/digest": "true"}));
}

fn annotate(world: &Embedded, annotations: &Value) {
    let patch = json!({"metadata": {"annotations": annotations}});
    let hub = world.cluster("hub");
    hub.patch(&path("Alert", SPACE, "service"), &patch);
}

fn push(world: &Embedded, changes: &[Change]) {
    world.push(FLEET, changes);
    settle(world);
}

/// Returns severity, reason, and message of each event.
fn lines(events: &[Value]) -> Vec<String> {
    let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
    let line = |event: &Value| {
        let (severity, reason) = (text(event, "severity"), text(event, "reason"));
        format!("{severity} {reason}: {}", text(event, "message"))
    };
    events.iter().map(line).collect()
}

const EVERY: &str = r#"[{"kind": "Kustomization", "name": "*"}]"#;

fn sources(text: &str) -> Value {
    json!({"eventSources": serde_json::from_str::<Value>(text).expect("JSON")})
}

#[test]
fn a_push_has_one_message() {
    let (world, service) = (world(), Service::start());
    digest(&world, &service, sources(EVERY));
    push(
        &world,
        &[config("one", "2"), config("two", "2"), config("three", "2")],
    );
    let got = service.take();
    // The Kustomization of another namespace is not a source of the Alert.
    let [message] = &lines(&got)[..] else {
        panic!("one message: {got:#?}");
    };
    assert_eq!(
        message,
        "info PushLanded: 2 objects in 2 clusters landed in 0.0 s"
    );
    assert_eq!(got[0]["involvedObject"]["kind"], "GitRepository");
    assert_eq!(got[0]["reportingController"], "driftless");
    let revision = format!("main@sha1:{}", world.head(FLEET));
    assert_eq!(got[0]["metadata"], json!({"revision": revision}));
    assert!(world.stored("notifications/hub/pending/").is_empty());
    // Messages are delivered at least once.
    for _ in 0..3 {
        world.request("hub", "Provider", SPACE, "service");
        world.request("hub", "Kustomization", SPACE, "one");
        settle(&world);
    }
    assert_eq!(lines(&service.take()), [] as [String; 0]);
    // Each push has its own message.
    push(&world, &[config("one", "3")]);
    assert_eq!(
        lines(&service.take()),
        ["info PushLanded: 1 object in 1 cluster landed in 0.0 s"]
    );
    // A push that changes nothing has none.
    push(&world, &[Change::write("README.md", "text".to_owned())]);
    assert_eq!(lines(&service.take()), [] as [String; 0]);
}

#[test]
fn a_message_names_what_failed_and_the_source() {
    let (world, service) = (world(), Service::start());
    let both =
        r#"[{"kind": "Kustomization", "name": "*"}, {"kind": "GitRepository", "name": "*"}]"#;
    digest(&world, &service, sources(both));
    let wrong = Change::write("two/config.yaml", "apiVersion: v1\nkind: [".to_owned());
    push(&world, &[config("one", "2"), wrong]);
    let got = lines(&service.take());
    let [message] = &got[..] else {
        panic!("one message: {got:#?}");
    };
    let start = "error PushFailed: 1 object in 1 cluster landed in 0.0 s, 1 failed: Kustomization/flux-system/two: ";
    assert!(message.starts_with(start), "{message}");
    assert!(message.contains("\nstored artifact for "), "{message}");
    assert!(message.len() < 1000, "{message}");
}

#[test]
fn an_alert_of_errors_hears_only_of_pushes_that_failed() {
    let (world, service) = (world(), Service::start());
    let mut spec = sources(EVERY);
    spec["eventSeverity"] = json!("error");
    digest(&world, &service, spec);
    push(&world, &[config("one", "2"), config("two", "2")]);
    assert_eq!(lines(&service.take()), [] as [String; 0]);
    let wrong = Change::write("two/config.yaml", "apiVersion: v1\nkind: [".to_owned());
    push(&world, &[config("one", "3"), wrong]);
    let got = lines(&service.take());
    assert!(
        got[0].starts_with("error PushFailed: 1 object in "),
        "{got:?}"
    );
    assert_eq!(got.len(), 1, "{got:?}");
}

#[test]
fn a_message_does_not_wait_for_ever() {
    let (world, service) = (world(), Service::start());
    digest(&world, &service, sources(EVERY));
    world.push(
        FLEET,
        &[
            config("one", "2"),
            kustomization("slow", SPACE, "  wait: true\n  timeout: 20m\n"),
            deployment("slow"),
        ],
    );
    pass(&world, 9);
    assert_eq!(lines(&service.take()), [] as [String; 0]);
    pass(&world, 3);
    let got = lines(&service.take());
    let [message] = &got[..] else {
        panic!("one message: {got:#?}");
    };
    let (start, end) = (
        "info PushLanded: 2 objects in 1 cluster landed in ",
        ", 1 not finished after 10m0s",
    );
    assert!(message.starts_with(start), "{message}");
    assert!(message.ends_with(end), "{message}");
    // What happens later is a separate event.
    pass(&world, 12);
    let got = lines(&service.take());
    assert_eq!(got.len(), 1, "{got:#?}");
    assert!(got[0].starts_with("error HealthCheckFailed: "), "{got:#?}");
}

/// Lets minutes pass, each with a sweep, without a wait for what takes longer.
fn pass(world: &Embedded, minutes: u32) {
    let end = world.now() + Duration::from_secs(60) * minutes;
    let mut swept = world.now();
    while world.now() < end {
        world.pump();
        world.advance(Duration::from_secs(5));
        if world.now() >= swept + Duration::from_secs(60) {
            swept = world.now();
            world.sweep();
        }
    }
    world.pump();
}

#[test]
fn an_annotation_that_is_not_valid_is_reported_and_has_no_effect() {
    let (world, service) = (world(), Service::start());
    provider(&world, "service", &service);
    alert(&world, "service", sources(EVERY));
    annotate(&world, &json!({"driftless.dev/digest": "daily"}));
    world.request("hub", "Alert", SPACE, "service");
    world.settle();
    let (status, message) = state(&world, "Alert", "service");
    assert_eq!(status, "False");
    assert_eq!(
        message,
        "the annotation driftless.dev/digest is not valid: expected true or false"
    );
    push(&world, &[config("one", "2")]);
    let got = lines(&service.take());
    assert!(
        got.contains(&"info Progressing: ConfigMap/default/one configured".to_owned()),
        "{got:?}"
    );
}
