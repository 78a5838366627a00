//! The bucket in a stream: the last message of a subject is the blob.
//!
//! A write names the sequence of the message that it replaces, and the server compares and writes
//! in one step. The content of a blob that is larger than a message is stored first, in messages of
//! another stream that never change; the blob's own message has only their name.

mod list;

use crate::connection::Nats;
use crate::error::{is_conflict, of_publish, unavailable, unreadable};
use crate::{expiry, keys};
use async_nats::HeaderMap;
use async_nats::jetstream::message::{PublishMessage, StreamMessage};
use async_nats::jetstream::stream::{DirectGetErrorKind, LastRawMessageErrorKind};
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use driftless_kernel::ports::{
    BlobEntry, Blobs, ErrorKind, PortError, Precondition, PutOutcome, Result, Version, blob_key,
    part,
};
use futures::{StreamExt as _, TryStreamExt as _};
use list::Listing;
use std::ops::Range;
use std::time::Duration;

/// The largest content of one message, and the size of the parts of larger blobs.
const MESSAGE: usize = 512 << 10;
/// The bytes of a message that are left for its headers.
const HEADERS: usize = 16 << 10;
/// The parts that are sent or requested at the same time.
const CONCURRENCY: usize = 4;
/// The reads of a blob whose parts another writer deletes meanwhile.
const TRIES: usize = 5;

/// The header with the size of the content of a message, in a listing without contents.
const MESSAGE_SIZE: &str = "Nats-Msg-Size";
/// The header with the name of the parts.
const PARTS: &str = "Driftless-Parts";
/// The header with the size of the content.
const SIZE: &str = "Driftless-Size";
/// The header with the size of each part but the last.
const PART_SIZE: &str = "Driftless-Part-Size";

/// A bucket in the streams of an installation. A blob's version is the sequence of its message, and
/// the name of its parts if it has any.
#[derive(Clone)]
pub struct NatsBlobs {
    nats: Nats,
}

/// The parts of a large blob.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Parts {
    id: String,
    size: u64,
    part_size: u64,
}

/// A blob's own message.
struct Record {
    sequence: u64,
    /// The content, unless there are parts.
    content: Bytes,
    parts: Option<Parts>,
    headers: HeaderMap,
}

impl Record {
    fn version(&self) -> Version {
        version(self.sequence, self.parts.as_ref())
    }

    fn size(&self) -> u64 {
        match &self.parts {
            Some(parts) => parts.size,
            None => self.content.len() as u64,
        }
    }
}

fn version(sequence: u64, parts: Option<&Parts>) -> Version {
    Version(match parts {
        Some(parts) => format!("{sequence}-{}", parts.id),
        None => sequence.to_string(),
    })
}

/// Returns the sequence and the parts that a version names; `None` if it is not one of this store.
fn parse(version: &Version) -> Option<(u64, Option<&str>)> {
    let text = version.0.as_str();
    let (sequence, id) = match text.split_once('-') {
        Some((sequence, id)) => (sequence, Some(id)),
        None => (text, None),
    };
    Some((sequence.parse().ok()?, id))
}

/// Reads the parts from the headers of a message.
fn parts(headers: &HeaderMap) -> Option<Parts> {
    let number = |name: &str| headers.get(name)?.as_str().parse().ok();
    Some(Parts {
        id: headers.get(PARTS)?.to_string(),
        size: number(SIZE)?,
        part_size: number(PART_SIZE).filter(|size| *size > 0)?,
    })
}

impl NatsBlobs {
    /// Creates the store of an installation.
    pub fn new(nats: &Nats) -> Self {
        Self { nats: nats.clone() }
    }

    fn subject(&self, key: &str) -> String {
        format!("{}.blobs.{}", self.nats.prefix, keys::encode(key))
    }

    fn operation(&self, verb: &str, key: &str) -> String {
        format!("{verb} {}", self.url(key))
    }

    /// Reads the message of a blob.
    async fn record(&self, operation: &str, key: &str) -> Result<Option<Record>> {
        blob_key::check(key)?;
        self.nats.ready(operation).await?;
        let subject = self.subject(key);
        let found = self.nats.blobs.get_last_raw_message_by_subject(&subject);
        match found.await {
            Ok(message) => Ok(Some(Record {
                parts: parts(&message.headers),
                sequence: message.sequence,
                content: message.payload,
                headers: message.headers,
            })),
            Err(error) => match error.kind() {
                LastRawMessageErrorKind::NoMessageFound => Ok(None),
                LastRawMessageErrorKind::JetStream(server) if server.code() == 404 => Err(
                    PortError::new(ErrorKind::NotFound, format!("{operation}: {server}")),
                ),
                _ => Err(unavailable(operation, error)),
            },
        }
    }

