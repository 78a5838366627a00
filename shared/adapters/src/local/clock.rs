//! The port [`Clock`] on this machine.

use async_trait::async_trait;
use driftless_kernel::ports::Clock;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The clock and the random numbers of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Duration {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn timeout(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    fn nonce(&self) -> [u8; 16] {
        let mut nonce = [0; 16];
        if getrandom::fill(&mut nonce).is_err() {
            // A nonce must only be unique: the seed of the hash maps and the time are enough for
            // that.
            let now = self.now().as_nanos();
            nonce[..8].copy_from_slice(&RandomState::new().hash_one(now).to_be_bytes());
            nonce[8..].copy_from_slice(&RandomState::new().hash_one(now).to_be_bytes());
        }
        nonce
    }
}
