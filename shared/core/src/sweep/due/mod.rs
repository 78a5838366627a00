//! Decides which objects are due, from the object, its last entry in the schedule, and its record.
//! Pure.

#[cfg(test)]
mod tests;

use crate::kustomization::live_objects;
use driftless_flux::generation;
use driftless_flux::{
    ArtifactGenerator, ArtifactStatus, Condition, ConditionStatus, Conditions, FluxKind,
    HelmRepository, ObjectRef, READY, REQUESTED_AT, STALLED, generator_interval,
    is_request_handled, is_suspended, parse_duration, parse_rfc3339, reason, sources_digest,
};
use driftless_helmrelease::conditions::reasons;
use driftless_kernel::ports::Cause;
use driftless_kernel::schedule::Record;
use driftless_manifest::Object;
use driftless_plans::inventory::PRUNE_APPROVED;
use driftless_source::consumers;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::time::Duration;

/// The time after which the timer treats a queued message as lost.
const LOST_AFTER: Duration = Duration::from_secs(50);
/// The interval of an object whose own interval cannot be read: its step reports that in the
/// status.
const FALLBACK: Duration = Duration::from_secs(600);
/// The time after which a step of a ready object runs even if a rehearsal would show that it does
/// nothing: what only a full step can see is found within a day. Up to an eighth of it is
/// subtracted, so that the steps of a fleet that was created at once do not run at once.
const FULL_STEP: Duration = Duration::from_secs(24 * 60 * 60);
/// The interval of a HelmRepository without one: the default of its CRD.
const HELM_REPOSITORY: Duration = Duration::from_secs(60);

/// The time at which the timer queued an object, and the state of the object then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The time in seconds since 1970.
    at: f64,
    /// The time of the last message, in seconds since 1970. It is before `at` if rehearsals have
    /// shown since that no step is needed.
    #[serde(default)]
    queued: f64,
    /// The object's generation then.
    generation: i64,
    /// The object's `requestedAt` annotation then.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    requested: String,
    /// The object's uid.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    uid: String,
}

impl Entry {
    /// Returns an entry for an object that is queued now.
    pub fn queued(object: &Object, now: Duration) -> Self {
        let requested = object
            .annotation(REQUESTED_AT)
            .unwrap_or_default()
            .to_owned();
        Self {
            at: now.as_secs_f64(),
            queued: now.as_secs_f64(),
            generation: generation(object),
            requested,
            uid: object.meta("uid").to_owned(),
        }
    }

    /// Returns the entry of an object whose rehearsal shows now that no step is needed.
    #[must_use]
    pub fn rehearsed(self, now: Duration) -> Self {
        Self {
            at: now.as_secs_f64(),
            ..self
        }
    }

    /// Returns whether a full step of a ready object is due.
    fn is_full_step_due(&self, now: Duration) -> bool {
        let byte = Sha256::digest(&self.uid).first().copied();
        let early = FULL_STEP / 8 * u32::from(byte.unwrap_or_default()) / 255;
        now.as_secs_f64() - self.queued >= (FULL_STEP - early).as_secs_f64()
    }

    /// Returns whether the entry is for this object and its current generation.
    fn is_of(&self, object: &Object) -> bool {
        self.generation == generation(object)
            && (self.uid.is_empty() || self.uid == object.meta("uid"))
    }

    /// Returns the time at which the object was queued, since 1970.
    pub fn at(&self) -> Duration {
        Duration::try_from_secs_f64(self.at).unwrap_or_default()
    }
}

/// The artifact of a source.
pub struct Artifact {
    revision: String,
    digest: String,
    url: String,
    /// The time of its last update, since 1970.
    since: Duration,
    /// True if another controller made it.
    is_external: bool,
}

/// The artifacts of the hub's sources.
pub type Artifacts = BTreeMap<ObjectRef, Artifact>;

