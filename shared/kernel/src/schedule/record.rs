//! The record of an object's schedule, and the decision about a message that it leads to. Pure.

use crate::context::{self, Outcome};
use crate::ports::{Cause, Origin, Request};
use crate::state::{key_part, millis, object_key};
use driftless_flux::ObjectRef;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::time::Duration;

/// The duration of a lease: longer than a function may run (120 s), so that its holder is dead when
/// the lease is over.
pub const LEASE_DURATION: Duration = Duration::from_secs(150);
/// The delay after which a late message counts as lost.
const LOST_MESSAGE_DELAY: Duration = Duration::from_secs(30);
/// The time by which a message may be early: clocks of workers differ, and a queue shortens delays
/// above its maximum.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(5);
/// The longest wait for a message. A later time in a record is from a clock that was far ahead.
const MAX_DELAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The number of times that an object without progress is requeued faster than the timer's
/// interval; then it is left to the timer.
pub const MAX_FAST_REQUEUES: u32 = 360;
/// The number of steps in a row that did not end, after which an object is isolated.
pub const MAX_INTERRUPTIONS: u32 = 3;
/// The time after which an object tries a cluster that does not answer although no sweep has found
/// that it answers.
const DARK_CLUSTER_RETRY: Duration = Duration::from_secs(60 * 60);
/// The interval of the timer.
const TIMER: Duration = Duration::from_secs(60);

/// The record of an object's schedule. All of it may be lost: the timer finds what is due.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Record {
    /// The lease of the worker that has the object, or had it last.
    pub(super) lease: StoredLease,
    /// The message that requeues the object. Every older one is stale.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) chain: Option<Chain>,
    /// The request that came while a worker had the object.
    #[serde(rename = "asked", skip_serializing_if = "Option::is_none")]
    pub(super) pending: Option<PendingRequest>,
    /// True if another object waits for this one, and has written a note.
    #[serde(rename = "awaited")]
    pub(super) is_awaited: bool,
    /// The number of times in a row that the object was requeued with the same summary.
    hops: u32,
    /// The SHA-256 of the summary that the last event reported, so that it is not repeated.
    #[serde(rename = "said")]
    summary_digest: String,
    /// The number of steps in a row that failed, or waited for something that may never end.
    failures: u32,
    /// The number of steps in a row that did not end.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) interruptions: u32,
    /// The time of the last step if the object's cluster did not answer and the object has no
    /// message, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    dark: Option<u64>,
    /// The memory of the object's steps, as JSON of its kind.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub(super) memory: Value,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A lease keeps a second worker from the object. It saves work; safety never depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct StoredLease {
    /// Distinguishes the holder's own write from another's after an unclear answer.
    pub(super) nonce: String,
    /// The end in milliseconds since 1970; 0 if the lease was released.
    pub(super) until: u64,
}

impl StoredLease {
    fn is_held(&self, now: Duration) -> bool {
        let now = millis(now);
        // A lease that ends later than any lease can is from a clock that was far ahead.
        self.until > now && self.until < now.saturating_add(2 * millis(LEASE_DURATION))
    }
}

/// Returns whether the record of another format has a lease that is held now. A lease that cannot
/// be found is not held.
pub(super) fn has_lease(record: &[u8], now: Duration) -> bool {
    #[derive(Deserialize)]
    struct Leased {
        lease: StoredLease,
    }
    let leased = serde_json::from_slice::<Leased>(record);
    leased.is_ok_and(|Leased { lease }| lease.is_held(now))
}

/// A message that was sent and requeues the object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Chain {
    /// The token of the message.
    pub(super) token: String,
    /// The time of its delivery, in milliseconds since 1970.
    pub(super) due: u64,
}

/// A request that came while a worker had the object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PendingRequest {
    /// The token of the message that comes when the lease is over, in case its holder is dead.
    pub(super) token: String,
    /// The cause of the next step.
    pub(super) cause: Cause,
    /// The origin of the first request that came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) origin: Option<Origin>,
}

/// The decision about a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Write this record, which takes the lease, and run the step.
    Take(Record),
    /// Another worker has the object: write this record, which passes the request on to that worker
    /// or the next one.
    Ask(Record, PendingRequest),
    /// The message is early: queue it again with this delay.
    PutBack(Duration),
    /// The message is not needed, for this reason.
    Drop(&'static str),
}

