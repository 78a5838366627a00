//! The clock of the simulation: tokio's paused time, which advances when no task can run.

use crate::rng::Rng;
use async_trait::async_trait;
use driftless_kernel::ports::Clock;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// The time at which every run begins, since 1970.
const EPOCH: Duration = Duration::from_secs(1_772_366_400);

/// A clock that may be ahead or behind.
#[derive(Clone)]
pub struct SimClock {
    start: Instant,
    /// The simulated time that had passed at the start.
    begin: Duration,
    /// Milliseconds that are added to the true time, plus [`NO_SKEW`].
    skew: u64,
    nonces: Arc<Mutex<Rng>>,
}

/// The skew of a correct clock, so that an unsigned skew can also be behind.
const NO_SKEW: u64 = 600_000;

impl SimClock {
    /// Returns a correct clock.
    pub fn new(rng: Rng, begin: Duration) -> Self {
        Self {
            start: Instant::now(),
            begin,
            skew: NO_SKEW,
            nonces: Arc::new(Mutex::new(rng)),
        }
    }

    /// Returns the same clock, `by` milliseconds ahead of the true time, or behind it if negative.
    pub fn skewed(&self, by: i64) -> Self {
        Self {
            skew: NO_SKEW.saturating_add_signed(by),
            ..self.clone()
        }
    }
}

#[async_trait]
impl Clock for SimClock {
    fn now(&self) -> Duration {
        EPOCH + self.begin + self.start.elapsed() + Duration::from_millis(self.skew)
            - Duration::from_millis(NO_SKEW)
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn timeout(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    fn nonce(&self) -> [u8; 16] {
        let mut rng = self.nonces.lock().expect("the nonces");
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&rng.number().to_be_bytes());
        nonce[8..].copy_from_slice(&rng.number().to_be_bytes());
        nonce
    }
}
