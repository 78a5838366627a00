//! The context that every step works with, and its outcome.

mod events;
pub mod status;

pub use events::Recorder;

use crate::failure::{Class, Failure};
use crate::flux::ObjectRef;
use crate::hub::Hub;
use crate::ports::{Cause, Ports, Request};
use std::time::Duration;

/// The first delay between tries after a failure.
const FIRST_RETRY: Duration = Duration::from_secs(10);
/// The longest delay between tries after a failure.
pub(crate) const LONGEST_RETRY: Duration = Duration::from_secs(600);

/// The context of one step.
pub struct Context<'a> {
    /// The ports of the worker.
    pub ports: &'a Ports,
    /// The hub of the object.
    pub hub: Hub,
    /// The object of the step.
    pub id: ObjectRef,
    /// The cause of the step.
    pub cause: Cause,
    /// The time that the step may wait for other objects before it requeues itself.
    pub wait_budget: Duration,
    /// The events of the step, sent at its end.
    pub events: Recorder,
}

/// The outcome of a step.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The delay after which the object is requeued; `None` if it is not.
    pub requeue_after: Option<Duration>,
    /// The requests to queue, with their delays.
    pub enqueue: Vec<(Request, Duration)>,
    /// One line for the log. It names what the object waits for: a different summary counts as
    /// progress.
    pub summary: String,
    /// The failure that the object's status also has.
    pub failure: Option<Failure>,
    /// The longest delay between tries after that failure.
    pub(crate) longest_retry: Duration,
    /// True if the object is now as its dependents need it: they are queued next.
    pub notifies: bool,
    /// True if the object is gone: its record is deleted.
    pub is_gone: bool,
    /// True if no step was needed: the summary has the reason.
    pub is_skipped: bool,
    /// The keys of the notes of the dependents in `enqueue`, deleted after the requests are sent.
    pub(crate) notified: Vec<String>,
}

impl Outcome {
    /// Returns the outcome of a step with nothing more to do.
    pub fn done(summary: impl Into<String>) -> Self {
        Self {
            summary: summary.into(),
            ..Self::default()
        }
    }

    /// Returns the outcome of a step whose object is gone, or was released.
    pub fn gone(summary: impl Into<String>) -> Self {
        Self {
            is_gone: true,
            ..Self::done(summary)
        }
    }

    /// Returns the outcome of a failed step whose object's status has the failure. The step is
    /// retried after a back-off of at most `longest_retry`.
    pub fn failed(failure: Failure, longest_retry: Duration) -> Self {
        Self {
            summary: format!("{}: {}", failure.reason, failure.message),
            failure: Some(failure),
            longest_retry,
            ..Self::default()
        }
    }

    /// Sets the delay of the next try after a failure; `failures` counts the failures in a row
    /// before this one.
    pub(crate) fn back_off(&mut self, failures: u32) {
        let Some(Class::Retry(after)) = self.failure.as_ref().map(|failure| failure.class) else {
            return;
        };
        let delay = FIRST_RETRY.saturating_mul(2u32.saturating_pow(failures.min(16)));
        let delay = delay.min(self.longest_retry).min(LONGEST_RETRY);
        self.requeue_after = Some(delay.max(after.unwrap_or_default()));
    }
}

impl Context<'_> {
    /// Returns a request for another object of the same hub, without a delay.
    pub fn request(&self, object: ObjectRef, cause: Cause) -> (Request, Duration) {
        let request = Request::new(&self.hub.settings.name, object, cause);
        (request, Duration::ZERO)
    }
}
