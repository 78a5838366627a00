//! The driver of every kind's step: read the object, decide, act, write the status, send the
//! events.
//!
//! A kind is a [`Reconciler`], which returns its results in a [`Report`]. Only the driver writes
//! the report into the object's status, sends the events, keeps the memory, and decides when the
//! object is reconciled again.

mod records;

use crate::context::{Context, Outcome, status};
use crate::failure::Failure;
use crate::ports::{Cause, Ports};
use crate::schedule::Lease;
use driftless_flux::{FluxKind, FluxObject, ObjectRef, REQUESTED_AT, reason};
use driftless_manifest::Object;
use futures::future::join;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// The reconciler of a kind of Flux object.
#[expect(
    async_fn_in_trait,
    reason = "`drive` is generic over the kind, so its callers see whether the futures are Send"
)]
pub trait Reconciler {
    /// The object with its `spec` and `status`.
    type Object: FluxObject;
    /// The data that is remembered between steps. All of it may be lost.
    type Memory: Clone + Default + PartialEq + Serialize + DeserializeOwned + Send + Sync;

    /// The name of Flux's controller of the kind: the source of its events and the field manager of
    /// its status.
    const CONTROLLER: &'static str;
    /// The reason of `Ready` if the object's spec is not valid.
    const INVALID: &'static str;
    /// True if Flux's finalizer is added to the objects.
    const ADDS_FINALIZER: bool;
    /// True if the dependents of the object are requeued also after a failure.
    const NOTIFIES_FAILURES: bool;

    /// Brings the live state to the desired state of the object.
    async fn reconcile(
        context: &Context<'_>,
        object: Self::Object,
        memory: &mut Memory<Self::Memory>,
    ) -> Report<Self::Object>;

    /// Cleans up after a deleted object; reports [`StepEnd::Released`] at the end.
    async fn finalize(
        context: &Context<'_>,
        object: Self::Object,
        memory: &mut Memory<Self::Memory>,
    ) -> Report<Self::Object>;
}

/// The result of a step.
pub struct Report<O: FluxObject> {
    /// The object in the version that was last read or written.
    pub object: O,
    /// The new status of the object.
    pub status: O::Status,
    /// Flux objects of the hub that the step changed or deleted: their own steps are queued next.
    pub changed: Vec<ObjectRef>,
    /// The end of the step.
    pub end: StepEnd,
}

/// The way in which a step ended, which decides its conditions and its next message.
pub enum StepEnd {
    /// The step ended without a failure.
    Done(Outcome),
    /// The step failed; the status has the reason. It is retried after a back-off of at most this
    /// duration.
    Failed(Failure, Duration),
    /// The cleanup is finished, and the finalizer is removed.
    Released,
    /// The step may only move the revision, and must do more: it is queued, and nothing is written.
    Deferred,
}

/// The memory of an object during a step.
pub struct Memory<M> {
    own: M,
    lease: Lease,
}

impl<M> Deref for Memory<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.own
    }
}

impl<M> DerefMut for Memory<M> {
    fn deref_mut(&mut self) -> &mut M {
        &mut self.own
    }
}

impl<M: Serialize> Memory<M> {
    /// Checks whether the previous step was interrupted, so that it is unknown what it did.
    pub fn is_of_interrupted_step(&self) -> bool {
        self.lease.is_interrupted()
    }

    /// Stores the memory at once, for the step after a crash.
    ///
    /// # Errors
    /// An error of the bucket, or another worker has the lease.
    pub async fn checkpoint(&mut self, ports: &Ports) -> Result<(), Failure> {
        self.lease.remember(&self.own)?;
        Ok(self.lease.checkpoint(ports).await?)
    }
}

