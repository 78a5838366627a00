//! Functions that lengthen strings: repeat, indent, wrap.

use super::arg::{bytes, int, out};
use super::{Entry, IS, Out};
use driftless_gotmpl::{Exec, FuncError, Param, Value};

pub(super) const TABLE: &[Entry] = &[
    ("repeat", IS, |e, a| {
        let count = count("strings: negative Repeat count", int(a, 0))?;
        let s = bytes(a, 1);
        e.charge_bytes(s.len().saturating_mul(count))?;
        Ok(Value::str(s.repeat(count)))
    }),
    ("indent", IS, |e, a| indent(e, int(a, 0), bytes(a, 1), b"")),
    ("nindent", IS, |e, a| {
        indent(e, int(a, 0), bytes(a, 1), b"\n")
    }),
    ("wrap", IS, |e, a| {
        wrap(e, int(a, 0), b"\n", bytes(a, 1), false)
    }),
    ("wrapWith", &[Param::Int, Param::Str, Param::Str], |e, a| {
        wrap(e, int(a, 0), bytes(a, 1), bytes(a, 2), true)
    }),
];

fn count(negative: &str, n: i64) -> Result<usize, FuncError> {
    usize::try_from(n).map_err(|_| negative.into())
}

fn indent(exec: &mut Exec<'_>, spaces: i64, s: &[u8], before: &[u8]) -> Out {
    let spaces = count("strings: negative Repeat count", spaces)?;
    let lines = s.iter().filter(|b| **b == b'\n').count() + 1;
    exec.charge_bytes(lines.saturating_mul(spaces).saturating_add(s.len()))?;
    let mut text = Vec::with_capacity(before.len() + s.len() + lines * spaces);
    text.extend_from_slice(before);
    for line in s.split_inclusive(|b| *b == b'\n') {
        text.extend(std::iter::repeat_n(b' ', spaces));
        text.extend_from_slice(line);
    }
    if s.is_empty() || s.ends_with(b"\n") {
        text.extend(std::iter::repeat_n(b' ', spaces));
    }
    Ok(Value::str(text))
}

/// Wraps like goutils' `WrapCustom`.
fn wrap(exec: &mut Exec<'_>, width: i64, mark: &[u8], s: &[u8], cut: bool) -> Out {
    let mark = if mark.is_empty() { b"\n" } else { mark };
    let width = usize::try_from(width).unwrap_or(1).max(1);
    let mut text = Vec::with_capacity(s.len());
    let mut at = 0;
    while s.len() - at > width {
        if s[at] == b' ' {
            at += 1;
            continue;
        }
        let reach = &s[at..=at + width];
        let space = match reach.iter().rposition(|b| *b == b' ') {
            Some(space) => Some(at + space),
            None if cut => None,
            None => match s[at + width..].iter().position(|b| *b == b' ') {
                Some(space) => Some(at + width + space),
                None => break,
            },
        };
        let (end, next) = match space {
            Some(space) => (space, space + 1),
            None => (at + width, at + width),
        };
        exec.charge_bytes(mark.len())?;
        text.extend_from_slice(&s[at..end]);
        text.extend_from_slice(mark);
        at = next;
    }
    text.extend_from_slice(&s[at..]);
    out(exec, text)
}
