//! The time of the simulation: tokio's, which moves when nothing else can.

use crate::rng::Rng;
use async_trait::async_trait;
use driftless_core::ports::Clock;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// When every run begins, in seconds since 1970.
const EPOCH: Duration = Duration::from_secs(1_772_366_400);

/// A clock that may go ahead or behind.
#[derive(Clone)]
pub struct SimClock {
    start: Instant,
    /// What had passed at the start.
    begin: Duration,
    /// Milliseconds added to the true time.
    skew: u64,
    nonces: Arc<Mutex<Rng>>,
}

/// The middle of all skews: a clock with it is right.
const RIGHT: u64 = 600_000;

impl SimClock {
    /// A clock that is right.
    pub fn new(rng: Rng, begin: Duration) -> Self {
        Self {
            start: Instant::now(),
            begin,
            skew: RIGHT,
            nonces: Arc::new(Mutex::new(rng)),
        }
    }

    /// The same clock, so many milliseconds ahead of or behind the true time.
    pub fn skewed(&self, by: i64) -> Self {
        Self {
            skew: RIGHT.saturating_add_signed(by),
            ..self.clone()
        }
    }
}

#[async_trait]
impl Clock for SimClock {
    fn now(&self) -> Duration {
        EPOCH + self.begin + self.start.elapsed() + Duration::from_millis(self.skew)
            - Duration::from_millis(RIGHT)
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
