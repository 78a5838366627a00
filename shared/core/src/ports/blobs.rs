//! Repeated reads of all blobs of a directory: only the blobs that changed are read.

use super::{BlobEntry, ErrorKind, Ports, Result, Version};
use crate::concurrent;
use bytes::Bytes;
use futures::FutureExt as _;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Blobs that are read concurrently.
const CONCURRENCY: usize = 16;
/// The most bytes of blobs that are kept in total.
const MAX_BYTES: usize = 48 << 20;

/// The blobs that a process has read, by directory and key.
#[derive(Default)]
pub struct BlobCache(Mutex<BTreeMap<String, Directory>>);

type Directory = BTreeMap<String, (Version, Bytes)>;

impl BlobCache {
    fn take(&self, prefix: &str) -> Directory {
        self.lock().remove(prefix).unwrap_or_default()
    }

    /// Keeps a directory; drops the others if the total is more than [`MAX_BYTES`].
    fn keep(&self, prefix: &str, directory: Directory) {
        let size = |directory: &Directory| {
            directory
                .values()
                .map(|(_, bytes)| bytes.len())
                .sum::<usize>()
        };
        let own = size(&directory);
        let mut directories = self.lock();
        if own + directories.values().map(size).sum::<usize>() > MAX_BYTES {
            directories.clear();
        }
        if own <= MAX_BYTES {
            directories.insert(prefix.to_owned(), directory);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Directory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ports {
    /// Reads every blob whose key starts with `prefix`, and returns them by key. Of the blobs that
    /// this process read before, only those that have changed are read. A blob that is deleted
    /// before it is read is left out.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn read_all(&self, prefix: &str) -> Result<BTreeMap<String, Bytes>> {
        let entries = self.blobs.list(prefix).await?;
        let known = self.read.take(prefix);
        let reads = entries.into_iter().map(|entry| {
            let BlobEntry { key, version, .. } = entry;
            let kept = version.and_then(|version| {
                let (known, bytes) = known.get(&key)?;
                (*known == version).then(|| (version, bytes.clone()))
            });
            async move {
                let found = match kept {
                    Some((version, bytes)) => Ok(Some((bytes, version))),
                    None => self.blobs.get(&key).await,
                };
                (key, found)
            }
            .boxed()
        });
        let mut directory = Directory::new();
        for (key, found) in concurrent::run(CONCURRENCY, reads.collect()).await {
            match found {
                Ok(Some((bytes, version))) => {
                    directory.insert(key, (version, bytes));
                }
                Ok(None) => {}
                Err(error) if error.kind == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let all = directory.iter();
        let all = all
            .map(|(key, (_, bytes))| (key.clone(), bytes.clone()))
            .collect();
        self.read.keep(prefix, directory);
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::{Blobs, Precondition, Put};
    use crate::testing::{self, MemoryBlobs, MemoryQueue};
    use async_trait::async_trait;
    use std::sync::Arc;

    /// Records which blobs are read. Its listings include versions if `lists_versions` is set.
    struct Counted {
        blobs: MemoryBlobs,
        lists_versions: bool,
        read: Mutex<Vec<String>>,
    }

    #[async_trait]
    impl Blobs for Counted {
        async fn get(&self, key: &str) -> Result<Option<(Bytes, Version)>> {
            self.read.lock().unwrap().push(key.to_owned());
            self.blobs.get(key).await
        }
        async fn put(&self, key: &str, content: Bytes, when: Precondition) -> Result<Put> {
            self.blobs.put(key, content, when).await
        }
        async fn delete(&self, key: &str) -> Result<()> {
            self.blobs.delete(key).await
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
}