/// Returns the artifact of each source of the hub.
pub fn artifacts(objects: &[(ObjectRef, Object)]) -> Artifacts {
    let artifact = |id: &ObjectRef, object: &Object| {
        let text = |field: &str| {
            object
                .pointer(&format!("/status/artifact/{field}"))?
                .as_str()
        };
        Some(Artifact {
            revision: text("revision")?.to_owned(),
            digest: text("digest").unwrap_or_default().to_owned(),
            url: text("url").unwrap_or_default().to_owned(),
            since: text("lastUpdateTime")
                .and_then(parse_rfc3339)
                .unwrap_or_default(),
            is_external: id.kind == FluxKind::ExternalArtifact,
        })
    };
    objects
        .iter()
        .filter_map(|(id, object)| Some((id.clone(), artifact(id, object)?)))
        .collect()
}

/// Returns the cause for which an object is due, or `None`.
pub fn due(
    id: &ObjectRef,
    object: &Object,
    known: Option<&Entry>,
    artifacts: &Artifacts,
    now: Duration,
) -> Option<Cause> {
    if id.kind == FluxKind::ExternalArtifact {
        // Its generator or another controller writes its status; the objects that follow it notice
        // the revision.
        return None;
    }
    let Some(known) = known else {
        // Its message, if there is one, may be that of a retry after hours.
        let cause = match has_observed_earlier(object) {
            true => Cause::Changed,
            false => Cause::Timer,
        };
        return (!is_just_applied(object, now)).then_some(cause);
    };
    let is_past = |since: Duration, after: Duration| now.saturating_sub(since) >= after;
    let is_due = |after: Duration| is_past(known.at(), after).then_some(Cause::Timer);
    let is_new = !known.is_of(object) && !is_observed(object);
    if !object.meta("deletionTimestamp").is_empty() {
        // The deletion itself makes a new generation.
        return match is_ours(object, id.kind) {
            true if is_new => Some(Cause::Changed),
            true => is_due(LOST_AFTER),
            false => None,
        };
    }
    if is_new {
        return Some(Cause::Changed);
    }
    if is_suspended(object) {
        return None;
    }
    if HelmRepository::is_static(object) {
        return None;
    }
    let requested = object.annotation(REQUESTED_AT).unwrap_or_default();
    if !is_request_handled(object) {
        // The object has not changed since, so only its message can be lost.
        let is_lost = || is_past(known.at(), LOST_AFTER);
        return (requested != known.requested || is_lost()).then_some(Cause::Changed);
    }
    if has_observed_earlier(object) {
        // The message was lost, or the step had read the object before the change.
        return is_past(known.at(), LOST_AFTER).then_some(Cause::Changed);
    }
    if id.kind.is_static() {
        // The step writes the status once for each generation. An earlier version refused the kind.
        return match ready(object) {
            Some(ready) if ready.reason != reason::UNSUPPORTED => None,
            _ => is_due(LOST_AFTER),
        };
    }
    if is_prune_approved(object) {
        return Some(Cause::Changed);
    }
    if id.kind == FluxKind::ArtifactGenerator {
        let since = behind_generator(object, artifacts);
        // A build that failed is retried by its own message until a source changes again.
        let since = since.filter(|since| is_ready(object) || *since > known.at());
        if let Some(since) = since {
            return is_past(known.at().max(since), LOST_AFTER).then_some(Cause::Source);
        }
        return is_due(period(id, object));
    }
    if let Some(artifact) = behind(id, object, artifacts) {
        // No step of a source queued the object: another controller wrote the artifact.
        if artifact.is_external && artifact.since.min(now) > known.at() {
            return Some(Cause::Source);
        }
        // The source queued the object when it got the artifact.
        let queued = known.at().max(artifact.since);
        return is_past(queued, LOST_AFTER).then_some(Cause::Source);
    }
    is_due(period(id, object))
}

/// Returns the time after which an object is due if nothing has changed.
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
    let interval = || match id.kind {
        FluxKind::ArtifactGenerator => generator_interval(object),
        _ => duration("interval").unwrap_or(fallback),
    };
    match ready(object) {
        Some(ready) if ready.status == ConditionStatus::True => interval(),
        Some(ready) if waits_for_others(&ready.reason) => LOST_AFTER,
        Some(ready) if ready.status == ConditionStatus::False => {
            duration("retryInterval").unwrap_or_else(interval)
        }
        // In progress, or never reconciled: its message may be lost.
        _ => LOST_AFTER,
    }
}

