//! Which worker reconciles an object, and when: one record for each object in the bucket.
//!
//! A step begins with one GET and one conditional PUT of the record, which takes the lease, and
//! ends with one conditional PUT, which releases the lease and names the message that requeues the
//! object. So an object that waits or is retried has one live message, and an idle object has none,
//! even if messages are duplicated or late:
//!
//! - The message that requeues an object has a token. It is stale if the record has another token.
//! - The timer's message is dropped if a worker has the object, or a message that requeues it is
//!   queued.
//! - Any other message that comes while a worker has the object is recorded, and the worker queues
//!   it at the end of the step. A message that is delayed until the end of the lease covers the
//!   death of the worker.
//!
//! The record is written before the message is sent. If the message is lost in between, the timer
//! finds that it is late.

mod fence;
mod record;
mod waiting_objects;

pub use record::{LEASE_DURATION, MAX_FAST_REQUEUES, MAX_INTERRUPTIONS, Record};
pub use waiting_objects::{forget, register};

use crate::context::Outcome;
use crate::document;
use crate::ports::{
    Cause, ErrorKind, PortError, Ports, Precondition, PutOutcome, Request, Result, Version,
};
use crate::state;
use bytes::Bytes;
use driftless_flux::ObjectRef;
use record::{Decision, key};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::time::Duration;

/// The time before the end of its lease at which a worker stops writing: clocks differ, and a
/// request takes time. A function that is alive has ended by then.
const LEASE_MARGIN: Duration = Duration::from_secs(20);
/// The most tries to write a record that other workers write at the same time.
const TRIES: u32 = 8;
/// The longest pauses before the second and before the last tries to write a record.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The first decision about a message.
pub enum MessageDecision {
    /// A step runs under this lease.
    Run(Lease),
    /// No step runs, for this reason: it is not needed, or the message comes again later.
    Skip(&'static str),
}

/// The lease of an object that this worker holds.
#[derive(Default)]
pub struct Lease {
    key: String,
    nonce: String,
    record: Box<Record>,
    version: Version,
    is_interrupted: bool,
    only_reports: bool,
    is_remembered: bool,
    /// True if the step has changed the memory.
    pub has_new_memory: bool,
}

impl Lease {
    /// Returns the ports of this worker, which refuse writes to clusters after the end of its
    /// lease.
    pub fn fence(&self, ports: &Ports) -> Ports {
        let end = Duration::from_millis(self.record.lease.until);
        fence::fenced(ports, end.saturating_sub(LEASE_MARGIN))
    }

    /// Returns the id of this worker's step.
    pub fn step(&self) -> &str {
        &self.nonce
    }

    /// Returns whether the step before this one was interrupted: its effects are not known.
    pub fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }

    /// Returns whether this step only reports that the steps before it did not end: the next one
    /// runs isolated.
    pub fn only_reports_interruptions(&self) -> bool {
        self.only_reports
    }

    /// Returns the memory of earlier steps; the default if it cannot be read.
    pub fn memory<M: DeserializeOwned + Default>(&self) -> M {
        self.record.memory()
    }

    /// Sets the memory for the next step. It is stored when the lease is released.
    ///
    /// # Errors
    /// `Invalid` if the memory cannot be converted to JSON.
    pub fn remember<M: Serialize>(&mut self, memory: &M) -> Result<()> {
        self.record.memory = serde_json::to_value(memory).map_err(|error| {
            PortError::new(ErrorKind::Invalid, format!("{}: {error}", self.key))
        })?;
        self.is_remembered = true;
        Ok(())
    }

