//! Conversions of any value to numbers, like `github.com/spf13/cast`.

use super::arg::{any, bytes, string};
use super::{A, Entry, S};
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

/// Parses like Go's `strconv.ParseInt(s, base, 64)`; base 0 reads prefixes and `_`.
pub(super) fn parse_int(s: &[u8], base: u32) -> Option<i64> {
    let text = std::str::from_utf8(s).ok()?;
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (base, digits) = if base != 0 {
        (base, digits.to_owned())
    } else {
        based(digits)?
    };
    if !digits.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    let size = u64::from_str_radix(&digits, base).ok()?;
    match (negative, i64::try_from(size)) {
        (false, n) => n.ok(),
        (true, Ok(n)) => Some(-n),
        (true, Err(_)) => (size == 1 << 63).then_some(i64::MIN),
    }
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

/// Returns the base of a literal's prefix, and its digits without `_`.
fn based(digits: &str) -> Option<(u32, String)> {
    let bytes = digits.as_bytes();
    let (base, body) = match (bytes.first()?, bytes.get(1).map(u8::to_ascii_lowercase)) {
        (b'0', Some(b'x')) => (16, &digits[2..]),
        (b'0', Some(b'b')) => (2, &digits[2..]),
        (b'0', Some(b'o')) => (8, &digits[2..]),
        (b'0', Some(_)) => (8, &digits[1..]),
        _ => (10, digits),
    };
    let lone = body.is_empty()
        || body.ends_with('_')
        || body.contains("__")
        || base == 10 && body.starts_with('_');
    (!lone).then(|| (base, body.replace('_', "")))
}

/// Parses like Go's `strconv.ParseFloat(s, 64)`.
pub(super) fn parse_float(s: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(s).ok()?;
    let body = text.trim_start_matches(['+', '-']);
    if body.len() + 1 < text.len() {
        return None;
    }
    if body.len() > 1 && body.as_bytes()[..2].eq_ignore_ascii_case(b"0x") {
        return hex_float(&body[2..]).map(|f| if text.starts_with('-') { -f } else { f });
    }
    let f: f64 = match text.contains('_') {
        true => separated(text)?.parse().ok()?,
        false => text.parse().ok()?,
    };
    let named = body.starts_with(['i', 'I', 'n', 'N']);
    (named || f.is_finite()).then_some(f)
}

/// Removes `_` from a number; each must be between two digits.
fn separated(text: &str) -> Option<String> {
    let b = text.as_bytes();
    let digit = |i: Option<usize>| i.and_then(|i| b.get(i)).is_some_and(u8::is_ascii_digit);
    let fine = |i: usize| digit(i.checked_sub(1)) && digit(Some(i + 1));
    let all = b.iter().enumerate().all(|(i, c)| *c != b'_' || fine(i));
    all.then(|| text.replace('_', ""))
}

/// Parses `1.8p3`: the exponent is required.
fn hex_float(body: &str) -> Option<f64> {
    let body = body.replace('_', "").to_ascii_lowercase();
    let (mantissa, exponent) = body.split_once('p')?;
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || digits.len() > 13 {
        return None;
    }
    let value = u64::from_str_radix(&digits, 16).ok()? as f64;
    let shift = exponent.checked_sub(i32::try_from(fraction.len()).ok()? * 4)?;
    let f = value * 2f64.powi(shift);
    f.is_finite().then_some(f)
}
