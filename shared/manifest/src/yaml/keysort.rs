//! The order of keys of a map in go-yaml v2: letters by code point, runs of digits by their value,
//! and other characters before letters.

use std::cmp::Ordering;

/// Sorts the entries of a map by their keys.
///
/// The order is not total (`12:60` < `1e3` < `9"` < `12:60`), so the standard library's sort must
/// not be used: it may panic. Go's output is random for such keys.
pub(crate) fn sort<V: Copy>(mut entries: Vec<(&str, V)>) -> Vec<(&str, V)> {
    let sorted = entries
        .windows(2)
        .all(|w| compare(w[0].0, w[1].0) != Ordering::Greater);
    if sorted {
        return entries;
    }
    let right = sort(entries.split_off(entries.len() / 2));
    let left = sort(entries);
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut l, mut r) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(a), Some(b)) = (l.peek(), r.peek()) {
        let next = if compare(a.0, b.0) == Ordering::Greater {
            r.next()
        } else {
            l.next()
        };
        merged.extend(next);
    }
    merged.extend(l);
    merged.extend(r);
    merged
}

/// Compares two keys.
fn compare(a: &str, b: &str) -> Ordering {
    let common = a.bytes().zip(b.bytes()).take_while(|(x, y)| x == y).count();
    // Step back to the character at which they differ.
    let at = (0..=common)
        .rev()
        .find(|i| a.is_char_boundary(*i) && b.is_char_boundary(*i))
        .unwrap_or(0);
    let (mut ra, mut rb) = (a[at..].chars(), b[at..].chars());
    let (ca, cb) = match (ra.next(), rb.next()) {
        (Some(ca), Some(cb)) => (ca, cb),
        (None, None) => return Ordering::Equal,
        (None, Some(_)) => return Ordering::Less,
        (Some(_), None) => return Ordering::Greater,
    };
    match (ca.is_alphabetic(), cb.is_alphabetic()) {
        (true, true) => ca.cmp(&cb),
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => digits(&a[..at], &a[at..], &b[at..]).then(ca.cmp(&cb)),
    }
}

/// Compares the runs of digits that begin where two keys differ.
fn digits(before: &str, a: &str, b: &str) -> Ordering {
    // A zero inside a number is part of it: 10 and 1x differ at the zero, and it must not count as
    // a leading one.
    let inside = (a.starts_with('0') || b.starts_with('0')) && ends_in_number(before);
    let start = i64::from(inside);
    let (na, la) = run(a, start);
    let (nb, lb) = run(b, start);
    na.cmp(&nb).then(la.cmp(&lb))
}

fn ends_in_number(before: &str) -> bool {
    before
        .chars()
        .rev()
        .take_while(|c| is_digit(*c))
        .any(|c| c != '0')
}

/// Returns the value (wrapping, like Go's) and the length of the digits at the start.
fn run(text: &str, start: i64) -> (i64, usize) {
    text.chars()
        .take_while(|c| is_digit(*c))
        .fold((start, 0), |(n, len), c| {
            let digit = i64::from(u32::from(c)) - i64::from(u32::from('0'));
            (n.wrapping_mul(10).wrapping_add(digit), len + 1)
        })
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit() || (!c.is_ascii() && c.is_numeric() && !c.is_alphabetic())
}
