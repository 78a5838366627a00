//! The subjects of blobs: a part of a key between slashes is a token of the subject.
//!
//! A token has letters, digits, `-` and `_`; any other byte of a key is `=` and two hex digits,
//! because `.`, `*`, `>` and spaces have a meaning in subjects.

use std::fmt::Write as _;

/// Returns the tokens of a key: `artifacts.a1=2Etar` for `artifacts/a1.tar`.
pub(crate) fn encode(key: &str) -> String {
    let mut subject = String::with_capacity(key.len() + 8);
    for byte in key.bytes() {
        match byte {
            b'/' => subject.push('.'),
            b'-' | b'_' => subject.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => subject.push(char::from(byte)),
            // A write to a string never fails.
            byte => drop(write!(subject, "={byte:02X}")),
        }
    }
    subject
}

/// Returns the key of these tokens; `None` if [`encode`] did not make them.
pub(crate) fn decode(subject: &str) -> Option<String> {
    let mut key = Vec::with_capacity(subject.len());
    let mut bytes = subject.bytes();
    while let Some(byte) = bytes.next() {
        key.push(match byte {
            b'.' => b'/',
            b'=' => {
                let digits = [bytes.next()?, bytes.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(key).ok()
}

/// Returns the narrowest filter of subjects that has all keys with this prefix, after the subject
/// `root`. It may have others as well, because a filter ends between two tokens.
pub(crate) fn filter(root: &str, prefix: &str) -> String {
    match prefix.rsplit_once('/') {
        Some((complete, _)) => format!("{root}.{}.>", encode(complete)),
        None => format!("{root}.>"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_as_subjects() {
        for (key, subject) in [
            ("plain", "plain"),
            ("artifacts/a1.tar.gz", "artifacts.a1=2Etar=2Egz"),
            ("a/%2e%2e", "a.=252e=252e"),
            ("a/*", "a.=2A"),
            ("a/>", "a.=3E"),
            ("a/b c=d", "a.b=20c=3Dd"),
            ("ü", "=C3=BC"),
            ("A_b-c/9", "A_b-c.9"),
        ] {
            assert_eq!(encode(key), subject);
            assert_eq!(decode(subject).as_deref(), Some(key));
        }
        for broken in ["a=2", "a=zz", "=FF"] {
            assert_eq!(decode(broken), None, "{broken}");
        }
    }

    #[test]
    fn a_filter_ends_between_two_tokens() {
        assert_eq!(filter("d.blobs", ""), "d.blobs.>");
        assert_eq!(filter("d.blobs", "obj"), "d.blobs.>");
        assert_eq!(filter("d.blobs", "objects/eu"), "d.blobs.objects.>");
        assert_eq!(filter("d.blobs", "a/b.c/"), "d.blobs.a.b=2Ec.>");
    }
}
