//! The shared part of all kinds of sources: status, events, and the requests for the objects that
//! follow a source.

use crate::consumers;
use driftless_flux::{
    ArtifactStatus, ConditionStatus, READY, RECONCILING, SOURCE_CONTROLLER, STALLED, Source,
    SourceSpec, SourceStatus, reason, rfc3339,
};
use driftless_kernel::context::{Context, LONGEST_RETRY, Outcome};
use driftless_kernel::driver::{Memory, Reconciler, Report, StepEnd};
use driftless_kernel::failure::{Class, Failure};
use driftless_kernel::ports::PushedCommit;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;
use tracing::Instrument as _;

/// A kind of source.
#[expect(
    async_fn_in_trait,
    reason = "`Sources` is generic over the kind, so its callers see whether the futures are Send"
)]
pub trait SourceReconciler {
    /// The type of the object's `spec`.
    type Spec: SourceSpec + Clone + Send + Sync;
    /// The state that is kept between steps. All of it may be lost.
    type Memory: Clone + Default + PartialEq + Serialize + DeserializeOwned + Send + Sync;

    /// Fetches the source, stores the artifact, and notes it in `status`, which is the object's
    /// current status at first. The status is also written after a failure.
    async fn reconcile(
        context: &Context<'_>,
        source: &Source<Self::Spec>,
        status: &mut SourceStatus,
        memory: &mut Self::Memory,
    ) -> Result<SourceReport, Failure>;

    /// Returns the condition that a failure sets in addition to `Ready`, if there is one.
    fn failed_condition(failure: &Failure) -> Option<&'static str> {
        match failure.reason {
            reason::STORAGE_FAILED => Some("StorageOperationFailed"),
            reason if is_verification(reason) => None,
            _ => Some("FetchFailed"),
        }
    }
}

/// The memory of a source.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceState<M> {
    /// The digest of the artifact that was stored last. The status may have another one: users can
    /// write it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    stored: String,
    /// The artifact that was stored last. A record of an earlier version does not have it.
    #[serde(
        rename = "storedArtifact",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    artifact: Option<ArtifactStatus>,
    /// The commit of that artifact, as a delivery described it.
    #[serde(
        rename = "storedCommit",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    commit: Option<PushedCommit>,
    #[serde(flatten)]
    own: M,
}

/// The reconciler of a kind of source.
pub struct Sources<K>(PhantomData<K>);

impl<K: SourceReconciler> Reconciler for Sources<K> {
    type Object = Source<K::Spec>;
    type Memory = SourceState<K::Memory>;

    const CONTROLLER: &'static str = SOURCE_CONTROLLER;
    const INVALID: &'static str = reason::URL_INVALID;
    // Flux's controller must delete files; an artifact in the bucket expires without a finalizer.
    const ADDS_FINALIZER: bool = false;
    const NOTIFIES_FAILURES: bool = true;

    async fn reconcile(
        context: &Context<'_>,
        source: Source<K::Spec>,
        memory: &mut Memory<SourceState<K::Memory>>,
    ) -> Report<Source<K::Spec>> {
        let mut status = source.status.clone();
        if !status.conditions.is_true(VERIFIED) {
            // A failed verification is done again; a successful one is about the current artifact.
            status.conditions.remove(VERIFIED);
        }
        begin(context, &source, &mut status);
        // An artifact in the status that this source did not store is ignored, and the source is
        // fetched again.
        let mut seen = source.clone();
        seen.status
            .artifact
            .take_if(|artifact| artifact.digest != memory.stored);
        status.artifact.clone_from(&seen.status.artifact);
        let found = match source.interval() {
            Ok(_) => {
                let fetched = K::reconcile(context, &seen, &mut status, &mut memory.own);
                Box::pin(fetched)
                    .instrument(tracing::trace_span!("fetch"))
                    .await
            }
            Err(error) => Err(Failure::terminal(reason::URL_INVALID, &error).caused_by(error)),
        };
        let found = match found {
            Ok(found) => store_origin(context, &status, memory).await.map(|()| found),
            Err(failure) => Err(failure),
        };
        if found.is_err() && status.artifact.is_none() {
            status.artifact.clone_from(&source.status.artifact);
        }
        let end = match found {
            Ok(found) => succeeded(context, &source, &mut status, found).await,
            Err(failure) => {
                let condition = K::failed_condition(&failure);
                failed(context, &source, &mut status, failure, condition)
            }
        };
        Report {
            object: source,
            status,
            changed: Vec::new(),
            end,
        }
    }

    async fn finalize(
        context: &Context<'_>,
        source: Source<K::Spec>,
        _: &mut Memory<SourceState<K::Memory>>,
    ) -> Report<Source<K::Spec>> {
        let end = match super::forget(context).await {
            Ok(()) => StepEnd::Released,
            Err(failure) => StepEnd::Failed(failure, LONGEST_RETRY),
        };
        Report {
            status: source.status.clone(),
            object: source,
            changed: Vec::new(),
            end,
        }
    }
}

