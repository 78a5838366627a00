//! Durations in nanoseconds: parsed, formatted and rounded like in Go's `time` package.

use crate::Error;
use crate::quote::quote;

const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Parses a duration to nanoseconds, by Go's `time.ParseDuration`.
///
/// # Errors
/// The message of Go.
pub fn parse(text: &str) -> Result<i64, Error> {
    let quoted = || quote(text.as_bytes());
    let invalid = || format!("time: invalid duration {}", quoted());
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid().into());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (whole, mut tail) = rest.split_at(end);
        let mut fraction = "";
        if let Some(behind) = tail.strip_prefix('.') {
            let end = behind
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(behind.len());
            (fraction, tail) = behind.split_at(end);
        }
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid().into());
        }
        let end = tail
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(tail.len());
        let (unit, left) = tail.split_at(end);
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quoted()).into());
        }
        let Some((_, size)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            let unit = quote(unit.as_bytes());
            return Err(format!("time: unknown unit {unit} in duration {}", quoted()).into());
        };
        let number = if whole.is_empty() {
            Ok(0)
        } else {
            whole.parse::<u64>()
        };
        let part = number
            .ok()
            .and_then(|n| n.checked_mul(*size))
            .ok_or_else(invalid)?;
        let extra = format!("0.{fraction}").parse::<f64>().unwrap_or(0.0) * *size as f64;
        total = part
            .checked_add(extra as u64)
            .and_then(|n| n.checked_add(total))
            .filter(|n| *n <= 1 << 63)
            .ok_or_else(invalid)?;
        rest = left;
    }
    match (negative, i64::try_from(total)) {
        (false, Ok(n)) => Ok(n),
        (true, Ok(n)) => Ok(-n),
        (true, Err(_)) => Ok(i64::MIN),
        (false, Err(_)) => Err(invalid().into()),
    }
}

/// Formats a duration by Go's `Duration.String`: `1h2m3.5s`.
pub fn format(nanos: i64) -> String {
    let size = nanos.unsigned_abs();
    let sign = if nanos < 0 { "-" } else { "" };
    let fraction = |n: u64, unit: u64| {
        let whole = n / unit;
        let digits = unit.ilog10() as usize;
        let rest = format!("{:0digits$}", n % unit);
        match rest.trim_end_matches('0') {
            "" => whole.to_string(),
            rest => format!("{whole}.{rest}"),
        }
    };
    let text = match size {
        0 => "0s".to_owned(),
        1..1_000 => format!("{size}ns"),
        1_000..1_000_000 => format!("{}µs", fraction(size, 1_000)),
        1_000_000..1_000_000_000 => format!("{}ms", fraction(size, 1_000_000)),
        _ => {
            let minutes = size / 60_000_000_000;
            let seconds = fraction(size % 60_000_000_000, 1_000_000_000);
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{seconds}s"),
                (0, m) => format!("{m}m{seconds}s"),
                (h, m) => format!("{h}h{m}m{seconds}s"),
            }
        }
    };
    format!("{sign}{text}")
}

/// Converts a duration to units, like Go's `Seconds`, `Minutes` and `Hours`.
pub fn float(nanos: i64, unit: i64) -> f64 {
    (nanos / unit) as f64 + (nanos % unit) as f64 / unit as f64
}

/// Rounds a duration by Go's `Duration.Round`: half away from zero.
pub fn round(nanos: i64, to: i64) -> i64 {
    if to <= 0 {
        return nanos;
    }
    let rest = nanos % to;
    let half = rest.unsigned_abs() * 2 >= to as u64;
    let down = nanos - rest;
    if !half {
        return down;
    }
    match nanos < 0 {
        true => down.checked_sub(to).unwrap_or(i64::MIN),
        false => down.checked_add(to).unwrap_or(i64::MAX),
    }
}

/// Truncates a duration by Go's `Duration.Truncate`.
pub fn truncate(nanos: i64, to: i64) -> i64 {
    if to <= 0 { nanos } else { nanos - nanos % to }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_go_reads_and_writes() {
        for (text, nanos, written) in [
            ("0", 0, "0s"),
            ("1h30m", 5_400_000_000_000, "1h30m0s"),
            ("1.5s", 1_500_000_000, "1.5s"),
            ("-2us", -2_000, "-2\u{b5}s"),
            (".5ms", 500_000, "500\u{b5}s"),
            ("1d", 0, ""),
            ("5", 0, ""),
            ("", 0, ""),
        ] {
            let parsed = parse(text);
            assert_eq!(parsed.is_err(), written.is_empty(), "{text}");
            assert_eq!(parsed.as_ref().map_or(0, |n| *n), nanos, "{text}");
            assert_eq!(parsed.map_or(String::new(), format), written, "{text}");
        }
        assert_eq!(
            parse("1d"),
            Err("time: unknown unit \"d\" in duration \"1d\"".into())
        );
        assert_eq!((round(1_500, 1_000), round(-1_500, 1_000)), (2_000, -2_000));
        assert_eq!(truncate(-1_500, 1_000), -1_000);
    }
}
