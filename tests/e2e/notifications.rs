//! Alerts and Providers: which events a service gets, and what happens if it is slow, fails or may
//! not be reached. `core/tests/core/alerts.rs` has the rules of the selection.

use driftless_harness::github::Change;
use driftless_harness::service::Service;
use driftless_tests::embedded::Embedded;
use driftless_tests::site::*;
use serde_json::{Value, json};
use std::time::Duration;

pub const SPACE: &str = "flux-system";
const TOKEN: &str = "token-of-the-service";
const CHANGED: &str = "ConfigMap/default/one configured";

fn world() -> Embedded {
    let world = Embedded::start(&one_hub("acme/fleet"), &[]);
    world.allow_local("hub");
    world.commit("acme/fleet", &[config_map("one", "1")]);
    world.sweep_after(Duration::from_secs(900));
    world
}

fn config_map(name: &str, value: &str) -> Change {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"}, "data": {"value": value}});
    let file = format!("clusters/hub/{name}.yaml");
    Change::write(&file, object.to_string())
}

pub fn create(world: &Embedded, kind: &str, name: &str, spec: Value) {
    let object = json!({"apiVersion": "notification.toolkit.fluxcd.io/v1beta3", "kind": kind,
        "metadata": {"name": name, "namespace": SPACE}, "spec": spec});
    world.cluster("hub").create(&path(kind, SPACE, ""), &object);
    world.request("hub", kind, SPACE, name);
    world.settle();
}

/// Creates a Provider of a service, whose address is in a Secret.
pub fn provider(world: &Embedded, name: &str, service: &Service) {
    let secret = json!({"address": service.url(), "token": TOKEN});
    world.cluster("hub").secret(SPACE, name, &secret);
    let spec = json!({"type": "generic", "secretRef": {"name": name}});
    create(world, "Provider", name, spec);
}

/// Creates an Alert with the same name as its Provider.
pub fn alert(world: &Embedded, name: &str, change: Value) {
    let mut spec = json!({"providerRef": {"name": name},
        "eventSources": [{"kind": "Kustomization", "name": "*"}]});
    for (field, value) in change.as_object().cloned().unwrap_or_default() {
        spec[field] = value;
    }
    create(world, "Alert", name, spec);
}

/// Pushes a change of the ConfigMap, and returns the commit.
fn push(world: &Embedded, value: &str) -> String {
    world.push("acme/fleet", &[config_map("one", value)]);
    world.settle();
    let sha = world.head("acme/fleet");
    is_ready(world.cluster("hub"), SPACE, SPACE, &sha).expect("the push is applied");
    sha
}

/// Returns the messages without those about the status of a commit.
pub fn messages(events: &[Value]) -> Vec<&str> {
    let events = events.iter();
    let events = events.filter(|event| event["metadata"]["commit_status"] != "update");
    events
        .filter_map(|event| event["message"].as_str())
        .collect()
}

pub fn state(world: &Embedded, kind: &str, name: &str) -> (String, String) {
    let (status, _, message) = ready(world.cluster("hub"), kind, SPACE, name);
    (status, message)
}

#[test]
fn an_event_reaches_the_service_once() {
    let (world, service) = (world(), Service::start());
    provider(&world, "service", &service);
    let metadata = json!({"eventMetadata": {"env": "test"}, "summary": "a summary"});
    alert(&world, "service", metadata);
    for kind in ["Alert", "Provider"] {
        let (status, message) = state(&world, kind, "service");
        assert_eq!((&*status, &*message), ("True", "Initialized"), "{kind}");
    }
    let sha = push(&world, "2");
    let got = service.take();
    assert_eq!(messages(&got), [CHANGED], "{got:#?}");
    let event = &got[0];
    assert_eq!(event["involvedObject"]["kind"], "Kustomization");
    assert_eq!(event["severity"], "info");
    assert_eq!(event["reportingController"], "kustomize-controller");
    let revision = format!("main@sha1:{sha}");
    let expected = json!({"env": "test", "summary": "a summary", "revision": revision});
    assert_eq!(event["metadata"], expected);
    // The commit gets its status.
    assert_eq!(got.len(), 2, "{got:#?}");
    assert_eq!(got[1]["reason"], "ReconciliationSucceeded");
    assert_eq!(got[1]["metadata"]["revision"], *revision);
    assert!(world.stored("notifications/hub/pending/").is_empty());
    // Messages are delivered at least once.
    for _ in 0..3 {
        world.request("hub", "Provider", SPACE, "service");
        world.sweep();
        world.settle();
    }
    assert_eq!(service.take(), [] as [Value; 0]);
}

