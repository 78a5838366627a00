//! Journals in the bucket.

use super::entry::{Entry, Journal};
use crate::concurrent;
use crate::ports::{Blobs, Ports, Result};
use crate::state;
use driftless_flux::ObjectRef;
use futures::FutureExt as _;
use std::collections::BTreeMap;

/// The prefix of the keys of journals.
const PREFIX: &str = "journal";
/// The journals that are read concurrently.
const CONCURRENCY: usize = 16;

/// Returns the key of an object's journal.
pub fn key(hub: &str, object: &ObjectRef) -> String {
    state::object_key(
        PREFIX,
        hub,
        object.kind.plural(),
        &object.namespace,
        &object.name,
    )
}

/// Returns the prefix of the keys of the journals of a hub's objects.
fn directory(hub: &str) -> String {
    format!("{PREFIX}/{}/", state::key_part(hub))
}

/// Adds an entry to an object's journal. A failure is logged, and the entry is lost.
pub async fn append(ports: &Ports, hub: &str, object: &ObjectRef, entry: Entry) {
    let key = key(hub, object);
    if let Err(error) = try_append(ports, &key, entry).await {
        tracing::warn!(key, %error, "journal not written");
    }
}

async fn try_append(ports: &Ports, key: &str, entry: Entry) -> Result<()> {
    let (mut journal, version) = state::load::<Journal>(ports.blobs.as_ref(), key).await?;
    let before = journal.clone();
    journal.add(entry);
    state::save(ports.blobs.as_ref(), key, &before, &journal, version).await?;
    Ok(())
}

/// Returns the journal of an object; an empty one if nothing is recorded.
///
/// # Errors
/// The store cannot be reached.
pub async fn read(blobs: &dyn Blobs, hub: &str, object: &ObjectRef) -> Result<Journal> {
    let (journal, _) = state::load(blobs, &key(hub, object)).await?;
    Ok(journal)
}

/// Returns the journals of all objects of a hub from a store, for a command that runs once. One
/// that is damaged is left out.
///
/// # Errors
/// The store cannot be reached.
pub async fn read_once(blobs: &dyn Blobs, hub: &str) -> Result<BTreeMap<ObjectRef, Journal>> {
    let directory = directory(hub);
    let listed = blobs.list(&directory).await?;
    let reads = listed.iter().map(|entry| {
        let read = async move { (entry.key.as_str(), blobs.get(&entry.key).await) };
        read.boxed()
    });
    let mut journals = BTreeMap::new();
    for (key, read) in concurrent::run(CONCURRENCY, reads.collect()).await {
        // A journal may be deleted meanwhile.
        if let Some((bytes, _)) = read? {
            journals.extend(parse(key, &bytes));
        }
    }
    Ok(journals)
}

/// Returns the journals of all objects of a hub. Only those that changed since this process read
/// them last are read; one that is damaged is left out.
///
/// # Errors
/// The store cannot be reached.
pub async fn read_all(ports: &Ports, hub: &str) -> Result<BTreeMap<ObjectRef, Journal>> {
    let directory = directory(hub);
    let blobs = ports.read_all(&directory).await?;
    let blobs = blobs.iter();
    let parsed = blobs.filter_map(|(key, bytes)| parse(key, bytes));
    Ok(parsed.collect())
}

/// Parses the blob of a key in the directory of a hub's journals; a damaged one is logged.
fn parse(key: &str, bytes: &[u8]) -> Option<(ObjectRef, Journal)> {
    let (_, object) = state::object_of_key(PREFIX, key)?;
    let journal = state::parse(key, bytes)
        .inspect_err(|error| tracing::warn!(key, %error, "the journal cannot be read"));
    Some((object, journal.ok()?))
}

/// Deletes the journal of an object that is gone. A failure is logged.
pub async fn delete(ports: &Ports, hub: &str, object: &ObjectRef) {
    let key = key(hub, object);
    if let Err(error) = ports.blobs.delete(&key).await {
        tracing::warn!(key, %error, "journal not deleted");
    }
}
