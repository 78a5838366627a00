//! Random functions: all randomness comes from the seed of the render, so that the same seed
//! produces the same text.

use super::arg::{int, out, text};
use super::render_context::random;
use super::{Entry, I, NONE, Out, S};
use base64::Engine as _;
use driftless_gotmpl::{Exec, Param, Value};

pub(super) const TABLE: &[Entry] = &[
    ("randAlphaNum", I, |e, a| {
        letters(e, int(a, 0), ALPHANUMERIC)
    }),
    ("randAlpha", I, |e, a| {
        letters(e, int(a, 0), &ALPHANUMERIC[10..])
    }),
    ("randNumeric", I, |e, a| {
        letters(e, int(a, 0), &ALPHANUMERIC[..10])
    }),
    ("randAscii", I, |e, a| {
        let all: Vec<u8> = (b' '..=b'~').collect();
        letters(e, int(a, 0), &all)
    }),
    ("randInt", &[Param::Int, Param::Int], |e, a| {
        let (min, max) = (int(a, 0), int(a, 1));
        let span = max.wrapping_sub(min);
        let Some(limit) = u64::try_from(span).ok().filter(|n| *n > 0) else {
            return Err("invalid argument to Intn".into());
        };
        Ok(Value::int(min.wrapping_add(random(e)?.below(limit) as i64)))
    }),
    ("randBytes", I, |e, a| {
        let Ok(count) = usize::try_from(int(a, 0)) else {
            return Err("runtime error: makeslice: len out of range".into());
        };
        e.charge_bytes(count.saturating_mul(2))?;
        let mut buffer = vec![0; count];
        random(e)?.fill(&mut buffer);
        Ok(Value::str(
            base64::engine::general_purpose::STANDARD.encode(buffer),
        ))
    }),
    ("uuidv4", NONE, |e, _| {
        let mut b = [0; 16];
        random(e)?.fill(&mut b);
        b[6] = b[6] & 0x0f | 0x40;
        b[8] = b[8] & 0x3f | 0x80;
        let text = hex::encode(b);
        let (a, b, c, d, e) = (
            &text[..8],
            &text[8..12],
            &text[12..16],
            &text[16..20],
            &text[20..],
        );
        Ok(Value::str(format!("{a}-{b}-{c}-{d}-{e}")))
    }),
    ("shuffle", S, |e, a| {
        let mut chars: Vec<char> = text(a, 0).chars().collect();
        e.charge(chars.len() as u64)?;
        for i in (1..chars.len()).rev() {
            let other = random(e)?.below(i as u64 + 1);
            chars.swap(i, other as usize);
        }
        out(e, chars.into_iter().collect::<String>())
    }),
];

const ALPHANUMERIC: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

fn letters(exec: &mut Exec<'_>, count: i64, alphabet: &[u8]) -> Out {
    let count = usize::try_from(count).unwrap_or(0);
    exec.charge_bytes(count)?;
    exec.charge(count as u64)?;
    let source = random(exec)?;
    let limit = alphabet.len() as u64;
    let text: Vec<u8> = (0..count)
        .map(|_| alphabet[source.below(limit) as usize])
        .collect();
    Ok(Value::str(text))
}