/// Returns whether the record of an object's schedule may change the result of [`due`].
pub fn depends_on_record(object: &Object, cause: Option<&Cause>) -> bool {
    match cause {
        Some(Cause::Timer | Cause::Source) => true,
        Some(_) => false,
        // An object that waits or is retried has a message; a stalled one has none.
        None => {
            let conditions = Conditions::of(object);
            let is_open = |ready: &Condition| ready.status != ConditionStatus::True;
            conditions.ready().is_some_and(is_open)
                && !conditions.is_true(STALLED)
                && !is_suspended(object)
        }
    }
}

/// Corrects the result of [`due`] by the record of the object's schedule.
pub fn settled(
    cause: Option<Cause>,
    object: &Object,
    known: Option<&Entry>,
    record: &Record,
    now: Duration,
) -> Option<Cause> {
    match cause {
        Some(Cause::Timer) if record.is_busy(now) => None,
        // The sweep queues it when its cluster answers again.
        Some(Cause::Timer) if record.waits_for_cluster(now) => None,
        // Its steps did not end, so its status cannot be at the revision of the source.
        Some(Cause::Source) if record.is_isolated() && record.is_busy(now) => None,
        // A release without a cluster, such as one that is being provisioned, has not tried any
        // revision; its own retry takes the newest.
        Some(Cause::Source) if has_no_cluster(object) && record.is_busy(now) => None,
        // A step reconciled the object before the timer saw it.
        Some(Cause::Timer) if known.is_none() && is_observed(object) => None,
        None if record.is_lost(now) => Some(Cause::Timer),
        other => other,
    }
}

/// Returns whether the step of an object whose interval is over may do nothing, which a rehearsal
/// decides.
pub fn may_be_noop(object: &Object, known: Option<&Entry>, now: Duration) -> bool {
    let is_full_step_due = |known: &Entry| known.is_full_step_due(now);
    known.is_some_and(|known| !is_full_step_due(known))
        && object.meta("deletionTimestamp").is_empty()
        && is_ready(object)
        && is_observed(object)
}

/// Returns whether the object is a chart that was made of the artifact which its source has now: a
/// step would make the same.
pub fn is_chart_of_artifact(id: &ObjectRef, object: &Object, artifacts: &Artifacts) -> bool {
    let source = || consumers::source_of(object.clone());
    id.kind == FluxKind::HelmChart
        && source().is_some_and(|source| artifacts.contains_key(&source))
        && behind(id, object, artifacts).is_none()
}

/// Returns whether an apply has just created the object, and so has queued it.
fn is_just_applied(object: &Object, now: Duration) -> bool {
    let owners = [live_objects::OWNER_NAME, driftless_helmrelease::OWNER_NAME];
    let created = parse_rfc3339(object.meta("creationTimestamp"));
    owners.iter().any(|owner| object.label(owner).is_some())
        && created.is_some_and(|created| now.saturating_sub(created) < LOST_AFTER)
}

/// Returns whether a deleted object waits for the finalizer of its kind.
pub fn is_ours(object: &Object, kind: FluxKind) -> bool {
    let finalizers = object
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array);
    let ours = Some(kind.finalizer());
    finalizers.is_some_and(|list| list.iter().any(|one| one.as_str() == ours))
}

/// Returns whether a step has reconciled the current state of the object.
pub fn is_observed(object: &Object) -> bool {
    let seen = ready(object).is_some_and(|ready| ready.observed_generation == generation(object));
    seen && is_request_handled(object)
}

/// Returns whether the last step has reconciled an earlier generation of the object.
fn has_observed_earlier(object: &Object) -> bool {
    let seen = ready(object).map(|ready| ready.observed_generation);
    seen.is_some_and(|seen| seen > 0 && seen < generation(object))
}

