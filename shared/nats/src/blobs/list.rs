//! A listing of blobs, also while other workers write and delete them.
//!
//! A consumer delivers the entries in the order of their writes. A blob that is replaced meanwhile
//! moves to the end, where a steady writer may keep it out of reach, and one that is deleted never
//! comes. So the listing ends at the last write before its start; if it has not seen each entry of
//! the start until then, it reads those that still exist one by one.

use super::{CONCURRENCY, MESSAGE_SIZE, NatsBlobs, parts, version};
use crate::error::{unavailable, unreadable};
use crate::keys;
use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use driftless_kernel::ports::{BlobEntry, PortError, Result};
use futures::{StreamExt as _, TryStreamExt as _};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

/// The time without an entry after which the server is asked whether one is left.
const CHECK: Duration = Duration::from_secs(1);
/// The number of checks without an entry after which a listing fails.
const CHECKS: u32 = 10;

/// A listing of the blobs with a prefix.
pub(super) struct Listing<'a> {
    blobs: &'a NatsBlobs,
    prefix: &'a str,
    /// The subject above those of blobs.
    root: String,
    operation: String,
    found: BTreeMap<String, BlobEntry>,
}

impl<'a> Listing<'a> {
    pub(super) fn new(blobs: &'a NatsBlobs, prefix: &'a str, operation: String) -> Self {
        Self {
            blobs,
            prefix,
            root: format!("{}.blobs", blobs.nats.prefix),
            operation,
            found: BTreeMap::new(),
        }
    }

    /// Returns the entries, sorted by key: each blob that exists all the time once, in a version
    /// that it had meanwhile.
    pub(super) async fn entries(mut self) -> Result<Vec<BlobEntry>> {
        self.blobs.nats.ready(&self.operation).await?;
        if !self.receive().await? {
            self.complete().await?;
        }
        Ok(self.found.into_values().collect())
    }

    /// Receives the entries from a consumer. Returns false if one may be missing.
    async fn receive(&mut self) -> Result<bool> {
        let stream = &self.blobs.nats.blobs;
        let state = stream.get_info().await;
        let last = state
            .map_err(|error| self.failed(error))?
            .state
            .last_sequence;
        let config = pull::OrderedConfig {
            filter_subject: self.filter(),
            deliver_policy: DeliverPolicy::LastPerSubject,
            headers_only: true,
            ..pull::OrderedConfig::default()
        };
        let consumer = stream.create_consumer(config).await;
        let consumer = consumer.map_err(|error| self.failed(error))?;
        let (name, pending) = {
            let info = consumer.cached_info();
            (info.name.clone(), info.num_pending)
        };
        let is_complete = match pending {
            0 => true,
            _ => {
                let messages = consumer.messages().await;
                let messages = messages.map_err(|error| self.failed(error))?;
                self.take(messages, &name, pending, last).await?
            }
        };
        // The server deletes the consumer of a listing that failed after 30 s.
        if let Err(error) = stream.delete_consumer(&name).await {
            tracing::debug!("the consumer of a listing is left: {error}");
        }
        Ok(is_complete)
    }

    /// Takes the entries that the consumer with this name had at its start: this number, none after
    /// this sequence. Returns false if some of them did not come.
    async fn take(
        &mut self,
        mut messages: pull::Ordered,
        consumer: &str,
        count: u64,
        last: u64,
    ) -> Result<bool> {
        let (mut taken, mut checks) = (0, 0);
        loop {
            let next = match tokio::time::timeout(CHECK, messages.try_next()).await {
                Ok(next) => next.map_err(|error| self.failed(error))?,
                Err(_) => {
                    let info = self.blobs.nats.blobs.consumer_info(consumer).await;
                    if info.map_err(|error| self.failed(error))?.num_pending == 0 {
                        return Ok(false);
                    }
                    checks += 1;
                    if checks == CHECKS {
                        return Err(self.failed("no answer"));
                    }
                    continue;
                }
            };
            let message = next.ok_or_else(|| self.failed("the listing ended early"))?;
            checks = 0;
            let info = message.info().map_err(|error| self.failed(error))?;
            let (sequence, is_last) = (info.stream_sequence, info.pending == 0);
            self.add(&message, sequence)?;
            if sequence > last {
                return Ok(false);
            }
            taken += 1;
            if taken == count || is_last {
                return Ok(taken == count);
            }
        }
    }

    /// Adds the entry of a message. A newer message replaces it.
    fn add(&mut self, message: &Message, sequence: u64) -> Result<()> {
        let headers = message.headers.as_ref();
        let parts = headers.and_then(parts);
        let size = match &parts {
            Some(parts) => Some(parts.size),
            None => headers
                .and_then(|headers| headers.get(MESSAGE_SIZE))
                .and_then(|size| size.as_str().parse().ok()),
        };
        let (Some(key), Some(size)) = (self.key(&message.subject), size) else {
            let problem = "an entry has no key or no size";
            return Err(unreadable(&self.operation, problem));
        };
        if key.starts_with(self.prefix) {
            let entry = BlobEntry {
                key: key.clone(),
                size,
                version: Some(version(sequence, parts.as_ref())),
            };
            self.found.insert(key, entry);
        }
        Ok(())
    }

    /// Reads each blob that exists and was not found.
    async fn complete(&mut self) -> Result<()> {
        let subjects = self
            .blobs
            .nats
            .blobs
            .info_with_subjects(self.filter())
            .await;
        let mut subjects = subjects.map_err(|error| self.failed(error))?;
        let mut missing = Vec::new();
        while let Some((subject, _)) = subjects
            .try_next()
            .await
            .map_err(|error| self.failed(error))?
        {
            let key = self
                .key(&subject)
                .ok_or_else(|| unreadable(&self.operation, "an entry has no key"))?;
            if key.starts_with(self.prefix) && !self.found.contains_key(&key) {
                missing.push(key);
            }
        }
        let (blobs, operation) = (self.blobs, &self.operation);
        let mut reads = futures::stream::iter(missing)
            .map(async |key| Ok::<_, PortError>((blobs.record(operation, &key).await?, key)))
            .buffer_unordered(CONCURRENCY);
        let mut found = Vec::new();
        while let Some((record, key)) = reads.try_next().await? {
            // Without a record, the blob was deleted meanwhile.
            found.extend(record.map(|record| BlobEntry {
                size: record.size(),
                version: Some(record.version()),
                key,
            }));
        }
        drop(reads);
        let found = found.into_iter().map(|entry| (entry.key.clone(), entry));
        self.found.extend(found);
        Ok(())
    }

    fn filter(&self) -> String {
        keys::filter(&self.root, self.prefix)
    }

    fn key(&self, subject: &str) -> Option<String> {
        keys::decode(subject.strip_prefix(&self.root)?.strip_prefix('.')?)
    }

    fn failed(&self, error: impl Display) -> PortError {
        unavailable(&self.operation, error)
    }
}
