//! Repeated reads of all blobs of a directory.

use async_trait::async_trait;
use bytes::Bytes;
use driftless_kernel::ports::{BlobEntry, ErrorKind, Ports, Result, Version};
use driftless_kernel::ports::{Blobs, PortError, Precondition, PutOutcome};
use driftless_memory::{MemoryBlobs, MemoryQueue};
use futures::FutureExt as _;
use futures::future::pending;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::Mutex;

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
    let mut ports = driftless_memory::ports(
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
