//! Who looks at an object, and when: one record an object in the bucket.
//!
//! A step begins with one GET and one conditional PUT of the record, which takes the lease, and ends with one conditional PUT,
//! which gives the lease back and says which message brings the object back. So an object that waits or is tried again has one
//! live message, and an object at rest has none, however often messages come twice or late:
//!
//! - The message that brings an object back carries a token. It is stale when the record has another token.
//! - The timer's message is dropped when a worker has the object, or a message that brings it back is on its way.
//! - Any other message that comes while a worker has the object is noted in the record, once, and the worker queues it at the
//!   end. A message with a delay until the lease's end is there in case that the worker is dead.
//!
//! The record is written before the message is sent. What is lost in between, the timer finds: the record's message is late.

mod fence;
mod record;
#[cfg(test)]
mod tests;
mod waiters;

pub use record::{HOPS, Record, TERM};
pub(crate) use waiters::{forget, register};

use crate::flux::ObjectRef;
use crate::kernel::Outcome;
use crate::ports::{
    Cause, ErrorKind, PortError, Ports, Precondition, Put, Request, Result, Version,
};
use crate::state;
use bytes::Bytes;
use record::{Decision, key};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long before the end of its lease a worker stops writing: clocks differ, and a request takes its time. A function that
/// is alive has ended by then.
const MARGIN: Duration = Duration::from_secs(20);
/// How often a record is read anew when somebody else wrote it in between.
const TRIES: usize = 8;

/// How a message begins.
pub enum Begin {
    /// With a step.
    Run(Held),
    /// Without: it is not needed, or comes back later; why.
    Skip(&'static str),
}

/// An object in the hands of this worker.
#[derive(Default)]
pub struct Held {
    key: String,
    nonce: String,
    record: Box<Record>,
    version: Version,
    is_interrupted: bool,
}

impl Held {
    /// Failures in a row until now.
    pub fn failures(&self) -> u32 {
        self.record.failures()
    }

    /// The ports of this worker: it writes to no cluster any more when its lease is over.
    pub fn fence(&self, ports: &Ports) -> Ports {
        let end = Duration::from_millis(self.record.lease.until);
        fence::fenced(ports, end.saturating_sub(MARGIN))
    }

    /// Whether the step before this one was cut off: what it did is not known.
    pub fn is_interrupted(&self) -> bool {
        self.is_interrupted
    }

    /// What the steps before remember; nothing when it cannot be read.
    pub fn memory<M: DeserializeOwned + Default>(&self) -> M {
        self.record.memory()
    }

    /// Notes what the next step is to know. It is stored when the object is given back.
    ///
    /// # Errors
    /// It is not JSON.
    pub fn remember<M: Serialize>(&mut self, memory: &M) -> Result<()> {
        self.record.memory = serde_json::to_value(memory).map_err(|error| {
            PortError::new(ErrorKind::Invalid, format!("{}: {error}", self.key))
        })?;
        Ok(())
    }

    /// Stores what was noted at once.
    ///
    /// # Errors
    /// The store's; another worker has taken the object.
    pub async fn checkpoint(&mut self, ports: &Ports) -> Result<()> {
        for _ in 0..TRIES {
            let when = Precondition::Is(self.version.clone());
            let (nonce, memory) = (&self.nonce, &self.record.memory);
            let is_ours = |found: &Record| found.lease.nonce == *nonce && found.memory == *memory;
            if let Some(version) = write(ports, &self.key, &self.record, when, is_ours).await? {
                self.version = version;
                return Ok(());
            }
            if !self.refresh(ports).await? {
                let what = format!("{}: another worker has taken the object", self.key);
                return Err(PortError::new(ErrorKind::Conflict, what));
            }
        }
        Err(contended(&self.key))
    }

