//! The events that wait for the step of their Provider, and those that it has sent: small records
//! in the bucket, all of which may be lost.
//!
//! An event that waits, or was sent in the last five minutes, is not added again: so an object that
//! fails repeatedly sends one notification, as with notification-controller. The record of a sent
//! event is written before the event stops waiting: after a crash in between it is not sent again.
//!
//! The first event of a push waits for all of them, where the Alert merges them: later ones are not
//! added, and after that event was sent, they are separate events.

use super::push::{self, PushRef};
use crate::ports::{BlobEntry, Ports, Precondition, PutOutcome, Result};
use crate::state::millis;
use crate::state::{self, decode_key_part, key_part};
use driftless_flux::{FluxEvent, FluxKind, ObjectRef, meta_key};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::time::Duration;

/// The prefix of the keys of all records.
pub const PREFIX: &str = "notifications/";
/// The time in which an event is not sent again: the default of notification-controller's
/// `--rate-limit-interval`.
const SUPPRESSED: Duration = Duration::from_secs(5 * 60);

/// An event that waits to be sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pending {
    /// The name of the Alert that selected the event, in the namespace of the Provider.
    pub alert: String,
    /// The event that waits.
    pub event: FluxEvent,
    /// The time at which the event was recorded, in milliseconds since 1970.
    pub since: u64,
    /// The place among the events of the same step.
    #[serde(default)]
    index: usize,
    /// The push, if one event is sent for all of its events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push: Option<PushRef>,
}

/// The result of adding an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddOutcome {
    /// The event waits now.
    Added,
    /// The same event waited already.
    Waits,
    /// The same event was sent.
    Sent,
}

/// A note about an event that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Sent {
    /// [`Pending::since`] of the event.
    since: u64,
    /// The time at which it was sent, in milliseconds since 1970.
    at: u64,
}

/// The state of the records.
#[derive(Clone, Copy)]
enum State {
    Pending,
    Sent,
}

fn hub_directory(state: State, hub: &str) -> String {
    let state = match state {
        State::Pending => "pending",
        State::Sent => "sent",
    };
    format!("{PREFIX}{}/{state}/", key_part(hub))
}

fn directory(state: State, hub: &str, provider: &ObjectRef) -> String {
    let directory = hub_directory(state, hub);
    let (namespace, name) = (key_part(&provider.namespace), key_part(&provider.name));
    format!("{directory}{namespace}/{name}/")
}

impl Pending {
    /// Returns an event that waits since now; `index` is its place among those of its step.
    pub fn new(ports: &Ports, alert: &str, event: FluxEvent, index: usize) -> Self {
        Self {
            index,
            alert: alert.to_owned(),
            event,
            since: millis(ports.clock.now()),
            push: None,
        }
    }

    /// Returns the event as the only one of a push.
    #[must_use]
    pub fn of_push(self, push: PushRef) -> Self {
        Self {
            push: Some(push),
            ..self
        }
    }

    /// Returns the time for which the event has waited.
    pub fn age(&self, ports: &Ports) -> Duration {
        ports
            .clock
            .now()
            .saturating_sub(Duration::from_millis(self.since))
    }

    fn key(&self, state: State, hub: &str, provider: &ObjectRef) -> String {
        let directory = directory(state, hub, provider);
        format!("{directory}{}.json", self.digest())
    }

    /// Returns the digest of what makes an event the same as another one, with the parts of
    /// notification-controller's `eventKeyFunc`.
    fn digest(&self) -> String {
        let (event, involved) = (&self.event, &self.event.involved_object);
        let mut digest = Sha256::new();
        let mut part = |name: &str, value: &str| {
            digest.update(name);
            digest.update((value.len() as u64).to_be_bytes());
            digest.update(value);
        };
        part("alert", &self.alert);
        if let Some(push) = &self.push {
            part("push", &push.revision);
            return hex::encode(digest.finalize());
        }
        part("kind", &involved.kind);
        part("namespace", &involved.namespace);
        part("name", &involved.name);
        part("message", &event.message);
        for key in [
            meta_key::ORIGIN_REVISION,
            meta_key::REVISION,
            meta_key::TOKEN,
        ] {
            if let Some(value) = event.own(key) {
                part(key, value);
            }
        }
        hex::encode(digest.finalize())
    }
}

