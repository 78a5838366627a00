//! What every step works with, and how it ends.

mod events;
pub mod status;

pub use events::Recorder;

use crate::failure::{Class, Failure};
use crate::flux::ObjectRef;
use crate::hub::Hub;
use crate::ports::{Cause, Ports, Request};
use std::time::Duration;

/// The first and the longest delay between tries after a failure.
const FIRST_RETRY: Duration = Duration::from_secs(10);
/// See [`FIRST_RETRY`].
pub(crate) const LONGEST_RETRY: Duration = Duration::from_secs(600);

/// What one step works with.
pub struct Context<'a> {
    /// The ports.
    pub ports: &'a Ports,
    /// The hub of the object.
    pub hub: Hub,
    /// The object.
    pub id: ObjectRef,
    /// Why it is looked at.
    pub cause: Cause,
    /// How long the step may wait for other objects before it puts itself back.
    pub wait_budget: Duration,
    /// What the events of the step are to say.
    pub events: Recorder,
}

/// How a step ended.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Look at this object again after this long.
    pub requeue_after: Option<Duration>,
    /// Who to look at next.
    pub enqueue: Vec<(Request, Duration)>,
    /// One line for the log. What is waited for stands in it: other words are progress.
    pub summary: String,
    /// Why it did not succeed, as the object's status says it too.
    pub failure: Option<Failure>,
    /// The longest delay between tries after that failure.
    pub(crate) longest_retry: Duration,
    /// The object ended as those who wait for it need it: they are looked at next.
    pub notifies: bool,
    /// The object is gone: nothing of its schedule is kept.
    pub is_gone: bool,
    /// There was no need for a step: the summary says why.
    pub is_skipped: bool,
    /// The notes of those who are woken, to be deleted when their requests are sent.
    pub(crate) notified: Vec<String>,
}

impl Outcome {
    /// Nothing more to do.
    pub fn done(summary: impl Into<String>) -> Self {
        Self {
            summary: summary.into(),
            ..Self::default()
        }
    }

    /// The object is gone, or let go.
    pub fn gone(summary: impl Into<String>) -> Self {
        Self {
            is_gone: true,
            ..Self::done(summary)
        }
    }

    /// A failure that the object's status tells. It is tried again after a back-off of at most `longest_retry`.
    pub fn failed(failure: Failure, longest_retry: Duration) -> Self {
        Self {
            summary: format!("{}: {}", failure.reason, failure.message),
            failure: Some(failure),
            longest_retry,
            ..Self::default()
        }
    }

    /// Says when what failed is tried again; `failures` counts the failures in a row before this one.
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
    /// A request for another object of the same hub.
    pub fn request(&self, object: ObjectRef, cause: Cause) -> (Request, Duration) {
        let request = Request::new(&self.hub.settings.name, object, cause);
        (request, Duration::ZERO)
    }
}
