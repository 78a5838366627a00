//! Helm 4's functions on durations.

use super::arg::any;
use super::cast::parse_float;
use super::moment::SECOND;
use super::time::{duration_value, nanos_of};
use super::{A, AA, Entry};
use driftless_go::duration::{float, parse, round, truncate};
use driftless_go::quote::quote;
use driftless_gotmpl::fmt::display;
use driftless_gotmpl::{FuncError, Value};

/// The functions that only Helm 4 has.
pub(super) const HELM4: &[Entry] = &[
    ("mustToDuration", A, |_, a| {
        Ok(duration_value(of(any(a, 0))?))
    }),
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
        Ok(duration_value(to_multiple(a, round)))
    }),
    ("durationTruncateTo", AA, |_, a| {
        Ok(duration_value(to_multiple(a, truncate)))
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

/// Converts a duration, a string, or a number of seconds to nanoseconds.
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
    let printed = || display(&Value::Float(seconds));
    if !seconds.is_finite() {
        return Err(format!("invalid duration seconds: {}", printed()).into());
    }
    if seconds.abs() > LIMIT {
        return Err(format!("duration seconds overflow: {}", printed()).into());
    }
    Ok((seconds * SECOND as f64) as i64)
}
