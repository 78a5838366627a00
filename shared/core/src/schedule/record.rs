//! The record of an object's schedule, and what a message means by it. Pure.

use crate::flux::ObjectRef;
use crate::kernel::Outcome;
use crate::ports::{Cause, Request};
use crate::state::key_part;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::time::Duration;

/// How long a lease holds: longer than a function may run (120 s), so that its holder is dead when it is over.
pub const TERM: Duration = Duration::from_secs(150);
/// How late a message may be before it counts as lost.
const LATE: Duration = Duration::from_secs(30);
/// How early a message may be: clocks of workers differ, and a queue cuts delays that are longer than its longest.
const EARLY: Duration = Duration::from_secs(5);
/// The longest wait for a message. What a record says beyond it is from a clock that was far ahead.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// How often an object that makes no progress is put back faster than the timer looks; then it is left to the timer.
pub const HOPS: u32 = 360;
/// How often the timer looks.
const TIMER: Duration = Duration::from_secs(60);

/// What is known of an object's schedule. All of it may be lost: the timer finds what is due.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Record {
    /// Who works on the object, or did last.
    pub(super) lease: Lease,
    /// The message that brings the object back. Every older one is stale.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) chain: Option<Chain>,
    /// What was asked for while a worker had the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) asked: Option<PendingRequest>,
    /// Somebody waits for the object, and has left a note.
    pub(super) awaited: bool,
    /// How often in a row the object was put back with the same words.
    hops: u32,
    /// A digest of those words.
    said: String,
    /// Failures in a row.
    failures: u32,
    /// What the object's steps remember, as JSON of its kind.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub(super) memory: Value,
}

/// A lease keeps two workers off one object. It saves work; safety never rests on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Lease {
    /// Tells the holder's own write from another's after an unclear answer.
    pub(super) nonce: String,
    /// Milliseconds since 1970; 0 when it was given back.
    pub(super) until: u64,
}

/// A message on its way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Chain {
    /// Which.
    pub(super) token: String,
    /// When it comes, in milliseconds since 1970.
    pub(super) due: u64,
}

/// A request that came while a worker had the object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PendingRequest {
    /// The message that comes when the lease is over, in case its holder is dead.
    pub(super) token: String,
    /// Why the object is looked at again.
    pub(super) cause: Cause,
}

/// What to do with a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Take the lease, with this record, and run the step.
    Take(Record),
    /// Another worker has the object: this record tells it, or whoever comes after it.
    Ask(Record, PendingRequest),
    /// Its time has not come: put it back for so long.
    PutBack(Duration),
    /// It is not needed; why.
    Drop(&'static str),
}

/// The key of an object's record. The object may be named by a tenant: no part of it may lead elsewhere.
pub(super) fn key(hub: &str, object: &ObjectRef) -> String {
    let (directory, kind) = (directory(hub), object.kind.plural());
    let (namespace, name) = (key_part(&object.namespace), key_part(&object.name));
    format!("{directory}{kind}/{namespace}/{name}.json")
}

/// How the keys of the records of a hub's objects begin.
pub(super) fn directory(hub: &str) -> String {
    format!("objects/{}/", key_part(hub))
}

