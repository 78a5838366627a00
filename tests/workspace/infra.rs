//! Checks the source of the SAM template without a tool.

use driftless_core::webhook;
use driftless_kernel::schedule;
use driftless_manifest::yaml::{Dialect, Limits, documents};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn template() -> Value {
    let text = include_bytes!("../../infra/template.yaml");
    let read = documents(text, "infra/template.yaml", Dialect::V3, &Limits::default());
    let mut documents = read.expect("YAML");
    assert_eq!(documents.len(), 1);
    documents.remove(0)
}

/// Lambda stops a function that sends to its own queue after about 16 calls, unless `RecursiveLoop`
/// allows it.
#[test]
fn a_function_may_send_to_its_own_queue() {
    let template = template();
    let resources = template["Resources"].as_object().expect("resources");
    let functions = resources
        .iter()
        .filter(|(_, resource)| resource["Type"] == "AWS::Serverless::Function");
    let mut loops = Vec::new();
    for (name, function) in functions {
        let properties = &function["Properties"];
        let events = properties["Events"].as_object();
        let takes_from_queue = events.is_some_and(|events| {
            let mut events = events.values();
            events.any(|event| event["Type"] == "SQS")
        });
        let role = properties["Role"].as_str().expect("a role");
        let role = role.trim_end_matches(".Arn");
        let feeds_queue = resources[role].to_string().contains("sqs:SendMessage");
        if takes_from_queue && feeds_queue {
            loops.push(name.as_str());
        }
        // The step of a sweep message sends no other sweep message, only the timer does: Lambda's
        // guard stays active.
        let expected = match name.as_str() {
            "ReconcileFunction" | "IsolatedFunction" => json!("Allow"),
            _ => Value::Null,
        };
        assert_eq!(properties["RecursiveLoop"], expected, "{name}");
    }
    loops.sort_unstable();
    let expected = ["DriftFunction", "IsolatedFunction", "ReconcileFunction"];
    assert_eq!(loops, expected);
    // The function's own limit replaces Lambda's guard.
    const { assert!(schedule::MAX_FAST_REQUEUES <= 1000) };
}

/// The lease of a worker must not end before Lambda ends the worker, and must be over when its
/// message becomes visible again.
#[test]
fn a_lease_outlasts_a_step_and_ends_before_redelivery() {
    let template = template();
    let seconds = |pointer: &str| template.pointer(pointer).and_then(Value::as_u64);
    let lease = schedule::LEASE_DURATION.as_secs();
    for (function, queue) in [
        ("ReconcileFunction", "Queue"),
        ("IsolatedFunction", "IsolatedQueue"),
    ] {
        let timeout = seconds(&format!("/Resources/{function}/Properties/Timeout"));
        let hidden = seconds(&format!("/Resources/{queue}/Properties/VisibilityTimeout"));
        assert!(timeout.is_some_and(|timeout| timeout < lease), "{function}");
        assert!(hidden.is_some_and(|hidden| lease < hidden), "{queue}");
    }
}

/// The webhook function reads the secret of every host, and the notes of sources and Receivers; the
/// steps write the notes.
#[test]
fn the_webhook_may_read_what_deliveries_need() {
    let template = template();
    let policies = |role: &str| {
        let policies = &template["Resources"][role]["Properties"]["Policies"];
        policies.to_string()
    };
    let role = policies("WebhookRole");
    for name in [webhook::SECRET].iter().chain(&webhook::OTHER_SECRETS) {
        let resource = format!("${{SecretsPrefix}}{name}-??????");
        assert!(role.contains(&resource), "{name}");
    }
    for prefix in ["index/*", "receivers/*"] {
        assert!(role.contains(&format!("\"{prefix}\"")), "{prefix}");
    }
    // The function that the internet reaches opens hubs only where the operator serves Receivers.
    let receivers = &template["Resources"]["ReadReceivers"];
    assert_eq!(receivers["Condition"], "ServedReceivers");
    for place in ["${SecretsPrefix}hubs/*", "${Bucket.Arn}/hubs/*"] {
        assert!(!role.contains(place), "{place}");
        assert!(
            receivers["Properties"].to_string().contains(place),
            "{place}"
        );
    }
    for role in ["ReconcileRole", "DriftRole"] {
        assert!(
            policies(role).contains("${Bucket.Arn}/receivers/*"),
            "{role}"
        );
    }
    let guide = include_str!("../../infra/README.md");
    for name in webhook::OTHER_SECRETS {
        assert!(guide.contains(&format!("`driftless/{name}`")), "{name}");
    }
}

/// The program deletes these itself: the registry of hubs, and the notes of sources and Receivers.
const KEPT: [&str; 3] = ["hubs/", "index/", "receivers/"];

/// All other parts of the bucket expire when no step reads them any longer.
#[test]
fn unused_blobs_expire() {
    let template = template();
    let rules = &template["Resources"]["Bucket"]["Properties"]["LifecycleConfiguration"]["Rules"];
    let rules = rules.as_array().expect("rules");
    let expiring: BTreeMap<&str, u64> = rules
        .iter()
        .filter_map(|rule| Some((rule["Prefix"].as_str()?, rule["ExpirationInDays"].as_u64()?)))
        .collect();
    let state = include_str!("../../shared/core/docs/steps.md");
    let (_, state) = state.split_once("\n## State\n").expect("the table");
    // The first words of its rows, such as `waits/HUB/KIND/NS/NAME/…`.
    let places = state.lines().filter_map(|row| row.strip_prefix("| `"));
    let prefixes = places.filter_map(|place| Some(format!("{}/", place.split_once('/')?.0)));
    let written: BTreeSet<String> = prefixes.collect();
    let known: BTreeSet<String> = KEPT
        .iter()
        .chain(expiring.keys())
        .map(|prefix| (*prefix).to_owned())
        .collect();
    assert_eq!(written, known);
    let shortest = ["doctor/", "waits/", "limits/", "notifications/"];
    for (prefix, days) in expiring {
        let expected = match prefix {
            "plans/" => 30,
            "audit/" => 400,
            _ if shortest.contains(&prefix) => 1,
            _ => 90,
        };
        assert_eq!(days, expected, "{prefix}");
    }
    // A role that reaches another part of the bucket would be without a rule.
    let text = include_str!("../../infra/template.yaml");
    for (_, rest) in text
        .match_indices("${Bucket.Arn}/")
        .map(|(at, found)| text.split_at(at + found.len()))
    {
        let prefix = rest.split_inclusive('/').next().expect("a prefix");
        assert!(
            prefix.starts_with('*') || written.contains(prefix),
            "{prefix}"
        );
    }
}

/// The operator's guide has a table row for every parameter and alarm.
#[test]
fn the_guide_has_every_parameter_and_alarm() {
    let guide = include_str!("../../infra/README.md");
    let template = template();
    let parameters = template["Parameters"].as_object().expect("parameters");
    let resources = template["Resources"].as_object().expect("resources");
    let alarms = resources
        .iter()
        .filter(|(_, resource)| resource["Type"] == "AWS::CloudWatch::Alarm");
    let names = parameters.keys().chain(alarms.map(|(name, _)| name));
    let missing: Vec<&String> = names
        .filter(|name| !guide.contains(&format!("| `{name}` |")))
        .collect();
    assert!(missing.is_empty(), "infra/README.md lacks {missing:?}");
}
