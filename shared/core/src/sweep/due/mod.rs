//! Which objects are due, from the object, from when it was queued last, and from the record of its schedule. Pure.

#[cfg(test)]
mod tests;

use crate::flux::generation;
use crate::flux::{
    Condition, ConditionStatus, Conditions, FINALIZER, FluxKind, HelmRepository, ObjectRef, READY,
    REQUESTED_AT, STALLED, parse_duration, parse_rfc3339, reason,
};
use crate::helmrelease;
use crate::helmrelease::conditions::reasons;
use crate::kustomization::live;
use crate::ports::Cause;
use crate::schedule::Record;
use crate::source::consumers;
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
    /// Which object of its name it was.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    uid: String,
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
            uid: object.meta("uid").to_owned(),
        }
    }

    /// Whether it speaks of this object, as it is now.
    fn is_of(&self, object: &Object) -> bool {
        self.generation == generation(object)
            && (self.uid.is_empty() || self.uid == object.meta("uid"))
    }

    /// When it was queued.
    pub fn at(&self) -> Duration {
        Duration::try_from_secs_f64(self.at).unwrap_or_default()
    }
}

/// The artifact that a source has.
pub struct Artifact {
    revision: String,
    /// Since when.
    since: Duration,
}

/// The artifacts of the hub's sources.
pub type Artifacts = BTreeMap<ObjectRef, Artifact>;

/// What each source of the hub has.
pub fn artifacts(objects: &[(ObjectRef, Object)]) -> Artifacts {
    let artifact = |object: &Object| {
        let text = |field: &str| {
            object
                .pointer(&format!("/status/artifact/{field}"))?
                .as_str()
        };
        Some(Artifact {
            revision: text("revision")?.to_owned(),
            since: text("lastUpdateTime")
                .and_then(parse_rfc3339)
                .unwrap_or_default(),
        })
    };
    objects
        .iter()
        .filter_map(|(id, object)| Some((id.clone(), artifact(object)?)))
        .collect()
}

/// Whether an object needs a look, and why.
pub fn due(
    id: &ObjectRef,
    object: &Object,
    known: Option<&Entry>,
    artifacts: &Artifacts,
    now: Duration,
) -> Option<Cause> {
    let Some(known) = known else {
        return (!is_just_applied(object, now)).then_some(Cause::Timer);
    };
    let is_past = |since: Duration, after: Duration| now.saturating_sub(since) >= after;
    let is_due = |after: Duration| is_past(known.at(), after).then_some(Cause::Timer);
    let is_new = !known.is_of(object) && !is_observed(object);
    if !object.meta("deletionTimestamp").is_empty() {
        let finalizers = object
            .pointer("/metadata/finalizers")
            .and_then(Value::as_array);
        let ours =
            finalizers.is_some_and(|list| list.iter().any(|one| one.as_str() == Some(FINALIZER)));
        // The deletion itself makes a new generation.
        return match ours {
            true if is_new => Some(Cause::Changed),
            true => is_due(LOST),
            false => None,
        };
    }
    if is_new {
        return Some(Cause::Changed);
    }
    if is_suspended(object) {
        return None;
    }
    if id.kind == FluxKind::HelmRepository && HelmRepository::is_static(object) {
        return None;
    }
    let asked = object.annotation(REQUESTED_AT).unwrap_or_default();
    if !is_request_handled(object) {
        // The object has not changed since: only the message can be lost.
        let is_lost = || is_past(known.at(), LOST);
        return (asked != known.requested || is_lost()).then_some(Cause::Changed);
    }
    if !id.kind.is_served() {
        // Its status says so once for each generation.
        return match ready(object) {
            None => is_due(LOST),
            Some(_) => None,
        };
    }
    if let Some(artifact) = behind(id, object, artifacts) {
        // The source has queued it when it got the artifact.
        let queued = known.at().max(artifact.since);
        return is_past(queued, LOST).then_some(Cause::Source);
    }
    is_due(period(id, object))
}

