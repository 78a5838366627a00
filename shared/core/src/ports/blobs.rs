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
    use crate::ports::{Blobs, PortError, Precondition, PutOutcome};
    use crate::testing::{self, MemoryBlobs, MemoryQueue};
    use async_trait::async_trait;
    use futures::future::pending;
    use std::sync::Arc;

    /// Records which blobs are read. Its listings include versions if `lists_versions` is set.
    struct Counted {
        blobs: MemoryBlobs,
        lists_versions: bool,
        read: Mutex<Vec<String>>,
        /// The keys whose reads fail.
        broken: Mutex<BTreeSet<String>>,
        /// The keys whose reads never end.
        hanging: Mutex<BTreeSet<String>>,
    }

    #[async_trait]
    impl Blobs for Counted {
        async fn get(&self, key: &str) -> Result<Option<(Bytes, Version)>> {
            self.read.lock().unwrap().push(key.to_owned());
            if self.broken.lock().unwrap().contains(key) {
                let message = format!("{key}: no answer");
                return Err(PortError::new(ErrorKind::Unavailable, message));
            }
            if self.hanging.lock().unwrap().contains(key) {
                pending::<()>().await;
            }
            self.blobs.get(key).await
        }
        async fn put(&self, key: &str, content: Bytes, when: Precondition) -> Result<PutOutcome> {
            self.blobs.put(key, content, when).await
        }
        async fn delete(&self, key: &str) -> Result<()> {
            self.blobs.delete(key).await
        }
        async fn delete_version(&self, key: &str, version: &Version) -> Result<bool> {
            self.blobs.delete_version(key, version).await
        }
        async fn list(&self, prefix: &str) -> Result<Vec<BlobEntry>> {
            let mut entries = self.blobs.list(prefix).await?;
            if !self.lists_versions {
                entries.iter_mut().for_each(|entry| entry.version = None);
            }
            Ok(entries)
        }
        async fn size(&self, key: &str) -> Result<Option<u64>> {
            self.blobs.size(key).await
        }
        async fn set_aside(&self, key: &str, version: &Version) -> Result<()> {
            self.blobs.set_aside(key, version).await
        }
        fn url(&self, key: &str) -> String {
            self.blobs.url(key)
        }
    }

    fn world(lists_versions: bool) -> (Ports, Arc<Counted>) {
        let counted = Arc::new(Counted {
            blobs: MemoryBlobs::default(),
            lists_versions,
            read: Mutex::default(),
            broken: Mutex::default(),
            hanging: Mutex::default(),
        });
        let mut ports = testing::ports(
            Arc::default(),
            Arc::<MemoryQueue>::default(),
            Arc::default(),
        );
        ports.blobs = counted.clone();
        (ports, counted)
    }

    fn put(counted: &Counted, key: &str, text: &'static str) {
        let put = counted.put(key, Bytes::from(text), Precondition::None);
        put.now_or_never().unwrap().unwrap();
    }

    /// Returns the blobs of a directory, and the keys that were read for them.
    fn read(ports: &Ports, counted: &Counted, prefix: &str) -> (String, String) {
        let all = ports.read_all(prefix).now_or_never().unwrap().unwrap();
        let all = all
            .iter()
            .map(|(key, bytes)| format!("{key}={}", String::from_utf8_lossy(bytes)));
        let all = all.collect::<Vec<_>>().join(" ");
        let mut read = std::mem::take(&mut *counted.read.lock().unwrap());
        read.sort();
        (all, read.join(" "))
    }

    #[test]
    fn only_changed_blobs_are_read_again() {
        let (ports, counted) = world(true);
        for (key, text) in [("a/1", "x"), ("a/2", "y"), ("b/1", "z")] {
            put(&counted, key, text);
        }
        let found = |all: &str, read: &str| (all.to_owned(), read.to_owned());
        assert_eq!(
            read(&ports, &counted, "a/"),
            found("a/1=x a/2=y", "a/1 a/2")
        );
        assert_eq!(read(&ports, &counted, "b/"), found("b/1=z", "b/1"));
        assert_eq!(read(&ports, &counted, "a/"), found("a/1=x a/2=y", ""));
        put(&counted, "a/2", "w");
        put(&counted, "a/3", "v");
        let gone = counted.delete("a/1");
        gone.now_or_never().unwrap().unwrap();
        assert_eq!(
            read(&ports, &counted, "a/"),
            found("a/2=w a/3=v", "a/2 a/3")
        );
        assert_eq!(read(&ports, &counted, "b/"), found("b/1=z", ""));
    }

    #[test]
    fn without_versions_every_blob_is_read() {
        let (ports, counted) = world(false);
        put(&counted, "a/1", "x");
        for _ in 0..2 {
            let found = ("a/1=x".to_owned(), "a/1".to_owned());
            assert_eq!(read(&ports, &counted, "a/"), found);
        }
    }

    #[test]
    fn a_read_that_fails_costs_one_blob() {
        let (ports, counted) = world(true);
        for key in ["a/1", "a/2", "a/3"] {
            put(&counted, key, "x");
        }
        counted.broken.lock().unwrap().insert("a/2".to_owned());
        let found = |all: &str, read: &str| (all.to_owned(), read.to_owned());
        assert_eq!(
            read(&ports, &counted, "a/"),
            found("a/1=x a/3=x", "a/1 a/2 a/3")
        );
        counted.broken.lock().unwrap().clear();
        assert_eq!(
            read(&ports, &counted, "a/"),
            found("a/1=x a/2=x a/3=x", "a/2")
        );
    }

    #[test]
    fn a_store_without_any_answer_is_an_error() {
        let (ports, counted) = world(true);
        put(&counted, "a/1", "x");
        counted.broken.lock().unwrap().insert("a/1".to_owned());
        let error = ports.read_all("a/").now_or_never().unwrap().unwrap_err();
        assert_eq!(error.message, "a/1: no answer");
    }

    #[test]
    fn a_time_limit_loses_nothing_that_was_read() {
        let (ports, counted) = world(true);
        for key in ["a/1", "a/2", "a/3"] {
            put(&counted, key, "x");
        }
        counted.hanging.lock().unwrap().insert("a/2".to_owned());
        assert!(ports.read_all("a/").now_or_never().is_none(), "one hangs");
        counted.hanging.lock().unwrap().clear();
        counted.read.lock().unwrap().clear();
        let all = ("a/1=x a/2=x a/3=x".to_owned(), "a/2".to_owned());
        assert_eq!(read(&ports, &counted, "a/"), all);
    }

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
