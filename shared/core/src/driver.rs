//! The one way of every kind's step: read the object, decide, act, write the status, send the events.
//!
//! A kind is a [`Reconciler`]: it says what it found and did in a [`Report`]. The driver alone writes what the report says into
//! the object's status, sends the events, keeps the memory, and says when the object is looked at again.

use crate::failure::Failure;
use crate::flux::{FluxObject, ObjectRef, REQUESTED_AT};
use crate::kernel::{Context, Outcome, status};
use crate::ports::{Cause, Ports};
use crate::schedule::{self, Lease};
use driftless_manifest::Object;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// A kind of Flux object, as its controller treats it.
pub(crate) trait Reconciler {
    /// The object with its `spec` and `status`.
    type Object: FluxObject;
    /// What is remembered between steps. All of it may be lost.
    type Memory: Clone + Default + PartialEq + Serialize + DeserializeOwned + Send + Sync;

    /// The controller of Flux whose work it is: the source of its events and the field manager of its status.
    const CONTROLLER: &'static str;
    /// The reason of `Ready` when the object cannot be read.
    const INVALID: &'static str;
    /// Whether Flux's finalizer is put on.
    const ADDS_FINALIZER: bool;
    /// Whether those who wait for the object look at it when it failed, too.
    const NOTIFIES_FAILURES: bool;

    /// Brings everything to what the object wants.
    async fn reconcile(
        context: &Context<'_>,
        object: Self::Object,
        memory: &mut Memory<Self::Memory>,
    ) -> Report<Self::Object>;

    /// Cleans up after an object that is deleted; at the end it reports [`StepEnd::Released`].
    async fn finalize(
        context: &Context<'_>,
        object: Self::Object,
        memory: &mut Memory<Self::Memory>,
    ) -> Report<Self::Object>;
}

/// What a step found and did.
pub(crate) struct Report<O: FluxObject> {
    /// The object as it was read, or written, last.
    pub object: O,
    /// Its status as it is to be.
    pub status: O::Status,
    /// Flux objects of the hub that were changed, or are deleted: their own steps are next.
    pub changed: Vec<ObjectRef>,
    /// How the step ended.
    pub end: StepEnd,
}

/// How a step ended.
pub(crate) enum StepEnd {
    /// Without a failure.
    Done(Outcome),
    /// With a failure that the status tells. It is tried again after a back-off of at most so long.
    Failed(Failure, Duration),
    /// Nothing is left to clean up: the finalizer comes off.
    Released,
}

/// What is remembered of an object, while a step has it.
pub(crate) struct Memory<M> {
    own: M,
    held: Lease,
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
    /// Whether the step before this one was cut off: what it did is not known.
    pub fn is_of_interrupted_step(&self) -> bool {
        self.held.is_interrupted()
    }

    /// Stores it at once, for the step that comes after a crash.
    ///
    /// # Errors
    /// The store's; another worker has the object.
    pub async fn checkpoint(&mut self, ports: &Ports) -> Result<(), Failure> {
        self.held.remember(&self.own)?;
        Ok(self.held.checkpoint(ports).await?)
    }
}

/// Runs the step of an object.
///
/// # Errors
/// The object's status could not be written.
pub(crate) async fn drive<R: Reconciler>(
    context: &Context<'_>,
    object: Object,
    held: &mut Lease,
) -> Result<Outcome, Failure> {
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
        Err(what) => {
            let failure = Failure::terminal(R::INVALID, what);
            context.stall(&object, &failure, R::CONTROLLER).await?;
            return Ok(Outcome {
                notifies: R::NOTIFIES_FAILURES,
                ..Outcome::failed(failure, Duration::ZERO)
            });
        }
    };
    let mut memory = Memory {
        own: held.memory::<R::Memory>(),
        held: std::mem::take(held),
    };
    let report = match is_deleted {
        true => R::finalize(context, owner, &mut memory).await,
        false => R::reconcile(context, owner, &mut memory).await,
    };
    *held = memory.held;
    held.remember(&memory.own)?;
    finish::<R>(context, report, is_deleted).await
}

/// Runs the step of an object over ports that write nothing; none when the step would remember something else than before.
///
/// # Errors
/// As [`drive`].
pub(crate) async fn rehearse<R: Reconciler>(
    context: &Context<'_>,
    object: Object,
) -> Result<Option<Outcome>, Failure> {
    let hub = &context.hub.settings.name;
    let mut held = schedule::peek(context.ports, hub, &context.id).await?;
    let before = held.memory::<R::Memory>();
    let outcome = drive::<R>(context, object, &mut held).await?;
    Ok((held.memory::<R::Memory>() == before).then_some(outcome))
}

/// Writes what a report says into the object's status, sends the events, and says what is next.
async fn finish<R: Reconciler>(
    context: &Context<'_>,
    report: Report<R::Object>,
    is_deleted: bool,
) -> Result<Outcome, Failure> {
    let Report {
        object: owner,
        status,
        changed,
        end,
    } = report;
    let object = owner.object();
    let mut outcome = match end {
        StepEnd::Done(outcome) => outcome,
        StepEnd::Failed(failure, longest) => Outcome {
            notifies: R::NOTIFIES_FAILURES,
            ..Outcome::failed(failure, longest)
        },
        StepEnd::Released => Outcome::gone("deleted"),
    };
    if outcome.is_gone {
        context.remove_finalizer(object, R::CONTROLLER).await?;
    } else {
        let (mut now, before) = (
            status::to_value(&status)?,
            status::to_value(owner.status())?,
        );
        if let Some(requested) = object.annotation(REQUESTED_AT)
            && !is_deleted
        {
            now["lastHandledReconcileAt"] = json!(requested);
        }
        status::update(context, object, &now, &before, R::CONTROLLER).await?;
    }
    context.send_events(object, R::CONTROLLER).await;
    let requests = changed
        .into_iter()
        .map(|id| context.request(id, Cause::Changed));
    outcome.enqueue.extend(requests);
    Ok(outcome)
}
