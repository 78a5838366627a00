//! Go's constants: characters and numbers.

use super::node::Number;
use crate::lex::Kind;
use driftless_go::Error;
use driftless_go::number::{parse_float, parse_int, parse_uint};
use driftless_go::quote::{quote, unquote};

/// Parses a number as Go's templates hold it: under each type that fits.
pub(super) fn number(text: &str, kind: Kind) -> Result<Number, Error> {
    let mut n = Number {
        text: text.to_owned(),
        int: None,
        uint: None,
        float: None,
        complex: None,
    };
    if kind == Kind::CharConstant {
        return char_constant(n);
    }
    if kind == Kind::Complex || text.ends_with('i') {
        return complex(n);
    }
    n.uint = parse_uint(text, 0);
    n.int = parse_int(text, 0);
    if n.int == Some(0) {
        n.uint = Some(0);
    }
    if let Some(i) = n.int {
        n.float = Some(i as f64);
    } else if let Some(u) = n.uint {
        n.float = Some(u as f64);
    } else if let Some(f) = parse_float(text) {
        if !text.contains(['.', 'e', 'E', 'p', 'P']) {
            return Err(format!("integer overflow: {}", quote(text.as_bytes())).into());
        }
        n.float = Some(f);
        if f == f.trunc() && f.abs() < 9.223_372_036_854_776e18 {
            n.int = Some(f as i64);
        }
        if f == f.trunc() && (0.0..1.844_674_407_370_955_2e19).contains(&f) {
            n.uint = Some(f as u64);
        }
    }
    if n.int.is_none() && n.uint.is_none() && n.float.is_none() {
        return Err(format!("illegal number syntax: {}", quote(text.as_bytes())).into());
    }
    Ok(n)
}

/// Parses `3i` or `2+3i`.
fn complex(mut n: Number) -> Result<Number, Error> {
    let bad = || format!("illegal number syntax: {}", quote(n.text.as_bytes()));
    let body = n.text.strip_suffix('i').ok_or_else(bad)?;
    let b = body.as_bytes();
    let sign = (1..b.len())
        .rev()
        .find(|i| matches!(b[*i], b'+' | b'-') && !matches!(b[i - 1], b'e' | b'E' | b'p' | b'P'));
    let (re, im) = match sign {
        Some(at) => (parse_float(&body[..at]).ok_or_else(bad)?, &body[at..]),
        None => (0.0, body),
    };
    let im = parse_float(im).ok_or_else(bad)?;
    n.complex = Some((re, im));
    if im == 0.0 {
        n.float = Some(re);
        n.int = (re == re.trunc() && re.abs() < 9.2e18).then_some(re as i64);
        n.uint = (re == re.trunc() && (0.0..1.8e19).contains(&re)).then_some(re as u64);
    }
    Ok(n)
}

fn char_constant(mut n: Number) -> Result<Number, Error> {
    let bad = || {
        // Go reads one character, and only then checks whether there is more.
        let body = n.text.get(1..n.text.len() - 1).unwrap_or_default();
        let sound =
            !body.is_empty() && unquote(&format!("\"{}\"", body.replace('"', "?"))).is_some();
        match sound {
            true => format!("malformed character constant: {}", n.text),
            false => "invalid syntax".to_owned(),
        }
    };
    let text = unquote(&n.text).ok_or_else(bad)?;
    let code = match std::str::from_utf8(&text) {
        Ok(s) => s.chars().next().map(u32::from),
        Err(_) => text.first().copied().map(u32::from),
    };
    let code = i64::from(code.ok_or_else(bad)?);
    n.int = Some(code);
    n.uint = Some(code as u64);
    n.float = Some(code as f64);
    Ok(n)
}
