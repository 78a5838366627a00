//! The context that every step works with, and its outcome.

pub mod events;
pub mod status;

pub use events::Recorder;

use crate::failure::{Class, Failure};
use crate::hub::Hub;
use crate::ports::{Cause, Ports, Request};
use driftless_flux::ObjectRef;
use driftless_fuel::{FuelLimits, Tank};
use std::time::Duration;

/// The first delay between tries after a failure.
const FIRST_RETRY: Duration = Duration::from_secs(10);
/// The longest delay between tries after a failure.
pub const LONGEST_RETRY: Duration = Duration::from_secs(600);
/// The number of steps in a row after which an object leaves a cluster that does not answer to the
/// sweep.
const DARK_TRIES: u32 = 3;
/// The first delay before something that ends without the step is checked again: health, or a
/// deletion.
pub const FIRST_CHECK: Duration = Duration::from_secs(5);

/// The limits of one step of any kind, as far as this process works for it: all parts of the step
/// charge one [`Tank`]. [`driftless_fuel`] lists the ceilings of each part. Every part has room for
/// its own ceilings, several times over: the limits are for steps that repeat a part, such as a
/// build that needs one remote base after another.
pub const STEP_FUEL: FuelLimits = FuelLimits {
    steps: 500_000_000,
    bytes: 4 << 30,
    nodes: 16_000_000,
    ..FuelLimits::NONE
};

/// Returns the fuel of a step that begins.
pub fn step_fuel() -> Tank {
    Tank::new(STEP_FUEL)
}

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
    /// The events and the changes of the step, sent and written at its end.
    pub events: Recorder,
    /// The fuel of the step, which all its parts charge: [`STEP_FUEL`].
    pub fuel: Tank,
    /// True if the sweep rehearses the step, to find whether it would do anything. The sweep itself
    /// compares the applied objects with their fingerprints.
    pub is_rehearsal: bool,
    /// True if the object was listed for many steps, and the step may only move its revision: one
    /// that must do more is queued, and reads the object again.
    pub only_moves_revision: bool,
}

impl<'a> Context<'a> {
    /// Creates the context of a rehearsal, which writes nothing.
    pub fn rehearsal(ports: &'a Ports, hub: Hub, id: ObjectRef) -> Self {
        Self {
            ports,
            hub,
            id,
            cause: Cause::Timer,
            wait_budget: Duration::ZERO,
            events: Recorder::default(),
            fuel: step_fuel(),
            is_rehearsal: true,
            only_moves_revision: false,
        }
    }
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
    /// The back-off that sets `requeue_after`, if the object is requeued because the step failed or
    /// waits for something that may never end.
    pub back_off: Option<BackOff>,
    /// True if the object is now as its dependents need it: they are queued next.
    pub notifies: bool,
    /// True if the object is gone: its record is deleted.
    pub is_gone: bool,
    /// The cluster that the object works on: the name of the hub, or the namespace and the name of
    /// the kubeconfig of a remote cluster. Empty if the object was not read.
    pub cluster: String,
    /// True if the remote cluster of the object did not answer.
    pub is_cluster_dark: bool,
    /// True if no step was needed: the summary has the reason.
    pub is_skipped: bool,
    /// The keys of the notes of the dependents in `enqueue`, deleted after the requests are sent.
    pub notified: Vec<String>,
}

/// A delay that doubles with each step in a row that failed or waited.
#[derive(Clone, Copy, Debug)]
pub struct BackOff {
    first: Duration,
    longest: Duration,
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
        let mut outcome = Self::done(format!("{}: {}", failure.reason, failure.message));
        if matches!(failure.class, Class::Retry(_)) {
            outcome.retry(longest_retry);
        }
        outcome.failure = Some(failure);
        outcome
    }

    /// Requeues the object after the back-off of a failure: 10 s, 20 s, 40 s … up to `longest`, at
    /// most 10 minutes.
    pub fn retry(&mut self, longest: Duration) {
        self.set_back_off(FIRST_RETRY, longest);
    }

    /// Requeues the object to check something that may never end, with the same back-off from 5 s.
    pub fn wait(&mut self, longest: Duration) {
        self.set_back_off(FIRST_CHECK, longest);
    }

    fn set_back_off(&mut self, first: Duration, longest: Duration) {
        let longest = longest.min(LONGEST_RETRY);
        self.back_off = Some(BackOff { first, longest });
        self.back_off(0);
    }

    /// Sets the delay of the next step, if it has a back-off; `before` counts the steps in a row
    /// before this one that failed or waited.
    pub(crate) fn back_off(&mut self, before: u32) {
        let Some(BackOff { first, longest }) = self.back_off else {
            return;
        };
        let delay = doubled(first, before);
        let least = match self.failure.as_ref().map(|failure| failure.class) {
            Some(Class::Retry(after)) => after.unwrap_or_default(),
            _ => Duration::ZERO,
        };
        self.requeue_after = Some(delay.min(longest).max(least));
        if self.is_cluster_dark && before >= DARK_TRIES {
            self.requeue_after = None;
        }
    }

    /// Returns whether the object has no message, because the sweep queues it when its cluster
    /// answers.
    pub(crate) fn leaves_cluster_to_sweep(&self) -> bool {
        self.is_cluster_dark && self.requeue_after.is_none()
    }
}

/// Returns the delay of the next try after this number of failures in a row.
pub(crate) fn retry_delay(failures: u32) -> Duration {
    doubled(FIRST_RETRY, failures).min(LONGEST_RETRY)
}

fn doubled(first: Duration, times: u32) -> Duration {
    first.saturating_mul(2u32.saturating_pow(times.min(16)))
}

impl Context<'_> {
    /// Returns a request for another object of the same hub, without a delay.
    pub fn request(&self, object: ObjectRef, cause: Cause) -> (Request, Duration) {
        let request = Request::new(&self.hub.settings.name, object, cause);
        (request, Duration::ZERO)
    }
}
