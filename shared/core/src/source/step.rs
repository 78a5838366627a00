//! What the steps of all sources share: look, remember, write the status, wake whoever follows.

use crate::failure::{Class, Failure};
use crate::flux::{
    ArtifactStatus, REQUESTED_AT, SOURCE_CONTROLLER, Source, SourceSpec, SourceStatus, reason,
    rfc3339,
};
use crate::kernel::status;
use crate::kernel::{Context, LONGEST_RETRY, Outcome};
use crate::source::consumers;
use crate::state::{self, key_part};
use driftless_manifest::Object;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A kind of source.
pub(super) trait Kind {
    /// Its `spec`.
    type Spec: SourceSpec;
    /// What it remembers between steps, in the bucket. All of it may be lost.
    type Memory: Clone + Default + PartialEq + Serialize + DeserializeOwned + Send + Sync;

    /// Follows the source, stores what it has, and notes it in `status`, which is the source's own at first. What stands there
    /// after a failure is written, too.
    async fn look(
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

/// What is told of a look that succeeded.
pub(super) struct Found {
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
    status
        .conditions
        .set(VERIFIED, "True", reason, what, generation, &now);
}

/// Notes what it is at, which stays there when it fails: an artifact that was never made, a new generation, or the next look.
fn begin<S: SourceSpec>(context: &Context<'_>, source: &Source<S>, new: &mut SourceStatus) {
    new.conditions.remove("Reconciling");
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
    conditions.set("Reconciling", "True", reason, what, generation, &now);
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
        conditions.set(kind, "True", "NewRevision", what, generation, &now);
    }
}

#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
struct Kept<M> {
    /// Failures in a row.
    #[serde(default)]
    failures: u32,
    #[serde(flatten)]
    own: M,
}

/// Where a source's memory is kept.
pub(super) fn memory_key(context: &Context<'_>) -> String {
    let hub = key_part(&context.hub.settings.name);
    format!("state/{hub}/{}.json", context.id.key())
}

/// Runs the step.
///
/// # Errors
/// Only when the status itself could not be written.
pub(super) async fn step<K: Kind>(
    context: &Context<'_>,
    object: Object,
) -> Result<Outcome, Failure> {
    let source = match Source::<K::Spec>::from_object(object.clone()) {
        Ok(source) => source,
        Err(what) => {
            let failure = Failure::terminal(reason::URL_INVALID, what);
            context.stall(&object, &failure, SOURCE_CONTROLLER).await?;
            return Ok(Outcome {
                notifies: true,
                ..Outcome::failed(failure, 0, Duration::ZERO)
            });
        }
    };
    if !object.meta("deletionTimestamp").is_empty() {
        // Flux's controller puts a finalizer on sources; there is nothing to clean up but our own notes.
        super::forget(context).await?;
        context.remove_finalizer(&object, SOURCE_CONTROLLER).await?;
        return Ok(Outcome::gone("deleted"));
    }
    if source.spec.suspend() {
        return Ok(Outcome::done("suspended"));
    }
    let blobs = context.ports.blobs.as_ref();
    let key = memory_key(context);
    let (before, version) = state::load::<Kept<K::Memory>>(blobs, &key).await?;
    let mut kept = before.clone();
    let mut new = source.status.clone();
    if !new.conditions.is_true(VERIFIED) {
        // What failed is looked at anew; what succeeded speaks of the artifact that is there.
        new.conditions.remove(VERIFIED);
    }
    begin(context, &source, &mut new);
    let found = match source.interval() {
        Ok(_) => K::look(context, &source, &mut new, &mut kept.own).await,
        Err(what) => Err(Failure::terminal(reason::URL_INVALID, what)),
    };
    kept.failures = match found {
        Ok(_) => 0,
        Err(_) => kept.failures.saturating_add(1),
    };
    state::save(blobs, &key, &before, &kept, version).await?;
    match found {
        Ok(found) => succeeded(context, &source, new, found).await,
        Err(failure) => {
            let condition = K::failed_condition(&failure);
            let told = Told { failure, condition };
            failed(context, &source, new, told, kept.failures).await
        }
    }
}

async fn succeeded<S: SourceSpec>(
    context: &Context<'_>,
    source: &Source<S>,
    mut new: SourceStatus,
    found: Found,
) -> Result<Outcome, Failure> {
    let Found {
        reason,
        message,
        news,
    } = found;
    let artifact = new.artifact.clone().unwrap_or_default();
    let (generation, now) = (source.generation(), rfc3339(context.ports.clock.now()));
    for gone in ["Reconciling", "Stalled", "ArtifactOutdated"]
        .iter()
        .chain(&FAILED)
    {
        new.conditions.remove(gone);
    }
    for kind in ["Ready", "ArtifactInStorage"] {
        new.conditions
            .set(kind, "True", reason, &message, generation, &now);
    }
    new.observed_generation = Some(generation);
    write(context, source, &mut new).await?;

    let named = |artifact: &ArtifactStatus| (artifact.revision.clone(), artifact.digest.clone());
    let changed = source.status.artifact.as_ref().map(named) != Some(named(&artifact));
    // The same again: it was not in the bucket, and who follows the source may wait for it.
    let before = source.status.artifact.as_ref();
    let restored = before.is_some_and(|old| old.last_update_time != artifact.last_update_time);
    let old = &source.status.conditions;
    let recovered = FAILED.iter().any(|kind| old.is_true(kind));
    let mut outcome = Outcome {
        notifies: true,
        ..Outcome::done(message)
    };
    if changed || recovered {
        let (why, text) = news;
        let why = match (changed, why) {
            (false, reason::NEW_ARTIFACT) => reason::META_SUCCEEDED,
            _ => why,
        };
        let event = context.event(&source.object, SOURCE_CONTROLLER);
        let ArtifactStatus {
            revision, digest, ..
        } = &artifact;
        let about = [("revision", revision.as_str()), ("digest", digest.as_str())];
        event.annotated(false, why, &text, &about).await;
    }
    if changed || restored || !old.is_true("Ready") {
        outcome.enqueue = consumers::of(context).await?;
    }
    Ok(outcome)
}

/// A failure, and the condition beside `Ready` that says so.
struct Told {
    failure: Failure,
    condition: Option<&'static str>,
}

async fn failed<S: SourceSpec>(
    context: &Context<'_>,
    source: &Source<S>,
    mut new: SourceStatus,
    told: Told,
    failures: u32,
) -> Result<Outcome, Failure> {
    let Told { failure, condition } = told;
    let (generation, now) = (source.generation(), rfc3339(context.ports.clock.now()));
    let Failure {
        reason, message, ..
    } = &failure;
    let is_stalled = matches!(failure.class, Class::Terminal);
    let gone = match is_stalled {
        true => "Reconciling",
        false => "Stalled",
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
    let told_reason = match is_unverified {
        true => reason::VERIFICATION_ERROR,
        false => *reason,
    };
    if is_unverified {
        set(VERIFIED, "False", told_reason, message);
    }
    set("Ready", "False", told_reason, message);
    if let Some(condition) = condition {
        set(condition, "True", reason, message);
    }
    if is_stalled {
        set("Stalled", "True", reason, message);
    }
    write(context, source, &mut new).await?;

    let told = source.status.conditions.get("Ready");
    if told.map(|ready| (&*ready.reason, &*ready.message)) != Some((told_reason, message)) {
        let event = context.event(&source.object, SOURCE_CONTROLLER);
        // That a source is not ready yet is no failure.
        let is_warning = *reason != reason::NO_SOURCE_ARTIFACT;
        event.send(is_warning, reason, message, "").await;
    }
    // As in Flux, the interval says nothing of how often a failure is tried again. Who waits for the result tells it.
    Ok(Outcome {
        notifies: true,
        ..Outcome::failed(failure, failures.saturating_sub(1), LONGEST_RETRY)
    })
}

/// Writes what we know into the status; fields of Flux that we do not model stay. As in Flux, a generation is observed when it
/// succeeded or can never.
async fn write<S: SourceSpec>(
    context: &Context<'_>,
    source: &Source<S>,
    new: &mut SourceStatus,
) -> Result<(), Failure> {
    if let Some(requested) = source.object.annotation(REQUESTED_AT) {
        requested.clone_into(&mut new.last_handled_reconcile_at);
    }
    let merged = status::overlay(
        &source.object,
        &status::to_value(new)?,
        &status::to_value(&source.status)?,
    );
    status::write(context, &source.object, &merged, SOURCE_CONTROLLER).await?;
    Ok(())
}