    /// Reads a blob, or the bytes of a range of it. If a part is missing, another writer has
    /// replaced the blob, and all is read again.
    async fn read(
        &self,
        operation: &str,
        key: &str,
        range: Option<Range<u64>>,
    ) -> Result<Option<(Bytes, Version)>> {
        let mut missing = None;
        for _ in 0..TRIES {
            let Some(record) = self.record(operation, key).await? else {
                return Ok(None);
            };
            let content = match (&record.parts, range.clone()) {
                (None, None) => Some(record.content.clone()),
                (None, Some(range)) => Some(part(key, &record.content, range)?),
                (Some(parts), range) => {
                    let range = range.unwrap_or(0..parts.size);
                    self.read_parts(operation, parts, range).await?
                }
            };
            if let Some(content) = content {
                return Ok(Some((content, record.version())));
            }
            if missing.replace(record.sequence) == Some(record.sequence) {
                return Err(unreadable(operation, "a part of the blob is missing"));
            }
        }
        Err(unavailable(operation, "the blob was replaced in each read"))
    }

    /// Reads the bytes of a range from the parts; `None` if a part is missing.
    async fn read_parts(
        &self,
        operation: &str,
        parts: &Parts,
        range: Range<u64>,
    ) -> Result<Option<Bytes>> {
        let end = range.end.min(parts.size);
        if range.start >= end {
            let problem = format!("the blob ends before byte {}", range.start);
            return Err(unreadable(operation, problem));
        }
        let (first, last) = (
            range.start / parts.part_size,
            end.saturating_sub(1) / parts.part_size,
        );
        let subject = |number: u64| format!("{}.chunks.{}.{number}", self.nats.prefix, parts.id);
        let mut reads = futures::stream::iter(first..=last)
            .map(|number| {
                let subject = subject(number);
                async move { self.read_part(operation, subject).await }
            })
            .buffered(CONCURRENCY);
        let mut content = BytesMut::new();
        while let Some(read) = reads.try_next().await? {
            match read {
                Some(read) => content.extend_from_slice(&read),
                None => return Ok(None),
            }
        }
        let (start, length) = (range.start - first * parts.part_size, end - range.start);
        let bounds = (usize::try_from(start), usize::try_from(start + length));
        match bounds {
            (Ok(start), Ok(end)) if end <= content.len() => {
                Ok(Some(content.freeze().slice(start..end)))
            }
            _ => Err(unreadable(operation, "a part of the blob is too short")),
        }
    }

    /// Reads one part: from any replica, and from the leader if that one does not have it yet.
    async fn read_part(&self, operation: &str, subject: String) -> Result<Option<Bytes>> {
        let found = self
            .nats
            .chunks
            .direct_get_last_for_subject(subject.as_str());
        match found.await {
            Ok(message) => return Ok(Some(message.payload)),
            Err(error) if error.kind() == DirectGetErrorKind::NotFound => {}
            Err(error) => return Err(unavailable(operation, error)),
        }
        let found = self.nats.chunks.get_last_raw_message_by_subject(&subject);
        match found.await {
            Ok(StreamMessage { payload, .. }) => Ok(Some(payload)),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(unavailable(operation, error)),
        }
    }

    /// Returns the message of a content that is kept for this time, and stores the parts of a large
    /// one before.
    async fn message(
        &self,
        operation: &str,
        content: Bytes,
        kept: Option<Duration>,
    ) -> Result<(PublishMessage, Option<Parts>)> {
        if content.len() <= self.message_size() {
            return Ok((expiring(content, kept), None));
        }
        let parts = self.write_parts(operation, &content, kept).await?;
        let message = expiring(Bytes::new(), kept)
            .header(PARTS, parts.id.as_str())
            .header(SIZE, parts.size.to_string())
            .header(PART_SIZE, parts.part_size.to_string());
        Ok((message, Some(parts)))
    }