/// Returns the key of an object's record. A tenant may choose the object's name: no part of it may
/// lead elsewhere.
pub(super) fn key(hub: &str, object: &ObjectRef) -> String {
    let kind = object.kind.plural();
    object_key("objects", hub, kind, &object.namespace, &object.name)
}

/// Returns the prefix of the keys of the records of a hub's objects.
pub(super) fn directory(hub: &str) -> String {
    format!("objects/{}/", key_part(hub))
}

impl Record {
    /// Returns whether a worker has the object.
    pub(super) fn is_held(&self, now: Duration) -> bool {
        self.lease.is_held(now)
    }

    /// Returns whether a message that requeues the object is due and not late.
    fn is_alive(&self, now: Duration) -> bool {
        self.chain.as_ref().is_some_and(|chain| {
            let now = millis(now);
            chain.due.saturating_add(millis(LOST_MESSAGE_DELAY)) > now
                && chain.due < now.saturating_add(2 * millis(MAX_DELAY))
        })
    }

    /// Returns whether the object is reconciled without the timer: a worker has it, or a message
    /// for it is queued.
    pub fn is_busy(&self, now: Duration) -> bool {
        self.is_held(now) || self.is_alive(now)
    }

    /// Returns whether the message that was to requeue the object is lost.
    pub fn is_lost(&self, now: Duration) -> bool {
        self.chain.is_some() && !self.is_busy(now)
    }

    /// Returns whether the object waits for its cluster without a message: a sweep queues it when
    /// the cluster answers.
    pub fn waits_for_cluster(&self, now: Duration) -> bool {
        self.dark
            .is_some_and(|last| millis(now).saturating_sub(last) < millis(DARK_CLUSTER_RETRY))
    }

    /// Returns whether an object that waits for its cluster may try it now: the back-off of its
    /// failures is over.
    pub fn may_try_cluster(&self, now: Duration) -> bool {
        let back_off = context::retry_delay(self.failures);
        let is_over = |last: u64| millis(now).saturating_sub(last) >= millis(back_off);
        self.dark.is_some_and(is_over) && !self.is_busy(now)
    }

    /// Returns the number of steps in a row before this one that failed or waited. It is 0 if the
    /// object waited for its cluster and the cluster has answered: the failures were the cluster's.
    pub(super) fn failures_before(&self, outcome: &Outcome) -> u32 {
        match self.dark.is_some() && !outcome.is_cluster_dark {
            true => 0,
            false => self.failures,
        }
    }

    /// Returns whether the steps of the object did not end so often that they must run isolated.
    pub fn is_isolated(&self) -> bool {
        self.interruptions >= MAX_INTERRUPTIONS
    }

    /// Returns whether a step runs or was interrupted: its effects are not known.
    pub(super) fn is_open(&self) -> bool {
        self.lease.until != 0
    }

    /// Returns the memory of the object's steps; the default if it cannot be read.
    pub fn memory<M: DeserializeOwned + Default>(&self) -> M {
        if self.memory.is_null() {
            return M::default();
        }
        M::deserialize(&self.memory).unwrap_or_else(|error| {
            tracing::warn!(
                "the memory of the last step was reset because it cannot be read: {error}"
            );
            M::default()
        })
    }

    /// Decides about a message. `nonce` is new: it becomes the nonce of the lease, or the token of
    /// the pending request.
    pub(super) fn decide(&self, request: &Request, now: Duration, nonce: &str) -> Decision {
        let is_held = self.is_held(now);
        match &request.token {
            Some(token) if self.is_pending(token) && is_held => {
                return Decision::PutBack(self.until_free(now));
            }
            Some(token) if self.is_pending(token) => {}
            Some(token) if self.is_chain(token) && is_held => {
                return Decision::Drop("another worker has the object and queues what follows");
            }
            Some(token) if self.is_chain(token) => {
                if let Some(early) = self.early(now) {
                    return Decision::PutBack(early);
                }
            }
            // If the record is lost, no message is stale.
            Some(_) if *self == Self::default() => {}
            Some(_) => return Decision::Drop("a newer message has replaced this one"),
            None if request.cause == Cause::Timer && self.is_busy(now) => {
                return Decision::Drop("the object is reconciled without the timer");
            }
            None => {}
        }
        if is_held {
            return self.ask(request, nonce);
        }
        let is_queued = self.is_isolated() && !self.is_open() && self.is_alive(now);
        let is_urgent = matches!(request.cause, Cause::Push | Cause::Changed);
        if is_queued && !is_urgent && !request.isolated {
            return Decision::Drop("the isolated step of the object is queued");
        }
        Decision::Take(Self {
            lease: StoredLease {
                nonce: nonce.to_owned(),
                until: millis(now + LEASE_DURATION),
            },
            pending: None,
            // A change of the object is tried at once.
            failures: match request.cause {
                Cause::Changed => 0,
                _ => self.failures,
            },
            interruptions: self.interruptions.saturating_add(self.is_open().into()),
            ..self.clone()
        })
    }

