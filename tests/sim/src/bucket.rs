//! S3: strong consistency, conditional writes, and errors after which the caller does not know
//! whether the write happened.

use crate::bugs::Bug;
use crate::clock::SimClock;
use crate::gate::{Gate, Kind, Trouble};
use crate::leases::Leases;
use async_trait::async_trait;
use bytes::Bytes;
use driftless_kernel::ports::{
    BlobEntry, Blobs, Clock as _, ErrorKind, PortError, Precondition, PutOutcome, Result, Version,
    part,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// The blobs of a bucket with their versions, by key.
pub type Content = BTreeMap<String, (Bytes, Version)>;

/// The simulated S3 bucket.
pub struct Bucket {
    gate: Arc<Gate>,
    content: Mutex<Content>,
    writes: Mutex<u64>,
    leases: Arc<Leases>,
    clock: SimClock,
    bug: Option<Bug>,
}

impl Bucket {
    /// Returns a bucket with this content.
    pub fn new(
        gate: Arc<Gate>,
        content: Content,
        leases: Arc<Leases>,
        clock: SimClock,
        bug: Option<Bug>,
    ) -> Self {
        Self {
            gate,
            // Versions are unique, also across the content that the bucket begins with.
            writes: Mutex::new(1_000_000 * content.len() as u64),
            content: Mutex::new(content),
            leases,
            clock,
            bug,
        }
    }

    /// Returns a copy of all blobs.
    pub fn content(&self) -> Content {
        self.content.lock().expect("the bucket").clone()
    }

    fn write(&self, key: &str, content: Bytes, when: &Precondition) -> PutOutcome {
        let mut blobs = self.content.lock().expect("the bucket");
        let known = blobs.get(key).map(|(_, version)| version);
        let holds = match when {
            Precondition::None => true,
            Precondition::Absent => known.is_none(),
            Precondition::Is(version) => known == Some(version),
        };
        if !holds && self.bug != Some(Bug::NoPreconditions) {
            return PutOutcome::PreconditionFailed;
        }
        let mut writes = self.writes.lock().expect("the counter");
        *writes += 1;
        let version = Version(format!("\"{writes}\""));
        self.leases.written(key, &content, self.clock.now());
        blobs.insert(key.to_owned(), (content, version.clone()));
        PutOutcome::Done(version)
    }
}

/// Converts a fault to an error, as the adapter maps the service's responses. `operation` begins
/// the message.
fn refusal(operation: &str, trouble: Trouble) -> PortError {
    let dice = match trouble {
        Trouble::Before(dice) | Trouble::After(dice) => dice,
        Trouble::TimedOut => {
            return PortError::new(
                ErrorKind::Unavailable,
                format!("{operation}: no answer in time"),
            );
        }
    };
    match dice % 3 {
        0 => PortError::new(ErrorKind::Unavailable, format!("{operation}: SlowDown")),
        1 => PortError::new(
            ErrorKind::Unavailable,
            format!("{operation}: InternalError"),
        ),
        _ => PortError::new(
            ErrorKind::Unavailable,
            format!("{operation}: connection reset"),
        ),
    }
}

#[async_trait]
impl Blobs for Bucket {
    async fn get(&self, key: &str) -> Result<Option<(Bytes, Version)>> {
        let effect = || {
            let found = self.content.lock().expect("the bucket").get(key).cloned();
            let bytes = found.as_ref().map_or(0, |(content, _)| content.len());
            self.gate.receive(Kind::BlobRead, bytes, bytes);
            Ok(found)
        };
        let refuse = |trouble| Err(refusal(&format!("read s3://sim/{key}"), trouble));
        let name = format!("read {key}");
        self.gate
            .call(Kind::BlobRead, &name, None, effect, refuse)
            .await
    }

    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Option<Bytes>> {
        let operation = format!("read a part of s3://sim/{key}");
        let effect = || {
            let found = self.content.lock().expect("the bucket").get(key).cloned();
            let found = found.map(|(content, _)| part(key, &content, range.clone()));
            let found = found.transpose()?;
            let bytes = found.as_ref().map_or(0, Bytes::len);
            self.gate.receive(Kind::BlobRead, bytes, bytes);
            Ok(found)
        };
        let refuse = |trouble| Err(refusal(&operation, trouble));
        let name = format!("read {key} {}..{}", range.start, range.end);
        self.gate
            .call(Kind::BlobRead, &name, None, effect, refuse)
            .await
    }

    async fn put(&self, key: &str, content: Bytes, when: Precondition) -> Result<PutOutcome> {
        let operation = format!("write s3://sim/{key}");
        let effect = || Ok(self.write(key, content, &when));
        let refuse = |trouble| match trouble {
            // ConditionalRequestConflict: another write was under way.
            Trouble::Before(dice) if when != Precondition::None && dice.is_multiple_of(4) => Err(
                PortError::new(ErrorKind::Conflict, format!("{operation}: 409")),
            ),
            // The client retried a write that had succeeded, so its own write fails the
            // precondition.
            Trouble::After(dice) if when != Precondition::None && dice.is_multiple_of(2) => {
                Ok(PutOutcome::PreconditionFailed)
            }
            trouble => Err(refusal(&operation, trouble)),
        };
        let name = format!("put {key}");
        self.gate
            .call(Kind::BlobWrite, &name, None, effect, refuse)
            .await
    }

    async fn delete(&self, key: &str) -> Result<()> {
        let effect = || {
            self.content.lock().expect("the bucket").remove(key);
            self.leases.deleted(key);
            Ok(())
        };
        let refuse = |trouble| Err(refusal(&format!("delete s3://sim/{key}"), trouble));
        let name = format!("delete {key}");
        self.gate
            .call(Kind::BlobWrite, &name, None, effect, refuse)
            .await
    }

    async fn delete_version(&self, key: &str, version: &Version) -> Result<bool> {
        let effect = || {
            let mut blobs = self.content.lock().expect("the bucket");
            let is_replaced = blobs.get(key).is_some_and(|(_, now)| now != version);
            if !is_replaced {
                blobs.remove(key);
                self.leases.deleted(key);
            }
            Ok(!is_replaced)
        };
        let refuse = |trouble| Err(refusal(&format!("delete s3://sim/{key}"), trouble));
        let name = format!("delete {key}");
        self.gate
            .call(Kind::BlobWrite, &name, None, effect, refuse)
            .await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<BlobEntry>> {
        let effect = || {
            let blobs = self.content.lock().expect("the bucket");
            let found = blobs
                .range(prefix.to_owned()..)
                .take_while(|(key, _)| key.starts_with(prefix));
            Ok(found
                .map(|(key, (content, version))| BlobEntry {
                    key: key.clone(),
                    size: content.len() as u64,
                    version: Some(version.clone()),
                })
                .collect())
        };
        let refuse = |trouble| Err(refusal(&format!("list s3://sim/{prefix}"), trouble));
        let name = format!("list {prefix}");
        self.gate
            .call(Kind::BlobList, &name, None, effect, refuse)
            .await
    }

    async fn size(&self, key: &str) -> Result<Option<u64>> {
        let effect = || {
            let blobs = self.content.lock().expect("the bucket");
            Ok(blobs.get(key).map(|(content, _)| content.len() as u64))
        };
        let refuse = |trouble| Err(refusal(&format!("read s3://sim/{key}"), trouble));
        let name = format!("read {key}");
        self.gate
            .call(Kind::BlobRead, &name, None, effect, refuse)
            .await
    }

    async fn set_aside(&self, key: &str, version: &Version) -> Result<()> {
        // A conditional delete; a versioned bucket would keep the content.
        let effect = || {
            let mut blobs = self.content.lock().expect("the bucket");
            if blobs.get(key).is_some_and(|(_, now)| now == version) {
                blobs.remove(key);
            }
            Ok(())
        };
        let refuse = |trouble| Err(refusal(&format!("delete s3://sim/{key}"), trouble));
        let name = format!("set aside {key}");
        self.gate
            .call(Kind::BlobWrite, &name, None, effect, refuse)
            .await
    }

    fn url(&self, key: &str) -> String {
        format!("s3://sim/{key}")
    }
}
