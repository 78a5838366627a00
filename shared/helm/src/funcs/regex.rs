//! Regular expressions in RE2's syntax, in linear time.

use super::arg::{PIECE, bytes, int, no_strings, out, string_list, text};
use super::lossy_utf8::LossyUtf8;
use super::re2::compile;
use super::regexp::Regexp;
use super::{Entry, Out, S, SS, SSS};
use driftless_gotmpl::{Exec, FuncError, Param, Value};
use std::ops::Range;

pub(super) const TABLE: &[Entry] = &[
    ("regexMatch", SS, |e, a| {
        // An error counts as no match here.
        let Ok(re) = compile(e, &text(a, 0))? else {
            return Ok(Value::Bool(false));
        };
        re.pay(e, bytes(a, 1))?;
        Ok(Value::Bool(is_match(&re, bytes(a, 1))))
    }),
    ("mustRegexMatch", SS, |e, a| {
        let re = must(e, a)?;
        re.pay(e, bytes(a, 1))?;
        Ok(Value::Bool(is_match(&re, bytes(a, 1))))
    }),
    ("regexFind", SS, |e, a| {
        let re = must_compile(e, a)?;
        find(e, &re, a)
    }),
    ("mustRegexFind", SS, |e, a| {
        let re = must(e, a)?;
        find(e, &re, a)
    }),
    ("regexFindAll", SSI, |e, a| {
        let re = must_compile(e, a)?;
        find_all(e, &re, a)
    }),
    ("mustRegexFindAll", SSI, |e, a| {
        let re = must(e, a)?;
        find_all(e, &re, a)
    }),
    ("regexReplaceAll", SSS, |e, a| {
        let re = must_compile(e, a)?;
        replace(e, &re, a, true)
    }),
    ("mustRegexReplaceAll", SSS, |e, a| {
        let re = must(e, a)?;
        replace(e, &re, a, true)
    }),
    ("regexReplaceAllLiteral", SSS, |e, a| {
        let re = must_compile(e, a)?;
        replace(e, &re, a, false)
    }),
    ("mustRegexReplaceAllLiteral", SSS, |e, a| {
        let re = must(e, a)?;
        replace(e, &re, a, false)
    }),
    ("regexSplit", SSI, |e, a| {
        let re = must_compile(e, a)?;
        split(e, &re, a)
    }),
    ("mustRegexSplit", SSI, |e, a| {
        let re = must(e, a)?;
        split(e, &re, a)
    }),
    ("regexQuoteMeta", S, |e, a| {
        let mut quoted = Vec::with_capacity(bytes(a, 0).len());
        for b in bytes(a, 0) {
            if b"\\.+*?()|[]{}^$".contains(b) {
                quoted.push(b'\\');
            }
            quoted.push(*b);
        }
        out(e, quoted)
    }),
];

const SSI: &[Param] = &[Param::Str, Param::Str, Param::Int];

fn must(exec: &mut Exec<'_>, a: &[Value]) -> Result<Regexp, FuncError> {
    compile(exec, &text(a, 0))?.map_err(|m| format!("error parsing regexp: {m}").into())
}

/// Compiles like `regexp.MustCompile`, with the message of its panic.
fn must_compile(exec: &mut Exec<'_>, a: &[Value]) -> Result<Regexp, FuncError> {
    let pattern = text(a, 0);
    compile(exec, &pattern)?.map_err(|m| {
        let quoted = if pattern.contains('`') || pattern.contains(char::is_control) {
            driftless_go::quote::quote(pattern.as_bytes())
        } else {
            format!("`{pattern}`")
        };
        format!("regexp: Compile({quoted}): error parsing regexp: {m}").into()
    })
}

fn is_match(re: &Regexp, s: &[u8]) -> bool {
    re.is_match(LossyUtf8::new(s).seen())
}

/// Returns the matches, at most `n` unless it is negative.
fn matches(
    exec: &mut Exec<'_>,
    re: &Regexp,
    s: &[u8],
    n: i64,
) -> Result<Vec<Range<usize>>, FuncError> {
    re.pay(exec, s)?;
    let limit = usize::try_from(n).unwrap_or(usize::MAX);
    let mut found = Vec::new();
    let subject = LossyUtf8::new(s);
    for m in re
        .find_iter(subject.seen())
        .filter(|m| at_char(subject.seen(), m.start()))
        .take(limit)
    {
        exec.charge_bytes(32)?;
        found.push(subject.range(m.range()));
    }
    Ok(found)
}

/// Checks whether a character begins here: Go finds nothing within one, not even the empty string.
fn at_char(s: &[u8], at: usize) -> bool {
    s.get(at).is_none_or(|b| b & 0xc0 != 0x80)
}

fn find(exec: &mut Exec<'_>, re: &Regexp, a: &[Value]) -> Out {
    let s = bytes(a, 1);
    re.pay(exec, s)?;
    let subject = LossyUtf8::new(s);
    let found = re.find(subject.seen()).map(|m| m.range());
    out(
        exec,
        found.map_or(&b""[..], |range| subject.original(range)),
    )
}

