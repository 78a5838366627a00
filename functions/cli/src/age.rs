//! Ages as kubectl prints them.

use driftless_flux::parse_rfc3339;
use std::time::Duration;

/// Returns the time since 1970.
pub fn now() -> Duration {
    let now = std::time::SystemTime::now();
    // A clock before 1970 counts as 1970.
    now.duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default()
}

/// Returns the age of an RFC 3339 time, as `HumanDuration` of Kubernetes' libraries writes it;
/// `<unknown>` without a time.
pub fn since(time: &str, now: Duration) -> String {
    match parse_rfc3339(time) {
        Some(time) => between(time, now),
        None => "<unknown>".to_owned(),
    }
}

/// Returns the time between two times since 1970.
fn between(from: Duration, to: Duration) -> String {
    let Some(age) = to.checked_sub(from) else {
        // Clocks differ by a moment.
        let is_near = from.saturating_sub(to) < Duration::from_secs(2);
        return if is_near { "0s" } else { "<invalid>" }.to_owned();
    };
    text(age)
}

/// Returns a duration in at most two units.
pub fn text(age: Duration) -> String {
    let seconds = age.as_secs();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let two = |whole: u64, unit: &str, rest: u64, small: &str| match rest {
        0 => format!("{whole}{unit}"),
        rest => format!("{whole}{unit}{rest}{small}"),
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, "d", hours % 24, "h"),
        () if days < 365 * 2 => format!("{days}d"),
        () if days < 365 * 8 => two(years, "y", days % 365, "d"),
        () => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_equal_to_those_of_kubectl() {
        for (seconds, want) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (185, "3m5s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (12_000, "3h20m"),
            (28_800, "8h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (691_200, "8d"),
            (63_072_000, "2y"),
            (64_000_000, "2y10d"),
            (252_288_000, "8y"),
        ] {
            assert_eq!(text(Duration::from_secs(seconds)), want, "{seconds}");
        }
        let now = parse_rfc3339("2026-01-01T00:01:00Z").unwrap();
        assert_eq!(since("2026-01-01T00:00:00Z", now), "60s");
        assert_eq!(since("2026-01-01T00:01:01Z", now), "0s");
        assert_eq!(since("2026-01-01T00:02:00Z", now), "<invalid>");
        assert_eq!(since("", now), "<unknown>");
    }
}
