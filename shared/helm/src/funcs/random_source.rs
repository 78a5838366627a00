//! The random source of a render.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore as _, SeedableRng as _};
use std::cell::RefCell;

/// The random source of one render.
pub(crate) struct Random(RefCell<ChaCha20Rng>);

impl Random {
    /// Creates a source from a seed.
    pub(super) fn new(seed: [u8; 32]) -> Self {
        Random(RefCell::new(ChaCha20Rng::from_seed(seed)))
    }

    /// Runs `work` with the generator itself.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut ChaCha20Rng) -> T) -> T {
        work(&mut self.0.borrow_mut())
    }

    /// Fills a buffer with random bytes.
    pub(super) fn fill(&self, buffer: &mut [u8]) {
        self.with(|rng| rng.fill_bytes(buffer));
    }

    /// Returns a number below `limit`, all equally likely; 0 if the limit is 0.
    pub(super) fn below(&self, limit: u64) -> u64 {
        let Some(zone) = u64::MAX.checked_div(limit).map(|n| n * limit) else {
            return 0;
        };
        loop {
            let number = self.with(|rng| rng.next_u64());
            if number < zone {
                return number % limit;
            }
        }
    }
}