#[test]
fn an_alert_that_sets_keys_of_others_has_an_event() {
    let (world, service) = (world(), Service::start());
    provider(&world, "service", &service);
    let metadata = json!({"eventMetadata": {"revision": "mine", "summary": "one", "env": "test"},
        "summary": "two"});
    alert(&world, "service", metadata);
    let sha = push(&world, "2");
    let sent = &service.take()[0]["metadata"];
    assert_eq!(sent["summary"], "two");
    assert_eq!(sent["revision"], format!("main@sha1:{sha}"));
    let list = world
        .cluster("hub")
        .get(&format!("/api/v1/namespaces/{SPACE}/events"));
    let all = list["items"].as_array().cloned().unwrap_or_default();
    let about = all.iter();
    let about = about.filter(|event| event["reason"] == "MetadataAppendFailed");
    let [event] = about.collect::<Vec<_>>()[..] else {
        panic!("one event: {all:#?}");
    };
    assert_eq!(event["type"], "Warning");
    assert_eq!(event["involvedObject"]["kind"], "Alert");
    assert_eq!(event["source"]["component"], "notification-controller");
    assert_eq!(
        event["message"],
        "metadata key conflicts detected (please refer to the Alert API docs and Flux RFC 0008 for more information)"
    );
    assert_eq!(
        event["metadata"]["annotations"],
        json!({
            "revision": "Alert object .spec.eventMetadata, involved object controller metadata",
            "summary": "Alert object .spec.eventMetadata, Alert object .spec.summary"})
    );
}

#[test]
fn details_are_kubernetes_events_and_no_messages() {
    let (world, service) = (world(), Service::start());
    provider(&world, "service", &service);
    let sources = json!([{"kind": "HelmRelease", "name": "*"}, {"kind": "HelmChart", "name": "*"}]);
    alert(&world, "service", json!({"eventSources": sources}));
    let release = json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": {"name": "web", "namespace": SPACE}, "spec": {"interval": "10m", "chart": {"spec": {
            "chart": "web", "sourceRef": {"kind": "HelmRepository", "name": "none"}}}}});
    let hub = world.cluster("hub");
    hub.create(&path("HelmRelease", SPACE, ""), &release);
    world.request("hub", "HelmRelease", SPACE, "web");
    world.settle();
    let list = hub.get(&format!("/api/v1/namespaces/{SPACE}/events"));
    let is_detail = |event: &&Value| event["reason"] == "HelmChartCreated";
    let all = list["items"].as_array().cloned().unwrap_or_default();
    assert_eq!(all.iter().filter(is_detail).count(), 1, "{all:#?}");
    let sent = service.take();
    assert_eq!(sent.iter().filter(is_detail).count(), 0, "{sent:#?}");
}

#[test]
fn a_failing_service_affects_only_its_provider() {
    let (world, service, other) = (world(), Service::start(), Service::start());
    for (name, service) in [("down", &service), ("up", &other)] {
        provider(&world, name, service);
        alert(&world, name, json!({}));
    }
    service.answer(503, Duration::ZERO, &format!("{TOKEN} is not accepted"));
    push(&world, "2");
    assert_eq!(messages(&other.take()), [CHANGED]);
    let (status, message) = state(&world, "Provider", "down");
    assert_eq!(status, "False", "{message}");
    assert!(message.contains("503"), "{message}");
    assert_eq!(state(&world, "Provider", "up").0, "True");
    assert_eq!(state(&world, "Alert", "down").0, "True");
    assert!(!world.stored("notifications/hub/pending/").is_empty());
    service.answer(200, Duration::ZERO, "");
    service.take();
    world.advance(Duration::from_secs(30));
    world.settle();
    assert_eq!(messages(&service.take()), [CHANGED]);
    assert_eq!(state(&world, "Provider", "down").0, "True");
    assert!(world.stored("notifications/hub/pending/").is_empty());

    // A refusal is not tried again.
    service.answer(401, Duration::ZERO, &format!("{TOKEN} is not accepted"));
    push(&world, "3");
    let refused = service.take().len();
    let (status, message) = state(&world, "Provider", "down");
    assert_eq!(status, "False", "{message}");
    world.advance(Duration::from_secs(3600));
    world.settle();
    assert_eq!(service.take().len(), 0, "after {refused}");
    no_secret(&world, &[&service.url()]);
    service.answer(200, Duration::ZERO, "");
    push(&world, "4");
    assert_eq!(state(&world, "Provider", "down").0, "True");
}

