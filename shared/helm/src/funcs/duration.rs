//! Go's durations: reading, writing, rounding; and Helm 4's functions on them.

use super::arg::any;
use super::cast::parse_float;
use super::time::{SECOND, duration, nanos_of};
use super::{A, AA, Entry};
use driftless_gotmpl::fmt::{display, quote};
use driftless_gotmpl::{FuncError, Value};

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

/// Go's `time.ParseDuration`, in nanoseconds.
///
/// # Errors
/// Go's message.
pub(super) fn parse(text: &str) -> Result<i64, String> {
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
        return Err(invalid());
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
            return Err(invalid());
        }
        let end = tail
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(tail.len());
        let (unit, left) = tail.split_at(end);
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quoted()));
        }
        let Some((_, size)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            let unit = quote(unit.as_bytes());
            return Err(format!(
                "time: unknown unit {unit} in duration {}",
                quoted()
            ));
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
        (false, Err(_)) => Err(invalid()),
    }
}

/// Go's `Duration.String`: `1h2m3.5s`.
pub(super) fn format(nanos: i64) -> String {
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

/// The whole and the rest in units, as Go's `Seconds`, `Minutes` and `Hours`.
pub(super) fn float(nanos: i64, unit: i64) -> f64 {
    (nanos / unit) as f64 + (nanos % unit) as f64 / unit as f64
}

/// Go's `Duration.Round`: half away from zero.
pub(super) fn round(nanos: i64, to: i64) -> i64 {
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

/// Go's `Duration.Truncate`.
pub(super) fn truncate(nanos: i64, to: i64) -> i64 {
    if to <= 0 { nanos } else { nanos - nanos % to }
}

/// What only Helm 4 has.
pub(super) const HELM4: &[Entry] = &[
    ("mustToDuration", A, |_, a| Ok(duration(of(any(a, 0))?))),
    ("durationNanoseconds", A, |_, a| Ok(Value::int64(quiet(a)))),
    ("durationMicroseconds", A, |_, a| {
        Ok(Value::int64(quiet(a) / 1_000))
    }),
    ("durationMilliseconds", A, |_, a| {
        Ok(Value::int64(quiet(a) / 1_000_000))
    }),
    ("durationSeconds", A, |_, a| {
        Ok(Value::Float(float(quiet(a), SECOND)))
    }),
    ("durationMinutes", A, |_, a| {
        Ok(Value::Float(float(quiet(a), 60 * SECOND)))
    }),
    ("durationHours", A, |_, a| Ok(Value::Float(hours(a)))),
    ("durationDays", A, |_, a| Ok(Value::Float(hours(a) / 24.0))),
    ("durationWeeks", A, |_, a| {
        Ok(Value::Float(hours(a) / 24.0 / 7.0))
    }),
    ("durationRoundTo", AA, |_, a| {
        Ok(duration(to_multiple(a, round)))
    }),
    ("durationTruncateTo", AA, |_, a| {
        Ok(duration(to_multiple(a, truncate)))
    }),
];

fn quiet(a: &[Value]) -> i64 {
    of(any(a, 0)).unwrap_or(0)
}

fn hours(a: &[Value]) -> f64 {
    float(quiet(a), 3_600 * SECOND)
}

fn to_multiple(a: &[Value], change: fn(i64, i64) -> i64) -> i64 {
    match (of(any(a, 0)), of(any(a, 1))) {
        (Ok(value), Ok(multiple)) => change(value, multiple),
        (Ok(value), Err(_)) => value,
        (Err(_), _) => 0,
    }
}

/// A duration out of a duration, a text, or a number of seconds.
fn of(value: &Value) -> Result<i64, FuncError> {
    if let Some(nanos) = nanos_of(value) {
        return Ok(nanos);
    }
    match value {
        Value::NoValue | Value::Nil => Err("invalid duration".into()),
        Value::Str(s) => {
            let shown = s.lossy();
            let text = shown.trim();
            if text.is_empty() {
                return Err("empty duration".into());
            }
            if let Ok(nanos) = parse(text) {
                return Ok(nanos);
            }
            match parse_float(text.as_bytes()) {
                Some(seconds) => from_seconds(seconds),
                None => Err(format!("could not parse duration {}", quote(s)).into()),
            }
        }
        Value::Int(n, t) if t.unsigned() => i64::try_from(*n as u64)
            .ok()
            .and_then(|n| n.checked_mul(SECOND))
            .ok_or_else(|| format!("duration seconds overflow: {}", *n as u64).into()),
        Value::Int(n, _) => n
            .checked_mul(SECOND)
            .ok_or_else(|| format!("duration seconds overflow: {n}").into()),
        Value::Float(f) => from_seconds(*f),
        other => Err(format!("unsupported duration type {}", other.type_name()).into()),
    }
}

fn from_seconds(seconds: f64) -> Result<i64, FuncError> {
    const LIMIT: f64 = 9_223_372_036.854_775;
    let shown = || display(&Value::Float(seconds));
    if !seconds.is_finite() {
        return Err(format!("invalid duration seconds: {}", shown()).into());
    }
    if seconds.abs() > LIMIT {
        return Err(format!("duration seconds overflow: {}", shown()).into());
    }
    Ok((seconds * SECOND as f64) as i64)
}
