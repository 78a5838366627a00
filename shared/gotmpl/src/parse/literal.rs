//! Go's constants: quoted strings, characters, numbers.

use super::node::Number;
use crate::lex::Kind;
use crate::value::Str;

/// Unquotes like Go's `strconv.Unquote`: a string in `"`, `` ` `` or `'` with its quotes.
pub fn unquote(quoted: &str) -> Option<Str> {
    let mut chars = quoted.chars();
    let quote = chars.next()?;
    if quoted.len() < 2 || chars.next_back() != Some(quote) {
        return None;
    }
    let inner = &quoted[1..quoted.len() - 1];
    match quote {
        '`' if inner.contains('`') => None,
        '`' => Some(Str::from(inner.replace('\r', ""))),
        '"' if !inner.contains(['\\', '"', '\n']) => Some(Str::from(inner)),
        '"' => {
            let mut out = Vec::with_capacity(inner.len());
            let mut rest = inner;
            while !rest.is_empty() {
                rest = unescape(rest, '"', &mut out)?;
            }
            Some(Str::from(out))
        }
        '\'' => {
            let mut out = Vec::new();
            unescape(inner, '\'', &mut out)?
                .is_empty()
                .then(|| Str::from(out))
        }
        _ => None,
    }
}

/// Reads one character of a quoted string and returns the rest.
fn unescape<'a>(text: &'a str, quote: char, out: &mut Vec<u8>) -> Option<&'a str> {
    let mut chars = text.chars();
    let c = chars.next()?;
    if c == quote || c == '\n' {
        return None;
    }
    if c != '\\' {
        out.extend_from_slice(&text.as_bytes()[..c.len_utf8()]);
        return Some(chars.as_str());
    }
    let c = chars.next()?;
    let digits = |n: usize, radix: u32, text: &'a str| -> Option<(u32, &'a str)> {
        let head = text.get(..n)?;
        head.chars().all(|c| c.is_digit(radix)).then_some(())?;
        Some((u32::from_str_radix(head, radix).ok()?, &text[n..]))
    };
    let simple = match c {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 11,
        '\\' => b'\\',
        '\'' | '"' if c == quote => c as u8,
        'x' => {
            let (code, rest) = digits(2, 16, chars.as_str())?;
            out.push(code as u8);
            return Some(rest);
        }
        'u' | 'U' => {
            let (code, rest) = digits(if c == 'u' { 4 } else { 8 }, 16, chars.as_str())?;
            let c = char::from_u32(code)?;
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            return Some(rest);
        }
        '0'..='7' => {
            let (code, rest) = digits(3, 8, &text[1..])?;
            out.push(u8::try_from(code).ok()?);
            return Some(rest);
        }
        _ => return None,
    };
    out.push(simple);
    Some(chars.as_str())
}

/// Parses a number as Go's templates hold it: under each type that fits.
pub(super) fn number(text: &str, kind: Kind) -> Result<Number, String> {
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
    n.uint = parse_uint(text);
    n.int = parse_int(text);
    if n.int == Some(0) {
        n.uint = Some(0);
    }
    if let Some(i) = n.int {
        n.float = Some(i as f64);
    } else if let Some(u) = n.uint {
        n.float = Some(u as f64);
    } else if let Some(f) = parse_float(text) {
        if !text.contains(['.', 'e', 'E', 'p', 'P']) {
            return Err(format!(
                "integer overflow: {}",
                driftless_go::quote::quote(text.as_bytes())
            ));
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
        return Err(format!(
            "illegal number syntax: {}",
            driftless_go::quote::quote(text.as_bytes())
        ));
    }
    Ok(n)
}

/// Parses `3i` or `2+3i`.
fn complex(mut n: Number) -> Result<Number, String> {
    let bad = || {
        format!(
            "illegal number syntax: {}",
            driftless_go::quote::quote(n.text.as_bytes())
        )
    };
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

fn char_constant(mut n: Number) -> Result<Number, String> {
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
    let code = match text.utf8() {
        Some(s) => s.chars().next().map(u32::from),
        None => text.first().copied().map(u32::from),
    };
    let code = i64::from(code.ok_or_else(bad)?);
    n.int = Some(code);
    n.uint = Some(code as u64);
    n.float = Some(code as f64);
    Ok(n)
}

/// Checks Go's rule for `_` in numbers: only between digits or after the base's prefix.
pub(crate) fn underscores_ok(text: &str) -> bool {
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

/// Parses like Go's `strconv.ParseUint(text, 0, 64)`.
pub(crate) fn parse_uint(text: &str) -> Option<u64> {
    if text.contains('_') && !underscores_ok(text) {
        return None;
    }
    let lower = text.to_ascii_lowercase();
    let (radix, digits) = match lower.get(..2) {
        Some("0x") => (16, &lower[2..]),
        Some("0b") => (2, &lower[2..]),
        Some("0o") => (8, &lower[2..]),
        _ if lower.len() > 1 && lower.starts_with('0') => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    let digits = digits.replace('_', "");
    if digits.is_empty() || digits.starts_with(['+', '-']) {
        return None;
    }
    u64::from_str_radix(&digits, radix).ok()
}

/// Parses like Go's `strconv.ParseInt(text, 0, 64)`.
pub(crate) fn parse_int(text: &str) -> Option<i64> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let u = parse_uint(digits)?;
    if negative {
        0_i64.checked_sub_unsigned(u)
    } else {
        i64::try_from(u).ok()
    }
}

/// Parses like Go's `strconv.ParseFloat(text, 64)` whatever the lexer accepts.
pub(crate) fn parse_float(text: &str) -> Option<f64> {
    if text.contains('_') && !underscores_ok(text) {
        return None;
    }
    let clean = text.replace('_', "");
    let lower = clean.to_ascii_lowercase();
    let unsigned = lower.trim_start_matches(['+', '-']);
    if unsigned.starts_with("0x") {
        return hex_float(&lower);
    }
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    clean.parse().ok().filter(|f: &f64| f.is_finite())
}

fn hex_float(text: &str) -> Option<f64> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let (mantissa, exponent) = text.strip_prefix("0x")?.split_once('p')?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.len() + fraction.len() == 0 {
        return None;
    }
    let mut value = 0.0_f64;
    for c in whole.chars().chain(fraction.chars()) {
        value = value * 16.0 + f64::from(c.to_digit(16)?);
    }
    let exponent: i32 = exponent.parse().ok()?;
    let scale = exponent.checked_sub(i32::try_from(fraction.len()).ok()?.checked_mul(4)?)?;
    let value = sign * value * 2.0_f64.powi(scale);
    value.is_finite().then_some(value)
}
