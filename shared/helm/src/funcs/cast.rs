//! Conversions of any value to numbers, like `github.com/spf13/cast`.

use super::arg::{any, bytes, string};
use super::{A, Entry, S};
use driftless_go::number;
use driftless_gotmpl::{IntType, Kind, Value};

pub(super) const TABLE: &[Entry] = &[
    ("atoi", S, |_, a| {
        Ok(Value::int(saturating_int(bytes(a, 0))))
    }),
    ("int", A, |_, a| Ok(Value::int(to_int(any(a, 0))))),
    ("int64", A, |_, a| Ok(Value::int64(to_int(any(a, 0))))),
    ("float64", A, |_, a| Ok(Value::Float(to_float(any(a, 0))))),
    ("toDecimal", A, |e, a| {
        let text = match any(a, 0) {
            Value::NoValue | Value::Nil => "<nil>".into(),
            value => string(e, value)?,
        };
        Ok(Value::int64(parse_int(&text, 8).unwrap_or(0)))
    }),
];

/// Converts a float64 to an int64, outside its range like Go on amd64.
fn truncate(f: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if f.is_nan() || !(-LIMIT..LIMIT).contains(&f) {
        i64::MIN
    } else {
        f as i64
    }
}

/// Converts like `cast.ToInt64`: 0 for a value that is not a number.
pub(super) fn to_int(value: &Value) -> i64 {
    match value {
        Value::Int(i, _) => *i,
        Value::Float(f) => truncate(*f),
        Value::Str(s) => parse_int(without_zero_decimals(s), 0).unwrap_or(0),
        Value::Bool(b) => i64::from(*b),
        Value::Object(o) if o.kind() == Kind::Int(IntType::Int) => month_or_day(&**o),
        _ => 0,
    }
}

/// Converts `time.Month` and `time.Weekday`, which count as numbers.
fn month_or_day(object: &dyn driftless_gotmpl::Object) -> i64 {
    match object.json() {
        Some(Value::Int(i, _)) => i,
        _ => 0,
    }
}

/// Converts like `cast.ToFloat64`: 0 for a value that is not a number.
pub(super) fn to_float(value: &Value) -> f64 {
    match value {
        Value::Int(i, t) if t.unsigned() => *i as u64 as f64,
        Value::Int(i, _) => *i as f64,
        Value::Float(f) => *f,
        Value::Str(s) => parse_float(s).unwrap_or(0.0),
        Value::Bool(b) => f64::from(u8::from(*b)),
        Value::Object(_) => to_int(value) as f64,
        _ => 0.0,
    }
}

/// Removes the decimals of `1.000`, if they are all 0.
fn without_zero_decimals(s: &[u8]) -> &[u8] {
    let digits = s.len() - s.iter().rev().take_while(|b| **b == b'0').count();
    match s[..digits].split_last() {
        Some((b'.', head)) if digits < s.len() => head,
        _ => s,
    }
}

/// Reads an integer as Go's `strconv.ParseInt(s, base, 64)` does.
pub(super) fn parse_int(s: &[u8], base: u32) -> Option<i64> {
    number::parse_int(std::str::from_utf8(s).ok()?, base)
}

/// Returns the number that Go's `strconv.ParseInt(s, 10, 64)` returns with an error: the nearest
/// number that fits, or 0.
pub(super) fn saturating_int(s: &[u8]) -> i64 {
    if let Some(n) = parse_int(s, 10) {
        return n;
    }
    let digits = s.strip_prefix(b"-").or(s.strip_prefix(b"+")).unwrap_or(s);
    match !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) {
        true if s.starts_with(b"-") => i64::MIN,
        true => i64::MAX,
        false => 0,
    }
}

/// Reads a float as Go's `strconv.ParseFloat(s, 64)` does.
pub(super) fn parse_float(s: &[u8]) -> Option<f64> {
    number::parse_float(std::str::from_utf8(s).ok()?)
}