fn find_all(exec: &mut Exec<'_>, re: &Regexp, a: &[Value]) -> Out {
    let s = bytes(a, 1);
    let found = matches(exec, re, s, int(a, 2))?;
    if found.is_empty() {
        return Ok(no_strings());
    }
    exec.charge_bytes(found.len().saturating_mul(PIECE).saturating_add(s.len()))?;
    let items = found.into_iter().map(|range| Value::str(&s[range]));
    Ok(string_list(items.collect()))
}

fn split(exec: &mut Exec<'_>, re: &Regexp, a: &[Value]) -> Out {
    let (s, n) = (bytes(a, 1), int(a, 2));
    if n == 0 {
        return Ok(no_strings());
    }
    if s.is_empty() && !re.is_empty_pattern() {
        return Ok(Value::strings([""]));
    }
    let mut parts = Vec::new();
    let (mut from, mut end) = (0, 0);
    for range in matches(exec, re, s, n)? {
        if n > 0 && parts.len() as i64 == n - 1 {
            break;
        }
        end = range.start;
        if range.end != 0 {
            parts.push(&s[from..end]);
        }
        from = range.end;
    }
    if end != s.len() {
        parts.push(&s[from..]);
    }
    exec.charge_bytes(parts.len().saturating_mul(PIECE).saturating_add(s.len()))?;
    Ok(Value::strings(parts))
}

fn replace(exec: &mut Exec<'_>, re: &Regexp, a: &[Value], expand: bool) -> Out {
    let (s, template) = (bytes(a, 1), bytes(a, 2));
    re.pay(exec, s)?;
    let pieces = if expand {
        pieces(template)
    } else {
        vec![Piece::Text(template)]
    };
    let mut text = Vec::with_capacity(s.len());
    let mut from = 0;
    let subject = LossyUtf8::new(s);
    let seen = subject.seen();
    for captures in re.captures_iter(seen) {
        let Some(whole) = captures.get(0).filter(|m| at_char(seen, m.start())) else {
            continue;
        };
        text.extend_from_slice(subject.original(from..whole.start()));
        for piece in &pieces {
            let group = match piece {
                Piece::Text(plain) => {
                    exec.charge_bytes(plain.len())?;
                    text.extend_from_slice(plain);
                    continue;
                }
                Piece::Number(n) => captures.get(*n),
                Piece::Name(name) => captures.name(name),
            };
            let found = group.map_or(&b""[..], |g| subject.original(g.range()));
            exec.charge_bytes(found.len())?;
            text.extend_from_slice(found);
        }
        exec.charge_bytes(16)?;
        from = whole.end();
    }
    text.extend_from_slice(subject.original(from..seen.len()));
    Ok(Value::str(text))
}

/// A part of a replacement.
enum Piece<'t> {
    Text(&'t [u8]),
    Number(usize),
    Name(&'t str),
}

/// Parses a replacement like Go's `Regexp.Expand`: `$1`, `${1}`, `$name`, `$$`; malformed parts
/// stay unchanged.
fn pieces(template: &[u8]) -> Vec<Piece<'_>> {
    let mut out = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.iter().position(|b| *b == b'$') {
        out.push(Piece::Text(&rest[..at]));
        rest = &rest[at + 1..];
        if rest.first() == Some(&b'$') {
            out.push(Piece::Text(b"$"));
            rest = &rest[1..];
            continue;
        }
        match reference(rest) {
            Some((piece, length)) => {
                out.push(piece);
                rest = &rest[length..];
            }
            None => out.push(Piece::Text(b"$")),
        }
    }
    out.push(Piece::Text(rest));
    out
}

/// Returns the reference after a `$`, and its length.
fn reference(rest: &[u8]) -> Option<(Piece<'_>, usize)> {
    let braced = rest.first() == Some(&b'{');
    let body = &rest[usize::from(braced)..];
    let plain = |b: &u8| !b.is_ascii() || *b == b'_' || b.is_ascii_alphanumeric();
    let end = body.iter().position(|b| !plain(b)).unwrap_or(body.len());
    let behind = body.get(end);
    let body = body[..end].utf8_chunks().next().map_or("", |c| c.valid());
    let word = |c: char| c == '_' || c.is_alphanumeric();
    let length = body.find(|c| !word(c)).unwrap_or(body.len());
    let name = &body[..length];
    let whole = length == end;
    if name.is_empty() || braced && !(whole && behind == Some(&b'}')) {
        return None;
    }
    let numeric = name.bytes().all(|b| b.is_ascii_digit());
    let leading_zero = name.len() > 1 && name.starts_with('0');
    let piece = match name.parse() {
        Ok(n) if numeric && !leading_zero => Piece::Number(n),
        _ => Piece::Name(name),
    };
    Some((piece, length + if braced { 2 } else { 0 }))
}
