//! The steps of Alerts and Providers. That of an Alert checks its fields. That of a Provider sends
//! the events that wait for it: the Alerts of the hub selected them at the end of another object's
//! step ([`driftless_kernel::context::events`]).

mod check;
mod connection;
mod content;
mod digest;
mod digest_text;
mod following;
mod landing;
mod sending;

pub use content::{combined, commit_status, conflicts, is_for};
pub use following::{Following, is_due};
pub(crate) use sending::forget;

use check::Check;
use driftless_flux::{
    ConditionStatus, NOTIFICATION_CONTROLLER, NotificationStatus, READY, Typed, reason, rfc3339,
};
use driftless_kernel::context::{Context, LONGEST_RETRY, Outcome};
use driftless_kernel::driver::{Memory, Reconciler, Report, StepEnd};
use driftless_kernel::failure::{Class, Failure};
use sending::Done;
use std::marker::PhantomData;
use std::time::Duration;

/// The reconciler of Alerts or Providers.
pub(crate) struct Checked<S>(PhantomData<S>);

impl<S: Check> Reconciler for Checked<S> {
    type Object = Typed<S>;
    type Memory = S::Memory;

    const CONTROLLER: &'static str = NOTIFICATION_CONTROLLER;
    const INVALID: &'static str = reason::VALIDATION_FAILED;
    const ADDS_FINALIZER: bool = false;
    const NOTIFIES_FAILURES: bool = false;

    async fn reconcile(
        context: &Context<'_>,
        object: Self::Object,
        memory: &mut Memory<S::Memory>,
    ) -> Report<Self::Object> {
        let mut status = object.status.clone();
        let mut changed = None;
        let end = match S::run(context, &object, memory).await {
            Ok(mut done) => {
                changed = done.requests.take();
                succeeded(context, &object, &mut status, done)
            }
            Err(failure) => failed(context, &object, &mut status, failure),
        };
        Report {
            changed: changed.into_iter().collect(),
            ..report(object, status, end)
        }
    }

    async fn finalize(
        context: &Context<'_>,
        object: Self::Object,
        _: &mut Memory<S::Memory>,
    ) -> Report<Self::Object> {
        let end = match S::forget(context).await {
            Ok(()) => StepEnd::Released,
            Err(failure) => StepEnd::Failed(failure, LONGEST_RETRY),
        };
        let status = object.status.clone();
        report(object, status, end)
    }
}

fn report<S: Check>(
    object: Typed<S>,
    status: NotificationStatus,
    end: StepEnd,
) -> Report<Typed<S>> {
    Report {
        object,
        status,
        changed: Vec::new(),
        end,
    }
}

fn succeeded<S: Check>(
    context: &Context<'_>,
    object: &Typed<S>,
    status: &mut NotificationStatus,
    done: Done,
) -> StepEnd {
    let generation = object.generation();
    let now = rfc3339(context.ports.clock.now());
    let message = match done.sent {
        0 => "Initialized",
        _ => "Notifications are sent",
    };
    let conditions = &mut status.conditions;
    let is_ready = |status: &NotificationStatus| {
        let ready = status.conditions.get(READY);
        ready.is_some_and(|ready| {
            ready.status == ConditionStatus::True && ready.observed_generation == generation
        })
    };
    if !done.keeps_status && !is_ready(&object.status) {
        conditions.set_ready(reason::META_SUCCEEDED, message, generation, &now);
        status.observed_generation = Some(generation);
    }
    let mut outcome = Outcome::done(match done.sent {
        0 => message.to_owned(),
        sent => format!("sent {sent} notifications"),
    });
    outcome.requeue_after = match done.has_more {
        true => Some(Duration::ZERO),
        false => done.check_after,
    };
    StepEnd::Done(outcome)
}

fn failed<S: Check>(
    context: &Context<'_>,
    object: &Typed<S>,
    status: &mut NotificationStatus,
    failure: Failure,
) -> StepEnd {
    let generation = object.generation();
    let now = rfc3339(context.ports.clock.now());
    let conditions = &mut status.conditions;
    let (reason, message) = (failure.reason, failure.message.as_str());
    let not_ready = ConditionStatus::False;
    conditions.set(READY, not_ready, reason, message, generation, &now);
    if failure.class == Class::Terminal {
        conditions.set_stalled(reason, message, generation, &now);
        status.observed_generation = Some(generation);
    } else {
        let retry = reason::PROGRESSING_WITH_RETRY;
        conditions.set_reconciling(retry, message, generation, &now);
    }
    let before = object.status.conditions.get(READY);
    if before.map(|ready| (&*ready.reason, &*ready.message)) != Some((reason, message)) {
        context.events.record(true, reason, message, "");
    }
    StepEnd::Failed(failure, LONGEST_RETRY)
}
