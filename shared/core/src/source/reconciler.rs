//! What all kinds of sources share: the status of a source, its events, and the requests for those that follow it.

use crate::driver::{Memory, Reconciler, Report, StepEnd};
use crate::failure::{Class, Failure};
use crate::flux::{
    ArtifactStatus, ConditionStatus, READY, RECONCILING, SOURCE_CONTROLLER, STALLED, Source,
    SourceSpec, SourceStatus, reason, rfc3339,
};
use crate::kernel::{Context, LONGEST_RETRY, Outcome};
use crate::source::consumers;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

/// A kind of source.
pub(crate) trait SourceReconciler {
    /// Its `spec`.
    type Spec: SourceSpec + Clone + Send + Sync;
    /// What it remembers between steps. All of it may be lost.
    type Memory: Clone + Default + PartialEq + Serialize + DeserializeOwned + Send + Sync;

    /// Follows the source, stores what it has, and notes it in `status`, which is the source's own at first. What `status` says
    /// after a failure is written, too.
    async fn reconcile(
        context: &Context<'_>,
        source: &Source<Self::Spec>,
        status: &mut SourceStatus,
        memory: &mut Self::Memory,
    ) -> Result<Found, Failure>;

    /// The condition that a failure sets beside `Ready`, if there is one.
    fn failed_condition(failure: &Failure) -> Option<&'static str> {
        match failure.reason {
            reason::STORAGE_FAILED => Some("StorageOperationFailed"),
            reason::VERIFICATION_ERROR => None,
            _ => Some("FetchFailed"),
        }
    }
}

/// What is remembered of a source.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SourceState<M> {
    /// The digest of the artifact that its steps stored last. The status may say otherwise: others may write it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    stored: String,
    #[serde(flatten)]
    own: M,
}

/// The reconciler of a kind of source.
pub(crate) struct Sources<K>(PhantomData<K>);

impl<K: SourceReconciler> Reconciler for Sources<K> {
    type Object = Source<K::Spec>;
    type Memory = SourceState<K::Memory>;

    const CONTROLLER: &'static str = SOURCE_CONTROLLER;
    const INVALID: &'static str = reason::URL_INVALID;
    // Flux's controller has files to delete; here an artifact expires by itself.
    const ADDS_FINALIZER: bool = false;
    const NOTIFIES_FAILURES: bool = true;

