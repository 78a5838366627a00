//! Helpers for JSON values, and the formats of names, quantities and times.

pub(crate) mod clock;
pub(crate) mod json;
pub(crate) mod quantity;

use serde_json::{Value, json};

/// Returns the string at a pointer, or an empty one.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Returns the string of a value, or an empty one if it is not a string.
pub(crate) fn owned(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns the strings of a list; empty if the value is not a list.
pub(crate) fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(owned).collect()
}

/// Removes and returns the value at a path; `None` if it does not exist.
pub(crate) fn take(object: &mut Value, path: &[&str]) -> Option<Value> {
    let (last, parents) = path.split_last()?;
    let mut at = object;
    for step in parents {
        at = at.get_mut(*step)?;
    }
    at.as_object_mut()?.remove(*last)
}

/// Sets a key of the object's field `parent`, or of the object itself when that is empty. Without a
/// value, the key is removed.
pub(crate) fn set(object: &mut Value, parent: &str, key: &str, value: Option<Value>) {
    let parent = if parent.is_empty() {
        Some(object)
    } else {
        if object.get(parent).is_none_or(Value::is_null) && value.is_some() {
            object[parent] = json!({});
        }
        object.get_mut(parent)
    };
    let Some(map) = parent.and_then(Value::as_object_mut) else {
        return;
    };
    match value {
        Some(value) => {
            map.insert(key.to_owned(), value);
        }
        None => {
            map.remove(key);
        }
    }
}

/// Returns whether Go's `omitempty` leaves the value out.
pub(crate) fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// Returns `group/version`, or only the version for the core group.
pub(crate) fn join(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

/// Returns the name of a JSON type in Go's error messages.
pub(crate) fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
