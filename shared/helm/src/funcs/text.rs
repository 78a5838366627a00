//! String functions: cutting, changing, quoting, joining.

use super::arg::{any, bytes, int, out, string, strings, text};
use super::{A, Entry, IIS, IS, Out, S, SA, SS, SSS};
use driftless_go::quote::quote;
use driftless_gotmpl::{Exec, FuncError, Param, Value};

pub(super) const TABLE: &[Entry] = &[
    ("abbrev", IS, |e, a| {
        let width = int(a, 0);
        if width < 4 {
            return Ok(any(a, 1).clone());
        }
        out(e, abbreviate(bytes(a, 1), 0, width).unwrap_or_default())
    }),
    ("abbrevboth", IIS, |e, a| {
        let (left, right) = (int(a, 0), int(a, 1));
        if right < 4 || left > 0 && right < 7 {
            return Ok(any(a, 2).clone());
        }
        out(e, abbreviate(bytes(a, 2), left, right).unwrap_or_default())
    }),
    ("trunc", IS, |e, a| {
        let (s, c) = (bytes(a, 1), int(a, 0));
        let len = s.len() as i64;
        out(
            e,
            match c {
                c if c < 0 && len.saturating_add(c) > 0 => &s[(len + c) as usize..],
                c if c >= 0 && len > c => &s[..c as usize],
                _ => s,
            },
        )
    }),
    ("trim", S, |e, a| out(e, trim_space(bytes(a, 0)))),
    ("trimall", SS, trim_all),
    ("trimAll", SS, trim_all),
    ("trimSuffix", SS, |e, a| {
        let s = bytes(a, 1);
        out(e, s.strip_suffix(bytes(a, 0)).unwrap_or(s))
    }),
    ("trimPrefix", SS, |e, a| {
        let s = bytes(a, 1);
        out(e, s.strip_prefix(bytes(a, 0)).unwrap_or(s))
    }),
    ("substr", IIS, |e, a| {
        substr(e, int(a, 0), int(a, 1), bytes(a, 2))
    }),
    ("contains", SS, |_, a| {
        Ok(Value::Bool(find(bytes(a, 1), bytes(a, 0)).is_some()))
    }),
    ("hasPrefix", SS, |_, a| {
        Ok(Value::Bool(bytes(a, 1).starts_with(bytes(a, 0))))
    }),
    ("hasSuffix", SS, |_, a| {
        Ok(Value::Bool(bytes(a, 1).ends_with(bytes(a, 0))))
    }),
    ("replace", SSS, |e, a| {
        replace(e, bytes(a, 2), bytes(a, 0), bytes(a, 1))
    }),
    ("plural", &[Param::Str, Param::Str, Param::Int], |_, a| {
        Ok(any(a, usize::from(int(a, 2) != 1)).clone())
    }),
    ("toString", A, |e, a| {
        let text = string(e, any(a, 0))?;
        out(e, text)
    }),
    ("join", SA, |e, a| {
        let parts = strings(e, any(a, 1))?;
        let length: usize = parts.iter().map(|p| p.len() + bytes(a, 0).len()).sum();
        e.charge_bytes(length)?;
        let parts: Vec<&[u8]> = parts.iter().map(|p| &**p).collect();
        Ok(Value::str(parts.join(bytes(a, 0))))
    }),
    ("toStrings", A, |e, a| {
        if let Value::List(list) = any(a, 0)
            && list.info().elem == driftless_gotmpl::Elem::Str
        {
            return Ok(any(a, 0).clone());
        }
        Ok(Value::strings(strings(e, any(a, 0))?))
    }),
    ("sortAlpha", A, sort_alpha),
    ("hello", super::NONE, |_, _| Ok(Value::str("Hello!"))),
];

pub(super) const VARIADIC: &[Entry] = &[
    ("quote", A, |e, a| {
        let mut parts = Vec::new();
        for value in a.iter().filter(|v| !v.is_nil()) {
            let text = string(e, value)?;
            // Every byte may become an escape of four bytes.
            e.ensure_capacity(text.len().saturating_mul(4))?;
            parts.push(quote(&text));
        }
        out(e, parts.join(" "))
    }),
    ("squote", A, |e, a| {
        let mut parts = Vec::new();
        for value in a.iter().filter(|v| !v.is_nil()) {
            parts.push([b"'", &e.display(value)?[..], b"'"].concat());
        }
        out(e, parts.join(&b' '))
    }),
    ("cat", A, |e, a| {
        let mut parts = Vec::new();
        for value in a.iter().filter(|v| !v.is_nil()) {
            parts.push(e.display(value)?);
        }
        out(e, parts.join(&b' '))
    }),
];

