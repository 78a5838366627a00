//! Parses and formats Go's durations (`10m0s`) and Kubernetes' times (RFC 3339, whole seconds).

use crate::error::DurationError;
use driftless_go::duration;
use std::time::Duration;

/// The longest duration that is accepted: ten years. A longer one is a typing error; Go's limit is
/// 292 years.
const MAX_DURATION: Duration = Duration::from_secs(3_652 * 86_400 + 43_200);

/// Parses a duration like Go's `time.ParseDuration`: `1h30m`, `1.5s`, `300ms`.
///
/// # Errors
/// The string is not a duration, or the duration is negative or longer than ten years.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let invalid = || DurationError::Syntax(text.to_owned());
    let nanos = duration::parse(text).map_err(|_| invalid())?;
    let nanos = u64::try_from(nanos).map_err(|_| invalid())?;
    let time = Duration::from_nanos(nanos);
    if time > MAX_DURATION {
        return Err(DurationError::TooLong(text.to_owned()));
    }
    Ok(time)
}

/// Formats a duration like Go's `Duration.String`, to the millisecond: `1h0m0s`, `2.5s`, `300ms`.
pub fn duration_text(time: Duration) -> String {
    let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    duration::format(millis.saturating_mul(1_000_000))
}

/// Formats a time since 1970 as RFC 3339: `2026-03-01T12:00:00Z`.
pub fn rfc3339(since_1970: Duration) -> String {
    timestamp(since_1970).to_string()
}

/// Converts a time since 1970 to jiff's type, at most to the last time that it supports.
pub fn timestamp(since_1970: Duration) -> jiff::Timestamp {
    let seconds = i64::try_from(since_1970.as_secs()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX)
}

/// Parses an RFC 3339 time such as `2026-03-01T12:00:00Z`, also with fractions and offsets, as the
/// time since 1970; `None` if it is not valid.
pub fn parse_rfc3339(text: &str) -> Option<Duration> {
    let time: jiff::Timestamp = text.parse().ok()?;
    Duration::try_from(time.duration_since(jiff::Timestamp::UNIX_EPOCH)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, seconds) in [
            ("10m0s", 600.0),
            ("1h30m", 5400.0),
            ("1.5s", 1.5),
            ("300ms", 0.3),
            ("720m0s", 43_200.0),
        ] {
            assert_eq!(
                parse_duration(text).unwrap().as_secs_f64(),
                seconds,
                "{text}"
            );
        }
        for text in [
            "",
            "5",
            "-5s",
            "5x",
            "1e30h",
            "99999999999h",
            "s",
            "1.2.3s",
            "5 s",
            "NaNs",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        for (millis, text) in [
            (0, "0s"),
            (300, "300ms"),
            (2500, "2.5s"),
            (60_000, "1m0s"),
            (3_600_000, "1h0m0s"),
        ] {
            assert_eq!(duration_text(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn times() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2024-02-29T12:30:01Z", 1_709_209_801),
            ("2000-03-01T00:00:00Z", 951_868_800),
        ] {
            assert_eq!(rfc3339(Duration::from_secs(seconds)), text);
            assert_eq!(parse_rfc3339(text), Some(Duration::from_secs(seconds)));
        }
        assert_eq!(
            parse_rfc3339("1970-01-01T02:00:00+02:00"),
            Some(Duration::ZERO)
        );
        assert_eq!(parse_rfc3339("yesterday"), None);
    }
}