/// Milliseconds since 1970.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Record {
    /// Whether a worker has the object.
    pub(super) fn is_held(&self, now: Duration) -> bool {
        let now = millis(now);
        // A lease that ends much later than one can is from a clock that was far ahead.
        self.lease.until > now && self.lease.until < now.saturating_add(2 * millis(TERM))
    }

    /// Whether a message is on its way.
    fn is_alive(&self, now: Duration) -> bool {
        self.chain.as_ref().is_some_and(|chain| {
            let now = millis(now);
            chain.due.saturating_add(millis(LATE)) > now
                && chain.due < now.saturating_add(2 * millis(LONGEST))
        })
    }

    /// Whether the object is looked at without the timer: a worker has it, or a message is on its way.
    pub fn is_busy(&self, now: Duration) -> bool {
        self.is_held(now) || self.is_alive(now)
    }

    /// Whether the message that should bring the object back did not come.
    pub fn is_lost(&self, now: Duration) -> bool {
        self.chain.is_some() && !self.is_busy(now)
    }

    /// Failures in a row.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Whether a step has the object, or was cut off: what it did is not known.
    pub(super) fn is_open(&self) -> bool {
        self.lease.until != 0
    }

    /// What the object's steps remember; nothing when it cannot be read.
    pub fn memory<M: DeserializeOwned + Default>(&self) -> M {
        if self.memory.is_null() {
            return M::default();
        }
        M::deserialize(&self.memory).unwrap_or_else(|error| {
            tracing::warn!("the memory of the last step cannot be read; it was reset: {error}");
            M::default()
        })
    }

    /// What a message means now. `nonce` is new: it names the lease, or what is asked for.
    pub(super) fn decide(&self, request: &Request, now: Duration, nonce: &str) -> Decision {
        let is_held = self.is_held(now);
        match &request.token {
            Some(token) if self.asks(token) && is_held => {
                return Decision::PutBack(self.until_free(now));
            }
            Some(token) if self.asks(token) => {}
            Some(token) if self.is_chain(token) && is_held => {
                return Decision::Drop("another worker has it and says what follows");
            }
            Some(token) if self.is_chain(token) => {
                if let Some(early) = self.early(now) {
                    return Decision::PutBack(early);
                }
            }
            // Of a record that is lost nothing is stale.
            Some(_) if *self == Self::default() => {}
            Some(_) => return Decision::Drop("a newer message has taken its place"),
            None if request.cause == Cause::Timer && self.is_busy(now) => {
                return Decision::Drop("it is looked at without the timer");
            }
            None => {}
        }
        if is_held {
            return self.ask(&request.cause, nonce);
        }
        Decision::Take(Self {
            lease: Lease {
                nonce: nonce.to_owned(),
                until: millis(now + TERM),
            },
            asked: None,
            ..self.clone()
        })
    }

    /// Notes for the holder that somebody asked. Once is enough, for the cause that makes the step do more.
    fn ask(&self, cause: &Cause, nonce: &str) -> Decision {
        let asked = match &self.asked {
            None => PendingRequest {
                token: nonce.to_owned(),
                cause: cause.clone(),
            },
            Some(asked) => PendingRequest {
                cause: asked.cause.clone().stronger(cause),
                ..asked.clone()
            },
        };
        if self.asked.as_ref() == Some(&asked) {
            return Decision::Drop(
                "another worker holds the lease; the request is recorded already",
            );
        }
        let record = Self {
            asked: Some(asked.clone()),
            ..self.clone()
        };
        Decision::Ask(record, asked)
    }

    fn asks(&self, token: &str) -> bool {
        self.asked.as_ref().is_some_and(|one| one.token == token)
    }

    fn is_chain(&self, token: &str) -> bool {
        self.chain.as_ref().is_some_and(|one| one.token == token)
    }

    /// How long until the lease is over, and a second more for the clocks.
    pub(super) fn until_free(&self, now: Duration) -> Duration {
        let left = self.lease.until.saturating_sub(millis(now));
        Duration::from_millis(left) + Duration::from_secs(1)
    }

    /// How much too early the message of the chain is, when that is more than clocks differ.
    fn early(&self, now: Duration) -> Option<Duration> {
        let due = self.chain.as_ref()?.due;
        let early = Duration::from_millis(due.saturating_sub(millis(now)));
        (early > EARLY && early < 2 * LONGEST).then_some(early)
    }

    /// The record at the end of a step, and why and when the object comes back by itself. `token` is new.
    pub(super) fn after(
        &self,
        outcome: &Outcome,
        cause: &Cause,
        now: Duration,
        token: &str,
    ) -> (Self, Option<(Cause, Duration)>) {
        let mut next = Self {
            chain: None,
            asked: None,
            hops: 0,
            said: String::new(),
            ..self.clone()
        };
        next.lease.until = 0;
        next.failures = match outcome.failure {
            Some(_) => self.failures.saturating_add(1),
            None => 0,
        };
        if outcome.requeue_after.is_some() {
            next.said = hex::encode(&Sha256::digest(&outcome.summary)[..8]);
            let nobody_asked = matches!(cause, Cause::Timer | Cause::Requeue);
            if nobody_asked && next.said == self.said {
                next.hops = self.hops.saturating_add(1);
            }
        }
        let back = match (&self.asked, outcome.requeue_after) {
            (Some(asked), None) => Some((asked.cause.clone(), Duration::ZERO)),
            (Some(asked), Some(_)) => {
                next.hops = 0;
                Some((
                    asked.cause.clone().stronger(&Cause::Requeue),
                    Duration::ZERO,
                ))
            }
            (None, Some(after)) if after < TIMER && next.hops >= HOPS => None,
            (None, Some(after)) => Some((Cause::Requeue, after.min(LONGEST))),
            (None, None) => None,
        };
        next.chain = back.as_ref().map(|(_, after)| Chain {
            token: token.to_owned(),
            due: millis(now + *after),
        });
        (next, back)
    }
}
