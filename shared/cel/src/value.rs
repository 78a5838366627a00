//! Conversions between JSON and the values of the language.

use std::sync::Arc;

use ::cel::Value as Cel;
use ::cel::objects::{Key, Map};
use serde_json::{Number, Value};

/// A CEL value that JSON does not have, displayed as the name of its type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotJson(String);

/// Converts a JSON value to a CEL value.
#[must_use]
pub fn to_cel(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(flag) => Cel::Bool(*flag),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(integer), _) => Cel::Int(integer),
            (None, float) => Cel::Float(float.unwrap_or(f64::NAN)),
        },
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(to_cel).collect())),
        Value::Object(map) => {
            let entries = map
                .iter()
                .map(|(key, value)| (Key::String(Arc::new(key.clone())), to_cel(value)));
            Cel::Map(Map {
                map: Arc::new(entries.collect()),
            })
        }
    }
}

/// Converts a CEL value to JSON.
///
/// # Errors
/// The value, or one in it, has a type that JSON does not have.
pub fn to_json(value: &Cel) -> Result<Value, NotJson> {
    Ok(match value {
        Cel::Null => Value::Null,
        Cel::Bool(flag) => (*flag).into(),
        Cel::Int(number) => (*number).into(),
        Cel::UInt(number) => (*number).into(),
        Cel::Float(number) => Number::from_f64(*number).map_or(Value::Null, Value::Number),
        Cel::String(text) => Value::String(text.as_ref().clone()),
        Cel::List(items) => Value::Array(items.iter().map(to_json).collect::<Result<_, _>>()?),
        Cel::Map(map) => {
            let entries = map.map.iter().map(|(key, value)| match key {
                Key::String(key) => Ok((key.as_ref().clone(), to_json(value)?)),
                other => Err(NotJson(format!("a map with the key {other}"))),
            });
            Value::Object(entries.collect::<Result<_, _>>()?)
        }
        other => return Err(NotJson(other.type_of().to_string())),
    })
}
