//! Waiting for objects on a cluster: looks with growing pauses, for as long as the step and what is waited for have time.

use super::Target;
use crate::health;
use crate::ports::{Clock, PortError};
use driftless_manifest::{Object, ObjectId};
use std::time::Duration;

/// The first pause between two looks, and the longest; they double.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// See [`FIRST_PAUSE`].
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long definitions and namespaces may take until they can be used.
const ESTABLISHED: Duration = Duration::from_secs(20);

/// The pauses of one wait.
pub(crate) struct Pauses {
    next: Duration,
}

/// What to do about something that is not there yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paused {
    /// Look again.
    Look,
    /// Look with the next step: this one has no more time to wait.
    StepEnds,
    /// Give up: it takes too long.
    TooLate,
}

impl Pauses {
    /// None was made yet.
    pub fn new() -> Self {
        Self { next: FIRST_PAUSE }
    }

    /// Pauses before the next look, unless it `is_late` or the step ends its waits (at `step_ends`, since 1970) before that.
    pub async fn pause(&mut self, clock: &dyn Clock, is_late: bool, step_ends: Duration) -> Paused {
        if is_late {
            return Paused::TooLate;
        }
        if clock.now() + self.next > step_ends {
            return Paused::StepEnds;
        }
        clock.sleep(self.next).await;
        self.next = LONGEST_PAUSE.min(self.next * 2);
        Paused::Look
    }

    /// Pauses before the next look at something that is there in a moment; false when `end` (since 1970) is before that.
    pub async fn until(&mut self, clock: &dyn Clock, end: Duration) -> bool {
        self.pause(clock, false, end).await == Paused::Look
    }
}

/// Why what was made cannot be used.
pub(crate) enum NotEstablished {
    /// It takes longer than so many seconds.
    Late(ObjectId, u64),
    /// It was deleted meanwhile.
    Deleted(ObjectId),
    /// The cluster's.
    Cluster(PortError),
}

impl From<PortError> for NotEstablished {
    fn from(error: PortError) -> Self {
        Self::Cluster(error)
    }
}

/// Waits until definitions and namespaces, as their applies answered them, can be used by what is applied next.
///
/// # Errors
/// See [`NotEstablished`].
pub(crate) async fn established(
    target: &Target,
    clock: &dyn Clock,
    made: &[&Object],
) -> Result<(), NotEstablished> {
    let end = clock.now() + ESTABLISHED;
    for object in made {
        if health::is_current(object) {
            continue;
        }
        let Some(resource) = target.cluster.resource(&object.gvk()).await? else {
            continue;
        };
        let (namespace, name) = (object.namespace(), object.name());
        let mut pauses = Pauses::new();
        loop {
            if !pauses.until(clock, end).await {
                return Err(NotEstablished::Late(object.id(), ESTABLISHED.as_secs()));
            }
            let live = target.cluster.get(&resource, namespace, name).await?;
            let live = live.ok_or_else(|| NotEstablished::Deleted(object.id()))?;
            if health::is_current(&live) {
                break;
            }
        }
    }
    Ok(())
}
