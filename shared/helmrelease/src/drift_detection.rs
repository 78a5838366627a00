//! Compares the objects of a release record with those in the cluster.
//!
//! [`desired`] returns the objects as Helm applied them. [`compare_with_live`] compares one with
//! the live object without a request. If that has no clear result, [`changes`] uses the result of a
//! dry run. The field manager and the exclusion are helm-controller's.

use crate::error::ReleaseError;
use driftless_flux::HELM_CONTROLLER;
use driftless_helm::record::Release;
use driftless_manifest::yaml::{Dialect, Limits, documents};
use driftless_manifest::{Gvk, Object, pointer};
use driftless_plans::apply::ignore_rules::IgnoreRules;
use driftless_plans::apply::{change_detection, normalize};
use serde_json::{Value, json};

/// The label or annotation that excludes an object from drift detection with the value `disabled`.
const EXCLUSION: &str = "helm.toolkit.fluxcd.io/driftDetection";

/// Returns the objects of a record, with the metadata that Helm adds. An object without a namespace
/// gets that of the release if `is_namespaced` returns true for its kind.
///
/// # Errors
/// The manifest is not a list of objects, or `is_namespaced` does not know a kind.
pub fn desired(
    record: &Release,
    is_namespaced: &dyn Fn(&Gvk) -> Option<bool>,
) -> Result<Vec<Object>, ReleaseError> {
    let unreadable = |error: String| {
        let (name, version) = (&record.name, record.version);
        ReleaseError::Manifest(format!(
            "failed to read objects from manifest of release {name}.v{version}: {error}"
        ))
    };
    let text = record.manifest.as_bytes();
    let values = documents(text, "manifest", Dialect::V2, &Limits::default());
    let mut objects = Vec::new();
    for value in values.map_err(|error| unreadable(error.to_string()))? {
        for value in items(value) {
            let mut object = Object::new(value).map_err(|error| unreadable(error.to_string()))?;
            normalize::object(&mut object);
            object.set_label("app.kubernetes.io/managed-by", "Helm");
            object.set_annotation("meta.helm.sh/release-name", &record.name);
            object.set_annotation("meta.helm.sh/release-namespace", &record.namespace);
            if object.namespace().is_empty() {
                let gvk = object.gvk();
                let namespaced = is_namespaced(&gvk).ok_or_else(|| {
                    ReleaseError::Manifest(format!(
                        "failed to determine if {} is namespace scoped",
                        gvk.kind
                    ))
                })?;
                if namespaced {
                    object.set_namespace(&record.namespace);
                }
            }
            objects.push(object);
        }
    }
    Ok(objects)
}

/// Returns the objects of a list, or the single object, or nothing for null.
fn items(value: Value) -> Vec<Value> {
    let is_list = value["kind"]
        .as_str()
        .is_some_and(|kind| kind.ends_with("List"));
    match value {
        Value::Null => Vec::new(),
        Value::Object(mut map) if is_list && map.get("items").is_some_and(Value::is_array) => {
            match map.remove("items") {
                Some(Value::Array(items)) => items,
                _ => Vec::new(),
            }
        }
        other => vec![other],
    }
}

/// The result of the comparison of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// The object is excluded from drift detection.
    Excluded,
    /// The object does not exist.
    Missing,
    /// The object is the same as in the record.
    Same,
    /// Only a dry-run apply of this object can show a difference: see [`changes`].
    Unknown(Box<Object>),
    /// The object differs; a dry-run apply of this object shows the differences.
    Differs(Box<Object>),
}

/// Compares a desired object with the live one.
pub fn compare_with_live(desired: &Object, live: Option<&Object>, rules: &IgnoreRules) -> Finding {
    let paths = rules.paths(desired);
    if is_excluded(desired) || live.is_some_and(is_excluded) || paths.contains(&"") {
        return Finding::Excluded;
    }
    let Some(live) = live else {
        return Finding::Missing;
    };
    let Some(with_ignored) = rules.with_live_values(desired, live) else {
        return Finding::Unknown(Box::new(desired.clone()));
    };
    match change_detection::compare(&with_ignored, live, HELM_CONTROLLER) {
        change_detection::Drift::Unchanged => Finding::Same,
        change_detection::Drift::Unknown => Finding::Unknown(Box::new(with_ignored)),
        change_detection::Drift::Configured => Finding::Differs(Box::new(with_ignored)),
    }
}

