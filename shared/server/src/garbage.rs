//! Deletes unused artifacts and notes, and old records of the audit log, from the state directory.
//! On AWS the lifecycle rules of the bucket do this.
//!
//! ```text
//! status.artifact of the hub's objects ──▶ artifacts/HASH.*
//! commits/…, charts/… ─────────────────▶ artifacts/HASH.*
//! ```
//! A running step may have read a note, and write the artifact's name into a status later. So a
//! note is deleted when no status has had its artifact for a time longer than any step, and an
//! artifact when neither a status nor a note has referred to it for such a time. To store an
//! artifact or a note again renews the time of its file, and it stays.

use driftless_adapters::local::DirectoryBlobs;
use driftless_flux::{ArtifactStatus, FluxKind};
use driftless_kernel::audit;
use driftless_kernel::failure::Failure;
use driftless_kernel::hub;
use driftless_kernel::ports::{BlobEntry, Blobs as _, Ports};
use driftless_kernel::state;
use driftless_manifest::Object;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::task::JoinHandle;

/// The interval of collections.
const INTERVAL: Duration = Duration::from_secs(600);
/// The time for which unused files are kept.
const UNUSED_FILE_TTL: Duration = Duration::from_secs(3600);
/// The time for which the note of a waiting object and the wait of a login are kept; an object that
/// still waits renews its note every minute.
const WAIT_NOTE_TTL: Duration = Duration::from_secs(24 * 3600);
/// The time for which records of the audit log are kept, as by the lifecycle rule of the bucket.
const AUDIT_TTL: Duration = Duration::from_secs(400 * 24 * 3600);
/// The prefixes of notes that map a commit or chart to its artifact.
const NOTES: [&str; 2] = ["commits/", "charts/"];

/// Starts the collection, first after one interval.
pub(crate) fn timer(ports: Ports, store: DirectoryBlobs, hub: String) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut garbage = Garbage::new(store);
        loop {
            tokio::time::sleep(INTERVAL).await;
            match garbage.collect(&ports, &hub).await {
                Ok(0) => {}
                Ok(count) => tracing::info!(count, "deleted unused artifacts and notes"),
                // An object that cannot be read may refer to anything, so nothing is deleted.
                Err(failure) => tracing::warn!("unused artifacts and notes not deleted: {failure}"),
            }
        }
    })
}

/// The unused keys, with the time at which they were first found unused.
pub struct Garbage {
    store: DirectoryBlobs,
    since: BTreeMap<String, Duration>,
}

impl Garbage {
    /// Starts without unused keys.
    pub fn new(store: DirectoryBlobs) -> Self {
        Self {
            store,
            since: BTreeMap::new(),
        }
    }

    /// Deletes what has been unused for long enough; returns the number of deleted files.
    ///
    /// # Errors
    /// Fails if the hub's objects or the directory cannot be read; nothing is deleted then.
    pub async fn collect(&mut self, ports: &Ports, hub: &str) -> Result<usize, Failure> {
        let unused = self.unused(ports, hub).await?;
        let now = ports.clock.now();
        self.since.retain(|key, _| unused.contains(key));
        let mut removed = 0;
        for key in unused {
            let since = *self.since.entry(key.clone()).or_insert(now);
            if now.saturating_sub(since) >= UNUSED_FILE_TTL {
                removed += usize::from(self.store.expire(&key, UNUSED_FILE_TTL).await?);
            }
        }
        for prefix in ["waits/", "limits/", "notifications/"] {
            for BlobEntry { key, .. } in self.store.list(prefix).await? {
                removed += usize::from(self.store.expire(&key, WAIT_NOTE_TTL).await?);
            }
        }
        for BlobEntry { key, .. } in self.store.list(audit::PREFIX).await? {
            let is_old = |time| now.saturating_sub(time) >= AUDIT_TTL;
            if audit::time_of(&key).is_some_and(is_old) {
                self.store.delete(&key).await?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Returns the notes whose artifact is in no status or does not exist, and the artifacts that
    /// are in no status and no note.
    async fn unused(&self, ports: &Ports, hub: &str) -> Result<BTreeSet<String>, Failure> {
        let artifacts = self.store.list("artifacts/").await?;
        let stored: BTreeSet<&str> = artifacts.iter().map(|entry| name(&entry.key)).collect();
        let mut used = in_status(ports, hub).await?;
        let (mut unused, mut noted) = (BTreeSet::new(), BTreeSet::new());
        for prefix in NOTES {
            for BlobEntry { key, .. } in self.store.list(prefix).await? {
                let note = state::recall::<ArtifactStatus>(&self.store, &key).await?;
                let Some((note, _)) = note else { continue };
                let artifact = name(&note.path).to_owned();
                if !used.contains(&artifact) || !stored.contains(artifact.as_str()) {
                    unused.insert(key);
                }
                noted.insert(artifact);
            }
        }
        used.append(&mut noted);
        let forgotten = artifacts
            .iter()
            .filter(|entry| !used.contains(name(&entry.key)));
        unused.extend(forgotten.map(|entry| entry.key.clone()));
        Ok(unused)
    }
}

/// Returns the artifacts in the status of the hub's objects.
async fn in_status(ports: &Ports, hub: &str) -> Result<BTreeSet<String>, Failure> {
    let hub = hub::connect(ports, hub).await?;
    let mut used = BTreeSet::new();
    for kind in FluxKind::ALL {
        let objects = hub.list(kind).await?;
        used.extend(objects.iter().filter_map(artifact_of));
    }
    Ok(used)
}

fn artifact_of(object: &Object) -> Option<String> {
    let path = object.pointer("/status/artifact/path")?.as_str()?;
    Some(name(path).to_owned())
}

/// Returns the name of an artifact without the extensions of its files: `artifacts/HASH` of
/// `artifacts/HASH.tar.gz`.
fn name(key: &str) -> &str {
    key.split('.').next().unwrap_or(key)
}
