//! The times of records.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A moment with its original offset from UTC: Go keeps both through JSON, to the nanosecond.
///
/// Go's zero time (the year 1) is not a moment: fields hold an `Option`, and read null, `""`
/// (Helm 3) and the zero time as `None`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    at: Timestamp,
    /// The offset in seconds east of UTC.
    offset: i32,
}

impl Time {
    /// Creates a moment in UTC.
    pub fn utc(at: Timestamp) -> Self {
        Time { at, offset: 0 }
    }

    /// Returns the moment without its offset.
    pub fn timestamp(self) -> Timestamp {
        self.at
    }

    /// Parses a time in RFC 3339, fractions beyond nanoseconds truncated.
    ///
    /// Returns `None` for an invalid time.
    pub fn parse(text: &str) -> Option<Self> {
        let (date_time, rest) = text.split_at_checked(19)?;
        if date_time.as_bytes().get(10) != Some(&b'T') {
            return None;
        }
        let date_time: DateTime = date_time.parse().ok()?;
        let (fraction, zone) = match rest.strip_prefix('.') {
            None => ("", rest),
            Some(rest) => rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?),
        };
        if rest.starts_with('.') && fraction.is_empty() {
            return None;
        }
        let digits: String = fraction
            .chars()
            .chain("000000000".chars())
            .take(9)
            .collect();
        let nanoseconds: i32 = digits.parse().ok()?;
        let offset = offset(zone)?;
        let local = date_time
            .with()
            .subsec_nanosecond(nanoseconds)
            .build()
            .ok()?;
        let at = Offset::from_seconds(offset)
            .ok()?
            .to_timestamp(local)
            .ok()?;
        Some(Time { at, offset })
    }

    /// Checks for Go's zero time.
    fn is_zero(self) -> bool {
        self.at.as_second() == ZERO && self.at.subsec_nanosecond() == 0
    }
}

/// The year 1 in seconds from 1970.
const ZERO: i64 = -62_135_596_800;

/// Parses `Z` or `+02:00`, in seconds.
fn offset(zone: &str) -> Option<i32> {
    if zone == "Z" {
        return Some(0);
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let part = |text: &str, most: i32| -> Option<i32> {
        let whole = text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
        text.parse().ok().filter(|n: &i32| whole && *n <= most)
    };
    Some(sign * (part(hours, 23)? * 3600 + part(minutes, 59)? * 60))
}

/// Formats like Go's `time.RFC3339Nano`.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let local = Offset::from_seconds(self.offset)
            .map_err(|_| fmt::Error)?
            .to_datetime(self.at);
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            local.year(),
            local.month(),
            local.day(),
            local.hour(),
            local.minute(),
            local.second()
        )?;
        if local.subsec_nanosecond() != 0 {
            let digits = format!("{:09}", local.subsec_nanosecond());
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        if self.offset == 0 {
            return f.write_str("Z");
        }
        let minutes = self.offset.abs() / 60;
        let sign = if self.offset < 0 { '-' } else { '+' };
        write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads a field that may be absent, null, empty or Go's zero time.
pub(super) fn optional<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Time>, D::Error> {
    match Option::<String>::deserialize(input)?.as_deref() {
        None | Some("") => Ok(None),
        Some(text) => Time::parse(text)
            .map(|time| (!time.is_zero()).then_some(time))
            .ok_or_else(|| serde::de::Error::custom("not an RFC 3339 time")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_go() {
        for (text, written) in [
            ("2026-03-01T12:00:00Z", Some("2026-03-01T12:00:00Z")),
            (
                "2026-03-01T12:00:00.120000000+02:00",
                Some("2026-03-01T12:00:00.12+02:00"),
            ),
            (
                "2026-03-01T12:00:00.123456789123Z",
                Some("2026-03-01T12:00:00.123456789Z"),
            ),
            ("2026-03-01T12:00:00+00:00", Some("2026-03-01T12:00:00Z")),
            (
                "2026-03-01T00:30:00-05:30",
                Some("2026-03-01T00:30:00-05:30"),
            ),
            ("0001-01-01T00:00:00Z", Some("0001-01-01T00:00:00Z")),
            ("2026-03-01 12:00:00Z", None),
            ("2026-03-01T12:00:00.Z", None),
            ("2026-03-01T12:00:00", None),
            ("2026-13-01T12:00:00Z", None),
            ("2026-03-01T12:00:00+2:00", None),
            ("ähm", None),
        ] {
            let time = Time::parse(text);
            assert_eq!(time.map(|t| t.to_string()).as_deref(), written, "{text}");
        }
        assert!(Time::parse("0001-01-01T00:00:00Z").unwrap().is_zero());
    }
}