    /// Stores the parts of a large content.
    async fn write_parts(
        &self,
        operation: &str,
        content: &Bytes,
        kept: Option<Duration>,
    ) -> Result<Parts> {
        let part_size = self.message_size();
        let parts = Parts {
            id: random_id(operation)?,
            size: content.len() as u64,
            part_size: part_size as u64,
        };
        let chunks = (0..content.len()).step_by(part_size).enumerate();
        let sent = futures::stream::iter(chunks.map(|(number, start)| {
            let chunk = content.slice(start..content.len().min(start + part_size));
            let subject = format!("{}.chunks.{}.{number}", self.nats.prefix, parts.id);
            async move { self.send(operation, subject, expiring(chunk, kept)).await }
        }))
        .buffer_unordered(CONCURRENCY)
        .try_collect::<Vec<u64>>();
        match sent.await {
            Ok(_) => Ok(parts),
            Err(error) => {
                self.drop_parts(&parts.id).await;
                Err(error)
            }
        }
    }

    /// Sends a message without a condition, and returns its sequence.
    async fn send(&self, operation: &str, subject: String, message: PublishMessage) -> Result<u64> {
        self.nats.ready(operation).await?;
        let sent = self.nats.context.send_publish(subject, message).await;
        let sent = sent.map_err(|error| of_publish(operation, &error))?;
        match sent.await {
            Ok(done) => Ok(done.sequence),
            Err(error) => Err(of_publish(operation, &error)),
        }
    }

    /// Deletes the parts of a blob that was replaced or deleted. If that fails, they stay until
    /// their time is over.
    async fn drop_parts(&self, id: &str) {
        let subject = format!("{}.chunks.{id}.*", self.nats.prefix);
        if let Err(error) = self.nats.chunks.purge().filter(subject).await {
            tracing::debug!(id, "the parts of a replaced blob are left: {error}");
        }
    }

    /// Returns the largest content of one message of this server.
    fn message_size(&self) -> usize {
        let allowed = self.nats.client.max_payload().saturating_sub(HEADERS);
        MESSAGE.min(allowed).max(1)
    }

    /// Deletes the message with this sequence; `false` if it is no longer there.
    async fn delete_message(&self, operation: &str, sequence: u64) -> Result<bool> {
        self.nats.ready(operation).await?;
        let deleted = self.nats.blobs.delete_message(sequence).await;
        let Err(error) = deleted else { return Ok(true) };
        // The answer about a sequence without a message depends on the version of the server.
        match self.nats.blobs.get_raw_message(sequence).await {
            Err(gone) if gone.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(false),
            _ => Err(unavailable(operation, error)),
        }
    }
}

/// Returns a message that is kept for this time; for ever without one.
fn expiring(content: Bytes, kept: Option<Duration>) -> PublishMessage {
    let message = PublishMessage::build().payload(content);
    match kept {
        Some(time) => message.ttl(time),
        None => message,
    }
}

fn random_id(operation: &str) -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| unavailable(operation, error))?;
    Ok(hex::encode(bytes))
}

#[async_trait]
impl Blobs for NatsBlobs {
    async fn get(&self, key: &str) -> Result<Option<(Bytes, Version)>> {
        self.read(&self.operation("read", key), key, None).await
    }

    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Option<Bytes>> {
        let operation = self.operation("read a part of", key);
        let read = self.read(&operation, key, Some(range)).await?;
        Ok(read.map(|(content, _)| content))
    }

    async fn put(&self, key: &str, content: Bytes, when: Precondition) -> Result<PutOutcome> {
        blob_key::check(key)?;
        let operation = self.operation("write", key);
        let (expected, replaced) = match &when {
            Precondition::Absent => (Some(0), None),
            Precondition::Is(version) => match parse(version) {
                Some((sequence, parts)) => (Some(sequence), parts.map(str::to_owned)),
                None => return Ok(PutOutcome::PreconditionFailed),
            },
            Precondition::None => {
                let before = self.record(&operation, key).await?;
                let parts = before.and_then(|record| record.parts);
                (None, parts.map(|parts| parts.id))
            }
        };
        let kept = expiry::of(key);
        let (mut message, parts) = self.message(&operation, content, kept).await?;
        if let Some(sequence) = expected {
            message = message.expected_last_subject_sequence(sequence);
        }
        self.nats.ready(&operation).await?;
        let sent = self.nats.context.send_publish(self.subject(key), message);
        let sent = match sent.await {
            Ok(sent) => sent.await,
            Err(error) => Err(error),
        };
        match sent {
            Ok(done) => {
                if let Some(id) = replaced {
                    self.drop_parts(&id).await;
                }
                Ok(PutOutcome::Done(version(done.sequence, parts.as_ref())))
            }
            Err(error) if is_conflict(&error) => {
                if let Some(parts) = parts {
                    self.drop_parts(&parts.id).await;
                }
                Ok(PutOutcome::PreconditionFailed)
            }
            // The message may have arrived: its parts stay.
            Err(error) => Err(of_publish(&operation, &error)),
        }
    }

