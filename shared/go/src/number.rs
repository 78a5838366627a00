//! Numbers, as Go's `strconv.ParseInt`, `ParseUint` and `ParseFloat` read them.

use std::borrow::Cow;

/// Reads an unsigned integer, as `strconv.ParseUint(text, base, 64)` does. Base 0 reads the base
/// from the prefix `0x`, `0o`, `0b` or `0`, and allows `_` between digits.
///
/// ```
/// use driftless_go::number::parse_uint;
/// assert_eq!(parse_uint("0x_1f", 0), Some(31));
/// assert_eq!(parse_uint("017", 0), Some(15));
/// assert_eq!(parse_uint("017", 10), Some(17));
/// assert_eq!(parse_uint("+1", 0), None);
/// ```
pub fn parse_uint(text: &str, base: u32) -> Option<u64> {
    let (radix, digits) = match base {
        0 => based(text),
        base => (base, text),
    };
    let digits = match digits.contains('_') {
        true if base == 0 && underscores_ok(text) => Cow::Owned(digits.replace('_', "")),
        true => return None,
        false => Cow::Borrowed(digits),
    };
    if !digits.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    u64::from_str_radix(&digits, radix).ok()
}

/// Reads a signed integer, as `strconv.ParseInt(text, base, 64)` does; the bases are those of
/// [`parse_uint`].
///
/// ```
/// use driftless_go::number::parse_int;
/// assert_eq!(parse_int("-9223372036854775808", 10), Some(i64::MIN));
/// assert_eq!(parse_int("-0b11", 0), Some(-3));
/// assert_eq!(parse_int("9223372036854775808", 10), None);
/// ```
pub fn parse_int(text: &str, base: u32) -> Option<i64> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let size = parse_uint(digits, base)?;
    match negative {
        true => 0_i64.checked_sub_unsigned(size),
        false => i64::try_from(size).ok(),
    }
}

/// Returns the base of a literal's prefix, and what follows the prefix.
fn based(text: &str) -> (u32, &str) {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.get(1).map(u8::to_ascii_lowercase)) {
        (Some(b'0'), Some(b'x')) => (16, &text[2..]),
        (Some(b'0'), Some(b'b')) => (2, &text[2..]),
        (Some(b'0'), Some(b'o')) => (8, &text[2..]),
        (Some(b'0'), Some(_)) => (8, &text[1..]),
        _ => (10, text),
    }
}

/// Checks Go's rule for `_` in numbers: only between digits or after the base's prefix.
fn underscores_ok(text: &str) -> bool {
    let t = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut last = '^';
    let mut t = t.chars().peekable();
    let mut hex = false;
    if t.peek() == Some(&'0') {
        let mut ahead = t.clone();
        ahead.next();
        if let Some(p @ ('x' | 'X' | 'o' | 'O' | 'b' | 'B')) = ahead.next() {
            hex = p.eq_ignore_ascii_case(&'x');
            t = ahead;
            last = '0';
        }
    }
    for c in t {
        if c.is_ascii_digit() || hex && c.is_ascii_hexdigit() {
            last = '0';
        } else if c == '_' {
            if last != '0' {
                return false;
            }
            last = '_';
        } else {
            if last == '_' {
                return false;
            }
            last = '!';
        }
    }
    last != '_'
}

/// Reads a float, as `strconv.ParseFloat(text, 64)` does: also hexadecimal ones, `inf`, `infinity`
/// and `nan` in any case. `None` also for a number that is beyond the range.
///
/// ```
/// use driftless_go::number::parse_float;
/// assert_eq!(parse_float("1_000.5"), Some(1000.5));
/// assert_eq!(parse_float("0x1.8p3"), Some(12.0));
/// assert_eq!(parse_float("-Inf"), Some(f64::NEG_INFINITY));
/// assert_eq!(parse_float("1e999"), None);
/// assert_eq!(parse_float("0x1"), None);
/// ```
pub fn parse_float(text: &str) -> Option<f64> {
    if text.contains('_') && !underscores_ok(text) {
        return None;
    }
    let (negative, body) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if body.starts_with(['i', 'I', 'n', 'N']) {
        return text.parse().ok();
    }
    if !body.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let body = match body.contains('_') {
        true => Cow::Owned(body.replace('_', "")),
        false => Cow::Borrowed(body),
    };
    let size = match body.as_bytes() {
        [b'0', b'x' | b'X', ..] => hex_float(&body[2..])?,
        _ => body.parse().ok()?,
    };
    let value: f64 = if negative { -size } else { size };
    value.is_finite().then_some(value)
}

/// The value from which on a further digit cannot change the rounded result, except by not being 0.
const ENOUGH: u64 = 1 << 59;

/// Reads `1.8p3`: the exponent is required.
fn hex_float(body: &str) -> Option<f64> {
    let (mantissa, exponent) = body.split_once(['p', 'P'])?;
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let (mut value, mut dropped, mut is_inexact) = (0_u64, 0_i32, false);
    for c in whole.chars().chain(fraction.chars()) {
        let digit = c.to_digit(16)?;
        if value < ENOUGH {
            value = value << 4 | u64::from(digit);
        } else {
            dropped = dropped.saturating_add(1);
            is_inexact |= digit != 0;
        }
    }
    let places = i32::try_from(fraction.len()).ok()?;
    let shift = dropped.saturating_sub(places).saturating_mul(4);
    let shift = exponent.saturating_add(shift).clamp(-2_200, 2_200);
    let rounded = (value | u64::from(is_inexact)) as f64;
    // In two steps, because the power alone may be out of the range.
    Some(rounded * 2_f64.powi(shift / 2) * 2_f64.powi(shift - shift / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_gos() {
        for (text, base, want) in [
            ("", 0, None),
            ("0", 0, Some(0)),
            ("-", 0, None),
            ("+-1", 0, None),
            ("0x", 0, None),
            ("0_7", 0, Some(7)),
            ("08", 0, None),
            ("0o17", 0, Some(15)),
            ("0B101", 0, Some(5)),
            ("1_000", 0, Some(1_000)),
            ("1_000", 10, None),
            ("_1", 0, None),
            ("1_", 0, None),
            ("1__0", 0, None),
            ("0x_f", 0, Some(15)),
            ("0x_f", 16, None),
            ("ff", 16, Some(255)),
            ("é", 0, None),
            ("0é", 0, None),
            ("1.0", 0, None),
        ] {
            assert_eq!(parse_int(text, base), want, "{text:?} in base {base}");
        }
        assert_eq!(parse_uint("18446744073709551615", 0), Some(u64::MAX));
        assert_eq!(parse_uint("18446744073709551616", 0), None);
    }

    #[test]
    fn floats_are_gos() {
        for (text, want) in [
            ("", None),
            (".", None),
            ("1.", Some(1.0)),
            (".5", Some(0.5)),
            ("+1e3", Some(1e3)),
            ("--1", None),
            ("1_0.0_1", Some(10.01)),
            ("1_.5", None),
            ("infinity", Some(f64::INFINITY)),
            ("in", None),
            ("0x", None),
            ("0xp1", None),
            ("-0x.8p0", Some(-0.5)),
            ("0X1P-1074", Some(5e-324)),
            ("0x1p1024", None),
            // Half way between two floats, and just above it.
            ("0x1.00000000000008p0", Some(1.0)),
            (
                "0x1.000000000000080000000000000001p0",
                Some(1.0 + f64::EPSILON),
            ),
            ("0x10000000000000000000p-76", Some(1.0)),
        ] {
            assert_eq!(parse_float(text), want, "{text:?}");
        }
        assert!(parse_float("NaN").is_some_and(f64::is_nan));
    }
}
