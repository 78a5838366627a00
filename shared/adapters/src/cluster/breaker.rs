//! A circuit breaker for one API server: a server that is down costs one bounded probe, regardless
//! of the number of its objects.
//!
//! A request without an answer for [`PROBE_AFTER`] sends a probe to find out whether the server
//! answers at all: one slow webhook or extension of a tenant must not block the server for the
//! others. When the probe fails, every request fails with the same error, without being sent. When
//! the pause is over, one request probes again (half open) while the others wait for its result;
//! each failed probe doubles the pause.

use driftless_kernel::ports::{ErrorKind, PortError, Result};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The time without an answer after which the server is probed.
pub const PROBE_AFTER: Duration = Duration::from_secs(5);
/// The time limit of a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest pause between two probes of a server that is down.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// The time below which a failure is cheap, so that no probe is needed.
const CHEAP_FAILURE: Duration = Duration::from_secs(1);

/// The circuit breaker of a server.
#[derive(Default)]
pub struct Breaker {
    last: Mutex<Option<ProbeResult>>,
    /// Locked by the request that probes.
    probing: tokio::sync::Mutex<()>,
}

/// The result of the last probe.
#[derive(Clone)]
struct ProbeResult {
    at: Instant,
    down: Option<Outage>,
}

/// The state of a server that did not answer.
#[derive(Clone)]
struct Outage {
    error: PortError,
    /// The time for which no requests are sent.
    pause: Duration,
}

impl ProbeResult {
    fn result(self) -> Result<()> {
        self.down.map_or(Ok(()), |down| Err(down.error))
    }
}

impl Breaker {
    /// Checks whether a request may be sent. A server that is down is probed first, once its pause
    /// is over.
    ///
    /// # Errors
    /// Fails with the error of the last probe if the server is down.
    pub async fn pass(&self, probe: impl Future<Output = Result<(), NoAnswer>>) -> Result<()> {
        match self.last() {
            Some(ProbeResult {
                at,
                down: Some(down),
            }) if at.elapsed() < down.pause => Err(down.error),
            Some(ProbeResult { down: Some(_), .. }) => self.probe(probe).await,
            _ => Ok(()),
        }
    }

    /// Probes the server. Concurrent callers get the result of one probe.
    ///
    /// # Errors
    /// Fails with the error of the probe.
    pub async fn probe(&self, probe: impl Future<Output = Result<(), NoAnswer>>) -> Result<()> {
        let start = Instant::now();
        let _one = self.probing.lock().await;
        let last = self.last();
        if let Some(last) = last.clone().filter(|last| last.at > start) {
            return last.result();
        }
        let start = Instant::now();
        let answer = timeout(PROBE_TIMEOUT, probe).await;
        let answer = answer.unwrap_or(Err(NoAnswer::InTime(PROBE_TIMEOUT)));
        let before = last.and_then(|last| last.down);
        let down = answer.err().map(|reason| Outage {
            error: PortError::new(ErrorKind::Unavailable, reason.to_string()),
            pause: match before {
                Some(down) => MAX_PAUSE.min(down.pause * 2),
                None => start.elapsed(),
            },
        });
        let at = Instant::now();
        let probed = ProbeResult { at, down };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(probed.clone());
        probed.result()
    }

    /// Returns whether a request that failed without an answer after this time is a reason to
    /// probe.
    pub fn is_suspicious(took: Duration) -> bool {
        took >= CHEAP_FAILURE
    }

    fn last(&self) -> Option<ProbeResult> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone()
    }
}

/// The reason that a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// The time is over.
    #[error("no answer in {} s", .0.as_secs())]
    InTime(Duration),
    /// The request could not be made or sent, or the connection broke; with the innermost error.
    #[error("{0}")]
    Broken(String),
}
