//! Functions that split strings; base64 and base32.

use super::arg::{PIECE, bytes, int, out};
use super::{Entry, Out, S, SS};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use driftless_go::Error as GoError;
use driftless_gotmpl::{Exec, FuncError, Map, Param, Str, TypeInfo, Value};
use std::collections::BTreeMap;

pub(super) const TABLE: &[Entry] = &[
    ("split", SS, |e, a| {
        numbered(e, bytes(a, 1), bytes(a, 0), -1)
    }),
    ("splitn", &[Param::Str, Param::Int, Param::Str], |e, a| {
        numbered(e, bytes(a, 2), bytes(a, 0), int(a, 1))
    }),
    ("splitList", SS, |e, a| {
        let parts = parts(e, bytes(a, 1), bytes(a, 0), -1)?;
        Ok(Value::strings(parts))
    }),
    ("b64enc", S, |e, a| {
        e.ensure_capacity(bytes(a, 0).len().saturating_mul(2))?;
        out(e, STANDARD.encode(bytes(a, 0)))
    }),
    ("b64dec", S, |e, a| {
        out(
            e,
            base64_decode(bytes(a, 0)).unwrap_or_else(|error| String::from(error).into_bytes()),
        )
    }),
    ("b32enc", S, |e, a| {
        e.ensure_capacity(bytes(a, 0).len().saturating_mul(2))?;
        out(e, base32_encode(bytes(a, 0)))
    }),
    ("b32dec", S, |e, a| {
        out(
            e,
            base32_decode(bytes(a, 0)).unwrap_or_else(|error| String::from(error).into_bytes()),
        )
    }),
];

/// Splits like Go's `strings.SplitN`.
fn parts<'s>(
    exec: &mut Exec<'_>,
    s: &'s [u8],
    separator: &[u8],
    n: i64,
) -> Result<Vec<&'s [u8]>, FuncError> {
    let count = match separator.is_empty() {
        true => s.len(),
        false => memchr::memmem::find_iter(s, separator).count() + 1,
    };
    let count = count.min(usize::try_from(n).unwrap_or(usize::MAX));
    exec.charge(count as u64)?;
    exec.charge_bytes(count.saturating_mul(PIECE).saturating_add(s.len()))?;
    Ok(cut(s, separator, n))
}

fn cut<'s>(s: &'s [u8], separator: &[u8], n: i64) -> Vec<&'s [u8]> {
    let limit = usize::try_from(n).unwrap_or(usize::MAX);
    if limit == 0 {
        return Vec::new();
    }
    let mut out = Vec::new();
    if separator.is_empty() {
        let mut rest = s;
        while !rest.is_empty() {
            let length = if out.len() + 1 == limit {
                rest.len()
            } else {
                first_char(rest)
            };
            let (head, tail) = rest.split_at(length);
            out.push(head);
            rest = tail;
        }
        return out;
    }
    let mut from = 0;
    for at in memchr::memmem::find_iter(s, separator) {
        if out.len() + 1 == limit {
            break;
        }
        out.push(&s[from..at]);
        from = at + separator.len();
    }
    out.push(&s[from..]);
    out
}

/// Returns the length of the first character.
fn first_char(s: &[u8]) -> usize {
    let chunk = s[..s.len().min(4)].utf8_chunks().next();
    let c = chunk.and_then(|c| c.valid().chars().next());
    c.map_or(1, char::len_utf8)
}

fn numbered(exec: &mut Exec<'_>, s: &[u8], separator: &[u8], n: i64) -> Out {
    let parts = parts(exec, s, separator, n)?;
    let entries: BTreeMap<Str, Value> = parts
        .into_iter()
        .enumerate()
        .map(|(i, part)| (Str::from(format!("_{i}")), Value::str(part)))
        .collect();
    Ok(Value::Map(Map::typed(&TypeInfo::STRING_MAP, entries)))
}

/// Decodes like Go's `base64.StdEncoding.DecodeString`: line breaks are skipped, and the error has
/// the offset.
pub(super) fn base64_decode(s: &[u8]) -> Result<Vec<u8>, GoError> {
    decode(s, 4, 6, |b| match b {
        b'A'..=b'Z' => Some(b - b'A'),
        b'a'..=b'z' => Some(b - b'a' + 26),
        b'0'..=b'9' => Some(b - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    })
    .map_err(|at| format!("illegal base64 data at input byte {at}").into())
}

fn base32_decode(s: &[u8]) -> Result<Vec<u8>, GoError> {
    let kept: Vec<u8> = s
        .iter()
        .copied()
        .filter(|b| !matches!(b, b'\r' | b'\n'))
        .collect();
    decode(&kept, 8, 5, |b| match b {
        b'A'..=b'Z' => Some(b - b'A'),
        b'2'..=b'7' => Some(b - b'2' + 26),
        _ => None,
    })
    .map_err(|at| format!("illegal base32 data at input byte {at}").into())
}

/// Decodes padded groups of `group` digits of `bits` bits; the error is the offset of the invalid
/// byte.
fn decode(
    s: &[u8],
    group: usize,
    bits: u32,
    digit: impl Fn(u8) -> Option<u8>,
) -> Result<Vec<u8>, usize> {
    let mut out = Vec::with_capacity(s.len());
    let mut at = 0;
    loop {
        let (mut value, mut count) = (0u64, 0);
        while count < group {
            match s.get(at) {
                None if count == 0 => return Ok(out),
                None => return Err(at - count),
                Some(b'\r' | b'\n') => at += 1,
                Some(b'=') => break,
                Some(b) => {
                    let Some(d) = digit(*b) else { return Err(at) };
                    value = value << bits | u64::from(d);
                    count += 1;
                    at += 1;
                }
            }
        }
        let used = count as u32 * bits;
        let whole = value << (64 - used.max(1));
        let bytes = whole.to_be_bytes();
        if count == group {
            out.extend_from_slice(&bytes[..used as usize / 8]);
            continue;
        }
        return padding(s, at, group, count).map(|()| {
            out.extend_from_slice(&bytes[..used as usize / 8]);
            out
        });
    }
}

/// Checks the `=` from `at` to the end.
fn padding(s: &[u8], mut at: usize, group: usize, count: usize) -> Result<(), usize> {
    let allowed: &[usize] = if group == 4 { &[2, 3] } else { &[2, 4, 5, 7] };
    if !allowed.contains(&count) {
        return Err(at);
    }
    let mut missing = group - count;
    while let Some(b) = s.get(at) {
        match b {
            b'\r' | b'\n' => {}
            b'=' if missing > 0 => missing -= 1,
            _ => return Err(at),
        }
        at += 1;
    }
    if missing > 0 { Err(at) } else { Ok(()) }
}

fn base32_encode(s: &[u8]) -> String {
    const DIGITS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let mut out = String::with_capacity(s.len().div_ceil(5) * 8);
    for chunk in s.chunks(5) {
        let mut value = 0u64;
        for i in 0..5 {
            value = value << 8 | u64::from(chunk.get(i).copied().unwrap_or(0));
        }
        let used = (chunk.len() * 8).div_ceil(5);
        for i in 0..8 {
            let digit = DIGITS[(value >> (35 - i * 5) & 31) as usize];
            out.push(if i < used { digit as char } else { '=' });
        }
    }
    out
}
