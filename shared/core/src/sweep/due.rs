//! Which objects are due, from the object and from when it was queued last. Pure.

use crate::flux::{
    Conditions, FINALIZER, FluxKind, HelmRepository, ObjectRef, REQUESTED_AT, parse_duration,
    reason,
};
use crate::helmrelease::conditions::reasons;
use crate::ports::Cause;
use crate::source::consumers;
use crate::status::generation;
use driftless_manifest::Object;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a queued message is given before the timer thinks it lost.
const LOST: Duration = Duration::from_secs(50);
/// The interval of an object whose own cannot be read: its step says so in the status.
const FALLBACK: Duration = Duration::from_secs(600);

/// The interval of a HelmRepository that gives none, as its definition has it.
const HELM_REPOSITORY: Duration = Duration::from_secs(60);
/// When an object was queued by the timer, and for what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Seconds since 1970.
    at: f64,
    /// The generation it had.
    generation: i64,
    /// The `requestedAt` it had.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    requested: String,
}

impl Entry {
    /// Queued now.
    pub fn queued(object: &Object, now: Duration) -> Self {
        let requested = object
            .annotation(REQUESTED_AT)
            .unwrap_or_default()
            .to_owned();
        Self {
            at: now.as_secs_f64(),
            generation: generation(object),
            requested,
        }
    }
}

/// The revision that each source of the hub has.
pub fn revisions(objects: &[(ObjectRef, Object)]) -> BTreeMap<ObjectRef, String> {
    let revision = |object: &Object| {
        object
            .pointer("/status/artifact/revision")?
            .as_str()
            .map(str::to_owned)
    };
    objects
        .iter()
        .filter_map(|(id, object)| Some((id.clone(), revision(object)?)))
        .collect()
}

/// Whether an object needs a look, and why.
pub fn due(
    id: &ObjectRef,
    object: &Object,
    known: Option<&Entry>,
    revisions: &BTreeMap<ObjectRef, String>,
    now: Duration,
) -> Option<Cause> {
    let Some(known) = known else {
        return Some(Cause::Timer);
    };
    let since = Duration::from_secs_f64((now.as_secs_f64() - known.at).max(0.0));
    let is_due = |after: Duration| (since >= after).then_some(Cause::Timer);
    let is_new = generation(object) != known.generation;
    if !object.meta("deletionTimestamp").is_empty() {
        let finalizers = object
            .pointer("/metadata/finalizers")
            .and_then(Value::as_array);
        let ours =
            finalizers.is_some_and(|list| list.iter().any(|one| one.as_str() == Some(FINALIZER)));
        // The deletion itself makes a new generation.
        return match ours {
            true if is_new => Some(Cause::Timer),
            true => is_due(LOST),
            false => None,
        };
    }
    if is_new {
        return Some(Cause::Timer);
    }
    if object.pointer("/spec/suspend") == Some(&Value::Bool(true)) {
        return None;
    }
    if id.kind == FluxKind::HelmRepository && HelmRepository::is_static(object) {
        return None;
    }
    let asked = object.annotation(REQUESTED_AT).unwrap_or_default();
    let handled = object
        .pointer("/status/lastHandledReconcileAt")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if asked != handled {
        return if asked == known.requested {
            is_due(LOST)
        } else {
            Some(Cause::Timer)
        };
    }
    match id.kind {
        FluxKind::GitRepository
        | FluxKind::OCIRepository
        | FluxKind::Bucket
        | FluxKind::HelmRepository
        | FluxKind::HelmChart
        | FluxKind::Kustomization
        | FluxKind::HelmRelease => {}
        // Not served yet: its status says so once for each generation.
        _ => {
            return if ready(object).is_none() {
                is_due(LOST)
            } else {
                None
            };
        }
    }
    if is_behind(id, object, revisions) {
        return is_due(LOST);
    }
    let text = |field: &str| {
        object
            .as_map()
            .get("spec")
            .and_then(|spec| spec.get(field))
            .and_then(Value::as_str)
    };
    let fallback = match id.kind {
        FluxKind::HelmRepository => HELM_REPOSITORY,
        _ => FALLBACK,
    };
    let interval = text("interval")
        .and_then(|text| parse_duration(text).ok())
        .unwrap_or(fallback);
    match ready(object) {
        Some((status, _)) if status == "True" => is_due(interval),
        Some((_, why)) if waits_for_others(&why) => is_due(LOST),
        Some((status, _)) if status == "False" => is_due(
            text("retryInterval")
                .and_then(|text| parse_duration(text).ok())
                .unwrap_or(interval),
        ),
        // In progress, or never looked at: its message may be lost.
        _ => is_due(LOST),
    }
}

/// Whether a look at an object that is due may turn out to be for nothing: a rehearsal tells.
pub fn may_be_settled(id: &ObjectRef, object: &Object) -> bool {
    let is_ready = || ready(object).is_some_and(|(status, _)| status == "True");
    id.kind == FluxKind::HelmRelease && object.meta("deletionTimestamp").is_empty() && is_ready()
}

/// Whether a reason says that something else must appear or become ready first.
fn waits_for_others(why: &str) -> bool {
    [
        reason::DEPENDENCY_NOT_READY,
        reason::ARTIFACT_FAILED,
        reason::SOURCE_UNAVAILABLE,
        reason::NO_SOURCE_ARTIFACT,
        reasons::SOURCE_NOT_READY,
        reasons::VALUES_ERROR,
        reasons::REST_CLIENT_ERROR,
    ]
    .contains(&why)
}

/// Status and reason of the `Ready` condition.
fn ready(object: &Object) -> Option<(String, String)> {
    let conditions = object.pointer("/status/conditions")?;
    let conditions: Conditions = serde_json::from_value(conditions.clone()).ok()?;
    conditions
        .get("Ready")
        .map(|ready| (ready.status.clone(), ready.reason.clone()))
}