/// Checks that no object but the Secrets, and no event, has the token or an address.
fn no_secret(world: &Embedded, addresses: &[&str]) {
    let hub = world.cluster("hub");
    for place in [
        path("Provider", SPACE, ""),
        path("Alert", SPACE, ""),
        path("Kustomization", SPACE, ""),
        format!("/api/v1/namespaces/{SPACE}/events"),
    ] {
        let text = hub.get(&place).to_string();
        for secret in addresses.iter().chain(&[TOKEN]) {
            assert!(!text.contains(secret), "{place} has {secret}");
        }
    }
}

#[test]
fn a_slow_service_delays_no_object() {
    let (world, service) = (world(), Service::start());
    provider(&world, "slow", &service);
    alert(&world, "slow", json!({}));
    let spec = json!({"spec": {"timeout": "1s"}});
    world
        .cluster("hub")
        .patch(&path("Provider", SPACE, "slow"), &spec);
    service.answer(200, Duration::from_secs(3), "");
    world.push("acme/fleet", &[config_map("one", "2")]);
    let sha = world.head("acme/fleet");
    let start = std::time::Instant::now();
    // The steps until the Kustomization is ready do not wait for the service.
    while is_ready(world.cluster("hub"), SPACE, SPACE, &sha).is_err() {
        assert!(world.step(), "the push is not applied");
    }
    assert!(
        start.elapsed() < Duration::from_secs(3),
        "{:?}",
        start.elapsed()
    );
    world.pump();
    let (status, message) = state(&world, "Provider", "slow");
    assert_eq!(status, "False", "{message}");
    service.answer(200, Duration::ZERO, "");
    world.advance(Duration::from_secs(30));
    world.settle();
    assert_eq!(state(&world, "Provider", "slow").0, "True");
}

#[test]
fn services_on_loopback_are_reached_only_where_the_operator_allows_it() {
    let (world, service) = (world(), Service::start());
    world.change("hub", |settings| settings.allow_local_clusters = false);
    provider(&world, "service", &service);
    alert(&world, "service", json!({}));
    push(&world, "2");
    let (status, message) = state(&world, "Provider", "service");
    assert_eq!(status, "False", "{message}");
    assert!(message.contains("loopback"), "{message}");
    assert_eq!(service.take(), [] as [Value; 0]);
}

#[test]
fn alerts_say_what_they_cannot_do() {
    let (world, service) = (world(), Service::start());
    alert(&world, "service", json!({"inclusionList": ["(", "one"]}));
    let (status, message) = state(&world, "Alert", "service");
    assert_eq!(status, "False");
    assert!(
        message.starts_with("failed to compile inclusion regex: (: "),
        "{message}"
    );
    provider(&world, "service", &service);
    push(&world, "2");
    assert_eq!(messages(&service.take()), [CHANGED]);

    alert(&world, "none", json!({}));
    let missing =
        "failed to read provider: providers.notification.toolkit.fluxcd.io \"none\" not found";
    assert_eq!(
        state(&world, "Alert", "none"),
        ("False".to_owned(), missing.to_owned())
    );
    provider(&world, "none", &service);
    world.advance(Duration::from_secs(600));
    world.settle();
    assert_eq!(state(&world, "Alert", "none").0, "True");

    world.lock_down("hub");
    let sources = json!([{"kind": "Kustomization", "name": "*", "namespace": "other"}]);
    alert(&world, "foreign", json!({"eventSources": sources}));
    let (status, message) = state(&world, "Alert", "foreign");
    assert_eq!(status, "False");
    assert!(
        message.ends_with("cross-namespace references have been blocked"),
        "{message}"
    );
}

#[test]
fn a_suspended_provider_discards_events() {
    let (world, service) = (world(), Service::start());
    provider(&world, "service", &service);
    alert(&world, "service", json!({}));
    let place = path("Provider", SPACE, "service");
    let suspend = |suspend: bool| {
        let hub = world.cluster("hub");
        hub.patch(&place, &json!({"spec": {"suspend": suspend}}));
    };
    suspend(true);
    push(&world, "2");
    assert!(world.stored("notifications/hub/pending/").is_empty());
    suspend(false);
    world.sweep();
    world.settle();
    assert_eq!(service.take(), [] as [Value; 0]);
    push(&world, "3");
    assert_eq!(messages(&service.take()), [CHANGED]);
}
