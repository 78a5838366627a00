//! Quoted strings, written as Go's `strconv.Quote` does and read as `strconv.Unquote` does.

use crate::print::is_print;

/// Formats a string by Go's `%q`.
pub fn quote(text: &[u8]) -> String {
    quote_with(text, '"', false)
}

/// Formats a string by Go's `%+q`.
pub fn quote_ascii(text: &[u8]) -> String {
    quote_with(text, '"', true)
}

/// Quotes a string, and escapes quotes in it. `ascii` escapes all characters that are not ASCII.
pub fn quote_with(text: &[u8], mark: char, ascii: bool) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len() + 2);
    out.push(mark);
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            escape(&mut out, c, mark, ascii);
        }
        for byte in chunk.invalid() {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out.push(mark);
    out
}

fn escape(out: &mut String, c: char, mark: char, ascii: bool) {
    use std::fmt::Write as _;
    if c == mark || c == '\\' {
        out.push('\\');
        out.push(c);
        return;
    }
    if (c.is_ascii() || !ascii) && is_print(c) {
        out.push(c);
        return;
    }
    let _ = match c {
        '\u{7}' => out.write_str("\\a"),
        '\u{8}' => out.write_str("\\b"),
        '\u{c}' => out.write_str("\\f"),
        '\n' => out.write_str("\\n"),
        '\r' => out.write_str("\\r"),
        '\t' => out.write_str("\\t"),
        '\u{b}' => out.write_str("\\v"),
        c if c < ' ' || c == '\u{7f}' => write!(out, "\\x{:02x}", u32::from(c)),
        c if u32::from(c) < 0x10000 => write!(out, "\\u{:04x}", u32::from(c)),
        c => write!(out, "\\U{:08x}", u32::from(c)),
    };
}

/// Formats a character by Go's `%#U`.
pub fn unicode(c: char) -> String {
    let code = u32::from(c);
    if is_print(c) {
        format!("U+{code:04X} '{c}'")
    } else {
        format!("U+{code:04X}")
    }
}

/// Returns the bytes of a string in `"`, `` ` `` or `'`, as Go's `strconv.Unquote` does; `None` for
/// one that is not quoted as in Go.
pub fn unquote(quoted: &str) -> Option<Vec<u8>> {
    let mut chars = quoted.chars();
    let quote = chars.next()?;
    if quoted.len() < 2 || chars.next_back() != Some(quote) {
        return None;
    }
    let inner = &quoted[1..quoted.len() - 1];
    match quote {
        '`' if inner.as_bytes().contains(&b'`') => None,
        '`' => Some(inner.replace('\r', "").into_bytes()),
        '"' if !inner.bytes().any(|b| matches!(b, b'\\' | b'"' | b'\n')) => {
            Some(inner.as_bytes().to_vec())
        }
        '"' => {
            let mut out = Vec::with_capacity(inner.len());
            let mut rest = inner;
            while !rest.is_empty() {
                rest = unescape(rest, '"', &mut out)?;
            }
            Some(out)
        }
        '\'' => {
            let mut out = Vec::new();
            unescape(inner, '\'', &mut out)?.is_empty().then_some(out)
        }
        _ => None,
    }
}

/// Reads one character of a quoted string and returns the rest.
fn unescape<'a>(text: &'a str, quote: char, out: &mut Vec<u8>) -> Option<&'a str> {
    let mut chars = text.chars();
    let c = chars.next()?;
    if c == quote || c == '\n' {
        return None;
    }
    if c != '\\' {
        out.extend_from_slice(&text.as_bytes()[..c.len_utf8()]);
        return Some(chars.as_str());
    }
    let c = chars.next()?;
    let digits = |n: usize, radix: u32, text: &'a str| -> Option<(u32, &'a str)> {
        let head = text.get(..n)?;
        head.chars().all(|c| c.is_digit(radix)).then_some(())?;
        Some((u32::from_str_radix(head, radix).ok()?, &text[n..]))
    };
    let simple = match c {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 11,
        '\\' => b'\\',
        '\'' | '"' if c == quote => c as u8,
        'x' => {
            let (code, rest) = digits(2, 16, chars.as_str())?;
            out.push(code as u8);
            return Some(rest);
        }
        'u' | 'U' => {
            let (code, rest) = digits(if c == 'u' { 4 } else { 8 }, 16, chars.as_str())?;
            let c = char::from_u32(code)?;
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            return Some(rest);
        }
        '0'..='7' => {
            let (code, rest) = digits(3, 8, &text[1..])?;
            out.push(u8::try_from(code).ok()?);
            return Some(rest);
        }
        _ => return None,
    };
    out.push(simple);
    Some(chars.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unquotes_what_go_unquotes() {
        for (quoted, text) in [
            (r#""a""#, Some("a")),
            (r#""\x41\u0042\103\n""#, Some("ABC\n")),
            ("`a\\r\r`", Some("a\\r")),
            ("'é'", Some("é")),
            (r"'\''", Some("'")),
            (r#"'\"'"#, None),
            ("'ab'", None),
            ("\"a\nb\"", None),
            ("\"", None),
            ("", None),
            ("a", None),
            (r#""\400""#, None),
        ] {
            let want = text.map(|text| text.as_bytes().to_vec());
            assert_eq!(unquote(quoted), want, "{quoted}");
        }
    }
}
