//! Lambda's poller of a queue, which slows down while the function fails.

use std::time::Duration;
use tokio::time::Instant;

/// The longest pause after invocations that failed in a row.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// The invocations that the poller runs at the same time.
///
/// After an invocation that failed as a whole, it runs half as many and pauses. Each one that
/// succeeds adds one again (AWS Lambda Developer Guide, "Backoff strategy for failed invocations",
/// which gives no numbers).
pub struct Poller {
    /// The limit of the event source mapping.
    most: usize,
    limit: usize,
    running: usize,
    failures: u32,
    paused_until: Instant,
}

impl Poller {
    /// Returns a poller that runs at most this many invocations.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            limit: most,
            running: 0,
            failures: 0,
            paused_until: Instant::now(),
        }
    }

    /// Returns the time from which another invocation may begin; `None` while as many run as may.
    pub fn free_at(&self) -> Option<Instant> {
        (self.running < self.limit).then_some(self.paused_until)
    }

    /// Notes that an invocation begins.
    pub fn begin(&mut self) {
        self.running += 1;
    }

    /// Notes that an invocation ended; false for one that failed or was cut off.
    pub fn end(&mut self, has_succeeded: bool) {
        self.running -= 1;
        if has_succeeded {
            self.failures = 0;
            self.limit = (self.limit + 1).min(self.most);
            return;
        }
        self.limit = (self.limit / 2).max(1);
        let pause = Duration::from_secs(1) * 2u32.pow(self.failures.min(5));
        self.failures += 1;
        self.paused_until = Instant::now() + pause.min(MAX_PAUSE);
    }
}
