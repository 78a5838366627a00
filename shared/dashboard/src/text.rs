//! Short forms of times and revisions, and encoded parts of addresses.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

pub use driftless_flux::short_hashes;

/// The characters that are encoded in a part of a path and in a value of a query.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');
/// Encodes a part of a path, or a value of a query.
pub fn segment(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// Returns an age such as `12s`, `5m`, `3h` or `8d`; a dash for an unknown time.
pub fn age(now: u64, at: u64) -> String {
    if at == 0 {
        return "–".to_owned();
    }
    let seconds = now.saturating_sub(at) / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Returns a duration such as `420 ms`, `4.1 s` or `3 min 5 s`.
pub fn duration(millis: u64) -> String {
    match millis {
        0..1000 => format!("{millis} ms"),
        1000..60_000 => format!("{}.{} s", millis / 1000, millis % 1000 / 100),
        _ => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1000),
    }
}

/// Returns a time, RFC 3339; empty for an unknown one.
pub fn time(at: u64) -> String {
    match at {
        0 => String::new(),
        at => driftless_flux::rfc3339(std::time::Duration::from_millis(at)),
    }
}

/// Returns a revision in its short form: `main@6f2c1a9e` for `main@sha1:6f2c1a9e...`.
pub fn revision(revision: &str) -> String {
    short_hashes(revision)
        .replace("@sha1:", "@")
        .replace("@sha256:", "@")
}

/// Returns a number with separators.
pub fn count(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a number with the noun in its form for this number: `1 hub`, `2 hubs`.
pub fn counted(number: usize, noun: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{} {noun}{end}", count(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms() {
        assert_eq!(age(90_000, 0), "–");
        assert_eq!(age(90_000, 80_500), "9s");
        assert_eq!(age(90_000_000, 1), "1d");
        assert_eq!(duration(420), "420 ms");
        assert_eq!(duration(4_150), "4.1 s");
        assert_eq!(duration(185_000), "3 min 5 s");
        assert_eq!(count(0), "0");
        assert_eq!(count(12_345_678), "12,345,678");
        let sha = "6f2c1a9e0b3d4c5f6a7b8c9d0e1f2a3b4c5d6e7f";
        assert_eq!(revision(&format!("main@sha1:{sha}")), "main@6f2c1a9e");
        assert_eq!(revision("6.5.0"), "6.5.0");
    }
}