/// Returns whether a user has approved the prune that holds the revision of the last step: the next
/// step deletes the objects.
pub fn is_prune_approved(object: &Object) -> bool {
    let attempted = object.pointer("/status/lastAttemptedRevision");
    let approved = object.annotation(PRUNE_APPROVED);
    ready(object).is_some_and(|ready| ready.reason == reason::PRUNE_HELD)
        && approved.is_some()
        && approved == attempted.and_then(Value::as_str)
}

/// Returns whether a reason means that another object must appear or become ready first.
fn waits_for_others(reason: &str) -> bool {
    [
        reason::DEPENDENCY_NOT_READY,
        reason::ARTIFACT_FAILED,
        reason::SOURCE_FETCH_FAILED,
        reason::SOURCE_UNAVAILABLE,
        reason::NO_SOURCE_ARTIFACT,
        reasons::SOURCE_NOT_READY,
        reasons::VALUES_ERROR,
        reasons::REST_CLIENT_ERROR,
    ]
    .contains(&reason)
}

/// Returns whether the last step of a release found no access to its cluster.
fn has_no_cluster(object: &Object) -> bool {
    ready(object).is_some_and(|ready| ready.reason == reasons::REST_CLIENT_ERROR)
}

/// Returns the `Ready` condition.
fn ready(object: &Object) -> Option<Condition> {
    Conditions::of(object).ready().cloned()
}

fn is_ready(object: &Object) -> bool {
    Conditions::of(object).is_true(READY)
}

/// Returns the time of the newest artifact of a generator's sources, if the generator has made its
/// artifacts from others; `None` if a source has no artifact.
fn behind_generator(object: &Object, artifacts: &Artifacts) -> Option<Duration> {
    let generator = ArtifactGenerator::from_object(object.clone()).ok()?;
    let sources = generator.sources().ok()?;
    let (mut found, mut newest) = (Vec::new(), Duration::ZERO);
    for (alias, id) in &sources {
        let artifact = artifacts.get(id)?;
        newest = newest.max(artifact.since);
        let status = ArtifactStatus {
            revision: artifact.revision.clone(),
            digest: artifact.digest.clone(),
            url: artifact.url.clone(),
            ..ArtifactStatus::default()
        };
        found.push((*alias, status));
    }
    let digest = sources_digest(found.iter().map(|(alias, status)| (*alias, status)));
    (digest != generator.status.observed_sources_digest).then_some(newest)
}

/// Returns the artifact of the object's source, if the object has not tried that revision; of a
/// GitRepository an artifact that it includes.
fn behind<'a>(id: &ObjectRef, object: &Object, artifacts: &'a Artifacts) -> Option<&'a Artifact> {
    if id.kind == FluxKind::GitRepository {
        let included = consumers::sources_of(object.clone());
        let is_new = |(at, artifact): &(usize, &Artifact)| {
            let path = format!("/status/includedArtifacts/{at}/revision");
            object.pointer(&path).and_then(Value::as_str) != Some(artifact.revision.as_str())
        };
        let found = included.iter().map(|one| artifacts.get(one)).enumerate();
        let found = found.filter_map(|(at, artifact)| Some((at, artifact?)));
        return found.filter(is_new).map(|(_, artifact)| artifact).next();
    }
    let source = consumers::source_of(object.clone())?;
    let artifact = artifacts.get(&source)?;
    let revision = &artifact.revision;
    let text = |pointer: &str| {
        let text = object.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default()
    };
    let is_behind = match id.kind {
        FluxKind::Kustomization => revision != text("/status/lastAttemptedRevision"),
        FluxKind::HelmChart => revision != text("/status/observedSourceArtifactRevision"),
        // A chart's revision is its version; the revision of an OCI artifact ends with its digest.
        // Without a digest it is any text, which the status of the release does not have.
        FluxKind::HelmRelease
            if source.kind == FluxKind::ExternalArtifact && !revision.contains(':') =>
        {
            false
        }
        FluxKind::HelmRelease => match text("/status/lastAttemptedRevisionDigest") {
            "" => revision != text("/status/lastAttemptedRevision"),
            digest => !revision.ends_with(digest),
        },
        _ => false,
    };
    is_behind.then_some(artifact)
}
