//! What the functions with a queue share: their remaining time, and their messages.

use driftless_kernel::document::{self, DocumentError};
use driftless_kernel::ports::Ports;
use serde::de::DeserializeOwned;
use std::time::{Duration, SystemTime};

/// Returns the rest of a function's time; `now` is the time since 1970. `cargo lambda watch` 1.9
/// sets the deadline to the time limit itself: ten minutes after 1970.
pub fn time_left(deadline: SystemTime, now: Duration) -> Duration {
    let since_1970 = deadline
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    if since_1970 < Duration::from_secs(24 * 60 * 60) {
        return since_1970;
    }
    since_1970.saturating_sub(now)
}

/// A message has another form, or a newer format. The error has only the position: the untrusted
/// body must not be logged.
#[derive(Debug, thiserror::Error)]
#[error("the message is not {expected}: {problem}")]
pub struct UnreadableMessage {
    expected: &'static str,
    problem: DocumentError,
}

/// Reads the body of a message; `expected` names its content.
///
/// # Errors
/// The body has another form.
pub fn read<T: DeserializeOwned>(
    body: Option<&str>,
    expected: &'static str,
) -> Result<T, UnreadableMessage> {
    let body = body.unwrap_or_default().as_bytes();
    document::decode(body).map_err(|problem| UnreadableMessage { expected, problem })
}

/// Sets the delay of a message's redelivery: a reported failure alone leaves it hidden for the
/// whole visibility timeout (AWS Lambda Developer Guide, "Handling errors for an SQS event
/// source"). `source` is the queue's ARN; without a receipt nothing is done.
pub async fn redeliver(
    ports: &Ports,
    source: Option<&str>,
    receipt: Option<&str>,
    after: Duration,
) {
    let Some(receipt) = receipt else {
        return;
    };
    let source = source.unwrap_or_default();
    if let Err(error) = ports.queue.redeliver(source, receipt, after).await {
        tracing::warn!(%error, "the message is redelivered only after the visibility timeout");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_ends_at_the_deadline() {
        let seconds = Duration::from_secs;
        let day = seconds(24 * 60 * 60);
        let deadline = SystemTime::UNIX_EPOCH + day;
        assert_eq!(time_left(deadline, day - seconds(7)), seconds(7));
        assert_eq!(time_left(deadline, day + seconds(1)), Duration::ZERO);
    }
}
