//! A circuit breaker for one API server: a server that is down costs one bounded probe, however many objects are on it.
//!
//! A request that has waited [`SILENCE`] asks, by a probe of its own, whether the server answers anything at all: one slow
//! webhook or extension of a tenant must not close the server to the others. When the probe fails, every request fails with the
//! same error, without being sent. When the pause is over, one request probes anew (half open) while the others wait for its
//! answer; each failed probe doubles the pause.

use driftless_core::ports::{ErrorKind, PortError, Result};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// How long a request is waited for before the server itself is probed.
pub const SILENCE: Duration = Duration::from_secs(5);
/// How long a probe may take.
const PROBE: Duration = Duration::from_secs(5);
/// The longest pause between two probes of a server that is down.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A failure that took less is cheap: the next request may meet it again.
const CHEAP: Duration = Duration::from_secs(1);

/// Whether a server answers.
#[derive(Default)]
pub struct Breaker {
    last: Mutex<Option<Probed>>,
    /// Held by the one who probes.
    probing: tokio::sync::Mutex<()>,
}

/// How the last probe ended.
#[derive(Clone)]
struct Probed {
    at: Instant,
    down: Option<Down>,
}

/// A server that did not answer.
#[derive(Clone)]
struct Down {
    error: PortError,
    /// How long nothing is sent to it.
    pause: Duration,
}

impl Probed {
    fn result(self) -> Result<()> {
        self.down.map_or(Ok(()), |down| Err(down.error))
    }
}

impl Breaker {
    /// Lets a request pass; a server that is down is probed first, once its pause is over.
    ///
    /// # Errors
    /// Why the server is down.
    pub async fn pass(&self, probe: impl Future<Output = Result<(), String>>) -> Result<()> {
        match self.last() {
            Some(Probed {
                at,
                down: Some(down),
            }) if at.elapsed() < down.pause => Err(down.error),
            Some(Probed { down: Some(_), .. }) => self.probe(probe).await,
            _ => Ok(()),
        }
    }

    /// Asks whether the server answers. Who asks at the same time is told the same.
    ///
    /// # Errors
    /// Why it is down.
    pub async fn probe(&self, probe: impl Future<Output = Result<(), String>>) -> Result<()> {
        let start = Instant::now();
        let _one = self.probing.lock().await;
        let last = self.last();
        if let Some(last) = last.clone().filter(|last| last.at > start) {
            return last.result();
        }
        let start = Instant::now();
        let answer = timeout(PROBE, probe).await;
        let answer = answer.unwrap_or_else(|_| Err(no_answer(PROBE)));
        let before = last.and_then(|last| last.down);
        let down = answer.err().map(|why| Down {
            error: PortError::new(ErrorKind::Unavailable, why),
            pause: match before {
                Some(down) => LONGEST_PAUSE.min(down.pause * 2),
                None => start.elapsed(),
            },
        });
        let at = Instant::now();
        let probed = Probed { at, down };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(probed.clone());
        probed.result()
    }

    /// Whether a request that failed without an answer after so long is a reason to probe.
    pub fn is_suspicious(took: Duration) -> bool {
        took >= CHEAP
    }

    fn last(&self) -> Option<Probed> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone()
    }
}

/// Why a request failed whose time is over.
pub fn no_answer(after: Duration) -> String {
    format!("no answer in {} s", after.as_secs())
}
