//! Decodes and encodes built-in objects as Go does: drops unknown fields, leaves empty fields out
//! or writes them as their type requires, and writes quantities and times in canonical form.

use driftless_go::Error as GoError;
use serde_json::{Map, Value};

use crate::schema::{Field, Id, Scalar, Schema, Struct, Type};
use crate::values::{is_zero, json_kind, quantity};

/// The options of reading a document, and the unknown fields that were found.
#[derive(Clone, Debug, Default)]
pub struct DecodeReport {
    /// Fields that the type does not have: `spec.foo`.
    pub unknown: Vec<String>,
    /// True if nulls that the schema of a custom resource does not allow are kept: the result of an
    /// apply is not decoded again.
    pub merged: bool,
}

/// Reads a document as a type.
///
/// # Errors
/// A value of another type, with the message of Go's JSON decoder.
pub fn read(
    schema: &Schema,
    id: Id,
    value: &Value,
    found: &mut DecodeReport,
) -> Result<Value, GoError> {
    let mut reader = Reader {
        schema,
        found,
        path: Vec::new(),
        owner: "",
    };
    reader.value(id, value)
}

/// Returns the object without any field set.
pub fn empty(schema: &Schema, id: Id) -> Value {
    read(
        schema,
        id,
        &Value::Object(Map::new()),
        &mut DecodeReport::default(),
    )
    .unwrap_or_default()
}

struct Reader<'a, 'f> {
    schema: &'a Schema,
    found: &'f mut DecodeReport,
    path: Vec<String>,
    owner: &'a str,
}

/// Returns the last part of a definition's name.
fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or_default()
}

/// Returns `v1.Container` for `io.k8s.api.core.v1.Container`.
fn qualified(name: &str) -> String {
    let mut parts: Vec<&str> = name.rsplitn(3, '.').take(2).collect();
    parts.reverse();
    parts.join(".")
}