    /// Stores the memory now.
    ///
    /// # Errors
    /// The errors of the store, or a conflict if another worker has taken the object.
    pub async fn checkpoint(&mut self, ports: &Ports) -> Result<()> {
        for tries in 0..TRIES {
            pause(ports, tries).await;
            let when = Precondition::Is(self.version.clone());
            let (nonce, memory) = (&self.nonce, &self.record.memory);
            let is_ours = |found: &Record| found.lease.nonce == *nonce && found.memory == *memory;
            if let Some(version) = write(ports, &self.key, &self.record, when, is_ours).await? {
                self.version = version;
                return Ok(());
            }
            if !self.refresh(ports).await? {
                let message = format!("{}: another worker has taken the object", self.key);
                return Err(PortError::new(ErrorKind::Conflict, message));
            }
        }
        Err(contended(&self.key))
    }

    /// Reads the record that others wrote in between, and keeps the memory if it was set here;
    /// `false` if another worker has the object.
    async fn refresh(&mut self, ports: &Ports) -> Result<bool> {
        match state::read::<Record>(ports.blobs.as_ref(), &self.key).await? {
            Some((record, version)) if record.lease.nonce == self.nonce => {
                let memory = std::mem::replace(&mut *self.record, record).memory;
                if self.is_remembered {
                    self.record.memory = memory;
                }
                self.version = version;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

/// Returns an object's lease without taking it, for a step that changes nothing.
///
/// # Errors
/// The errors of the store.
pub async fn peek(ports: &Ports, hub: &str, object: &ObjectRef) -> Result<Lease> {
    let record = read_record(ports, hub, object).await?.unwrap_or_default();
    Ok(Lease {
        key: key(hub, object),
        is_interrupted: record.is_open() || record.interruptions > 0,
        record: record.into(),
        ..Lease::default()
    })
}

/// Takes the lease of a request's object, or decides that no step is needed.
///
/// # Errors
/// The errors of the store and the queue: the message must come back.
pub async fn begin(ports: &Ports, request: &Request) -> Result<MessageDecision> {
    let key = key(&request.hub, &request.object);
    for tries in 0..TRIES {
        pause(ports, tries).await;
        let (record, when) = read(ports, &key).await?;
        let (now, nonce) = (ports.clock.now(), nonce(ports));
        let (is_first, was_open) = (record.pending.is_none(), record.is_open());
        match record.decide(request, now, &nonce) {
            Decision::Drop(reason) => return Ok(MessageDecision::Skip(reason)),
            Decision::PutBack(after) => {
                ports.queue.send(vec![(request.clone(), after)]).await?;
                return Ok(MessageDecision::Skip(
                    "the message is early; it was queued again",
                ));
            }
            Decision::Ask(record, pending) => {
                let is_ours = |found: &Record| found.pending.as_ref() == Some(&pending);
                if write(ports, &key, &record, when, is_ours).await?.is_some() {
                    if is_first {
                        let message = own(request, pending.cause, pending.token, false);
                        let message = Request {
                            origin: pending.origin,
                            ..message
                        };
                        let after = record.until_free(now);
                        ports.queue.send(vec![(message, after)]).await?;
                    }
                    return Ok(MessageDecision::Skip(
                        "another worker holds the lease; the request was recorded",
                    ));
                }
            }
            Decision::Take(record) => {
                let is_ours = |found: &Record| found.lease.nonce == nonce;
                if let Some(version) = write(ports, &key, &record, when, is_ours).await? {
                    let held = Lease {
                        key,
                        nonce,
                        is_interrupted: record.interruptions > 0,
                        only_reports: record.is_isolated() && (was_open || !request.isolated),
                        is_remembered: false,
                        record: record.into(),
                        version,
                        has_new_memory: false,
                    };
                    return Ok(MessageDecision::Run(held));
                }
            }
        }
    }
    Err(contended(&key))
}

/// Releases the lease, and adds requests to the outcome: for the object itself, if it is requeued,
/// and for the objects that wait for it. The caller sends them.
///
/// # Errors
/// The errors of the store: the message must come back. The requests that the outcome has can still
/// be sent.
pub async fn end(
    ports: &Ports,
    mut held: Lease,
    request: &Request,
    outcome: &mut Outcome,
) -> Result<()> {
    let mut is_notified = false;
    outcome.back_off(held.record.failures_before(outcome));
    for tries in 0..TRIES {
        pause(ports, tries).await;
        if outcome.notifies && held.record.is_awaited && !is_notified {
            waiting_objects::notify(ports, request, outcome).await?;
            is_notified = true;
        }
        if outcome.is_gone && !held.record.is_awaited {
            match ports.blobs.delete_version(&held.key, &held.version).await {
                Ok(true) => return Ok(()),
                Err(error) if !is_unclear(error.kind) => return Err(error),
                Ok(false) | Err(_) if held.refresh(ports).await? => continue,
                Ok(false) | Err(_) => return Ok(()),
            }
        }
        if !held.only_reports {
            held.record.interruptions = 0;
        }
        let (now, token) = (ports.clock.now(), nonce(ports));
        let (mut record, back) = held.record.after(outcome, &request.cause, now, &token);
        record.is_awaited &= !is_notified;
        let when = Precondition::Is(held.version.clone());
        let is_ours = |found: &Record| found.lease.nonce == held.nonce && found.lease.until == 0;
        if write(ports, &held.key, &record, when, is_ours)
            .await?
            .is_some()
        {
            if back.is_none() && outcome.requeue_after.is_some() {
                tracing::warn!(
                    hub = request.hub, object = %request.object, steps = MAX_FAST_REQUEUES,
                    "no progress; the object is left to the timer: {}", outcome.summary
                );
            }
            outcome.requeue_after = back.as_ref().map(|(_, after)| *after);
            let is_isolated = record.is_isolated();
            let pending = held.record.pending.take();
            let message = back.map(|(cause, after)| {
                let message = Request {
                    origin: pending.and_then(|pending| pending.origin),
                    ..own(request, cause, token, is_isolated)
                };
                (message, after)
            });
            outcome.enqueue.extend(message);
            return Ok(());
        }
        // Another worker has recorded a request or a waiting object, or has taken the lease.
        if !held.refresh(ports).await? {
            outcome.requeue_after = None;
            return Ok(());
        }
    }
    Err(contended(&held.key))
}

/// Returns a message that requeues an object. The step that sends it is its origin.
fn own(request: &Request, cause: Cause, token: String, isolated: bool) -> Request {
    Request {
        cause,
        token: Some(token),
        isolated,
        received: None,
        consumers: Vec::new(),
        origin: None,
        ..request.clone()
    }
}

/// The records of all objects of a hub, for the timer.
#[derive(Default)]
pub struct Records(BTreeMap<String, Bytes>);

impl Records {
    /// Reads the records that have changed since this process read them last.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn read(ports: &Ports, hub: &str) -> Result<Self> {
        Ok(Self(ports.read_all(&record::directory(hub)).await?))
    }

    /// Returns the stored record of a key of the bucket; `None` if the key is not that of a record
    /// which was read.
    pub fn blob(&self, key: &str) -> Option<&Bytes> {
        self.0.get(key)
    }

    /// Returns the record of an object; `None` if it does not exist or cannot be read.
    pub fn of(&self, hub: &str, object: &ObjectRef) -> Option<Record> {
        let record = self.0.get(&key(hub, object))?;
        document::decode(record).ok()
    }
}

/// Reads the record of an object; `None` if it does not exist or cannot be read.
///
/// # Errors
/// The errors of the store.
pub async fn read_record(ports: &Ports, hub: &str, object: &ObjectRef) -> Result<Option<Record>> {
    match state::read::<Record>(ports.blobs.as_ref(), &key(hub, object)).await {
        Ok(found) => Ok(found.map(|(record, _)| record)),
        Err(error) if state::is_lost(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Stores the memory of another object, whose own steps set none.
///
/// # Errors
/// The errors of the store; `Invalid` if the memory cannot be converted to JSON.
pub async fn remember_of<M: Serialize>(
    ports: &Ports,
    hub: &str,
    object: &ObjectRef,
    memory: &M,
) -> Result<()> {
    let key = key(hub, object);
    let memory = serde_json::to_value(memory)
        .map_err(|error| PortError::new(ErrorKind::Invalid, format!("{key}: {error}")))?;
    for tries in 0..TRIES {
        pause(ports, tries).await;
        let (mut record, when) = read(ports, &key).await?;
        if record.memory == memory {
            return Ok(());
        }
        record.memory.clone_from(&memory);
        let is_ours = |found: &Record| found.memory == memory;
        if write(ports, &key, &record, when, is_ours).await?.is_some() {
            return Ok(());
        }
    }
    Err(contended(&key))
}

/// Marks in the record of an object that another object waits for it.
///
/// # Errors
/// The errors of the store.
pub async fn await_object(ports: &Ports, hub: &str, object: &ObjectRef) -> Result<()> {
    let key = key(hub, object);
    for tries in 0..TRIES {
        pause(ports, tries).await;
        let (mut record, when) = read(ports, &key).await?;
        if record.is_awaited {
            return Ok(());
        }
        record.is_awaited = true;
        let is_ours = |found: &Record| found.is_awaited;
        if write(ports, &key, &record, when, is_ours).await?.is_some() {
            return Ok(());
        }
    }
    Err(contended(&key))
}

/// Reads a record, and returns it with the precondition for its replacement. A record that cannot
/// be read counts as empty; one with a newer format is refused while a newer function holds its
/// lease.
async fn read(ports: &Ports, key: &str) -> Result<(Record, Precondition)> {
    let Some((bytes, version)) = ports.blobs.get(key).await? else {
        return Ok((Record::default(), Precondition::Absent));
    };
    match state::parse::<Record>(key, &bytes) {
        Ok(record) => Ok((record, Precondition::Is(version))),
        Err(error) if state::is_newer(&error) && record::has_lease(&bytes, ports.clock.now()) => {
            let message = format!("a newer function works on the object: {error}");
            Err(PortError::new(ErrorKind::Unavailable, message))
        }
        Err(error) => {
            tracing::warn!(key, %error, "the record is unreadable; a new one replaces it");
            Ok((Record::default(), Precondition::Is(version)))
        }
    }
}

/// Writes a record; `None` if another worker was faster. A refusal may be the echo of our own
/// write, and an error may hide a success: then the stored record decides.
async fn write(
    ports: &Ports,
    key: &str,
    record: &Record,
    when: Precondition,
    is_ours: impl Fn(&Record) -> bool,
) -> Result<Option<Version>> {
    let blobs = ports.blobs.as_ref();
    match state::write(blobs, key, record, when).await {
        Ok(PutOutcome::Done(version)) => return Ok(Some(version)),
        Ok(PutOutcome::PreconditionFailed) => {}
        Err(error) if is_unclear(error.kind) => {}
        Err(error) => return Err(error),
    }
    let found = match state::read::<Record>(blobs, key).await {
        Ok(found) => found,
        Err(error) if state::is_lost(&error) => None,
        Err(error) => return Err(error),
    };
    let ours = found.filter(|(record, _)| is_ours(record));
    Ok(ours.map(|(_, version)| version))
}

/// Returns whether a write with this error may succeed later, or has happened.
fn is_unclear(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Conflict | ErrorKind::Unavailable | ErrorKind::RateLimited
    )
}

/// Waits before another try of a write, at random, so that workers that write the same record do
/// not meet again.
async fn pause(ports: &Ports, tries: u32) {
    let Some(before) = tries.checked_sub(1) else {
        return;
    };
    let longest = FIRST_PAUSE.saturating_mul(2u32.saturating_pow(before));
    let half = longest.min(LONGEST_PAUSE) / 2;
    let [random, ..] = ports.clock.nonce();
    ports.clock.sleep(half + half * random.into() / 256).await;
}

fn nonce(ports: &Ports) -> String {
    hex::encode(ports.clock.nonce())
}

fn contended(key: &str) -> PortError {
    let message =
        format!("{key}: not written: other workers changed the record {TRIES} times meanwhile");
    PortError::new(ErrorKind::Conflict, message)
}
