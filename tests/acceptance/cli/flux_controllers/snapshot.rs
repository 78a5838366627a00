//! The objects and events of a cluster, without what differs between any two runs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use driftless_harness::cluster::Cluster;
use flate2::read::GzDecoder;
use regex::Regex;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::LazyLock;

/// Objects by kind and name, and their events by `events of`, kind and name. Names are unique
/// across the namespaces.
pub type Snapshot = BTreeMap<String, Value>;

const NAMESPACES: [&str; 2] = ["apps", "elsewhere"];

const KINDS: [&str; 11] = [
    "apis/source.toolkit.fluxcd.io/v1/{}/gitrepositories",
    "apis/source.toolkit.fluxcd.io/v1/{}/ocirepositories",
    "apis/source.toolkit.fluxcd.io/v1/{}/helmrepositories",
    "apis/source.toolkit.fluxcd.io/v1/{}/helmcharts",
    "apis/source.toolkit.fluxcd.io/v1/{}/buckets",
    "apis/kustomize.toolkit.fluxcd.io/v1/{}/kustomizations",
    "apis/helm.toolkit.fluxcd.io/v2/{}/helmreleases",
    "apis/apps/v1/{}/deployments",
    "api/v1/{}/configmaps",
    "api/v1/{}/secrets",
    "api/v1/{}/pods",
];

/// Fields that depend on the time or place of the run.
const OF_A_RUN: [&str; 18] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "lastTransitionTime",
    "lastUpdateTime",
    "firstDeployed",
    "lastDeployed",
    "lastAttemptedReleaseActionDuration",
    "lastReconciled",
    "lastReconciledDuration",
    "first_deployed",
    "last_deployed",
    "started_at",
    "completed_at",
    "deleted",
    "firstReconciled",
    "lastStarted",
    "lastCompleted",
];

/// Returns the condition `Ready` of an object.
pub fn ready(object: &Value) -> Option<&Value> {
    let mut conditions = object["status"]["conditions"].as_array()?.iter();
    conditions.find(|one| one["type"] == "Ready")
}

/// Returns whether an object's present generation and its last request have been reconciled, with
/// success or not.
pub fn is_settled(object: &Value) -> bool {
    let (meta, status) = (&object["metadata"], &object["status"]);
    let is_suspended = object["spec"]["suspend"] == true;
    let is_reported = ready(object).is_some_and(|ready| {
        let is_seen = is_suspended || ready["observedGeneration"] == meta["generation"];
        ready["status"] != "Unknown" && is_seen
    });
    let asked = &meta["annotations"]["reconcile.fluxcd.io/requestedAt"];
    let is_asked = *asked == Value::Null || *asked == status["lastHandledReconcileAt"];
    is_reported && is_asked && meta["deletionTimestamp"].is_null()
}

/// Returns whether a reconciliation is in progress: failures are retried without end.
pub fn is_trying(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one["type"] == "Reconciling" && one["reason"] == "Progressing")
}

/// Returns the objects of a kind, by its plural.
pub fn of_kind<'s>(side: &'s Snapshot, plural: &str) -> impl Iterator<Item = &'s Value> {
    let prefix = format!("{plural} ");
    let all = side.iter();
    all.filter_map(move |(name, object)| name.starts_with(&prefix).then_some(object))
}

/// Takes a snapshot of a cluster.
pub fn take(cluster: &Cluster) -> Snapshot {
    let mut snapshot = Snapshot::new();
    for namespace in NAMESPACES {
        for kind in KINDS {
            let path = format!(
                "/{}",
                kind.replace("{}", &format!("namespaces/{namespace}"))
            );
            let plural = kind.rsplit('/').next().unwrap_or_default();
            for mut object in cluster.api().list(&path).expect("a list") {
                let name = format!(
                    "{plural} {}",
                    object["metadata"]["name"].as_str().unwrap_or_default()
                );
                manage(&mut object);
                open_record(&mut object);
                strip(&mut object);
                snapshot.insert(name, object);
            }
        }
        events(cluster, namespace, &mut snapshot);
    }
    snapshot
}

fn events(cluster: &Cluster, namespace: &str, snapshot: &mut Snapshot) {
    let path = format!("/api/v1/namespaces/{namespace}/events");
    for event in cluster.api().list(&path).expect("the events") {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let about = &event["involvedObject"];
        // Whether it was reconciled before the other was ready is a race.
        let is_race = event["reason"] == "DependencyNotReady" && about["name"] == "follows";
        // Each side deletes unused artifacts at its own time.
        if is_race || event["reason"] == "GarbageCollectionSucceeded" {
            continue;
        }
        let about = format!(
            "events of {} {}",
            text(&about["kind"]),
            text(&about["name"])
        );
        let message = timeless(&text(&event["message"]));
        let key = format!(
            "{} {}: {message}",
            text(&event["type"]),
            text(&event["reason"])
        );
        let details = json!({"annotations": event["metadata"]["annotations"], "source": event["source"],
            "reportingComponent": event["reportingComponent"]});
        snapshot.entry(about).or_insert_with(|| json!({}))[key] = details;
    }
}

/// Removes from a message the time that an action took, and the last lines of the log of Helm's
/// library.
fn timeless(message: &str) -> String {
    static TOOK: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(passed in|failed after|finished in) [0-9.hmµs]+").expect("a pattern")
    });
    let message = message
        .split("\n\nLast Helm logs:")
        .next()
        .unwrap_or_default();
    TOOK.replace(message.trim(), "$1 …").into_owned()
}

/// Replaces `managedFields` by a map from managers to fields, which can be compared.
fn manage(object: &mut Value) {
    let Some(entries) = object["metadata"]
        .as_object_mut()
        .and_then(|meta| meta.remove("managedFields"))
    else {
        return;
    };
    let mut managers = Map::new();
    for entry in entries.as_array().into_iter().flatten() {
        let text = |field: &str| entry[field].as_str().unwrap_or_default();
        let name = format!(
            "{} {} {}",
            text("manager"),
            text("operation"),
            text("subresource")
        );
        let mut fields = Vec::new();
        leaves(&entry["fieldsV1"], "", &mut fields);
        let fields: Map<String, Value> = fields
            .into_iter()
            .map(|field| (field, Value::Bool(true)))
            .collect();
        managers.insert(name.trim().to_owned(), fields.into());
    }
    object["metadata"]["managers"] = managers.into();
}

/// Replaces the encoded bytes of a release's record by its content.
fn open_record(object: &mut Value) {
    if object["type"] != "helm.sh/release.v1" {
        return;
    }
    let bytes = |text: &str| STANDARD.decode(text).expect("base64");
    let outer = bytes(object["data"]["release"].as_str().expect("a record"));
    let inner = bytes(std::str::from_utf8(&outer).expect("text"));
    let mut text = String::new();
    let read = GzDecoder::new(&inner[..]).read_to_string(&mut text);
    read.expect("gzip");
    object["data"]["release"] = serde_json::from_str(&text).expect("JSON");
    object["metadata"]["labels"]["modifiedAt"] = json!("…");
}

fn leaves(fields: &Value, path: &str, found: &mut Vec<String>) {
    match fields.as_object() {
        Some(map) if !map.is_empty() => {
            for (key, below) in map {
                leaves(below, &format!("{path} {key}"), found);
            }
        }
        _ => found.push(path.trim().to_owned()),
    }
}

/// Replaces the fields that depend on the time or place of the run.
pub fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for field in OF_A_RUN {
                if let Some(found) = map.get_mut(field) {
                    *found = json!("…");
                }
            }
            map.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        Value::String(text) => *text = timeless(text),
        _ => {}
    }
}