/// Stores the artifact in the record, before the status names it: objects that follow the source
/// read it there.
async fn store_origin<M: Serialize>(
    context: &Context<'_>,
    status: &SourceStatus,
    memory: &mut Memory<SourceState<M>>,
) -> Result<(), Failure> {
    let digest = status.artifact.as_ref().map(|artifact| &artifact.digest);
    let digest = digest.cloned().unwrap_or_default();
    if memory.stored == digest && memory.artifact == status.artifact {
        return Ok(());
    }
    memory.stored = digest;
    memory.artifact.clone_from(&status.artifact);
    let delivered = context.events.changes.commit().or(memory.commit.take());
    let revision = memory.artifact.as_ref().map(|artifact| &*artifact.revision);
    let is_of = |commit: &PushedCommit| commit.is_of(revision.unwrap_or_default());
    memory.commit = delivered.filter(is_of);
    memory.checkpoint(context.ports).await
}

/// The reason and messages of a successful step.
pub struct SourceReport {
    /// The reason of `Ready`.
    pub reason: &'static str,
    /// The message of `Ready`.
    pub message: String,
    /// Reason and message of the event about a new artifact, or about one that is available again.
    pub news: (&'static str, String),
}

impl SourceReport {
    /// Creates a result whose event has the message of `Ready`.
    pub fn new(reason: &'static str, message: String) -> Self {
        Self {
            reason,
            news: (reason::NEW_ARTIFACT, message.clone()),
            message,
        }
    }
}

/// Conditions that only a failure leaves behind.
const FAILED: [&str; 4] = [
    "FetchFailed",
    "BuildFailed",
    "StorageOperationFailed",
    "IncludeUnavailable",
];
/// The condition that reports whether a trusted signature was found.
pub(super) const VERIFIED: &str = "SourceVerified";

/// Returns whether a failure with this reason is that of the verification of signatures, which is
/// in the condition [`VERIFIED`] and in no other.
pub(super) fn is_verification(reason: &str) -> bool {
    matches!(
        reason,
        reason::VERIFICATION_ERROR
            | reason::INVALID_VERIFICATION_MODE
            | reason::INVALID_GIT_OBJECT
            | reason::INVALID_TAG_SIGNATURE
            | reason::INVALID_COMMIT_SIGNATURE
    )
}

/// Sets the condition that a trusted signature was found.
pub(super) fn set_verified<S: SourceSpec>(
    context: &Context<'_>,
    source: &Source<S>,
    status: &mut SourceStatus,
    message: &str,
) {
    let now = rfc3339(context.ports.clock.now());
    let (reason, generation) = (reason::META_SUCCEEDED, source.generation());
    status.conditions.set(
        VERIFIED,
        ConditionStatus::True,
        reason,
        message,
        generation,
        &now,
    );
}

/// Sets `Reconciling` with the reason for the work, which stays if the step fails: no artifact yet,
/// a new generation, or the interval.
fn begin<S: SourceSpec>(context: &Context<'_>, source: &Source<S>, new: &mut SourceStatus) {
    new.conditions.remove(RECONCILING);
    let (observed, generation) = (new.observed_generation, source.generation());
    let message = if new.artifact.is_none() {
        "building artifact".to_owned()
    } else if observed != Some(generation) {
        let observed = observed.unwrap_or_default();
        format!("processing object: new generation {observed} -> {generation}")
    } else {
        "reconciliation in progress".to_owned()
    };
    set_reconciling(context, source, new, &message);
}

fn set_reconciling<S: SourceSpec>(
    context: &Context<'_>,
    source: &Source<S>,
    status: &mut SourceStatus,
    message: &str,
) {
    let now = rfc3339(context.ports.clock.now());
    let (reason, generation) = (reason::PROGRESSING_WITH_RETRY, source.generation());
    let conditions = &mut status.conditions;
    conditions.set(
        RECONCILING,
        ConditionStatus::True,
        reason,
        message,
        generation,
        &now,
    );
}

/// Sets the conditions for the artifact that is about to be made; they stay if that fails.
pub(super) fn set_building<S: SourceSpec>(
    context: &Context<'_>,
    source: &Source<S>,
    status: &mut SourceStatus,
    message: &str,
) {
    set_reconciling(
        context,
        source,
        status,
        &format!("building artifact: {message}"),
    );
    if status.artifact.is_some() {
        let now = rfc3339(context.ports.clock.now());
        let (kind, generation) = ("ArtifactOutdated", source.generation());
        let conditions = &mut status.conditions;
        conditions.set(
            kind,
            ConditionStatus::True,
            "NewRevision",
            message,
            generation,
            &now,
        );
    }
}

/// Sets `Ready`, and returns the outcome with its events and requests.
async fn succeeded<S: SourceSpec>(
    context: &Context<'_>,
    source: &Source<S>,
    new: &mut SourceStatus,
    found: SourceReport,
) -> StepEnd {
    let SourceReport {
        reason,
        message,
        news,
    } = found;
    let artifact = new.artifact.clone().unwrap_or_default();
    let (generation, now) = (source.generation(), rfc3339(context.ports.clock.now()));
    for gone in [RECONCILING, STALLED, "ArtifactOutdated"]
        .iter()
        .chain(&FAILED)
    {
        new.conditions.remove(gone);
    }
    for kind in [READY, "ArtifactInStorage"] {
        new.conditions.set(
            kind,
            ConditionStatus::True,
            reason,
            &message,
            generation,
            &now,
        );
    }
    new.observed_generation = Some(generation);

    let named = |artifact: &ArtifactStatus| (artifact.revision.clone(), artifact.digest.clone());
    let changed = source.status.artifact.as_ref().map(named) != Some(named(&artifact));
    // The same artifact was stored again: it was missing in the bucket, and objects that follow the
    // source may wait for it.
    let before = source.status.artifact.as_ref();
    let restored = before.is_some_and(|old| old.last_update_time != artifact.last_update_time);
    let old = &source.status.conditions;
    let recovered = FAILED.iter().any(|kind| old.is_true(kind));
    let mut outcome = Outcome {
        notifies: true,
        ..Outcome::done(message.as_str())
    };
    if changed || restored || !old.is_true(READY) {
        let requests = match before.filter(|_| changed && old.is_true(READY)) {
            Some(before) => consumers::of_change(context, before, &artifact).await,
            None => consumers::of(context).await,
        };
        match requests {
            Ok(requests) => outcome.enqueue = requests,
            Err(failure) => {
                // With the old status, the next step finds the change again.
                new.clone_from(&source.status);
                return StepEnd::Failed(failure, LONGEST_RETRY);
            }
        }
    }
    if changed || recovered {
        let (event_reason, text) = news;
        let event_reason = match (changed, event_reason) {
            (false, reason::NEW_ARTIFACT) => reason::META_SUCCEEDED,
            _ => event_reason,
        };
        let ArtifactStatus {
            revision, digest, ..
        } = &artifact;
        let metadata = [("revision", revision.as_str()), ("digest", digest.as_str())];
        context
            .events
            .record_annotated(false, event_reason, &text, &metadata);
    }
    StepEnd::Done(outcome)
}

/// Sets the conditions of a failure, and records its event. As in Flux, a generation is observed if
/// it succeeded or never can.
fn failed<S: SourceSpec>(
    context: &Context<'_>,
    source: &Source<S>,
    new: &mut SourceStatus,
    failure: Failure,
    condition: Option<&'static str>,
) -> StepEnd {
    let (generation, now) = (source.generation(), rfc3339(context.ports.clock.now()));
    let Failure {
        reason, message, ..
    } = &failure;
    let is_stalled = matches!(failure.class, Class::Terminal);
    let gone = match is_stalled {
        true => RECONCILING,
        false => STALLED,
    };
    for gone in FAILED.iter().chain([&gone]) {
        new.conditions.remove(gone);
    }
    if is_stalled {
        new.observed_generation = Some(generation);
    }
    let mut set = |kind, status, reason: &str, message: &str| {
        new.conditions
            .set(kind, status, reason, message, generation, &now);
    };
    // As in Flux, Ready has the reason of a failed verification, whatever was built.
    let is_unverified = *reason == reason::CHART_VERIFICATION || is_verification(reason);
    let ready_reason = match *reason {
        reason::CHART_VERIFICATION => reason::VERIFICATION_ERROR,
        reason => reason,
    };
    if is_unverified {
        set(VERIFIED, ConditionStatus::False, ready_reason, message);
    }
    set(READY, ConditionStatus::False, ready_reason, message);
    if let Some(condition) = condition {
        set(condition, ConditionStatus::True, reason, message);
    }
    if is_stalled {
        set(STALLED, ConditionStatus::True, reason, message);
    }
    let before = source.status.conditions.get(READY);
    if before.map(|ready| (&*ready.reason, &*ready.message)) != Some((ready_reason, message)) {
        match *reason {
            // As in Flux, waiting for a source is a detail.
            reason::NO_SOURCE_ARTIFACT => context.events.record_trace(reason, message),
            _ => context.events.record(true, reason, message, ""),
        }
    }
    // As in Flux, a failure is retried independently of the interval.
    StepEnd::Failed(failure, LONGEST_RETRY)
}
