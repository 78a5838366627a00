//! The type of a scalar, by the resolution rules of go.yaml.in/yaml v2 and v3.

use super::Dialect;
use driftless_go::number;

/// A resolved scalar. A string is not copied: it is the scalar's own string.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Resolved {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Str,
    Timestamp,
}

/// Resolves the type of an untagged plain scalar.
pub(crate) fn resolve(text: &str, dialect: Dialect) -> Resolved {
    let Some(first) = text.bytes().next() else {
        return Resolved::Null;
    };
    match first {
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~' => {
            word(text, dialect)
        }
        b'.' => dotted(text),
        b'+' | b'-' | b'0'..=b'9' => numeric(text, dialect),
        _ => Resolved::Str,
    }
}

fn word(text: &str, dialect: Dialect) -> Resolved {
    if text.len() > 5 {
        return Resolved::Str;
    }
    match text {
        "true" | "True" | "TRUE" => Resolved::Bool(true),
        "false" | "False" | "FALSE" => Resolved::Bool(false),
        "~" | "null" | "Null" | "NULL" => Resolved::Null,
        _ if dialect == Dialect::V3 => Resolved::Str,
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Resolved::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Resolved::Bool(false),
        _ => Resolved::Str,
    }
}

fn dotted(text: &str) -> Resolved {
    match text {
        ".nan" | ".NaN" | ".NAN" => Resolved::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" => Resolved::Float(f64::INFINITY),
        _ if !text.contains('_') => float(text).map_or(Resolved::Str, Resolved::Float),
        _ if separates_digits(text) => {
            float(&text.replace('_', "")).map_or(Resolved::Str, Resolved::Float)
        }
        _ => Resolved::Str,
    }
}

/// Checks whether each underscore is between two digits, as `strconv.ParseFloat` requires.
fn separates_digits(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digit = |i: usize| bytes.get(i).is_some_and(u8::is_ascii_digit);
    (0..bytes.len())
        .filter(|i| bytes[*i] == b'_')
        .all(|i| i > 0 && digit(i - 1) && digit(i + 1))
}

fn numeric(text: &str, dialect: Dialect) -> Resolved {
    match text {
        "+.inf" | "+.Inf" | "+.INF" => return Resolved::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Resolved::Float(f64::NEG_INFINITY),
        _ => {}
    }
    if super::time::parse(text).is_some() {
        return Resolved::Timestamp;
    }
    let stripped;
    let plain = if text.contains('_') {
        stripped = text.replace('_', "");
        stripped.as_str()
    } else {
        text
    };
    if let Some(i) = int(plain) {
        return i;
    }
    if let Some(f) = float(plain) {
        return Resolved::Float(f);
    }
    signed_digits(plain, dialect).unwrap_or(Resolved::Str)
}

/// Parses yaml's own forms of binary (and, in v3, octal) numbers, which have a sign after the
/// prefix in addition to Go's forms.
fn signed_digits(text: &str, dialect: Dialect) -> Option<Resolved> {
    let (digits, radix) = match (text.strip_prefix("0b"), text.strip_prefix("0o")) {
        (Some(digits), _) => (digits, 2),
        (_, Some(digits)) if dialect == Dialect::V3 => (digits, 8),
        _ => return None,
    };
    i64::from_str_radix(digits, radix).ok().map(Resolved::Int)
}

/// Reads an integer as Go's YAML readers do: by `strconv.ParseInt`, then by `ParseUint`.
fn int(text: &str) -> Option<Resolved> {
    let signed = number::parse_int(text, 0).map(Resolved::Int);
    signed.or_else(|| number::parse_uint(text, 0).map(Resolved::Uint))
}

/// Reads a float of the form that Go's YAML readers check before they call `strconv.ParseFloat`,
/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`, within the range of a double.
fn float(text: &str) -> Option<f64> {
    let rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, rest) = digits(rest);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(after) => digits(after),
        None => (0, rest),
    };
    if whole == 0 && fraction == 0 {
        return None;
    }
    if !rest.is_empty() {
        let exponent = rest.strip_prefix(['e', 'E'])?;
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        if exponent.is_empty() || !digits(exponent).1.is_empty() {
            return None;
        }
    }
    number::parse_float(text)
}

fn digits(text: &str) -> (usize, &str) {
    let count = text.bytes().take_while(u8::is_ascii_digit).count();
    (count, &text[count..])
}
