//! Waiting objects: a note in the bucket under the awaited object, and a mark in its record, so
//! that a step with the awaited outcome requeues exactly the waiting objects. A note can be lost:
//! the timer checks waiting objects once a minute.

use super::await_object;
use crate::concurrent;
use crate::context::{Context, Outcome};
use crate::ports::{BlobEntry, Cause, Ports, Precondition, Request, Result};
use crate::state::key_part;
use bytes::Bytes;
use driftless_flux::ObjectRef;
use futures::FutureExt as _;
use std::time::Duration;

/// Notes that are deleted concurrently.
const CONCURRENT: usize = 16;

/// Writes a note that the object of this step waits for another one. The caller must read the other
/// object again afterwards: if it became ready before the note was written, it does not requeue
/// this one.
///
/// # Errors
/// The errors of the bucket.
pub async fn register(context: &Context<'_>, on: &ObjectRef) -> Result<()> {
    let hub = &context.hub.settings.name;
    let key = format!("{}{}", directory(hub, on), context.id.key());
    let ports = context.ports;
    ports
        .blobs
        .put(&key, Bytes::new(), Precondition::None)
        .await?;
    await_object(ports, hub, on).await
}

/// Adds a request for every object that waits for the object of a step whose status is written. The
/// caller deletes the notes after the requests are sent.
///
/// # Errors
/// The errors of the bucket.
pub(super) async fn notify(ports: &Ports, request: &Request, outcome: &mut Outcome) -> Result<()> {
    let directory = directory(&request.hub, &request.object);
    for BlobEntry { key, .. } in ports.blobs.list(&directory).await? {
        if let Some(id) = key.strip_prefix(&directory).and_then(ObjectRef::from_key) {
            let waiting = Request::new(&request.hub, id, Cause::Dependency);
            outcome.enqueue.push((waiting, Duration::ZERO));
        }
        outcome.notified.push(key);
    }
    Ok(())
}

/// Deletes the notes of objects that were requeued.
///
/// # Errors
/// The errors of the bucket.
pub async fn forget(ports: &Ports, notes: &[String]) -> Result<()> {
    let blobs = ports.blobs.as_ref();
    let work = notes.iter().map(|key| blobs.delete(key).boxed());
    let gone = concurrent::run(CONCURRENT, work.collect()).await;
    gone.into_iter().collect()
}

/// Returns the prefix of the notes under an awaited object. The waiting object chooses the name: no
/// part of it may lead elsewhere.
fn directory(hub: &str, on: &ObjectRef) -> String {
    let (hub, kind) = (key_part(hub), on.kind.plural());
    let (namespace, name) = (key_part(&on.namespace), key_part(&on.name));
    format!("waits/{hub}/{kind}/{namespace}/{name}/")
}