/// Runs the step of an object.
///
/// # Errors
/// The object's status could not be written.
pub async fn drive<R: Reconciler>(
    context: &Context<'_>,
    object: Object,
    lease: &mut Lease,
) -> Result<Outcome, Failure> {
    let started = context.ports.clock.now();
    let mut object = object;
    let is_deleted = !object.meta("deletionTimestamp").is_empty();
    let mut parsed = R::Object::from_object(object.clone());
    if let Ok(owner) = &parsed
        && !is_deleted
    {
        if owner.is_suspended() {
            return Ok(Outcome::done("suspended"));
        }
        if R::ADDS_FINALIZER
            && let Some(patched) = context.add_finalizer(&object, R::CONTROLLER).await?
        {
            parsed = R::Object::from_object(patched.clone());
            object = patched;
        }
    }
    let owner = match parsed {
        Ok(owner) => owner,
        Err(message) => {
            let failure = Failure::terminal(R::INVALID, message);
            context
                .write_failure(&object, &failure, R::CONTROLLER)
                .await?;
            return Ok(Outcome {
                notifies: R::NOTIFIES_FAILURES,
                ..Outcome::failed(failure, Duration::ZERO)
            });
        }
    };
    let first_status = status::to_value(owner.status())?;
    let before = lease.memory::<R::Memory>();
    let mut memory = Memory {
        own: before.clone(),
        lease: std::mem::take(lease),
    };
    let report = match is_deleted {
        true => R::finalize(context, owner, &mut memory).await,
        false => R::reconcile(context, owner, &mut memory).await,
    };
    *lease = memory.lease;
    lease.remember(&memory.own)?;
    lease.has_new_memory = memory.own != before;
    let mut now = status::to_value(&report.status)?;
    let audit = records::audit(context, report.object.object(), &now);
    tracing::Span::current().record("revision", records::revision(&now));
    let cluster = records::cluster(context, report.object.object());
    let finished = finish::<R>(context, report, &mut now, is_deleted);
    let (outcome, ()) = join(finished, audit).await;
    let outcome = Outcome {
        cluster,
        ..outcome?
    };
    if !outcome.is_gone && !context.is_rehearsal {
        records::write_journal(context, started, &outcome, &first_status, &now).await;
    }
    Ok(outcome)
}

/// Writes the status of an object before the end of its step, for a change that the next step must
/// know if this one is interrupted. Returns the written object.
///
/// # Errors
/// An error of the cluster; the status may be written nevertheless.
pub async fn write_early<O: FluxObject>(
    context: &Context<'_>,
    owner: &O,
    status: &O::Status,
    controller: &str,
) -> Result<O, Failure> {
    let (now, before) = (status::to_value(status)?, status::to_value(owner.status())?);
    let written = status::update(context, owner.object(), &now, &before, controller).await?;
    O::from_object(written).map_err(|message| Failure::retry(reason::FAILED, message))
}

/// Removes the status of an object that is not reconciled. Returns the written object.
///
/// # Errors
/// An error of the cluster.
pub async fn clear_status(
    context: &Context<'_>,
    object: &Object,
    controller: &str,
) -> Result<Object, Failure> {
    Ok(status::write(context, object, &json!({}), controller).await?)
}

/// Writes the status `now` of a report into the object, sends the events, and returns what is
/// queued next.
async fn finish<R: Reconciler>(
    context: &Context<'_>,
    report: Report<R::Object>,
    now: &mut Value,
    is_deleted: bool,
) -> Result<Outcome, Failure> {
    let Report {
        object: owner,
        changed,
        end,
        ..
    } = report;
    let object = owner.object();
    let mut outcome = match end {
        StepEnd::Done(outcome) => outcome,
        StepEnd::Failed(failure, longest) => Outcome {
            notifies: R::NOTIFIES_FAILURES,
            ..Outcome::failed(failure, longest)
        },
        StepEnd::Released => Outcome::gone("deleted"),
        StepEnd::Deferred => {
            return Ok(Outcome {
                enqueue: vec![context.request(context.id.clone(), context.cause.clone())],
                is_skipped: true,
                ..Outcome::done("more than the revision changes")
            });
        }
    };
    let is_unavailable = |failure: &Failure| failure.is_unavailable;
    outcome.is_cluster_dark = outcome.failure.as_ref().is_some_and(is_unavailable)
        && object.pointer("/spec/kubeConfig").is_some();
    if outcome.is_gone {
        context.remove_finalizer(object, R::CONTROLLER).await?;
    } else {
        let before = status::to_value(owner.status())?;
        if let Some(requested) = object.annotation(REQUESTED_AT)
            && !is_deleted
        {
            now["lastHandledReconcileAt"] = json!(requested);
        }
        status::update(context, object, now, &before, R::CONTROLLER).await?;
    }
    if changed.iter().any(|id| id.kind == FluxKind::Alert) {
        context.events.note_changed_alerts();
    }
    context.send_events(object, R::CONTROLLER).await;
    let requests = changed
        .into_iter()
        .map(|id| context.request(id, Cause::Changed));
    outcome.enqueue.extend(requests);
    Ok(outcome)
}
