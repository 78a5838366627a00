//! Reminders of objects that still fail, and news of their recovery: the annotations
//! `driftless.dev/reminder` and `driftless.dev/recovery` of an Alert.

use crate::notifications::{SPACE, alert, provider};
use driftless_harness::github::Change;
use driftless_harness::service::Service;
use driftless_tests::embedded::Embedded;
use driftless_tests::site::*;
use serde_json::{Value, json};
use std::time::Duration;

const FLEET: &str = "acme/fleet";
const FILE: &str = "clusters/hub/one.yaml";
const RIGHT: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: one\n  namespace: default\n";

fn world() -> Embedded {
    let world = Embedded::start(&one_hub(FLEET), &[]);
    world.allow_local("hub");
    world.commit(FLEET, &[Change::write(FILE, RIGHT.to_owned())]);
    world.sweep_after(Duration::from_secs(900));
    world
}

/// Creates an Alert of errors with annotations.
fn alert_with(world: &Embedded, service: &Service, annotations: &Value) {
    provider(world, "service", service);
    alert(world, "service", json!({"eventSeverity": "error"}));
    let patch = json!({"metadata": {"annotations": annotations}});
    let hub = world.cluster("hub");
    hub.patch(&path("Alert", SPACE, "service"), &patch);
    pass(world, 1);
}

/// Lets minutes pass, each with a sweep.
fn pass(world: &Embedded, minutes: u32) {
    for _ in 0..minutes {
        world.sweep_after(Duration::from_secs(60));
    }
}

fn push(world: &Embedded, text: &str) {
    world.push(FLEET, &[Change::write(FILE, text.to_owned())]);
    world.settle();
}

fn fail(world: &Embedded) {
    push(world, "apiVersion: v1\nkind: [");
}

/// Returns the severity and the start of the message of each event.
fn lines(service: &Service) -> Vec<String> {
    let line = |event: Value| {
        let message = event["message"].as_str().unwrap_or_default();
        let start = message.split(": ").next().unwrap_or_default();
        let severity = event["severity"].as_str().unwrap_or_default();
        let object = event["involvedObject"]["name"].as_str().unwrap_or_default();
        format!("{severity} {object} {start}")
    };
    service.take().into_iter().map(line).collect()
}

fn failures(lines: &[String]) -> usize {
    let is_failure = |line: &&String| line.starts_with("error flux-system ");
    lines.iter().filter(is_failure).count()
}

#[test]
fn reminders_come_at_growing_intervals_until_the_recovery() {
    let (world, service) = (world(), Service::start());
    let wishes = json!({"driftless.dev/reminder": "10m", "driftless.dev/recovery": "true"});
    alert_with(&world, &service, &wishes);
    fail(&world);
    let first = lines(&service);
    assert_eq!((first.len(), failures(&first)), (1, 1), "{first:?}");
    pass(&world, 9);
    assert_eq!(lines(&service), [] as [String; 0]);
    pass(&world, 2);
    let got = lines(&service);
    assert_eq!(got.len(), 1, "{got:?}");
    assert!(
        got[0].starts_with("error flux-system still failing after 10m"),
        "{got:?}"
    );
    // The next one comes after twenty minutes, the one after it after forty.
    let mut counts = Vec::new();
    for _ in 0..7 {
        pass(&world, 10);
        counts.push(lines(&service).len());
    }
    assert_eq!(counts.iter().sum::<usize>(), 2, "{counts:?}");
    push(&world, RIGHT);
    pass(&world, 1);
    let got = lines(&service);
    assert_eq!(got.len(), 1, "{got:?}");
    assert!(
        got[0].starts_with("info flux-system ready again after 1h"),
        "{got:?}"
    );
    pass(&world, 120);
    assert_eq!(lines(&service), [] as [String; 0]);
}

#[test]
fn an_alert_without_annotations_does_what_flux_does() {
    let (world, service) = (world(), Service::start());
    alert_with(&world, &service, &json!({}));
    fail(&world);
    assert_eq!(failures(&lines(&service)), 1);
    world.steps();
    pass(&world, 150);
    let steps = world.steps();
    assert_eq!(steps.get("Alert/flux-system/service"), None, "{steps:?}");
    push(&world, RIGHT);
    pass(&world, 2);
    assert_eq!(lines(&service), [] as [String; 0]);
}

#[test]
fn a_failure_at_rest_costs_no_step() {
    let (world, service) = (world(), Service::start());
    alert_with(&world, &service, &json!({"driftless.dev/reminder": "1h"}));
    fail(&world);
    world.steps();
    pass(&world, 50);
    let steps = world.steps();
    assert_eq!(steps.get("Alert/flux-system/service"), None, "{steps:?}");
    assert_eq!(steps.get("Provider/flux-system/service"), None, "{steps:?}");
    assert_eq!(failures(&lines(&service)), 1);
}

#[test]
fn a_suspended_object_has_no_reminder_and_no_recovery() {
    let (world, service) = (world(), Service::start());
    let wishes = json!({"driftless.dev/reminder": "10m", "driftless.dev/recovery": "true"});
    alert_with(&world, &service, &wishes);
    fail(&world);
    assert_eq!(failures(&lines(&service)), 1);
    let suspend = |suspend: bool| {
        let place = path("Kustomization", SPACE, "flux-system");
        let patch = json!({"spec": {"suspend": suspend}});
        world.cluster("hub").patch(&place, &patch);
    };
    suspend(true);
    pass(&world, 30);
    assert_eq!(lines(&service), [] as [String; 0]);
}
