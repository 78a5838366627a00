//! `html`, `js`, `urlquery`.

/// Escapes like Go's `template.HTMLEscape`.
pub fn html_escape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        match byte {
            0 => out.extend_from_slice("\u{fffd}".as_bytes()),
            b'"' => out.extend_from_slice(b"&#34;"),
            b'\'' => out.extend_from_slice(b"&#39;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            other => out.push(*other),
        }
    }
    out
}

/// Escapes like Go's `template.JSEscape`.
pub(super) fn js_escape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            js_char(&mut out, c);
        }
        out.extend_from_slice(chunk.invalid());
    }
    out
}

fn js_char(out: &mut Vec<u8>, c: char) {
    match c {
        '\\' => out.extend_from_slice(b"\\\\"),
        '\'' => out.extend_from_slice(b"\\'"),
        '"' => out.extend_from_slice(b"\\\""),
        '<' | '>' | '&' | '=' => out.extend_from_slice(hex(c).as_bytes()),
        c if c < ' ' => out.extend_from_slice(hex(c).as_bytes()),
        c if c.is_ascii() || driftless_go::print::is_print(c) => {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
        c => out.extend_from_slice(hex(c).as_bytes()),
    }
}

fn hex(c: char) -> String {
    format!("\\u{:04X}", u32::from(c))
}

/// Escapes like Go's `url.QueryEscape`.
pub(super) fn query_escape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(*byte),
            b' ' => out.push(b'+'),
            other => out.extend_from_slice(format!("%{other:02X}").as_bytes()),
        }
    }
    out
}