impl<'a> Reader<'a, '_> {
    fn go_name(&self, id: Id) -> String {
        match self.schema.get(id) {
            Type::Scalar(Scalar::String) => "string".into(),
            Type::Scalar(Scalar::Bool) => "bool".into(),
            Type::Scalar(Scalar::Int32) => "int32".into(),
            Type::Scalar(Scalar::Int) => "int64".into(),
            Type::Scalar(Scalar::Float) => "float64".into(),
            Type::Scalar(Scalar::Bytes) => "[]uint8".into(),
            Type::Scalar(Scalar::IntOrString) => "intstr.IntOrString".into(),
            Type::Scalar(_) => "string".into(),
            Type::List { item, .. } => format!("[]{}", self.go_name(*item)),
            Type::Map { value, .. } => format!("map[string]{}", self.go_name(*value)),
            Type::Struct(found) => qualified(&found.name),
            _ => "interface {}".into(),
        }
    }

    fn mismatch(&self, id: Id, value: &Value) -> String {
        let kind = match value {
            Value::Number(number)
                if matches!(
                    self.schema.get(id),
                    Type::Scalar(Scalar::Int32 | Scalar::Int)
                ) =>
            {
                format!("number {number}")
            }
            other => json_kind(other).to_owned(),
        };
        let name = self.go_name(id);
        if self.path.is_empty() {
            return format!("json: cannot unmarshal {kind} into Go value of type {name}");
        }
        let path: Vec<&str> = self
            .path
            .iter()
            .map(String::as_str)
            .filter(|step| !step.starts_with('['))
            .collect();
        format!(
            "json: cannot unmarshal {kind} into Go struct field {}.{} of type {name}",
            short(self.owner),
            path.join(".")
        )
    }

    fn value(&mut self, id: Id, value: &Value) -> Result<Value, GoError> {
        match self.schema.get(id) {
            Type::Untyped | Type::Deduced => Ok(value.clone()),
            Type::Scalar(scalar) => self.scalar(id, *scalar, value),
            Type::List { item, .. } => {
                let Value::Array(list) = value else {
                    return Err(self.mismatch(id, value).into());
                };
                let item = *item;
                let mut out = Vec::with_capacity(list.len());
                for (index, value) in list.iter().enumerate() {
                    self.path.push(format!("[{index}]"));
                    out.push(self.item(item, value)?);
                    self.path.pop();
                }
                Ok(Value::Array(out))
            }
            Type::Map { value: of, .. } => {
                let Value::Object(map) = value else {
                    return Err(self.mismatch(id, value).into());
                };
                let of = *of;
                let mut out = Map::new();
                for (key, value) in map {
                    out.insert(key.clone(), self.item(of, value)?);
                }
                Ok(Value::Object(out))
            }
            Type::Struct(found) => {
                let Value::Object(map) = value else {
                    return Err(self.mismatch(id, value).into());
                };
                self.structure(found, map)
            }
            Type::OrBool(of) => match value {
                Value::Bool(_) => Ok(value.clone()),
                other => self.value(*of, other),
            },
            Type::OrArray(of) => match value {
                Value::Array(list) => {
                    let of = *of;
                    list.iter()
                        .map(|value| self.value(of, value))
                        .collect::<Result<_, _>>()
                        .map(Value::Array)
                }
                other => self.value(*of, other),
            },
        }
    }

    /// Reads a value of a list or map; null becomes the zero value of the type.
    fn item(&mut self, id: Id, value: &Value) -> Result<Value, GoError> {
        if !value.is_null() {
            return self.value(id, value);
        }
        Ok(match self.schema.get(id) {
            Type::Struct(_) => empty(self.schema, id),
            _ => zero(self.schema, id),
        })
    }

    fn structure(&mut self, of: &'a Struct, map: &Map<String, Value>) -> Result<Value, GoError> {
        let owner = std::mem::replace(&mut self.owner, &of.name);
        let mut out = Map::new();
        for (name, field) in &of.fields {
            self.path.push(name.clone());
            self.owner = &of.name;
            let value = map.get(name).filter(|value| !value.is_null());
            if let Some(value) = self.field(field, value)? {
                out.insert(name.clone(), value);
            }
            self.path.pop();
        }
        // The real server lists them in the order of the document, which is not known here.
        for key in map.keys().filter(|key| !of.fields.contains_key(*key)) {
            let mut path = self.dotted();
            if !path.is_empty() {
                path.push('.');
            }
            self.found.unknown.push(format!("{path}{key}"));
        }
        self.owner = owner;
        Ok(Value::Object(out))
    }

    fn dotted(&self) -> String {
        let mut out = String::new();
        for step in &self.path {
            if !out.is_empty() && !step.starts_with('[') {
                out.push('.');
            }
            out.push_str(step);
        }
        out
    }

    fn field(&mut self, field: &Field, value: Option<&Value>) -> Result<Option<Value>, GoError> {
        let is_struct = matches!(self.schema.get(field.id), Type::Struct(_));
        let Some(value) = value else {
            // These are structs in Go, though they are scalars in JSON.
            let solid = matches!(
                self.schema.get(field.id),
                Type::Scalar(
                    Scalar::Time | Scalar::MicroTime | Scalar::Quantity | Scalar::IntOrString
                )
            );
            if solid && !field.pointer && !field.omit_zero {
                return Ok(Some(zero(self.schema, field.id)));
            }
            return Ok(
                if field.omit_zero || (field.omit_empty && (!is_struct || field.pointer)) {
                    None
                } else if is_struct && !field.pointer {
                    Some(empty(self.schema, field.id))
                } else if field.pointer {
                    Some(Value::Null)
                } else {
                    Some(zero(self.schema, field.id))
                },
            );
        };
        let read = self.value(field.id, value)?;
        if field.pointer || (is_struct && !field.omit_zero) {
            return Ok(Some(read));
        }
        if is_zero(&read) {
            return Ok(if field.omit_empty || field.omit_zero {
                None
            } else if read.is_array() || read.is_object() {
                Some(read)
            } else {
                Some(zero(self.schema, field.id))
            });
        }
        Ok(Some(read))
    }

    fn scalar(&self, id: Id, scalar: Scalar, value: &Value) -> Result<Value, GoError> {
        match (scalar, value) {
            (Scalar::String, Value::String(_)) | (Scalar::Bool, Value::Bool(_)) => {
                Ok(value.clone())
            }
            (Scalar::Int | Scalar::Int32, Value::Number(number)) => {
                let whole = number.as_i64().or_else(|| whole(number.as_f64()?));
                match whole {
                    Some(whole) if scalar == Scalar::Int || i32::try_from(whole).is_ok() => {
                        Ok(whole.into())
                    }
                    _ => Err(self.mismatch(id, value).into()),
                }
            }
            (Scalar::Float, Value::Number(_)) | (Scalar::IntOrString, Value::String(_)) => {
                Ok(value.clone())
            }
            (Scalar::IntOrString, Value::Number(number)) if number.is_i64() => Ok(value.clone()),
            (Scalar::Bytes, Value::String(text)) => bytes(text),
            (Scalar::Quantity, Value::String(text)) => quantity::canonical(text)
                .map(Value::String)
                .ok_or_else(|| self.bad_quantity().into()),
            (Scalar::Quantity, Value::Number(number)) => quantity::canonical(&number.to_string())
                .map(Value::String)
                .ok_or_else(|| self.bad_quantity().into()),
            (Scalar::Time, Value::String(text)) => time(text, "%Y-%m-%dT%H:%M:%SZ"),
            (Scalar::MicroTime, Value::String(text)) => time(text, "%Y-%m-%dT%H:%M:%S.%6fZ"),
            _ => Err(self.mismatch(id, value).into()),
        }
    }

    fn bad_quantity(&self) -> String {
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'".to_owned()
    }
}

