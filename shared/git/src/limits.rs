//! Limits of one read of a repository.

use crate::error::{Error, Limit, Result};
use std::time::Duration;
use tokio::time::Instant;

/// Caps on what one reading may take. Each that is crossed is an [`Error::Limit`] that names it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of a list of references.
    pub references: u64,
    /// Bytes of a pack.
    pub packed: u64,
    /// Bytes of the objects of a pack, unpacked; bytes of the files as well.
    pub unpacked: u64,
    /// Files, links and directories.
    pub files: usize,
    /// Objects of a pack.
    pub objects: usize,
    /// Deltas that stand on each other.
    pub deltas: usize,
    /// Directories in each other.
    pub depth: usize,
    /// Submodules in all.
    pub submodules: usize,
    /// Time for all of it.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            references: 32 << 20,
            packed: 128 << 20,
            unpacked: 256 << 20,
            files: 100_000,
            objects: 300_000,
            // git makes chains of 50, and of 250 with gc --aggressive of old.
            deltas: 500,
            depth: 256,
            submodules: 32,
            time: Duration::from_secs(60),
        }
    }
}

/// When the time is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    at: Instant,
    time: Duration,
}

impl Deadline {
    pub fn after(time: Duration) -> Self {
        // A time that no clock reaches is a day.
        let at = Instant::now();
        let at = at
            .checked_add(time)
            .unwrap_or(at + Duration::from_secs(86_400));
        Self { at, time }
    }

    pub fn check(&self) -> Result<()> {
        match Instant::now() < self.at {
            true => Ok(()),
            false => Err(self.over()),
        }
    }

    pub async fn wait<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        let done = tokio::time::timeout_at(self.at, work).await;
        done.map_err(|_| self.over())
    }

    fn over(&self) -> Error {
        Error::Limit(Limit::Time(self.time))
    }
}
