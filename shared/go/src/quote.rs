//! Quoted strings, in the format of Go's `strconv.Quote`.

/// Returns whether a character is printable, by Go's `strconv.IsPrint`.
pub fn is_print(c: char) -> bool {
    if c.is_ascii() {
        return c == ' ' || c.is_ascii_graphic();
    }
    // `escape_debug` of a string escapes characters that are not printable; after another
    // character, it does not escape combining marks.
    let mut text = String::with_capacity(5);
    text.push('a');
    text.push(c);
    text.escape_debug().nth(1) == Some(c)
}

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
