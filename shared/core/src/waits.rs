//! Who waits for whom: a note in the bucket under what is waited for, so that an object that becomes ready wakes exactly
//! those, without looking through every object of its hub. A note can be lost: the timer looks at what waits once a minute.

use crate::concurrent;
use crate::flux::{FluxKind, ObjectRef};
use crate::ports::{Cause, Precondition, Request, Result};
use crate::state::key_part;
use crate::step::Context;
use bytes::Bytes;
use futures::FutureExt as _;
use std::time::Duration;

/// Deletions at once.
const CONCURRENT: usize = 16;

/// Notes that the object of this step waits for another one. Whoever calls looks at the other once more afterwards: what
/// became ready before the note was written wakes nobody.
///
/// # Errors
/// The bucket's.
pub async fn note(context: &Context<'_>, on: &ObjectRef) -> Result<()> {
    let key = format!("{}{}", folder(context, on), context.id.key());
    let blobs = &context.ports.blobs;
    blobs.put(&key, Bytes::new(), Precondition::None).await?;
    Ok(())
}

/// A request for every object that waits for the one of this step, and their notes are gone. Called when what they wait
/// for can be read: after the status is written.
///
/// # Errors
/// The bucket's.
pub async fn wake(context: &Context<'_>) -> Result<Vec<(Request, Duration)>> {
    let folder = folder(context, &context.id);
    let blobs = context.ports.blobs.as_ref();
    let notes = blobs.list(&folder).await?;
    let waiting = notes
        .iter()
        .filter_map(|(key, _)| parse(key.strip_prefix(&folder)?));
    let next = waiting
        .map(|id| context.request(id, Cause::Dependency))
        .collect();
    let work = notes.iter().map(|(key, _)| blobs.delete(key).boxed());
    let gone = concurrent::run(CONCURRENT, work.collect()).await;
    gone.into_iter().collect::<Result<()>>()?;
    Ok(next)
}

/// The name that is waited for is the waiting object's word: no part of it may lead elsewhere.
fn folder(context: &Context<'_>, on: &ObjectRef) -> String {
    let hub = key_part(&context.hub.settings.name);
    let (namespace, name) = (key_part(&on.namespace), key_part(&on.name));
    format!("waits/{hub}/{}/{namespace}/{name}/", on.kind.plural())
}

/// The object of [`ObjectRef::key`].
fn parse(key: &str) -> Option<ObjectRef> {
    let mut parts = key.splitn(3, '/');
    let plural = parts.next()?;
    let kind = FluxKind::ALL
        .into_iter()
        .find(|kind| kind.plural() == plural)?;
    Some(ObjectRef::new(kind, parts.next()?, parts.next()?))
}