fn is_excluded(object: &Object) -> bool {
    let marks = [object.label(EXCLUSION), object.annotation(EXCLUSION)];
    marks
        .into_iter()
        .flatten()
        .any(|mark| mark.eq_ignore_ascii_case("disabled"))
}

/// Returns the JSON patch from the live object to the result of a dry run. It leaves out `metadata`
/// and `status`, except additions and replacements of labels and annotations: Kubernetes'
/// controllers add their own labels and annotations, which must stay.
pub fn changes(live: &Object, would: &Object) -> Vec<Value> {
    let mut patch = Vec::new();
    for part in ["annotations", "labels"] {
        let path = format!("/metadata/{part}");
        let (old, new) = (live.pointer(&path), would.pointer(&path));
        let before = patch.len();
        differences(old, new, &path, &mut patch);
        let kept = patch.split_off(before);
        patch.extend(kept.into_iter().filter(|change| change["op"] != "remove"));
    }
    let parts = |object: &Object| {
        let mut map = object.as_map().clone();
        map.retain(|field, _| !matches!(field.as_str(), "metadata" | "status"));
        Value::Object(map)
    };
    differences(Some(&parts(live)), Some(&parts(would)), "", &mut patch);
    patch
}

fn differences(old: Option<&Value>, new: Option<&Value>, path: &str, patch: &mut Vec<Value>) {
    match (old, new) {
        (None, None) => {}
        (None, Some(new)) => patch.push(json!({"op": "add", "path": path, "value": new})),
        (Some(_), None) => patch.push(json!({"op": "remove", "path": path})),
        (Some(old), Some(new)) if old == new => {}
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let added = new.keys().filter(|field| !old.contains_key(*field));
            for field in old.keys().chain(added) {
                let below = format!("{path}/{}", pointer::escape(field));
                differences(old.get(field), new.get(field), &below, patch);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) if old.len() == new.len() => {
            for (at, (old, new)) in old.iter().zip(new).enumerate() {
                differences(Some(old), Some(new), &format!("{path}/{at}"), patch);
            }
        }
        (Some(_), Some(new)) => {
            patch.push(json!({"op": "replace", "path": path, "value": new}));
        }
    }
}

/// An object that drifted.
#[derive(Clone, Debug, PartialEq)]
pub enum Drifted {
    /// The object is gone.
    Gone(Object),
    /// The object differs by this patch.
    Changed(Object, Vec<Value>),
    /// The object is excluded from drift detection.
    Excluded(Object),
}

/// Returns the message of the event and the condition, with a line for each object. It has no
/// values, because they may be secret.
pub fn summary(release: &str, drifted: &[Drifted]) -> String {
    let lines: Vec<String> = drifted.iter().map(line).collect();
    let lines = lines.join("\n");
    format!("Cluster state of release {release} has drifted from the desired state:\n{lines}")
}

fn line(drifted: &Drifted) -> String {
    match drifted {
        Drifted::Gone(object) => format!("{} removed", name(object)),
        Drifted::Excluded(object) => format!("{} excluded", name(object)),
        Drifted::Changed(object, patch) => {
            let count = |op: &str| patch.iter().filter(|change| change["op"] == op).count();
            let (added, changed, removed) = (count("add"), count("replace"), count("remove"));
            let counts = format!("{added} additions, {changed} changes, {removed} removals");
            format!("{} changed ({counts})", name(object))
        }
    }
}

/// Returns `Kind/namespace/name` of an object.
pub fn name(object: &Object) -> String {
    let parts = [object.kind(), object.namespace(), object.name()];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("/")
}
