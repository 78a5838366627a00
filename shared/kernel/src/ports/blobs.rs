//! Repeated reads of all blobs of a directory: only the blobs that changed are read.

use super::{BlobEntry, ErrorKind, Ports, Result, Version};
use crate::concurrent;
use bytes::Bytes;
use futures::FutureExt as _;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Blobs that are read concurrently.
const CONCURRENCY: usize = 16;
/// The most bytes of blobs that are kept in total, with [`OVERHEAD`] for each of them.
const MAX_BYTES: usize = 48 << 20;
/// The bytes that a blob needs in addition to its content: its key, several times, and its version.
const OVERHEAD: usize = 512;

/// The blobs that a process has read. Those of the directories that were read longest ago are
/// evicted first; a read never evicts what it uses itself.
#[derive(Default)]
pub struct BlobCache(Mutex<CacheEntries>);

#[derive(Default)]
struct CacheEntries {
    blobs: BTreeMap<String, Blob>,
    /// The keys of the blobs, in the order in which they are evicted.
    order: BTreeSet<(u64, String)>,
    bytes: usize,
    reads: u64,
}

struct Blob {
    version: Version,
    content: Bytes,
    /// The number of the last read that used it.
    used: u64,
}

impl BlobCache {
    fn lock(&self) -> MutexGuard<'_, CacheEntries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheEntries {
    /// Returns the number of a new read of a directory, and drops the blobs that it no longer has.
    fn begin(&mut self, prefix: &str, entries: &[BlobEntry]) -> u64 {
        let listed: BTreeSet<&str> = entries.iter().map(|entry| &*entry.key).collect();
        let known = self.blobs.range(prefix.to_owned()..).map(|(key, _)| key);
        let known = known.take_while(|key| key.starts_with(prefix));
        let gone: Vec<String> = known
            .filter(|key| !listed.contains(&***key))
            .cloned()
            .collect();
        gone.iter().for_each(|key| self.remove(key));
        self.reads += 1;
        self.reads
    }

    /// Returns a blob if it is kept in this version.
    fn get(&mut self, key: &str, version: &Version, read: u64) -> Option<Bytes> {
        let blob = self.blobs.get_mut(key)?;
        if blob.version != *version {
            return None;
        }
        let content = blob.content.clone();
        let used = std::mem::replace(&mut blob.used, read);
        if let Some((_, key)) = self.order.take(&(used, key.to_owned())) {
            self.order.insert((read, key));
        }
        Some(content)
    }

    /// Keeps a blob, if there is room or blobs that only earlier reads used.
    fn keep(&mut self, key: &str, version: Version, content: Bytes, read: u64) {
        self.remove(key);
        let size = content.len() + OVERHEAD;
        while self.bytes + size > MAX_BYTES {
            match self.order.first() {
                Some((used, oldest)) if *used < read => {
                    let oldest = oldest.clone();
                    self.remove(&oldest);
                }
                _ => return,
            }
        }
        self.bytes += size;
        self.order.insert((read, key.to_owned()));
        let used = read;
        let blob = Blob {
            version,
            content,
            used,
        };
        self.blobs.insert(key.to_owned(), blob);
    }

    fn remove(&mut self, key: &str) {
        if let Some(blob) = self.blobs.remove(key) {
            self.bytes -= blob.content.len() + OVERHEAD;
            self.order.remove(&(blob.used, key.to_owned()));
        }
    }
}

impl Ports {
    /// Reads every blob whose key starts with `prefix`, and returns them by key. Of the blobs that
    /// this process read before, only those that have changed are read. Each is kept as soon as it
    /// is read, so that a caller which no longer waits loses nothing. A blob that cannot be read is
    /// logged and left out, as one that is deleted before it is read.
    ///
    /// # Errors
    /// The directory cannot be listed, or not one of its blobs can be read.
    pub async fn read_all(&self, prefix: &str) -> Result<BTreeMap<String, Bytes>> {
        let entries = self.blobs.list(prefix).await?;
        let read = self.read.lock().begin(prefix, &entries);
        let mut all = BTreeMap::new();
        let mut changed = Vec::new();
        for BlobEntry { key, version, .. } in entries {
            let kept = version.and_then(|version| self.read.lock().get(&key, &version, read));
            match kept {
                Some(content) => {
                    all.insert(key, content);
                }
                None => changed.push(key),
            }
        }
        let reads = changed.into_iter().map(|key| {
            async move {
                let found = self.blobs.get(&key).await;
                if let Ok(Some((content, version))) = &found {
                    let (content, version) = (content.clone(), version.clone());
                    self.read.lock().keep(&key, version, content, read);
                }
                (key, found)
            }
            .boxed()
        });
        let mut errors = Vec::new();
        for (key, found) in concurrent::run(CONCURRENCY, reads.collect()).await {
            match found {
                Ok(Some((content, _))) => {
                    all.insert(key, content);
                }
                Ok(None) => {}
                Err(error) if error.kind == ErrorKind::NotFound => {}
                Err(error) => errors.push(error),
            }
        }
        let count = errors.len();
        match errors.into_iter().next() {
            Some(error) if all.is_empty() => Err(error),
            Some(error) => {
                tracing::warn!(prefix, count, "blobs cannot be read: {error}");
                Ok(all)
            }
            None => Ok(all),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_that_was_read_longest_ago_is_evicted_first() {
        let mut kept = CacheEntries::default();
        let (version, half) = (
            Version("1".to_owned()),
            Bytes::from(vec![0; MAX_BYTES / 2 - 1024]),
        );
        let entry = |key: &str| BlobEntry {
            key: key.to_owned(),
            size: 0,
            version: Some(version.clone()),
        };
        for (directory, key) in [("a/", "a/1"), ("b/", "b/1")] {
            let read = kept.begin(directory, &[entry(key)]);
            kept.keep(key, version.clone(), half.clone(), read);
        }
        let read = kept.begin("a/", &[entry("a/1")]);
        assert!(kept.get("a/1", &version, read).is_some());
        let read = kept.begin("c/", &[entry("c/1"), entry("c/2"), entry("c/3")]);
        kept.keep("c/1", version.clone(), half.clone(), read);
        let keys = |kept: &CacheEntries| kept.blobs.keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&kept), ["a/1", "c/1"]);
        // A directory that is too large keeps what fits, so that the next read finds it.
        kept.keep("c/2", version.clone(), half.clone(), read);
        kept.keep("c/3", version.clone(), half, read);
        assert_eq!(keys(&kept), ["c/1", "c/2"]);
        assert!(kept.bytes <= MAX_BYTES, "{} bytes", kept.bytes);
        kept.begin("c/", &[]);
        assert_eq!((kept.bytes, kept.order.len()), (0, 0));
    }
}
