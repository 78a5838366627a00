//! The patterns of `#`, `##`, `%` and `%%`: `*`, `?`, `[a-z]`, `[^a]` and `\`, where `*` and `?`
//! also match `/`.
//!
//! Flux matches bytes and tries every prefix, also one that ends inside a character; so does this.

use super::budget::{Budget, EvalError};

/// The error of an invalid pattern. Flux then leaves the value unchanged.
struct BadPattern;

/// Returns `value` without the longest (or shortest) prefix that matches `pattern`. An empty prefix
/// never counts.
pub(super) fn trim_prefix<'v>(
    value: &'v [u8],
    pattern: &[u8],
    longest: bool,
    budget: &Budget<'_>,
) -> Result<&'v [u8], EvalError> {
    let mut cut = 0;
    for end in (1..=value.len()).rev() {
        match matches(pattern, &value[..end], budget)? {
            Ok(true) => {
                cut = end;
                if longest {
                    break;
                }
            }
            Ok(false) => {}
            Err(BadPattern) => return Ok(value),
        }
    }
    Ok(&value[cut..])
}

/// Checks whether the pattern matches the whole string.
fn matches(
    mut pattern: &[u8],
    mut text: &[u8],
    budget: &Budget<'_>,
) -> Result<Result<bool, BadPattern>, EvalError> {
    budget.step(0)?;
    while !pattern.is_empty() {
        let (star, chunk, rest) = next_chunk(pattern);
        if star && chunk.is_empty() {
            return Ok(Ok(true));
        }
        // A star may skip any number of bytes; without one the chunk must match here. The first
        // match is kept.
        let last_start = if star { text.len() } else { 0 };
        let mut left = None;
        for start in 0..=last_start {
            budget.step(chunk.len())?;
            match match_chunk(chunk, &text[start..]) {
                Ok(Some(after)) if after.is_empty() || !rest.is_empty() => {
                    left = Some(after);
                    break;
                }
                Ok(_) => {}
                Err(bad) => return Ok(Err(bad)),
            }
        }
        match left {
            Some(after) => text = after,
            None => return Ok(Ok(false)),
        }
        pattern = rest;
    }
    Ok(Ok(text.is_empty()))
}

/// Returns whether the pattern begins with stars, the pattern up to the next star, and the rest.
fn next_chunk(pattern: &[u8]) -> (bool, &[u8], &[u8]) {
    let stars = pattern.iter().take_while(|b| **b == b'*').count();
    let pattern = &pattern[stars..];
    let mut in_class = false;
    let mut at = 0;
    while at < pattern.len() {
        match pattern[at] {
            b'\\' if at + 1 < pattern.len() => at += 1,
            b'[' => in_class = true,
            b']' => in_class = false,
            b'*' if !in_class => break,
            _ => {}
        }
        at += 1;
    }
    (stars > 0, &pattern[..at], &pattern[at..])
}

/// Matches a chunk without stars at the start of the string; returns the rest of the string. The
/// pattern is checked only as far as the string goes.
fn match_chunk<'t>(mut chunk: &[u8], mut text: &'t [u8]) -> Result<Option<&'t [u8]>, BadPattern> {
    while let Some(first) = chunk.first() {
        if text.is_empty() {
            return Ok(None);
        }
        match first {
            b'[' => {
                let (c, size) = decode(text);
                let (inside, rest) = match_class(&chunk[1..], c)?;
                if !inside {
                    return Ok(None);
                }
                text = &text[size..];
                chunk = rest;
            }
            b'?' => {
                text = &text[decode(text).1..];
                chunk = &chunk[1..];
            }
            _ => {
                if *first == b'\\' {
                    chunk = &chunk[1..];
                }
                match chunk.first() {
                    None => return Err(BadPattern),
                    Some(c) if *c != text[0] => return Ok(None),
                    Some(_) => {}
                }
                text = &text[1..];
                chunk = &chunk[1..];
            }
        }
    }
    Ok(Some(text))
}

/// Returns whether `c` is in the class that starts after `[`, and the pattern after its `]`.
fn match_class(mut class: &[u8], c: u32) -> Result<(bool, &[u8]), BadPattern> {
    let negated = class.first() == Some(&b'^');
    if negated {
        class = &class[1..];
    }
    let mut inside = false;
    let mut ranges = 0;
    loop {
        if ranges > 0 && class.first() == Some(&b']') {
            return Ok((inside != negated, &class[1..]));
        }
        let low;
        (low, class) = class_char(class)?;
        let mut high = low;
        if class.first() == Some(&b'-') {
            (high, class) = class_char(&class[1..])?;
        }
        inside |= low <= c && c <= high;
        ranges += 1;
    }
}

/// Returns one character of a class and the rest. A class needs its `]`, so the character must not
/// be the last of the pattern.
fn class_char(class: &[u8]) -> Result<(u32, &[u8]), BadPattern> {
    let class = match class.first() {
        None | Some(b'-' | b']') => return Err(BadPattern),
        Some(b'\\') => &class[1..],
        Some(_) => class,
    };
    if class.is_empty() {
        return Err(BadPattern);
    }
    let (c, size) = decode(class);
    if size == class.len() {
        return Err(BadPattern);
    }
    Ok((c, &class[size..]))
}

/// Returns the first character and its length in bytes; an invalid one counts as U+FFFD of one
/// byte.
fn decode(text: &[u8]) -> (u32, usize) {
    let window = &text[..text.len().min(4)];
    let valid = match std::str::from_utf8(window) {
        Ok(valid) => valid,
        Err(error) => std::str::from_utf8(&window[..error.valid_up_to()]).unwrap_or_default(),
    };
    match valid.chars().next() {
        Some(c) => (c as u32, c.len_utf8()),
        None => (0xFFFD, 1),
    }
}
