//! Requests are those that notification-controller sends (`tests/oracle/notifications`).

use crate::normal::normal;
use crate::recorder::{Recorded, Recorder};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use driftless_notify::{Alert, Event, InvolvedObject, Settings, Severity, send};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The types whose client in Flux sends a request again after 429 and 5xx.
const RETRYING: [&str; 19] = [
    "alertmanager",
    "bitbucketserver",
    "discord",
    "generic",
    "generic-hmac",
    "gitlab",
    "googlechat",
    "grafana",
    "lark",
    "matrix",
    "msteams",
    "opsgenie",
    "pagerduty",
    "rocket",
    "slack",
    "telegram",
    "webex",
    "zulip",
    "otel",
];

/// Cases that differ from Flux, with the reason.
const DIFFERENT: &[(&str, &str, &str)] = &[
    ("otel", "answer-400", IGNORED),
    ("otel", "answer-401", IGNORED),
    ("otel", "answer-404", IGNORED),
    ("otel", "answer-429", IGNORED),
    ("otel", "answer-500", IGNORED),
    ("otel", "answer-501", IGNORED),
    ("otel", "answer-503", IGNORED),
    ("sentry", "answer-400", IGNORED),
    ("sentry", "answer-401", IGNORED),
    ("sentry", "answer-404", IGNORED),
    ("sentry", "answer-429", IGNORED),
    ("sentry", "answer-500", IGNORED),
    ("sentry", "answer-501", IGNORED),
    ("sentry", "answer-503", IGNORED),
    (
        "sentry",
        "trace",
        "Flux sends the error that it has no event",
    ),
];
const IGNORED: &str = "Flux does not read the answer";

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/notifications")
}

/// Reads the files of the corpus.
pub fn files() -> Vec<Value> {
    let mut paths: Vec<_> = std::fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    paths.sort();
    let read = |path| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    paths.into_iter().map(read).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn strings(value: &Value) -> BTreeMap<String, String> {
    let fields = value.as_object().into_iter().flatten();
    fields
        .map(|(key, value)| (key.clone(), text(value)))
        .collect()
}

pub fn event(case: &Value) -> Event {
    let object = &case["involvedObject"];
    Event {
        involved_object: InvolvedObject {
            api_version: text(&object["apiVersion"]),
            kind: text(&object["kind"]),
            namespace: text(&object["namespace"]),
            name: text(&object["name"]),
            uid: text(&object["uid"]),
            resource_version: text(&object["resourceVersion"]),
        },
        severity: match case["severity"].as_str() {
            Some("trace") => Severity::Trace,
            Some("error") => Severity::Error,
            _ => Severity::Info,
        },
        timestamp: text(&case["timestamp"]),
        message: text(&case["message"]),
        reason: text(&case["reason"]),
        metadata: strings(&case["metadata"]),
        reporting_controller: text(&case["reportingController"]),
        reporting_instance: text(&case["reportingInstance"]),
    }
}

pub fn settings(kind: &str, case: &Value) -> Settings {
    let secret = strings(&case["secret"]);
    let address = match secret.get("address") {
        Some(address) => address.trim().to_owned(),
        None => text(&case["address"]),
    };
    Settings {
        kind: kind.to_owned(),
        address,
        channel: text(&case["channel"]),
        username: text(&case["username"]),
        commit_status: text(&case["commitStatus"]),
        provider_uid: "5d1a9c5e-0b6f-4c5b-8e7e-000000000001".to_owned(),
        provider_namespace: "flux-system".to_owned(),
        provider_name: "alerts".to_owned(),
        secret: secret
            .into_iter()
            .map(|(key, value)| (key, value.into_bytes()))
            .collect(),
        alert: Alert {
            namespace: "flux-system".to_owned(),
            name: "on-call".to_owned(),
            uid: "5d1a9c5e-0b6f-4c5b-8e7e-000000000002".to_owned(),
        },
        ..Settings::default()
    }
}

fn recorded(request: &Value) -> Recorded {
    Recorded {
        method: text(&request["method"]),
        url: text(&request["url"]),
        headers: strings(&request["header"]),
        body: match request["base64"].as_str() {
            Some(body) => STANDARD.decode(body).unwrap(),
            None => text(&request["body"]).into_bytes(),
        },
    }
}

/// Returns the difference between a case and the requests that are sent for it.
async fn difference(kind: &str, case: &Value) -> Option<String> {
    let recorder = Recorder::new(&case["answers"]);
    let (settings, event) = (settings(kind, &case["settings"]), event(&case["event"]));
    let result = send(&settings, &event, &recorder, 1_772_600_800).await;
    let sent = recorder.requests.lock().unwrap().clone();
    let sent: Vec<_> = sent
        .into_iter()
        .map(|request| normal(kind, request))
        .collect();
    let expected = case["requests"].as_array().unwrap();
    let expected: Vec<_> = expected
        .iter()
        .map(|request| normal(kind, recorded(request)))
        .collect();
    if sent != expected {
        return Some(format!(
            "requests\n  sent     {sent:#?}\n  expected {expected:#?}"
        ));
    }
    let flux = case["error"].as_str();
    if result.is_err() != flux.is_some() {
        return Some(format!("result {result:?}, Flux's error {flux:?}"));
    }
    let is_retryable = result.is_err_and(|failure| failure.is_retryable);
    let is_retried = case["retried"] == true;
    if RETRYING.contains(&kind) && is_retryable != is_retried {
        return Some(format!(
            "retryable {is_retryable}, Flux retries {is_retried}"
        ));
    }
    None
}

#[tokio::test]
async fn notifications_as_flux() {
    let files = files();
    let (mut wrong, mut count) = (Vec::new(), 0);
    let mut known: BTreeSet<_> = DIFFERENT
        .iter()
        .map(|(kind, case, _)| (*kind, *case))
        .collect();
    for file in &files {
        let kind = file["type"].as_str().unwrap();
        for case in file["cases"].as_array().unwrap() {
            count += 1;
            let name = case["name"].as_str().unwrap();
            let difference = difference(kind, case).await;
            match (known.remove(&(kind, name)), difference) {
                (true, None) => wrong.push(format!(
                    "{kind} {name}: is as Flux's, remove it from DIFFERENT"
                )),
                (false, Some(difference)) => wrong.push(format!("{kind} {name}: {difference}")),
                _ => {}
            }
        }
    }
    println!("{} of {count} cases as Flux", count - wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(known.is_empty(), "no such cases: {known:?}");
    assert!(count > 500, "{count}");
}

/// The types that Flux does not send by HTTP or NATS.
const NOT_RECORDED: [&str; 2] = ["azureeventhub", "googlepubsub"];

#[test]
fn every_type_is_recorded() {
    let recorded: BTreeSet<String> = files().iter().map(|file| text(&file["type"])).collect();
    let known: BTreeSet<String> = driftless_notify::kinds()
        .filter(|kind| !NOT_RECORDED.contains(kind))
        .map(str::to_owned)
        .collect();
    assert_eq!(recorded, known);
}