    async fn delete(&self, key: &str) -> Result<()> {
        let operation = self.operation("delete", key);
        if let Some(record) = self.record(&operation, key).await?
            && self.delete_message(&operation, record.sequence).await?
            && let Some(parts) = record.parts
        {
            self.drop_parts(&parts.id).await;
        }
        Ok(())
    }

    async fn delete_version(&self, key: &str, version: &Version) -> Result<bool> {
        blob_key::check(key)?;
        let operation = self.operation("delete", key);
        let Some(record) = self.record(&operation, key).await? else {
            return Ok(true);
        };
        if record.version() != *version {
            return Ok(false);
        }
        if self.delete_message(&operation, record.sequence).await? {
            if let Some(parts) = record.parts {
                self.drop_parts(&parts.id).await;
            }
            return Ok(true);
        }
        // Another writer was first: it has replaced the blob, or deleted it.
        Ok(self.record(&operation, key).await?.is_none())
    }

    async fn list(&self, prefix: &str) -> Result<Vec<BlobEntry>> {
        let operation = self.operation("list", prefix);
        Listing::new(self, prefix, operation).entries().await
    }

    async fn size(&self, key: &str) -> Result<Option<u64>> {
        let operation = self.operation("read the size of", key);
        let record = self.record(&operation, key).await?;
        Ok(record.map(|record| record.size()))
    }

    /// Moves the blob to the subjects `PREFIX.aside`, where it is kept for a week. A large blob is
    /// written again for that, because its parts have the time of their key; if one of them is
    /// missing, the others stay for that time.
    async fn set_aside(&self, key: &str, version: &Version) -> Result<()> {
        let operation = self.operation("set aside", key);
        let Some(record) = self.record(&operation, key).await? else {
            return Ok(());
        };
        if record.version() != *version {
            return Ok(());
        }
        let content = match &record.parts {
            None => Some(record.content),
            Some(parts) => self.read_parts(&operation, parts, 0..parts.size).await?,
        };
        let (message, is_copied) = match content {
            Some(content) => {
                let copy = self.message(&operation, content, Some(expiry::ASIDE));
                (copy.await?.0, true)
            }
            None => {
                let mut message = expiring(Bytes::new(), Some(expiry::ASIDE));
                for name in [PARTS, SIZE, PART_SIZE] {
                    if let Some(value) = record.headers.get(name) {
                        message = message.header(name, value.clone());
                    }
                }
                (message, false)
            }
        };
        let subject = format!("{}.aside.{}", self.nats.prefix, keys::encode(key));
        self.send(&operation, subject, message).await?;
        if self.delete_message(&operation, record.sequence).await?
            && is_copied
            && let Some(parts) = record.parts
        {
            self.drop_parts(&parts.id).await;
        }
        Ok(())
    }

    fn url(&self, key: &str) -> String {
        format!("nats://{}-blobs/{key}", self.nats.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_names_the_parts() {
        let parts = Parts {
            id: "a1".to_owned(),
            size: 9,
            part_size: 4,
        };
        assert_eq!(parse(&version(7, None)), Some((7, None)));
        assert_eq!(parse(&version(7, Some(&parts))), Some((7, Some("a1"))));
        assert_eq!(parse(&Version("\"9e107d9d\"".to_owned())), None);
    }

    #[test]
    fn headers_without_a_size_of_parts_are_not_used() {
        let mut headers = HeaderMap::new();
        headers.insert(PARTS, "a1");
        headers.insert(SIZE, "9");
        assert_eq!(parts(&headers), None);
        headers.insert(PART_SIZE, "0");
        assert_eq!(parts(&headers), None);
        headers.insert(PART_SIZE, "4");
        assert_eq!(parts(&headers).map(|parts| parts.part_size), Some(4));
    }
}