/// Whether the source has moved on and the object has not tried that revision.
fn is_behind(id: &ObjectRef, object: &Object, revisions: &BTreeMap<ObjectRef, String>) -> bool {
    let source = consumers::source_of(object.clone());
    let Some(revision) = source.and_then(|source| revisions.get(&source)) else {
        return false;
    };
    let text = |pointer: &str| {
        let text = object.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default()
    };
    match id.kind {
        FluxKind::Kustomization => revision != text("/status/lastAttemptedRevision"),
        FluxKind::HelmChart => revision != text("/status/observedSourceArtifactRevision"),
        // A chart's revision is its version, that of an OCI artifact ends with its digest.
        FluxKind::HelmRelease => match text("/status/lastAttemptedRevisionDigest") {
            "" => revision != text("/status/lastAttemptedRevision"),
            digest => !revision.ends_with(digest),
        },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(change: impl FnOnce(&mut Value)) -> (ObjectRef, Object) {
        let mut value = json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"name": "apps", "namespace": "team", "generation": 2},
            "spec": {"interval": "10m", "sourceRef": {"kind": "GitRepository", "name": "fleet"}},
            "status": {"lastAttemptedRevision": "main@sha1:a", "conditions": [{"type": "Ready", "status": "True"}]}});
        change(&mut value);
        let object = Object::new(value).unwrap();
        (ObjectRef::of(&object).unwrap(), object)
    }

    fn after(seconds: u64, change: impl FnOnce(&mut Value)) -> bool {
        let (id, object) = object(change);
        let source = ObjectRef::new(FluxKind::GitRepository, "team", "fleet");
        let known = Entry {
            at: 1000.0,
            generation: 2,
            requested: String::new(),
        };
        let revisions = [(source, "main@sha1:a".to_owned())].into();
        due(
            &id,
            &object,
            Some(&known),
            &revisions,
            Duration::from_secs(1000 + seconds),
        )
        .is_some()
    }

    #[test]
    fn what_is_due_when() {
        assert!(!after(599, |_| {}) && after(600, |_| {}));
        assert!(after(0, |o| o["metadata"]["generation"] = 3.into()));
        assert!(after(0, |o| o["metadata"]["annotations"] =
            json!({REQUESTED_AT: "now"})));
        assert!(!after(900, |o| o["spec"]["suspend"] = true.into()));
        let failed = |o: &mut Value| o["status"]["conditions"][0]["status"] = "False".into();
        assert!(!after(599, failed) && after(600, failed));
        let retry = |o: &mut Value| {
            o["status"]["conditions"][0]["status"] = "False".into();
            o["spec"]["retryInterval"] = "1m".into();
        };
        assert!(!after(59, retry) && after(60, retry));
        let waiting = |o: &mut Value| {
            o["status"]["conditions"][0] =
                json!({"type": "Ready", "status": "False", "reason": "DependencyNotReady"});
        };
        assert!(!after(49, waiting) && after(50, waiting));
        let behind = |o: &mut Value| o["status"]["lastAttemptedRevision"] = "main@sha1:0".into();
        assert!(!after(49, behind) && after(50, behind));
        assert!(after(600, |o| o["spec"]["interval"] = "nonsense".into()));
    }

    #[test]
    fn a_new_object_is_due_at_once() {
        let (id, object) = object(|_| {});
        assert_eq!(
            due(&id, &object, None, &BTreeMap::new(), Duration::ZERO),
            Some(Cause::Timer)
        );
    }

    #[test]
    fn deletions_are_due_while_our_finalizer_stands() {
        let deleted = |o: &mut Value| {
            o["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            o["metadata"]["finalizers"] = json!([FINALIZER]);
        };
        assert!(!after(49, deleted) && after(50, deleted));
        assert!(after(1, |o| {
            deleted(o);
            o["metadata"]["generation"] = 3.into();
        }));
        assert!(!after(5000, |o| o["metadata"]["deletionTimestamp"] =
            "2026-01-01T00:00:00Z".into()));
    }

    #[test]
    fn charts_follow_their_sources() {
        let chart = |o: &mut Value| {
            o["apiVersion"] = "source.toolkit.fluxcd.io/v1".into();
            o["kind"] = "HelmChart".into();
            o["spec"]["chart"] = "app".into();
            o["status"]["observedSourceArtifactRevision"] = "main@sha1:a".into();
        };
        assert!(!after(599, chart) && after(600, chart));
        let behind = |o: &mut Value| {
            chart(o);
            o["status"]["observedSourceArtifactRevision"] = "main@sha1:0".into();
        };
        assert!(!after(49, behind) && after(50, behind));
        let waiting = |o: &mut Value| {
            chart(o);
            o["status"]["conditions"][0] =
                json!({"type": "Ready", "status": "False", "reason": "NoSourceArtifact"});
        };
        assert!(!after(49, waiting) && after(50, waiting));
        let repository = |kind: &'static str| {
            move |o: &mut Value| {
                o["apiVersion"] = "source.toolkit.fluxcd.io/v1beta2".into();
                o["kind"] = "HelmRepository".into();
                o["spec"] = json!({"url": "https://charts.acme.example", "type": kind});
            }
        };
        let bucket = |o: &mut Value| {
            o["apiVersion"] = "source.toolkit.fluxcd.io/v1beta2".into();
            o["kind"] = "Bucket".into();
            o["spec"] = json!({"interval": "2m"});
        };
        assert!(!after(119, bucket) && after(120, bucket));
        assert!(!after(59, repository("default")) && after(60, repository("default")));
        assert!(!after(1_000_000, repository("oci")));
    }
}
