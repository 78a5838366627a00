//! The audit log: who changed which object on which cluster, and when.
//!
//! A step that changed objects writes one record, and a step that changed none writes nothing. A
//! record is one blob, which no step reads or writes again. The keys begin with the hub and the
//! time, so that a span of time is a few LISTs, and a lifecycle rule expires old records.
//!
//! A record has no values: a change has a digest of its difference ([`crate::journal`]). A write
//! that fails is logged with the whole record, and is not an error of the step.

use crate::concurrent;
use crate::document;
use crate::ports::{Blobs, Cause, Ports, Precondition, PushedCommit, Result};
use crate::state;
use driftless_flux::{ObjectRef, parse_rfc3339, rfc3339};
use driftless_manifest::ObjectId;
use driftless_plans::apply::plan::Action;
use futures::FutureExt as _;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::time::Duration;

/// The prefix of the keys of all records.
pub const PREFIX: &str = "audit/";
/// The records that are read concurrently.
const CONCURRENCY: usize = 16;
/// The most days that are listed one by one; of a longer time, all keys of the hub are listed.
const MAX_DAYS: u64 = 40;
/// The duration of a day.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The changes of one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The time at which the step had made the changes, RFC 3339 with milliseconds.
    pub time: String,
    /// The name of the hub.
    pub hub: String,
    /// The cluster of the objects: the name of the hub, or the namespace and the name of the
    /// kubeconfig of a remote cluster, `NAMESPACE/NAME`.
    pub cluster: String,
    /// The Flux object that made the changes.
    pub by: ObjectRef,
    /// The cause of the step.
    pub cause: Cause,
    /// The revision that the step worked on, such as `main@sha1:...`; of a HelmRelease the version
    /// of the chart. Empty before the first.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// The commit of the revision, if a delivery of the Git host described it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<PushedCommit>,
    /// The changed objects, in the order of their changes.
    pub changes: Vec<Change>,
}

/// A changed object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The group of the object; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The kind of the object.
    pub kind: String,
    /// The namespace of the object; empty if it has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The name of the object.
    pub name: String,
    /// The action: `created`, `configured` or `deleted`.
    pub action: String,
    /// The digest of the difference, `sha256:...`; `None` of a deleted object, and if the earlier
    /// object was not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

impl Change {
    /// Returns the change of an object.
    pub fn new(id: &ObjectId, action: Action, digest: Option<String>) -> Self {
        Self {
            group: id.group.clone(),
            kind: id.kind.clone(),
            namespace: id.namespace.clone(),
            name: id.name.clone(),
            action: action.to_string(),
            digest,
        }
    }

    /// Returns the object as `Kind/namespace/name`, without the namespace if it has none.
    pub fn object(&self) -> String {
        let id = ObjectId {
            group: self.group.clone(),
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        };
        id.to_string()
    }
}

/// Returns a time since 1970 as records have it: RFC 3339 with milliseconds.
pub fn time(at: Duration) -> String {
    let seconds = rfc3339(at);
    let seconds = seconds.trim_end_matches('Z');
    format!("{seconds}.{:03}Z", at.subsec_millis())
}

/// Returns the prefix of the keys of a hub's records.
fn directory(hub: &str) -> String {
    format!("{PREFIX}{}/", state::key_part(hub))
}

/// Returns the part of keys that names the day of a time: `2026/01/31/`.
fn day(at: Duration) -> String {
    let time = rfc3339(at);
    let date = time.split('T').next().unwrap_or_default();
    format!("{}/", date.replace('-', "/"))
}

/// Returns the key of a record: `audit/HUB/2026/01/31/120000.123-KIND-NAMESPACE-NAME-DIGEST.json`.
/// Different records have different keys, also at the same time.
fn key(record: &Record, at: Duration, content: &[u8]) -> String {
    let ObjectRef {
        kind,
        namespace,
        name,
    } = &record.by;
    let time = time(at);
    let clock = time.split('T').nth(1).unwrap_or_default();
    let clock = clock.trim_end_matches('Z').replace(':', "");
    let [namespace, name] = [namespace, name].map(|part| state::key_part(part));
    let digest = hex::encode(&Sha256::digest(content)[..4]);
    let object = format!("{}-{namespace}-{name}-{digest}", kind.plural());
    format!("{}{}{clock}-{object}.json", directory(&record.hub), day(at))
}

/// Returns the time since 1970 in the key of a record; `None` for another key.
pub fn time_of(key: &str) -> Option<Duration> {
    let mut parts = key.strip_prefix(PREFIX)?.split('/').skip(1);
    let [year, month, day] = [parts.next()?, parts.next()?, parts.next()?];
    let clock = parts.next()?.split('-').next()?;
    let (hour, rest) = clock.split_at_checked(2)?;
    let (minute, second) = rest.split_at_checked(2)?;
    parse_rfc3339(&format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z"))
}

/// Writes a record whose changes ended at a time since 1970. If that fails, the log has it.
pub async fn write(ports: &Ports, record: &Record, at: Duration) {
    let content = match document::encode(record) {
        Ok(content) => content,
        Err(error) => return tracing::error!(?record, %error, "audit record not written"),
    };
    let key = key(record, at, content.as_bytes());
    // Without a condition, so that the store's client retries.
    let put = ports
        .blobs
        .put(&key, content.clone().into(), Precondition::None);
    if let Err(error) = put.await {
        tracing::error!(key, record = content, %error, "audit record not written");
    }
}

/// Returns the records of a hub from `since` to `until`, times since 1970: the oldest first. One
/// that cannot be read is left out, with a warning.
///
/// # Errors
/// The store cannot be reached.
pub async fn read(
    blobs: &dyn Blobs,
    hub: &str,
    since: Duration,
    until: Duration,
) -> Result<Vec<Record>> {
    let mut keys = Vec::new();
    for prefix in prefixes(hub, since, until) {
        let listed = blobs.list(&prefix).await?.into_iter();
        let times = listed.filter_map(|entry| Some((time_of(&entry.key)?, entry.key)));
        keys.extend(times.filter(|(time, _)| (since..=until).contains(time)));
    }
    let reads = keys.iter().map(|(_, key)| {
        let read = async move { (key, state::read::<Record>(blobs, key).await) };
        read.boxed()
    });
    let mut records = Vec::new();
    for (key, read) in concurrent::run(CONCURRENCY, reads.collect()).await {
        match read {
            Ok(Some((record, _))) => records.push(record),
            Ok(None) => {}
            Err(error) if state::is_lost(&error) => {
                tracing::warn!(key, %error, "audit record left out");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(records)
}

/// Returns the prefixes to list for a span of time.
fn prefixes(hub: &str, since: Duration, until: Duration) -> Vec<String> {
    let directory = directory(hub);
    let (first, last) = (
        since.as_secs() / DAY.as_secs(),
        until.as_secs() / DAY.as_secs(),
    );
    if last.saturating_sub(first) >= MAX_DAYS {
        return vec![directory];
    }
    let days = first..=last;
    let at = |day: u64| Duration::from_secs(day.saturating_mul(DAY.as_secs()));
    days.map(|number| format!("{directory}{}", day(at(number))))
        .collect()
}