/// Abbreviates like goutils' `AbbreviateFull`; returns `None` if it fails, because sprig drops its
/// error.
fn abbreviate(s: &[u8], offset: i64, width: i64) -> Option<Vec<u8>> {
    let len = s.len() as i64;
    if s.is_empty() || width < 4 {
        return None;
    }
    if len <= width {
        return Some(s.to_vec());
    }
    let kept = width - 3;
    let mut offset = offset.min(len);
    if len - offset < kept {
        offset = len - kept;
    }
    if offset <= 4 {
        return Some([&s[..kept as usize], b"..."].concat());
    }
    if width < 7 {
        return None;
    }
    let tail = if offset + kept < len {
        abbreviate(&s[offset as usize..], 0, kept).unwrap_or_default()
    } else {
        s[(len - kept) as usize..].to_vec()
    };
    Some([b"...", &tail[..]].concat())
}

/// Trims like Go's `strings.TrimSpace`.
pub(super) fn trim_space(s: &[u8]) -> &[u8] {
    trim(s, char::is_whitespace)
}

/// Trims like Go's `strings.TrimFunc`: bytes that are not UTF-8 are U+FFFD.
fn trim(s: &[u8], drop: impl Fn(char) -> bool) -> &[u8] {
    let (mut start, mut end) = (None, 0);
    let mut at = 0;
    for chunk in s.utf8_chunks() {
        for c in chunk.valid().chars() {
            if !drop(c) {
                start.get_or_insert(at);
                end = at + c.len_utf8();
            }
            at += c.len_utf8();
        }
        for _ in chunk.invalid() {
            if !drop('\u{fffd}') {
                start.get_or_insert(at);
                end = at + 1;
            }
            at += 1;
        }
    }
    start.map_or(&[], |start| &s[start..end])
}

fn trim_all(exec: &mut Exec<'_>, a: &[Value]) -> Out {
    let set = text(a, 0);
    out(exec, trim(bytes(a, 1), |c| set.contains(c)))
}

fn substr(exec: &mut Exec<'_>, start: i64, end: i64, s: &[u8]) -> Out {
    let len = s.len();
    let bad = |from: i64, to: i64, whole: bool| -> FuncError {
        let bounds = match (to < 0 || to > len as i64, whole) {
            (true, _) => format!("[:{to}] with length {len}"),
            (false, true) => format!("[{from}:{len}]"),
            (false, false) => format!("[{from}:{to}]"),
        };
        format!("runtime error: slice bounds out of range {bounds}").into()
    };
    let part = if start < 0 {
        usize::try_from(end).ok().and_then(|end| s.get(..end))
    } else if end < 0 || end > len as i64 {
        return out(
            exec,
            s.get(start as usize..)
                .ok_or_else(|| bad(start, len as i64, true))?,
        );
    } else {
        s.get(start as usize..end as usize)
    };
    out(exec, part.ok_or_else(|| bad(start, end, false))?)
}

/// Returns the offset of the first `wanted`.
pub(super) fn find(s: &[u8], wanted: &[u8]) -> Option<usize> {
    if wanted.is_empty() {
        return Some(0);
    }
    memchr::memmem::find(s, wanted)
}

/// Replaces like Go's `strings.ReplaceAll`: an empty string is found before every character and at
/// the end.
fn replace(exec: &mut Exec<'_>, s: &[u8], old: &[u8], new: &[u8]) -> Out {
    if old.is_empty() {
        let count = s.utf8_chunks().map(|c| c.valid().len() + c.invalid().len());
        exec.charge_bytes((count.sum::<usize>() + 1).saturating_mul(new.len()))?;
        let mut text = new.to_vec();
        for chunk in s.utf8_chunks() {
            for c in chunk.valid().chars() {
                text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                text.extend_from_slice(new);
            }
            for b in chunk.invalid() {
                text.push(*b);
                text.extend_from_slice(new);
            }
        }
        return out(exec, text);
    }
    exec.charge_bytes(s.len())?;
    let mut text = Vec::with_capacity(s.len());
    let mut from = 0;
    for at in memchr::memmem::find_iter(s, old) {
        exec.charge_bytes(new.len())?;
        text.extend_from_slice(&s[from..at]);
        text.extend_from_slice(new);
        from = at + old.len();
    }
    text.extend_from_slice(&s[from..]);
    Ok(Value::str(text))
}

fn sort_alpha(exec: &mut Exec<'_>, a: &[Value]) -> Out {
    let mut sorted = strings(exec, any(a, 0))?;
    if any(a, 0).is_nil() {
        // Go prints nil like this.
        sorted = vec!["<nil>".into()];
    }
    exec.charge(8 * sorted.len() as u64)?;
    sorted.sort();
    let items: Vec<Value> = sorted.into_iter().map(Value::Str).collect();
    if let Value::List(list) = any(a, 0)
        && list.info().elem == driftless_gotmpl::Elem::Str
    {
        // Go sorts a `[]string` in place.
        list.items_mut().clone_from(&items);
        return Ok(any(a, 0).clone());
    }
    Ok(super::arg::string_list(items))
}
