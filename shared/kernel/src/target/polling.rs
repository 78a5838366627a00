//! Waits for live objects: polls with growing pauses, until the step or the object has no more
//! time.

use crate::ports::{Clock, Cluster, PortError};
use driftless_manifest::{Object, ObjectId};
use driftless_plans::health;
use std::time::Duration;

/// The first pause between two polls; the pauses double.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// The longest pause between two polls.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The time within which CRDs and namespaces must become usable.
const ESTABLISHED: Duration = Duration::from_secs(20);

/// The pauses of one wait.
pub struct Pauses {
    next: Duration,
}

/// The next action of a wait for an object that is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollDecision {
    /// Poll the object again.
    Poll,
    /// Continue in the next step: this one has no more time to wait.
    StepEnds,
    /// Give up: the wait takes too long.
    TooLate,
}

impl Default for Pauses {
    fn default() -> Self {
        Self::new()
    }
}

impl Pauses {
    /// Returns the pauses of a new wait.
    pub fn new() -> Self {
        Self { next: FIRST_PAUSE }
    }

    /// Pauses before the next poll, unless the wait `is_late`, or the step ends its waits (at
    /// `step_ends`, since 1970) before that.
    pub async fn pause(
        &mut self,
        clock: &dyn Clock,
        is_late: bool,
        step_ends: Duration,
    ) -> PollDecision {
        if is_late {
            return PollDecision::TooLate;
        }
        if clock.now() + self.next > step_ends {
            return PollDecision::StepEnds;
        }
        clock.sleep(self.next).await;
        self.next = LONGEST_PAUSE.min(self.next * 2);
        PollDecision::Poll
    }

    /// Pauses before the next poll of an object that is expected soon; returns `false` if `end`
    /// (since 1970) is before that.
    pub async fn until(&mut self, clock: &dyn Clock, end: Duration) -> bool {
        self.pause(clock, false, end).await == PollDecision::Poll
    }
}

/// The reason why an applied object cannot be used.
pub enum NotEstablished {
    /// The object is not usable after this number of seconds.
    Late(ObjectId, u64),
    /// The object was deleted meanwhile.
    Deleted(ObjectId),
    /// The cluster returned an error.
    Cluster(PortError),
}

impl From<PortError> for NotEstablished {
    fn from(error: PortError) -> Self {
        Self::Cluster(error)
    }
}

/// Waits until CRDs and namespaces, given as their applies returned them, can be used by the next
/// objects.
///
/// # Errors
/// See [`NotEstablished`].
pub async fn wait_until_established(
    cluster: &dyn Cluster,
    clock: &dyn Clock,
    applied: &[&Object],
) -> Result<(), NotEstablished> {
    let end = clock.now() + ESTABLISHED;
    for object in applied {
        if health::is_current(object) {
            continue;
        }
        let Some(resource) = cluster.resource(&object.gvk()).await? else {
            continue;
        };
        let (namespace, name) = (object.namespace(), object.name());
        let mut pauses = Pauses::new();
        loop {
            if !pauses.until(clock, end).await {
                return Err(NotEstablished::Late(object.id(), ESTABLISHED.as_secs()));
            }
            let live = cluster.get(&resource, namespace, name).await?;
            let live = live.ok_or_else(|| NotEstablished::Deleted(object.id()))?;
            if health::is_current(&live) {
                break;
            }
        }
    }
    Ok(())
}