/// Adds an event that waits for a Provider, unless the same was sent in the last five minutes; a
/// push, unless it was sent at all, or is sent at any moment because its time is over.
///
/// # Errors
/// The bucket's.
pub async fn add(
    ports: &Ports,
    hub: &str,
    provider: &ObjectRef,
    event: &Pending,
) -> Result<AddOutcome> {
    let blobs = ports.blobs.as_ref();
    let sent = state::recall::<Sent>(blobs, &event.key(State::Sent, hub, provider)).await?;
    if sent.is_some_and(|(sent, _)| event.push.is_some() || is_fresh(ports, sent)) {
        return Ok(AddOutcome::Sent);
    }
    let key = event.key(State::Pending, hub, provider);
    match state::write(blobs, &key, event, Precondition::Absent).await? {
        PutOutcome::Done(_) => Ok(AddOutcome::Added),
        PutOutcome::PreconditionFailed if event.push.is_some() => {
            let known = state::recall::<Pending>(blobs, &key).await?;
            let is_over = known.is_some_and(|(known, _)| known.age(ports) >= push::LIMIT);
            match is_over {
                true => Ok(AddOutcome::Sent),
                false => Ok(AddOutcome::Waits),
            }
        }
        PutOutcome::PreconditionFailed => Ok(AddOutcome::Waits),
    }
}

fn is_fresh(ports: &Ports, sent: Sent) -> bool {
    let at = Duration::from_millis(sent.at);
    ports.clock.now().saturating_sub(at) < SUPPRESSED
}

/// Returns the events that wait for a Provider, oldest first, at most `most`.
///
/// # Errors
/// The bucket's.
pub async fn list(
    ports: &Ports,
    hub: &str,
    provider: &ObjectRef,
    most: usize,
) -> Result<Vec<Pending>> {
    let directory = directory(State::Pending, hub, provider);
    let found = ports.blobs.list(&directory).await?;
    let mut waiting = Vec::new();
    for BlobEntry { key, .. } in found.into_iter().take(most) {
        let event = state::recall::<Pending>(ports.blobs.as_ref(), &key).await?;
        waiting.extend(event.map(|(event, _)| event));
    }
    waiting.sort_by_key(|event| (event.since, event.index));
    Ok(waiting)
}

/// Returns whether an event was sent by a step that did not end, or the same one in the last five
/// minutes.
///
/// # Errors
/// The bucket's.
pub async fn was_sent(
    ports: &Ports,
    hub: &str,
    provider: &ObjectRef,
    event: &Pending,
) -> Result<bool> {
    let key = event.key(State::Sent, hub, provider);
    let sent = state::recall::<Sent>(ports.blobs.as_ref(), &key).await?;
    Ok(sent.is_some_and(|(sent, _)| {
        event.push.is_some() || sent.since == event.since || is_fresh(ports, sent)
    }))
}

/// Notes that an event was sent, and removes it.
///
/// # Errors
/// The bucket's.
pub async fn set_sent(
    ports: &Ports,
    hub: &str,
    provider: &ObjectRef,
    event: &Pending,
) -> Result<()> {
    let key = event.key(State::Sent, hub, provider);
    let sent = Sent {
        since: event.since,
        at: millis(ports.clock.now()),
    };
    state::write(ports.blobs.as_ref(), &key, &sent, Precondition::None).await?;
    remove(ports, hub, provider, event).await
}

/// Removes an event that is not sent.
///
/// # Errors
/// The bucket's.
pub async fn remove(ports: &Ports, hub: &str, provider: &ObjectRef, event: &Pending) -> Result<()> {
    let key = event.key(State::Pending, hub, provider);
    ports.blobs.delete(&key).await
}

/// Returns the Providers of a hub with events that wait, for the timer.
///
/// # Errors
/// The bucket's.
pub async fn providers(ports: &Ports, hub: &str) -> Result<BTreeSet<ObjectRef>> {
    let directory = hub_directory(State::Pending, hub);
    let found = ports.blobs.list(&directory).await?;
    let provider = |entry: BlobEntry| {
        let mut parts = entry.key.strip_prefix(&directory)?.split('/');
        let (namespace, name) = (parts.next()?, parts.next()?);
        Some(ObjectRef::new(
            FluxKind::Provider,
            decode_key_part(namespace)?,
            decode_key_part(name)?,
        ))
    };
    Ok(found.into_iter().filter_map(provider).collect())
}