    async fn reconcile(
        context: &Context<'_>,
        source: Source<K::Spec>,
        memory: &mut Memory<SourceState<K::Memory>>,
    ) -> Report<Source<K::Spec>> {
        let mut status = source.status.clone();
        if !status.conditions.is_true(VERIFIED) {
            // What failed is looked at anew; what succeeded speaks of the artifact that is there.
            status.conditions.remove(VERIFIED);
        }
        begin(context, &source, &mut status);
        // What the steps of this source did not store is not taken for its artifact: it is fetched anew.
        let mut seen = source.clone();
        seen.status
            .artifact
            .take_if(|artifact| artifact.digest != memory.stored);
        status.artifact.clone_from(&seen.status.artifact);
        let found = match source.interval() {
            Ok(_) => K::reconcile(context, &seen, &mut status, &mut memory.own).await,
            Err(what) => Err(Failure::terminal(reason::URL_INVALID, what)),
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

/// Notes the artifact as this source's own, before the status names it: those who follow the source look at once.
async fn store_origin<M: Serialize>(
    context: &Context<'_>,
    status: &SourceStatus,
    memory: &mut Memory<SourceState<M>>,
) -> Result<(), Failure> {
    let digest = status.artifact.as_ref().map(|artifact| &artifact.digest);
    let digest = digest.cloned().unwrap_or_default();
    if memory.stored == digest {
        return Ok(());
    }
    memory.stored = digest;
    memory.checkpoint(context.ports).await
}

/// What is told of a look that succeeded.
pub(crate) struct Found {
    /// The reason of `Ready`.
    pub reason: &'static str,
    /// The message of `Ready`.
    pub message: String,
    /// Reason and message of the event about a new artifact, or about one that can be had again.
    pub news: (&'static str, String),
}

impl Found {
    /// What the event says is what `Ready` says.
    pub fn new(reason: &'static str, message: String) -> Self {
        Self {
            reason,
            news: (reason::NEW_ARTIFACT, message.clone()),
            message,
        }
    }
}

/// Conditions that only a failure leaves behind.
const FAILED: [&str; 3] = ["FetchFailed", "BuildFailed", "StorageOperationFailed"];
/// Whether a trusted signature was found.
pub(super) const VERIFIED: &str = "SourceVerified";

/// Notes that a trusted signature was found.
pub(super) fn tell_verified<S: SourceSpec>(
    context: &Context<'_>,
    source: &Source<S>,
    status: &mut SourceStatus,
    what: &str,
) {
    let now = rfc3339(context.ports.clock.now());
    let (reason, generation) = (reason::META_SUCCEEDED, source.generation());
    status.conditions.set(
        VERIFIED,
        ConditionStatus::True,
        reason,
        what,
        generation,
        &now,
    );
}

/// Notes what it is at, which stays there when it fails: an artifact that was never made, a new generation, or the next look.
fn begin<S: SourceSpec>(context: &Context<'_>, source: &Source<S>, new: &mut SourceStatus) {
    new.conditions.remove(RECONCILING);
    let (observed, generation) = (new.observed_generation, source.generation());
    let what = if new.artifact.is_none() {
        "building artifact".to_owned()
    } else if observed != Some(generation) {
        let observed = observed.unwrap_or_default();
        format!("processing object: new generation {observed} -> {generation}")
    } else {
        "reconciliation in progress".to_owned()
    };
    tell_reconciling(context, source, new, &what);
}

fn tell_reconciling<S: SourceSpec>(
    context: &Context<'_>,
    source: &Source<S>,
    status: &mut SourceStatus,
    what: &str,
) {
    let now = rfc3339(context.ports.clock.now());
    let (reason, generation) = (reason::PROGRESSING_WITH_RETRY, source.generation());
    let conditions = &mut status.conditions;
    conditions.set(
        RECONCILING,
        ConditionStatus::True,
        reason,
        what,
        generation,
        &now,
    );
}

/// Notes which artifact it is about to make: what stands there when that fails.
pub(super) fn tell_building<S: SourceSpec>(
    context: &Context<'_>,
    source: &Source<S>,
    status: &mut SourceStatus,
    what: &str,
) {
    tell_reconciling(
        context,
        source,
        status,
        &format!("building artifact: {what}"),
    );
    if status.artifact.is_some() {
        let now = rfc3339(context.ports.clock.now());
        let (kind, generation) = ("ArtifactOutdated", source.generation());
        let conditions = &mut status.conditions;
        conditions.set(
            kind,
            ConditionStatus::True,
            "NewRevision",
            what,
            generation,
            &now,
        );
    }
}

/// Ready, with the events and requests that follow from it.
async fn succeeded<S: SourceSpec>(
    context: &Context<'_>,
    source: &Source<S>,
    new: &mut SourceStatus,
    found: Found,
) -> StepEnd {
    let Found {
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
    // The same artifact again: it was not in the bucket, and those who follow the source may wait for it.
    let before = source.status.artifact.as_ref();
    let restored = before.is_some_and(|old| old.last_update_time != artifact.last_update_time);
    let old = &source.status.conditions;
    let recovered = FAILED.iter().any(|kind| old.is_true(kind));
    let mut outcome = Outcome {
        notifies: true,
        ..Outcome::done(message.as_str())
    };
    if changed || restored || !old.is_true(READY) {
        match consumers::of(context).await {
            Ok(requests) => outcome.enqueue = requests,
            Err(failure) => {
                // The next try finds the change again.
                new.clone_from(&source.status);
                return StepEnd::Failed(failure, LONGEST_RETRY);
            }
        }
    }
    if changed || recovered {
        let (why, text) = news;
        let why = match (changed, why) {
            (false, reason::NEW_ARTIFACT) => reason::META_SUCCEEDED,
            _ => why,
        };
        let ArtifactStatus {
            revision, digest, ..
        } = &artifact;
        let about = [("revision", revision.as_str()), ("digest", digest.as_str())];
        context.events.record_annotated(false, why, &text, &about);
    }
    StepEnd::Done(outcome)
}

/// Not ready, with the event that says why. As in Flux, a generation is observed when it succeeded or can never.
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
    // As in Flux, a failed verification is what Ready tells, whatever was built for it.
    let is_unverified = matches!(
        *reason,
        reason::VERIFICATION_ERROR | reason::CHART_VERIFICATION
    );
    let ready_reason = match is_unverified {
        true => reason::VERIFICATION_ERROR,
        false => *reason,
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
        // That a source is not ready yet is not a failure.
        let is_warning = *reason != reason::NO_SOURCE_ARTIFACT;
        context.events.record(is_warning, reason, message, "");
    }
    // As in Flux, the interval says nothing of how often a failure is tried again.
    StepEnd::Failed(failure, LONGEST_RETRY)
}
