//! Limits of one read of a repository.

use crate::error::{Error, Limit, Result};
use driftless_fuel::{FuelLimits, Tank};
use std::time::Duration;
use tokio::time::Instant;

/// Limits of one read. An exceeded limit is an [`Error::Limit`] that names it.
#[derive(Clone, Debug)]
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
    /// The fuel of the step that reads the repository. Each pack and the checkout charge it, up to
    /// the limits above.
    pub fuel: Tank,
}

/// The bytes of a pack's objects that are unpacked and hashed in one step.
pub(crate) const BYTES_PER_STEP: usize = 16;

/// The steps that an object costs, in addition to its bytes.
pub(crate) const STEPS_PER_OBJECT: usize = 20;

impl Limits {
    /// Returns the ceilings of one pack: a value for each object. Its steps are those that the
    /// allowed bytes and objects need.
    pub(crate) fn of_pack(&self) -> FuelLimits {
        let bytes = usize::try_from(self.unpacked).unwrap_or(usize::MAX);
        let objects = self.objects.saturating_mul(2 * STEPS_PER_OBJECT);
        FuelLimits {
            steps: (bytes / BYTES_PER_STEP).saturating_add(objects),
            bytes,
            nodes: self.objects,
            depth: self.deltas,
        }
    }

    /// Returns the ceilings of a checkout: a value for each file, link and directory.
    pub(crate) fn of_checkout(&self) -> FuelLimits {
        FuelLimits {
            steps: self.files,
            bytes: usize::try_from(self.unpacked).unwrap_or(usize::MAX),
            nodes: self.files,
            depth: self.depth,
        }
    }
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
            fuel: Tank::default(),
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