    /// Reads the record that others wrote in between, and keeps what was noted here; false when another worker has the object.
    async fn refresh(&mut self, ports: &Ports) -> Result<bool> {
        match state::read::<Record>(ports.blobs.as_ref(), &self.key).await? {
            Some((record, version)) if record.lease.nonce == self.nonce => {
                let memory = std::mem::replace(&mut *self.record, record).memory;
                self.record.memory = memory;
                self.version = version;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

/// An object as a step would find it, for one that changes nothing.
///
/// # Errors
/// The store's.
pub async fn peek(ports: &Ports, hub: &str, object: &ObjectRef) -> Result<Held> {
    let record = look(ports, hub, object).await?.unwrap_or_default();
    Ok(Held {
        key: key(hub, object),
        is_interrupted: record.is_open(),
        record: record.into(),
        ..Held::default()
    })
}

/// Takes the object of a request, or sees that no step is needed.
///
/// # Errors
/// The store's or the queue's: the message must come back.
pub async fn begin(ports: &Ports, request: &Request) -> Result<Begin> {
    let key = key(&request.hub, &request.object);
    for _ in 0..TRIES {
        let (record, when) = read(ports, &key).await?;
        let (now, nonce) = (ports.clock.now(), nonce(ports));
        let (is_first, is_interrupted) = (record.asked.is_none(), record.is_open());
        match record.decide(request, now, &nonce) {
            Decision::Drop(why) => return Ok(Begin::Skip(why)),
            Decision::PutBack(after) => {
                ports.queue.send(vec![(request.clone(), after)]).await?;
                return Ok(Begin::Skip("its time has not come"));
            }
            Decision::Ask(record, asked) => {
                let is_ours = |found: &Record| found.asked.as_ref() == Some(&asked);
                if write(ports, &key, &record, when, is_ours).await?.is_some() {
                    if is_first {
                        let message = own(request, asked.cause, asked.token);
                        let after = record.until_free(now);
                        ports.queue.send(vec![(message, after)]).await?;
                    }
                    return Ok(Begin::Skip(
                        "another worker holds the lease; the request was recorded",
                    ));
                }
            }
            Decision::Take(record) => {
                let is_ours = |found: &Record| found.lease.nonce == nonce;
                if let Some(version) = write(ports, &key, &record, when, is_ours).await? {
                    let held = Held {
                        key,
                        nonce,
                        record: record.into(),
                        version,
                        is_interrupted,
                    };
                    return Ok(Begin::Run(held));
                }
            }
        }
    }
    Err(contended(&key))
}

/// Gives the object back, and adds to the outcome who is looked at next: the object itself, when it comes back, and whoever
/// waits for it. Their messages are still to be sent.
///
/// # Errors
/// The store's: the message must come back. What the outcome has can be sent.
pub async fn end(
    ports: &Ports,
    mut held: Held,
    request: &Request,
    outcome: &mut Outcome,
) -> Result<()> {
    let mut told = false;
    outcome.back_off(held.failures());
    for _ in 0..TRIES {
        if outcome.notifies && held.record.awaited && !told {
            waiters::notify(ports, request, outcome).await?;
            told = true;
        }
        if outcome.is_gone && !held.record.awaited {
            return ports.blobs.delete(&held.key).await;
        }
        let (now, token) = (ports.clock.now(), nonce(ports));
        let (mut record, back) = held.record.after(outcome, &request.cause, now, &token);
        record.awaited &= !told;
        let when = Precondition::Is(held.version.clone());
        let is_ours = |found: &Record| found.lease.nonce == held.nonce && found.lease.until == 0;
        if write(ports, &held.key, &record, when, is_ours)
            .await?
            .is_some()
        {
            if back.is_none() && outcome.requeue_after.is_some() {
                tracing::warn!(
                    hub = request.hub, object = %request.object, looks = HOPS,
                    "no progress: left to the timer: {}", outcome.summary
                );
            }
            outcome.requeue_after = back.as_ref().map(|(_, after)| *after);
            let message = back.map(|(cause, after)| (own(request, cause, token), after));
            outcome.enqueue.extend(message);
            return Ok(());
        }
        // Somebody asked for the object, waits for it, or has it now.
        if !held.refresh(ports).await? {
            outcome.requeue_after = None;
            return Ok(());
        }
    }
    Err(contended(&held.key))
}

/// A message that brings an object back.
fn own(request: &Request, cause: Cause, token: String) -> Request {
    Request {
        cause,
        token: Some(token),
        ..request.clone()
    }
}

/// The records of all objects of a hub, for the timer.
#[derive(Default)]
pub struct Records(BTreeMap<String, Bytes>);

impl Records {
    /// Reads those that have changed since this process read them last.
    ///
    /// # Errors
    /// The store's.
    pub async fn read(ports: &Ports, hub: &str) -> Result<Self> {
        Ok(Self(ports.read_all(&record::directory(hub)).await?))
    }

    /// The record of an object; none when there is none that can be read.
    pub fn of(&self, hub: &str, object: &ObjectRef) -> Option<Record> {
        let record = self.0.get(&key(hub, object))?;
        serde_json::from_slice(record).ok()
    }
}

/// The record of an object.
///
/// # Errors
/// The store's.
pub async fn look(ports: &Ports, hub: &str, object: &ObjectRef) -> Result<Option<Record>> {
    match state::read::<Record>(ports.blobs.as_ref(), &key(hub, object)).await {
        Ok(found) => Ok(found.map(|(record, _)| record)),
        Err(error) if error.kind == ErrorKind::Unreadable => Ok(None),
        Err(error) => Err(error),
    }
}

/// Notes in the record of an object that somebody waits for it.
async fn await_object(ports: &Ports, hub: &str, object: &ObjectRef) -> Result<()> {
    let key = key(hub, object);
    for _ in 0..TRIES {
        let (mut record, when) = read(ports, &key).await?;
        if record.awaited {
            return Ok(());
        }
        record.awaited = true;
        let is_ours = |found: &Record| found.awaited;
        if write(ports, &key, &record, when, is_ours).await?.is_some() {
            return Ok(());
        }
    }
    Err(contended(&key))
}

/// A record, and what must hold for the next one to be written over it. One that cannot be read is none.
async fn read(ports: &Ports, key: &str) -> Result<(Record, Precondition)> {
    match state::read::<Record>(ports.blobs.as_ref(), key).await {
        Ok(Some((record, version))) => Ok((record, Precondition::Is(version))),
        Ok(None) => Ok((Record::default(), Precondition::Absent)),
        Err(error) if error.kind == ErrorKind::Unreadable => {
            tracing::warn!(key, %error, "the record is unreadable, a new one takes its place");
            Ok((Record::default(), Precondition::None))
        }
        Err(error) => Err(error),
    }
}

/// Writes a record; `None` when somebody else was faster. A refusal may be the echo of our own write, and an error may hide a
/// success: what is stored then tells.
async fn write(
    ports: &Ports,
    key: &str,
    record: &Record,
    when: Precondition,
    is_ours: impl Fn(&Record) -> bool,
) -> Result<Option<Version>> {
    let blobs = ports.blobs.as_ref();
    match state::write(blobs, key, record, when).await {
        Ok(Put::Done(version)) => return Ok(Some(version)),
        Ok(Put::PreconditionFailed) => {}
        Err(error) if matches!(error.kind, ErrorKind::Conflict | ErrorKind::Unavailable) => {}
        Err(error) => return Err(error),
    }
    let found = match state::read::<Record>(blobs, key).await {
        Ok(found) => found,
        Err(error) if error.kind == ErrorKind::Unreadable => None,
        Err(error) => return Err(error),
    };
    let ours = found.filter(|(record, _)| is_ours(record));
    Ok(ours.map(|(_, version)| version))
}

fn nonce(ports: &Ports) -> String {
    hex::encode(ports.clock.nonce())
}

fn contended(key: &str) -> PortError {
    let what = format!("{key}: other workers wrote it {TRIES} times in between");
    PortError::new(ErrorKind::Conflict, what)
}
