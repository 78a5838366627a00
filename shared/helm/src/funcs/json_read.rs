//! The JSON reader: JSON to values, as Go's `encoding/json` decodes it into `interface {}`, with
//! its messages.

use super::arg::{MAP, PIECE};
use driftless_go::Error as GoError;
use driftless_gotmpl::{Exec, FuncError, Map, Str, TypeInfo, Value};
use std::collections::BTreeMap;

/// The maximal nesting that Go reads.
const MAX_DEPTH: usize = 10_000;

/// Reads a JSON text; the inner error is Go's message. Numbers are float64.
///
/// # Errors
/// The outer one is a used-up budget.
pub(super) fn read(exec: &mut Exec<'_>, text: &[u8]) -> Result<Result<Value, GoError>, FuncError> {
    let count = |wanted: u8| text.iter().filter(|b| **b == wanted).count();
    let made = count(b'{') * MAP + (count(b',') + count(b'[')) * PIECE;
    exec.charge_bytes(text.len().saturating_mul(2).saturating_add(made))?;
    exec.charge(text.len() as u64)?;
    let mut reader = Reader { text, at: 0 };
    Ok(reader.document())
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
}

type Step<T> = Result<T, GoError>;

const END: &str = "unexpected end of JSON input";

impl Reader<'_> {
    fn document(&mut self) -> Step<Value> {
        let value = self.value(0)?;
        self.space();
        match self.peek() {
            None => Ok(value),
            Some(_) => Err(self.unexpected_byte("after top-level value").into()),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// Returns the message for the byte at the present position.
    fn unexpected_byte(&self, context: &str) -> String {
        let character = match self.peek() {
            None => return END.to_owned(),
            Some(b'\'') => "'\\''".to_owned(),
            Some(b'"') => "'\"'".to_owned(),
            Some(b) => {
                let c = char::from(b).to_string();
                let quoted = driftless_go::quote::quote(c.as_bytes());
                format!("'{}'", &quoted[1..quoted.len() - 1])
            }
        };
        format!("invalid character {character} {context}")
    }

    /// Like [`Self::unexpected_byte`] within a word, a number or an escape: Go appends a blank to
    /// the input, which is not valid there.
    fn unexpected_inside(&self, context: &str) -> String {
        match self.peek() {
            None => format!("invalid character ' ' {context}"),
            Some(_) => self.unexpected_byte(context),
        }
    }

    fn value(&mut self, depth: usize) -> Step<Value> {
        if depth > MAX_DEPTH {
            return Err("exceeded max depth".into());
        }
        self.space();
        match self.peek() {
            None => Err(END.into()),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(Value::Str),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Nil),
            Some(_) => Err(self
                .unexpected_byte("looking for beginning of value")
                .into()),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Step<Value> {
        for (i, expected) in word.bytes().enumerate() {
            if self.peek() != Some(expected) {
                let at = char::from(word.as_bytes()[i]);
                return Err(self
                    .unexpected_inside(&format!("in literal {word} (expecting '{at}')"))
                    .into());
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn digits(&mut self) -> bool {
        let from = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        self.at > from
    }

    fn number(&mut self) -> Step<Value> {
        let from = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else if !self.digits() {
            return Err(self.unexpected_inside("in numeric literal").into());
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if !self.digits() {
                return Err(self
                    .unexpected_inside("after decimal point in numeric literal")
                    .into());
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if !self.digits() {
                return Err(self
                    .unexpected_inside("in exponent of numeric literal")
                    .into());
            }
        }
        let text = String::from_utf8_lossy(&self.text[from..self.at]);
        match text.parse::<f64>() {
            Ok(f) if f.is_finite() => Ok(Value::Float(f)),
            _ => Err(
                format!("json: cannot unmarshal number {text} into Go value of type float64")
                    .into(),
            ),
        }
    }

    fn array(&mut self, depth: usize) -> Step<Value> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::list(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::list(items));
                }
                _ => return Err(self.unexpected_byte("after array element").into()),
            }
        }
    }

    fn object(&mut self, depth: usize) -> Step<Value> {
        self.at += 1;
        let mut entries: BTreeMap<Str, Value> = BTreeMap::new();
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Map(Map::typed(&TypeInfo::MAP, entries)));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self
                    .unexpected_byte("looking for beginning of object key string")
                    .into());
            }
            let key = self.string()?;
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.unexpected_byte("after object key").into());
            }
            self.at += 1;
            let value = self.value(depth + 1)?;
            entries.insert(key, value);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Map(Map::typed(&TypeInfo::MAP, entries)));
                }
                _ => return Err(self.unexpected_byte("after object key:value pair").into()),
            }
        }
    }

    fn string(&mut self) -> Step<Str> {
        self.at += 1;
        let mut out = Vec::new();
        loop {
            match self.peek() {
                None => return Err(END.into()),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Str::from(String::from_utf8_lossy(&out)));
                }
                Some(b'\\') => self.escape(&mut out)?,
                Some(b) if b < b' ' => {
                    return Err(self.unexpected_byte("in string literal").into());
                }
                Some(b) => {
                    out.push(b);
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Step<()> {
        self.at += 1;
        let plain = match self.peek() {
            Some(b @ (b'"' | b'\\' | b'/')) => b,
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                self.at += 1;
                let c = self.unicode()?;
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return Err(self.unexpected_inside("in string escape code").into()),
        };
        out.push(plain);
        self.at += 1;
        Ok(())
    }

    fn hex4(&mut self) -> Step<u32> {
        let mut value = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|b| char::from(b).to_digit(16));
            let Some(digit) = digit else {
                return Err(self
                    .unexpected_inside("in \\u hexadecimal character escape")
                    .into());
            };
            value = value * 16 + digit;
            self.at += 1;
        }
        Ok(value)
    }

    /// Reads a character; half a surrogate pair becomes U+FFFD.
    fn unicode(&mut self) -> Step<char> {
        let first = self.hex4()?;
        if (0xd800..0xdc00).contains(&first) && self.text[self.at..].starts_with(b"\\u") {
            let back = self.at;
            self.at += 2;
            let second = self.hex4()?;
            if (0xdc00..0xe000).contains(&second) {
                let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or('\u{fffd}'));
            }
            self.at = back;
        }
        Ok(char::from_u32(first).unwrap_or('\u{fffd}'))
    }
}
