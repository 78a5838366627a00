//! Printable characters.

/// Characters that newer versions of Unicode than Go's 15.0 have assigned, in ranges. The standard
/// library of Rust has Unicode 17.
#[rustfmt::skip]
const NEWER: [(char, char); 90] = [
    ('\u{88f}', '\u{88f}'),
    ('\u{897}', '\u{897}'),
    ('\u{c5c}', '\u{c5c}'),
    ('\u{cdc}', '\u{cdc}'),
    ('\u{1acf}', '\u{1add}'),
    ('\u{1ae0}', '\u{1aeb}'),
    ('\u{1b4e}', '\u{1b4f}'),
    ('\u{1b7f}', '\u{1b7f}'),
    ('\u{1c89}', '\u{1c8a}'),
    ('\u{20c1}', '\u{20c1}'),
    ('\u{2427}', '\u{2429}'),
    ('\u{2b96}', '\u{2b96}'),
    ('\u{2ffc}', '\u{2fff}'),
    ('\u{31e4}', '\u{31e5}'),
    ('\u{31ef}', '\u{31ef}'),
    ('\u{a7cb}', '\u{a7cf}'),
    ('\u{a7d2}', '\u{a7d2}'),
    ('\u{a7d4}', '\u{a7d4}'),
    ('\u{a7da}', '\u{a7dc}'),
    ('\u{a7f1}', '\u{a7f1}'),
    ('\u{fbc3}', '\u{fbd2}'),
    ('\u{fd90}', '\u{fd91}'),
    ('\u{fdc8}', '\u{fdce}'),
    ('\u{105c0}', '\u{105f3}'),
    ('\u{10940}', '\u{10959}'),
    ('\u{10d40}', '\u{10d65}'),
    ('\u{10d69}', '\u{10d85}'),
    ('\u{10d8e}', '\u{10d8f}'),
    ('\u{10ec2}', '\u{10ec7}'),
    ('\u{10ed0}', '\u{10ed8}'),
    ('\u{10efa}', '\u{10efc}'),
    ('\u{11380}', '\u{11389}'),
    ('\u{1138b}', '\u{1138b}'),
    ('\u{1138e}', '\u{1138e}'),
    ('\u{11390}', '\u{113b5}'),
    ('\u{113b7}', '\u{113c0}'),
    ('\u{113c2}', '\u{113c2}'),
    ('\u{113c5}', '\u{113c5}'),
    ('\u{113c7}', '\u{113ca}'),
    ('\u{113cc}', '\u{113d5}'),
    ('\u{113d7}', '\u{113d8}'),
    ('\u{113e1}', '\u{113e2}'),
    ('\u{116d0}', '\u{116e3}'),
    ('\u{11b60}', '\u{11b67}'),
    ('\u{11bc0}', '\u{11be1}'),
    ('\u{11bf0}', '\u{11bf9}'),
    ('\u{11db0}', '\u{11ddb}'),
    ('\u{11de0}', '\u{11de9}'),
    ('\u{11f5a}', '\u{11f5a}'),
    ('\u{13460}', '\u{143fa}'),
    ('\u{16100}', '\u{16139}'),
    ('\u{16d40}', '\u{16d79}'),
    ('\u{16ea0}', '\u{16eb8}'),
    ('\u{16ebb}', '\u{16ed3}'),
    ('\u{16ff2}', '\u{16ff6}'),
    ('\u{187f8}', '\u{187ff}'),
    ('\u{18cff}', '\u{18cff}'),
    ('\u{18d09}', '\u{18d1e}'),
    ('\u{18d80}', '\u{18df2}'),
    ('\u{1cc00}', '\u{1ccfc}'),
    ('\u{1cd00}', '\u{1ceb3}'),
    ('\u{1ceba}', '\u{1ced0}'),
    ('\u{1cee0}', '\u{1cef0}'),
    ('\u{1e5d0}', '\u{1e5fa}'),
    ('\u{1e5ff}', '\u{1e5ff}'),
    ('\u{1e6c0}', '\u{1e6de}'),
    ('\u{1e6e0}', '\u{1e6f5}'),
    ('\u{1e6fe}', '\u{1e6ff}'),
    ('\u{1f6d8}', '\u{1f6d8}'),
    ('\u{1f777}', '\u{1f77a}'),
    ('\u{1f8b2}', '\u{1f8bb}'),
    ('\u{1f8c0}', '\u{1f8c1}'),
    ('\u{1f8d0}', '\u{1f8d8}'),
    ('\u{1fa54}', '\u{1fa57}'),
    ('\u{1fa89}', '\u{1fa8a}'),
    ('\u{1fa8e}', '\u{1fa8f}'),
    ('\u{1fabe}', '\u{1fabe}'),
    ('\u{1fac6}', '\u{1fac6}'),
    ('\u{1fac8}', '\u{1fac8}'),
    ('\u{1facd}', '\u{1facd}'),
    ('\u{1fadc}', '\u{1fadc}'),
    ('\u{1fadf}', '\u{1fadf}'),
    ('\u{1fae9}', '\u{1faea}'),
    ('\u{1faef}', '\u{1faef}'),
    ('\u{1fbcb}', '\u{1fbef}'),
    ('\u{1fbfa}', '\u{1fbfa}'),
    ('\u{2b73a}', '\u{2b73f}'),
    ('\u{2cea2}', '\u{2cead}'),
    ('\u{2ebf0}', '\u{2ee5d}'),
    ('\u{323b0}', '\u{33479}'),
];

/// Checks whether Go's `strconv.IsPrint` is true, as of Go 1.26 with Unicode 15.0.
pub fn is_print(c: char) -> bool {
    if c.is_ascii() {
        return c == ' ' || c.is_ascii_graphic();
    }
    let after = NEWER.partition_point(|(first, _)| *first <= c);
    if NEWER[..after].last().is_some_and(|(_, last)| c <= *last) {
        return false;
    }
    // `escape_debug` of a string escapes characters that are not printable; after another
    // character, it does not escape combining marks.
    let mut text = String::with_capacity(5);
    text.push('a');
    text.push(c);
    text.escape_debug().nth(1) == Some(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number is that of a loop over all characters in Go 1.26.8.
    #[test]
    fn as_many_characters_are_printed_as_by_go() {
        let all = ('\0'..=char::MAX).filter(|c| is_print(*c));
        assert_eq!(all.count(), 148998);
        assert!(is_print('\u{88e}') && !is_print('\u{88f}') && is_print('\u{301}'));
    }
}
