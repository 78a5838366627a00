//! Limits of one read of a repository.

use crate::error::{Error, Limit, Result};
use std::time::Duration;
use tokio::time::Instant;

/// Limits of one read. An exceeded limit is an [`Error::Limit`] that names it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of a list of references.
    pub references: u64,
    /// Bytes of a pack.
    pub packed: u64,
    /// Bytes of the objects of a pack, unpacked; bytes of the files as well.
    pub unpacked: u64,
    /// The number of files, links and directories.
    pub files: usize,
    /// The number of objects in a pack.
    pub objects: usize,
    /// The length of a chain of deltas.
    pub deltas: usize,
    /// The depth of nested directories.
    pub depth: usize,
    /// The number of submodules, including nested ones.
    pub submodules: usize,
    /// The time for the whole read.
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
            // git makes chains of 50; older versions made chains of 250 with gc --aggressive.
            deltas: 500,
            depth: 256,
            submodules: 32,
            time: Duration::from_secs(60),
        }
    }
}

/// The end of the time for one read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    at: Instant,
    time: Duration,
}

impl Deadline {
    pub fn after(time: Duration) -> Self {
        // A time that overflows the clock is replaced by one day.
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