    /// Records the request for the holder of the lease: one request, with the cause that makes the
    /// step do more.
    fn ask(&self, request: &Request, nonce: &str) -> Decision {
        let pending = match &self.pending {
            None => PendingRequest {
                token: nonce.to_owned(),
                cause: request.cause.clone(),
                origin: request.origin.clone(),
            },
            Some(pending) => PendingRequest {
                cause: pending.cause.clone().stronger(&request.cause),
                ..pending.clone()
            },
        };
        if self.pending.as_ref() == Some(&pending) {
            return Decision::Drop(
                "another worker holds the lease; the request is recorded already",
            );
        }
        let record = Self {
            pending: Some(pending.clone()),
            ..self.clone()
        };
        Decision::Ask(record, pending)
    }

    fn is_pending(&self, token: &str) -> bool {
        self.pending.as_ref().is_some_and(|one| one.token == token)
    }

    fn is_chain(&self, token: &str) -> bool {
        self.chain.as_ref().is_some_and(|one| one.token == token)
    }

    /// Returns the time until the lease is over, plus a second for differences of clocks.
    pub(super) fn until_free(&self, now: Duration) -> Duration {
        let left = self.lease.until.saturating_sub(millis(now));
        Duration::from_millis(left) + Duration::from_secs(1)
    }

    /// Returns the time by which the message of the chain is early, if that is more than clocks may
    /// differ.
    fn early(&self, now: Duration) -> Option<Duration> {
        let due = self.chain.as_ref()?.due;
        let early = Duration::from_millis(due.saturating_sub(millis(now)));
        (early > CLOCK_TOLERANCE && early < 2 * MAX_DELAY).then_some(early)
    }

    /// Returns the record at the end of a step, and the cause and delay of the object's own next
    /// message. `token` is new.
    pub(super) fn after(
        &self,
        outcome: &Outcome,
        cause: &Cause,
        now: Duration,
        token: &str,
    ) -> (Self, Option<(Cause, Duration)>) {
        let mut next = Self {
            chain: None,
            pending: None,
            hops: 0,
            summary_digest: String::new(),
            ..self.clone()
        };
        next.lease.until = 0;
        next.dark = outcome.leaves_cluster_to_sweep().then(|| millis(now));
        next.failures = match outcome.failure.is_some() || outcome.back_off.is_some() {
            true => self.failures_before(outcome).saturating_add(1),
            // A step that checks health again has not succeeded yet.
            false if outcome.requeue_after.is_some() && !outcome.notifies => self.failures,
            false => 0,
        };
        if outcome.requeue_after.is_some() {
            next.summary_digest = hex::encode(&Sha256::digest(&outcome.summary)[..8]);
            let is_unrequested = matches!(cause, Cause::Timer | Cause::Requeue);
            if is_unrequested && next.summary_digest == self.summary_digest {
                next.hops = self.hops.saturating_add(1);
            }
        }
        let back = match (&self.pending, outcome.requeue_after) {
            (Some(pending), None) => Some((pending.cause.clone(), Duration::ZERO)),
            (Some(pending), Some(_)) => {
                next.hops = 0;
                Some((
                    pending.cause.clone().stronger(&Cause::Requeue),
                    Duration::ZERO,
                ))
            }
            (None, Some(after)) if after < TIMER && next.hops >= MAX_FAST_REQUEUES => None,
            (None, Some(after)) => Some((Cause::Requeue, after.min(MAX_DELAY))),
            (None, None) => None,
        };
        next.chain = back.as_ref().map(|(_, after)| Chain {
            token: token.to_owned(),
            due: millis(now + *after),
        });
        (next, back)
    }
}
