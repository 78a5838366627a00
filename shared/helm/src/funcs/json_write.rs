//! The JSON writer: values to JSON, like Go's `encoding/json`.

use super::equal::{MAX_DEPTH, too_deep};
use base64::Engine as _;
use driftless_go::{float, json};
use driftless_gotmpl::fmt::display;
use driftless_gotmpl::{Exec, FuncError, Value};

/// The options of the writer.
#[derive(Clone, Copy, Default)]
pub(super) struct Form {
    /// True for two spaces per level and one entry per line.
    pub pretty: bool,
    /// True if `<`, `>` and `&` are not escaped.
    pub raw: bool,
}

/// Writes a value.
///
/// # Errors
/// NaN and infinities, with Go's message; a used-up budget; values that contain themselves.
pub(super) fn write(exec: &mut Exec<'_>, value: &Value, form: Form) -> Result<String, FuncError> {
    let mut writer = Writer {
        out: String::new(),
        form,
        paid: 0,
    };
    writer.value(exec, value, 0)?;
    writer.pay(exec)?;
    Ok(writer.out)
}

struct Writer {
    out: String,
    form: Form,
    paid: usize,
}

impl Writer {
    fn pay(&mut self, exec: &mut Exec<'_>) -> Result<(), FuncError> {
        exec.charge_bytes(self.out.len() - self.paid)?;
        self.paid = self.out.len();
        exec.charge(3)
    }

    fn line(&mut self, depth: usize) {
        if self.form.pretty {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n("  ", depth));
        }
    }

    fn value(&mut self, exec: &mut Exec<'_>, value: &Value, depth: usize) -> Result<(), FuncError> {
        self.pay(exec)?;
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        match value {
            Value::NoValue | Value::Nil => self.out.push_str("null"),
            Value::Bool(b) => self.out.push_str(if *b { "true" } else { "false" }),
            Value::Int(i, t) if t.unsigned() => self.out.push_str(&(*i as u64).to_string()),
            Value::Int(i, _) => self.out.push_str(&i.to_string()),
            Value::Float(f) if f.is_finite() => self.out.push_str(&float::json(*f)),
            Value::Float(_) => {
                return Err(format!("json: unsupported value: {}", display(value)).into());
            }
            Value::Str(s) => self.string(exec, s)?,
            Value::Bytes(b) => {
                exec.ensure_capacity(b.len().saturating_mul(2))?;
                let text = base64::engine::general_purpose::STANDARD.encode(b);
                self.out.push('"');
                self.out.push_str(&text);
                self.out.push('"');
            }
            Value::List(list) if list.is_nil() => self.out.push_str("null"),
            Value::List(list) => self.list(exec, &list.items(), depth)?,
            Value::Map(map) if map.is_nil() => self.out.push_str("null"),
            Value::Map(map) => {
                let entries = map.entries();
                self.object(exec, entries.iter().map(|(k, v)| (&**k, v)), depth)?;
            }
            Value::Object(object) => match (object.json_fields(), object.json()) {
                (None, Some(value)) => self.value(exec, &value, depth + 1)?,
                (fields, _) => {
                    let fields = fields.unwrap_or_else(|| {
                        let fields = object.fields().into_iter();
                        fields
                            .map(|(name, value)| (name.to_owned(), value))
                            .collect()
                    });
                    let entries = fields.iter().map(|(k, v)| (k.as_bytes(), v));
                    self.object(exec, entries, depth)?;
                }
            },
        }
        Ok(())
    }

    fn list(
        &mut self,
        exec: &mut Exec<'_>,
        items: &[Value],
        depth: usize,
    ) -> Result<(), FuncError> {
        self.out.push('[');
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.out.push(',');
            }
            self.line(depth + 1);
            self.value(exec, item, depth + 1)?;
        }
        if !items.is_empty() {
            self.line(depth);
        }
        self.out.push(']');
        Ok(())
    }

    fn object<'v>(
        &mut self,
        exec: &mut Exec<'_>,
        entries: impl Iterator<Item = (&'v [u8], &'v Value)>,
        depth: usize,
    ) -> Result<(), FuncError> {
        self.out.push('{');
        let mut any = false;
        for (key, value) in entries {
            if std::mem::replace(&mut any, true) {
                self.out.push(',');
            }
            self.line(depth + 1);
            self.string(exec, key)?;
            self.out.push(':');
            if self.form.pretty {
                self.out.push(' ');
            }
            self.value(exec, value, depth + 1)?;
        }
        if any {
            self.line(depth);
        }
        self.out.push('}');
        Ok(())
    }

    /// Writes a string: every byte may become an escape of six bytes.
    fn string(&mut self, exec: &mut Exec<'_>, s: &[u8]) -> Result<(), FuncError> {
        exec.ensure_capacity(
            (self.out.len() - self.paid).saturating_add(s.len().saturating_mul(6)),
        )?;
        json::push_string(&mut self.out, s, !self.form.raw);
        Ok(())
    }
}
