//! The TOML writer: values to TOML like `BurntSushi/toml`.

use super::equal::{MAX_DEPTH, too_deep};
use driftless_go::float;
use driftless_gotmpl::{Exec, FuncError, Str, Value};
use std::fmt::Write as _;

/// The reason why nothing was written.
pub(super) enum Failure {
    /// A value that TOML cannot represent: Go's function returns the message as its result.
    Encode(String),
    /// An error that fails the template.
    Function(FuncError),
}

impl From<FuncError> for Failure {
    fn from(error: FuncError) -> Self {
        Failure::Function(error)
    }
}

type Done = Result<(), Failure>;

/// Writes a value: a map as a document, anything else as the right side of `=`.
pub(super) fn write(exec: &mut Exec<'_>, value: &Value) -> Result<String, Failure> {
    if value.is_nil() {
        return Err(FuncError::new(super::reflect::ZERO_VALUE).into());
    }
    super::write_cost::pay(exec, value, 0)?;
    let mut writer = Writer { out: String::new() };
    writer.encode(&[], value)?;
    exec.charge_bytes(writer.out.len())?;
    Ok(writer.out)
}

struct Writer {
    out: String,
}

/// The TOML kind of a value; `None` for nil.
#[derive(PartialEq)]
enum Kind {
    Table,
    Tables,
    Other,
}

/// Returns the value that is written for an object: its string, or its fields under Go's names
/// (`BurntSushi/toml` does not read JSON's tags).
fn resolved(value: &Value) -> Value {
    match value {
        Value::Object(o) => match o.json() {
            None | Some(Value::Map(_)) => Value::map(o.fields()),
            Some(text) => text,
        },
        other => other.clone(),
    }
}

fn is_nil(value: &Value) -> bool {
    match value {
        Value::NoValue | Value::Nil => true,
        Value::Map(m) => m.is_nil(),
        Value::List(l) => l.is_nil(),
        _ => false,
    }
}

fn kind(value: &Value) -> Result<Option<Kind>, Failure> {
    if is_nil(value) {
        return Ok(None);
    }
    Ok(Some(match resolved(value) {
        Value::Map(_) => Kind::Table,
        Value::List(list) => {
            let mut all = !list.is_empty();
            for item in list.items().iter() {
                match kind(item)? {
                    None => {
                        let message = "toml: cannot encode array with nil element";
                        return Err(Failure::Encode(message.to_owned()));
                    }
                    Some(kind) => all &= kind == Kind::Table,
                }
            }
            if all { Kind::Tables } else { Kind::Other }
        }
        _ => Kind::Other,
    }))
}

impl Writer {
    fn newline(&mut self) {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
    }

    fn indent(&mut self, key: &[Str]) {
        for _ in 1..key.len() {
            self.out.push_str("  ");
        }
    }

    fn encode(&mut self, key: &[Str], value: &Value) -> Done {
        if key.len() > MAX_DEPTH {
            return Err(too_deep().into());
        }
        match kind(value)? {
            None => Ok(()),
            Some(Kind::Table) => {
                if key.len() == 1 {
                    self.newline();
                }
                if !key.is_empty() {
                    self.indent(key);
                    let _ = write!(self.out, "[{}]", joined(key));
                    self.newline();
                }
                self.table(key, value, false)
            }
            Some(Kind::Tables) => self.tables(key, value),
            Some(Kind::Other) => self.key_value(key, value, false),
        }
    }

    fn tables(&mut self, key: &[Str], value: &Value) -> Done {
        if key.is_empty() {
            return Err(Failure::Encode(
                "toml: top-level values must be Go maps or structs".into(),
            ));
        }
        if let Value::List(list) = resolved(value) {
            for item in list.items().iter() {
                self.newline();
                self.indent(key);
                let _ = write!(self.out, "[[{}]]", joined(key));
                self.newline();
                self.table(key, item, false)?;
            }
        }
        Ok(())
    }

    /// Writes the entries of a table: plain ones first, then tables.
    fn table(&mut self, key: &[Str], value: &Value, inline: bool) -> Done {
        let Value::Map(map) = resolved(value) else {
            return Ok(());
        };
        let (mut direct, mut sub) = (Vec::new(), Vec::new());
        for (name, item) in map.pairs() {
            match kind(&item)? {
                Some(Kind::Table | Kind::Tables) => sub.push((name, item)),
                _ => direct.push((name, item)),
            }
        }
        if inline {
            self.out.push('{');
        }
        for (entries, more) in [(&direct, !sub.is_empty()), (&sub, false)] {
            for (i, (name, item)) in entries.iter().enumerate() {
                if is_nil(item) {
                    continue;
                }
                if inline {
                    self.key_value(std::slice::from_ref(name), item, true)?;
                    if more || i + 1 != entries.len() {
                        self.out.push_str(", ");
                    }
                } else {
                    self.encode(&[key, std::slice::from_ref(name)].concat(), item)?;
                }
            }
        }
        if inline {
            self.out.push('}');
        }
        Ok(())
    }

    fn key_value(&mut self, key: &[Str], value: &Value, inline: bool) -> Done {
        let Some(last) = key.last() else {
            return self.element(value, 0);
        };
        self.indent(key);
        let _ = write!(self.out, "{} = ", quoted_key(last));
        self.element(value, 0)?;
        if !inline {
            self.newline();
        }
        Ok(())
    }

    fn element(&mut self, value: &Value, depth: usize) -> Done {
        if depth > MAX_DEPTH {
            return Err(too_deep().into());
        }
        match resolved(value) {
            Value::Str(s) => self.text(&s.lossy()),
            Value::Bool(b) => self.out.push_str(if b { "true" } else { "false" }),
            Value::Int(i, t) if t.unsigned() => self.out.push_str(&(i as u64).to_string()),
            Value::Int(i, _) => self.out.push_str(&i.to_string()),
            Value::Float(f) => self.float(f),
            Value::Bytes(b) => {
                let items: Vec<String> = b.iter().map(u8::to_string).collect();
                let _ = write!(self.out, "[{}]", items.join(", "));
            }
            Value::List(list) => {
                self.out.push('[');
                for (i, item) in list.items().iter().enumerate() {
                    if i > 0 {
                        self.out.push_str(", ");
                    }
                    self.element(item, depth + 1)?;
                }
                self.out.push(']');
            }
            Value::Map(_) => self.table(&[], value, true)?,
            Value::NoValue | Value::Nil | Value::Object(_) => {
                return Err(Failure::Encode("unexpected type: <nil>".to_owned()));
            }
        }
        Ok(())
    }

    fn float(&mut self, f: f64) {
        let text = match f {
            f if f.is_nan() => "nan".to_owned(),
            f if f.is_infinite() => if f < 0.0 { "-inf" } else { "inf" }.to_owned(),
            f => float::format(f, 'g', None),
        };
        self.out.push_str(&text);
        if f.is_finite() && !text.contains(['e', '.']) {
            self.out.push_str(".0");
        }
    }

    fn text(&mut self, s: &str) {
        self.out.push('"');
        self.out.push_str(&escaped(s));
        self.out.push('"');
    }
}

fn escaped(s: &str) -> String {
    let mut out = String::with_capacity(s.len());
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            c if c < ' ' || c == '\u{7f}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

fn quoted_key(key: &Str) -> String {
    let text = key.lossy();
    let bare = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if !text.is_empty() && text.bytes().all(bare) {
        text.into_owned()
    } else {
        format!("\"{}\"", escaped(&text))
    }
}

fn joined(key: &[Str]) -> String {
    key.iter().map(quoted_key).collect::<Vec<_>>().join(".")
}