/// How long an object that has nothing new to look at is left alone.
fn period(id: &ObjectRef, object: &Object) -> Duration {
    let duration = |field: &str| {
        let spec = object.as_map().get("spec");
        let text = spec.and_then(|spec| spec.get(field)?.as_str())?;
        parse_duration(text).ok()
    };
    let fallback = match id.kind {
        FluxKind::HelmRepository => HELM_REPOSITORY,
        _ => FALLBACK,
    };
    let interval = || duration("interval").unwrap_or(fallback);
    match ready(object) {
        Some(ready) if ready.status == ConditionStatus::True => interval(),
        Some(ready) if waits_for_others(&ready.reason) => LOST,
        Some(ready) if ready.status == ConditionStatus::False => {
            duration("retryInterval").unwrap_or_else(interval)
        }
        // In progress, or never looked at: its message may be lost.
        _ => LOST,
    }
}

/// Whether the record of an object's schedule may say something else than [`due`] does.
pub fn depends_on_record(object: &Object, cause: Option<&Cause>) -> bool {
    match cause {
        Some(Cause::Timer) => true,
        Some(_) => false,
        // What waits or is tried again has a message. What is stalled has none.
        None => {
            let conditions = Conditions::of(object);
            let is_open = |ready: &Condition| ready.status != ConditionStatus::True;
            conditions.ready().is_some_and(is_open)
                && !conditions.is_true(STALLED)
                && !is_suspended(object)
        }
    }
}

/// The same as [`due`] said, with the record of the object's schedule.
pub fn settled(
    cause: Option<Cause>,
    object: &Object,
    known: Option<&Entry>,
    record: &Record,
    now: Duration,
) -> Option<Cause> {
    match cause {
        Some(Cause::Timer) if record.is_busy(now) => None,
        // A step has looked at it before the timer saw it.
        Some(Cause::Timer) if known.is_none() && is_observed(object) => None,
        None if record.is_lost(now) => Some(Cause::Timer),
        other => other,
    }
}

/// Whether a look at an object that is due may turn out to be for nothing: a rehearsal tells.
pub fn may_be_noop(id: &ObjectRef, object: &Object) -> bool {
    id.kind == FluxKind::HelmRelease
        && object.meta("deletionTimestamp").is_empty()
        && is_ready(object)
}

/// Whether an apply has made it a moment ago: then it was queued by that.
fn is_just_applied(object: &Object, now: Duration) -> bool {
    let owners = [live::OWNER_NAME, helmrelease::OWNER_NAME];
    let created = parse_rfc3339(object.meta("creationTimestamp"));
    owners.iter().any(|owner| object.label(owner).is_some())
        && created.is_some_and(|created| now.saturating_sub(created) < LOST)
}

fn is_suspended(object: &Object) -> bool {
    object.pointer("/spec/suspend") == Some(&Value::Bool(true))
}

/// Whether a step has looked at the object as it is now.
fn is_observed(object: &Object) -> bool {
    let seen = ready(object).is_some_and(|ready| ready.observed_generation == generation(object));
    seen && is_request_handled(object)
}

fn is_request_handled(object: &Object) -> bool {
    let handled = object
        .pointer("/status/lastHandledReconcileAt")
        .and_then(Value::as_str);
    object.annotation(REQUESTED_AT).unwrap_or_default() == handled.unwrap_or_default()
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

/// The `Ready` condition.
fn ready(object: &Object) -> Option<Condition> {
    Conditions::of(object).ready().cloned()
}

fn is_ready(object: &Object) -> bool {
    Conditions::of(object).is_true(READY)
}

/// The artifact of the object's source, when the object has not tried that revision.
fn behind<'a>(id: &ObjectRef, object: &Object, artifacts: &'a Artifacts) -> Option<&'a Artifact> {
    let artifact = artifacts.get(&consumers::source_of(object.clone())?)?;
    let revision = &artifact.revision;
    let text = |pointer: &str| {
        let text = object.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default()
    };
    let is_behind = match id.kind {
        FluxKind::Kustomization => revision != text("/status/lastAttemptedRevision"),
        FluxKind::HelmChart => revision != text("/status/observedSourceArtifactRevision"),
        // A chart's revision is its version, that of an OCI artifact ends with its digest.
        FluxKind::HelmRelease => match text("/status/lastAttemptedRevisionDigest") {
            "" => revision != text("/status/lastAttemptedRevision"),
            digest => !revision.ends_with(digest),
        },
        _ => false,
    };
    is_behind.then_some(artifact)
}
