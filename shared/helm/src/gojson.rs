//! JSON as Go's `encoding/json` writes it, byte for byte: what digests of Go programs are made of.

use crate::convert::json_float;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use std::io;

/// Writes a value as `json.Marshal` does: no white space, `<`, `>` and `&` escaped, numbers in Go's form. Fields come in
/// the order in which the type gives them, keys of maps must be sorted already (as those of `serde_json::Map` are).
///
/// # Errors
/// What cannot be JSON: NaN is not among it, as `serde_json` makes null of it.
pub fn to_string<T: Serialize + ?Sized>(value: &T) -> Result<String, serde_json::Error> {
    let mut out = Vec::with_capacity(1024);
    value.serialize(&mut Serializer::with_formatter(&mut out, Go))?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// Go's way of writing.
struct Go;

impl Formatter for Go {
    fn write_f64<W: io::Write + ?Sized>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(json_float(value).as_bytes())
    }

    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(is_escaped) {
            let Some(escaped) = rest[at..].chars().next() else {
                break;
            };
            writer.write_all(&rest.as_bytes()[..at])?;
            write!(writer, "\\u{:04x}", u32::from(escaped))?;
            rest = &rest[at + escaped.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
}

/// What Go escapes for the sake of HTML and JavaScript.
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
    }
}
