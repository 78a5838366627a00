//! Values -> YAML as go-yaml v3 writes it with two spaces: lists stand indented below their key.

use super::equal::{MAX_DEPTH, too_deep};
use driftless_gotmpl::fmt::format_float;
use driftless_gotmpl::{Exec, FuncError, Value};
use serde_json::Value as Json;

/// Writes a value without the line break at its end.
pub(super) fn write(exec: &mut Exec<'_>, value: &Value) -> Result<String, FuncError> {
    super::encode::pay(exec, value, 0)?;
    let mut writer = Writer { out: String::new() };
    writer.node(value, 0, false)?;
    Ok(writer.out)
}

struct Writer {
    out: String,
}

impl Writer {
    fn line(&mut self, depth: usize) {
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n("  ", depth));
    }

    /// Writes a node whose lines stand `depth` levels in; `after` if something stands before it in its line.
    fn node(&mut self, value: &Value, depth: usize, after: bool) -> Result<(), FuncError> {
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        match value {
            Value::Map(map) if !map.is_empty() => {
                for (i, (key, item)) in map.pairs().iter().enumerate() {
                    if i > 0 || after {
                        self.line(depth);
                    }
                    self.scalar(&Value::Str(key.clone()), depth);
                    self.out.push(':');
                    self.entry(item, depth)?;
                }
            }
            Value::List(list) if !list.is_empty() => {
                for (i, item) in list.items().iter().enumerate() {
                    if i > 0 || after {
                        self.line(depth);
                    }
                    self.out.push_str("- ");
                    let nested = matches!(item, Value::Map(m) if !m.is_empty())
                        || matches!(item, Value::List(l) if !l.is_empty());
                    if nested {
                        self.node(item, depth + 1, false)?;
                    } else {
                        self.scalar(item, depth + 1);
                    }
                }
            }
            other => self.scalar(other, depth),
        }
        Ok(())
    }

    fn entry(&mut self, item: &Value, depth: usize) -> Result<(), FuncError> {
        match item {
            Value::Map(m) if !m.is_empty() => self.node(item, depth + 1, true),
            Value::List(l) if !l.is_empty() => self.node(item, depth + 1, true),
            other => {
                self.out.push(' ');
                self.scalar(other, depth + 1);
                Ok(())
            }
        }
    }

    fn scalar(&mut self, value: &Value, depth: usize) {
        match value {
            Value::NoValue | Value::Nil => self.out.push_str("null"),
            Value::Bool(b) => self.out.push_str(if *b { "true" } else { "false" }),
            Value::Int(i, t) if t.unsigned() => self.out.push_str(&(*i as u64).to_string()),
            Value::Int(i, _) => self.out.push_str(&i.to_string()),
            Value::Float(f) => self.out.push_str(&match *f {
                f if f.is_nan() => ".nan".to_owned(),
                f if f.is_infinite() => if f < 0.0 { "-.inf" } else { ".inf" }.to_owned(),
                f => format_float(f, 'g', None),
            }),
            Value::List(_) => self.out.push_str("[]"),
            Value::Map(_) => self.out.push_str("{}"),
            Value::Bytes(b) => self.text(&String::from_utf8_lossy(b), depth),
            Value::Str(s) => self.text(&s.lossy(), depth),
            Value::Object(o) => {
                let text = o.string().unwrap_or_default();
                self.text(&text, depth);
            }
        }
    }

    /// A text in the style that it also has in compact YAML, its further lines at `depth`.
    fn text(&mut self, s: &str, depth: usize) {
        let written = driftless_manifest::yaml::to_string(&Json::String(s.to_owned()));
        for (i, line) in written.trim_end_matches('\n').lines().enumerate() {
            if i > 0 {
                self.line(if line.is_empty() { 0 } else { depth.max(1) });
                self.out.push_str(line.trim_start());
            } else {
                self.out.push_str(line);
            }
        }
    }
}
