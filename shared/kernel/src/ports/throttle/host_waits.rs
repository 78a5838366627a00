//! The waits that hosts name (429, `Retry-After`), for all processes: a record in the bucket for
//! each login that must wait, written by the process that was refused and read by each one before
//! it sends a request of that login.

use crate::document;
use crate::ports::{Blobs, ErrorKind, PartsDigest, PortError, Precondition, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The time for which a process relies on what it has read, so that a request of a login does not
/// cost a read of the bucket each time.
const WAIT_CACHE_TTL: Duration = Duration::from_secs(30);
/// The longest wait that is obeyed.
const MAX_WAIT: Duration = Duration::from_secs(3600);
/// Two answers that differ by less name the same wait, which is written once.
const SAME_WAIT: Duration = Duration::from_secs(5);
/// The most logins that a process remembers.
const MAX_LOGINS: usize = 4096;

/// Returns the key of the record of a login at a host. Its name is a digest, which reveals nothing
/// of the credentials.
pub(super) fn key(host: &str, login: &[&str]) -> String {
    let mut digest = PartsDigest::default();
    for part in [host].iter().chain(login) {
        digest.part(part.as_bytes());
    }
    // For people: the digest contains the host.
    let fits = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':');
    let host: String = host.chars().filter(fits).take(100).collect();
    let host = host.trim_start_matches('.').replace(':', "%3A");
    format!("limits/{host}/{}.json", digest.hex())
}

async fn read(blobs: &dyn Blobs, key: &str) -> Result<Option<WaitRecord>> {
    let found = blobs.get(key).await?;
    // A record that cannot be read counts as absent: the next one replaces it.
    Ok(found.and_then(|(record, _)| document::decode(&record).ok()))
}

async fn write(blobs: &dyn Blobs, key: &str, until: Duration) -> Result<()> {
    let until = until.as_secs();
    let record = document::encode(&WaitRecord { until }).map_err(|error| {
        let message = format!("{key}: cannot be written as JSON: {error}");
        PortError::new(ErrorKind::Invalid, message)
    })?;
    blobs
        .put(key, record.into(), Precondition::None)
        .await
        .map(|_| ())
}

/// A record in the bucket.
#[derive(Serialize, Deserialize)]
struct WaitRecord {
    /// The time before which no request of the login is sent, in seconds since 1970. The record has
    /// no meaning after it.
    until: u64,
}

/// The waits that a process knows of, by the key of the record.
#[derive(Default)]
pub(super) struct Waits(Mutex<BTreeMap<String, KnownWait>>);

/// The last known wait of a login. Both times are since 1970.
#[derive(Clone, Copy)]
struct KnownWait {
    until: Duration,
    read: Duration,
}

impl KnownWait {
    fn is_current(&self, now: Duration) -> bool {
        self.until > now || now < self.read + WAIT_CACHE_TTL
    }
}

impl Waits {
    /// Returns the rest of a login's wait, if it is not over. A bucket that does not answer delays
    /// no request.
    pub async fn left(&self, blobs: &dyn Blobs, key: &str, now: Duration) -> Option<Duration> {
        let known = self.lock().get(key).copied();
        let known = match known.filter(|known| known.is_current(now)) {
            Some(known) => known,
            None => {
                let found = read(blobs, key).await.unwrap_or_else(|error| {
                    tracing::warn!(key, %error, "the wait of a login cannot be read");
                    None
                });
                let until = Duration::from_secs(found.map_or(0, |wait| wait.until));
                let until = until.min(now + MAX_WAIT);
                self.keep(key, until, now);
                KnownWait { until, read: now }
            }
        };
        Some(known.until.saturating_sub(now)).filter(|left| !left.is_zero())
    }

    /// Records the wait that a host has named.
    pub async fn note(&self, blobs: &dyn Blobs, key: &str, now: Duration, wait: Duration) {
        // Whole seconds, as in the record.
        let until = Duration::from_secs((now + wait.min(MAX_WAIT)).as_secs() + 1);
        let known = self.lock().get(key).map(|known| known.until);
        if known.is_some_and(|known| known + SAME_WAIT > until) {
            return;
        }
        self.keep(key, until, now);
        if let Err(error) = write(blobs, key, until).await {
            tracing::warn!(key, %error, "the wait of a login is known to this process only");
        }
    }

    fn keep(&self, key: &str, until: Duration, read: Duration) {
        let mut all = self.lock();
        if all.len() >= MAX_LOGINS {
            all.retain(|_, known| known.is_current(read));
        }
        if all.len() < MAX_LOGINS {
            all.insert(key.to_owned(), KnownWait { until, read });
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, KnownWait>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