fn whole(number: f64) -> Option<i64> {
    #[expect(clippy::cast_possible_truncation, reason = "checked by the comparison")]
    let whole = number as i64;
    #[expect(clippy::cast_precision_loss, reason = "that is what is compared")]
    let same = whole as f64 == number;
    same.then_some(whole)
}

fn bytes(text: &str) -> Result<Value, GoError> {
    use base64::Engine as _;
    let engine = base64::engine::general_purpose::STANDARD;
    let compact: String = text.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
    match engine.decode(&compact) {
        Ok(_) => Ok(Value::String(compact)),
        Err(error) => {
            let at = match error {
                base64::DecodeError::InvalidByte(at, _)
                | base64::DecodeError::InvalidLastSymbol(at, _) => at,
                _ => text.len() / 4 * 4,
            };
            Err(format!("illegal base64 data at input byte {at}").into())
        }
    }
}

fn time(text: &str, format: &str) -> Result<Value, GoError> {
    let parsed: jiff::Timestamp = text.parse().map_err(|_| {
        format!(
            "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?} as \"2006\""
        )
    })?;
    Ok(parsed.strftime(format).to_string().into())
}

fn zero(schema: &Schema, id: Id) -> Value {
    match schema.get(id) {
        Type::Scalar(Scalar::String) => "".into(),
        Type::Scalar(Scalar::Bool) => false.into(),
        Type::Scalar(Scalar::Int | Scalar::Int32 | Scalar::Float | Scalar::IntOrString) => 0.into(),
        Type::Scalar(Scalar::Quantity) => "0".into(),
        _ => Value::Null,
    }
}

/// Sets empty lists and maps to null, as decoding from the store does.
pub fn from_store(schema: &Schema, id: Id, value: &mut Value) {
    match (schema.get(id), value) {
        (Type::List { item, .. }, Value::Array(list)) => {
            for value in list {
                from_store(schema, *item, value);
            }
        }
        (Type::Map { value: of, .. }, Value::Object(map)) => {
            for value in map.values_mut() {
                from_store(schema, *of, value);
            }
        }
        (Type::Struct(of), Value::Object(map)) => {
            for (name, value) in map.iter_mut() {
                let Some(field) = of.fields.get(name) else {
                    continue;
                };
                let empty = matches!(schema.get(field.id), Type::List { .. } | Type::Map { .. });
                if empty && !field.pointer && is_zero(value) {
                    *value = Value::Null;
                } else {
                    from_store(schema, field.id, value);
                }
            }
        }
        _ => {}
    }
}
