//! JSON in the format of Go's `encoding/json`, byte for byte: Go programs compute digests from it.

use crate::float;
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};
use std::io;

/// Formats a value by `json.Marshal`: no white space, `<`, `>` and `&` escaped, numbers in Go's
/// form. Fields have the order of the type; keys of maps must already be sorted (as those of
/// `serde_json::Map` are).
///
/// # Errors
/// The value cannot be JSON, such as a map whose keys are not strings. NaN and the infinities
/// become `null`.
pub fn to_string<T: Serialize + ?Sized>(value: &T) -> Result<String, serde_json::Error> {
    let mut out = Vec::with_capacity(1024);
    to_writer(&mut out, value)?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// Writes a value in the format of [`to_string`] to a writer.
///
/// # Errors
/// Those of [`to_string`], and of the writer.
pub fn to_writer<W, T>(writer: W, value: &T) -> Result<(), serde_json::Error>
where
    W: io::Write,
    T: Serialize + ?Sized,
{
    value.serialize(&mut Serializer::with_formatter(writer, Compact))
}

/// Formats a value by `json.MarshalIndent(value, "", indent)`.
///
/// # Errors
/// Those of [`to_string`].
pub fn to_string_indent<T>(value: &T, indent: &str) -> Result<String, serde_json::Error>
where
    T: Serialize + ?Sized,
{
    let mut out = Vec::with_capacity(1024);
    let formatter = Indented(PrettyFormatter::with_indent(indent.as_bytes()));
    value.serialize(&mut Serializer::with_formatter(&mut out, formatter))?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// The formatter of `json.Marshal`.
struct Compact;

impl Formatter for Compact {
    fn write_f64<W: io::Write + ?Sized>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(float::json(value).as_bytes())
    }

    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        write_fragment(writer, fragment)
    }
}

/// The formatter of `json.MarshalIndent`.
struct Indented<'i>(PrettyFormatter<'i>);

impl Formatter for Indented<'_> {
    fn write_f64<W: io::Write + ?Sized>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(float::json(value).as_bytes())
    }

    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        write_fragment(writer, fragment)
    }

    fn begin_array<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object_value(writer)
    }

    fn end_object_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}

fn write_fragment<W: io::Write + ?Sized>(writer: &mut W, fragment: &str) -> io::Result<()> {
    let mut rest = fragment;
    while let Some((at, escaped)) = rest.char_indices().find(|(_, c)| is_escaped(*c)) {
        writer.write_all(&rest.as_bytes()[..at])?;
        write!(writer, "\\u{:04x}", u32::from(escaped))?;
        rest = &rest[at + escaped.len_utf8()..];
    }
    writer.write_all(rest.as_bytes())
}

/// Appends a string in the format of `json.Marshal`, with its quotes; without `escape_html`, in the
/// format of an `Encoder` with `SetEscapeHTML(false)`. Bytes that are not UTF-8 become `\ufffd`.
pub fn push_string(out: &mut String, text: &[u8], escape_html: bool) {
    out.push('"');
    for chunk in text.utf8_chunks() {
        push_chars(out, chunk.valid(), escape_html);
        for _ in chunk.invalid() {
            out.push_str("\\ufffd");
        }
    }
    out.push('"');
}

fn push_chars(out: &mut String, text: &str, escape_html: bool) {
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' if !escape_html => out.push(c),
            c if c < ' ' || is_escaped(c) => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
}

/// The characters that Go escapes for HTML and JavaScript.
fn is_escaped(c: char) -> bool {
    matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn as_go_writes() {
        for (value, text) in [
            (
                json!("<a> & \u{2028}\u{7f}\u{1}\u{8}\"\\"),
                r#""\u003ca\u003e \u0026 \u2028"#,
            ),
            (
                json!({"b": 1e21, "a": 1e-7, "c": 5.0, "d": -0.0}),
                r#"{"a":1e-7,"b":1e+21,"c":5,"d":-0}"#,
            ),
            (
                json!([100000000000000000000.0, 0.1, 3, null, true]),
                "[100000000000000000000,0.1,3,null,true]",
            ),
        ] {
            assert!(to_string(&value).unwrap().starts_with(text), "{value}");
        }
        let value = json!({"a": ["<", 1e21], "b": {}});
        let indented = "{\n  \"a\": [\n    \"\\u003c\",\n    1e+21\n  ],\n  \"b\": {}\n}";
        assert_eq!(to_string_indent(&value, "  ").unwrap(), indented);
    }

    #[test]
    fn strings_alone_as_in_values() {
        for text in ["<a> & \u{2028}\u{7f}\u{1}\u{8}\u{c}\"\\\n", "é\t\r"] {
            let mut out = String::new();
            push_string(&mut out, text.as_bytes(), true);
            assert_eq!(out, to_string(text).unwrap());
        }
        let mut out = String::new();
        push_string(&mut out, b"<&>\xe2\x80\xa9\xff", false);
        assert_eq!(out, "\"<&>\\u2029\\ufffd\"");
    }
}
