//! Reads fields of an object as strictly as kstatus' accessors.

use super::HealthError;
use driftless_manifest::Object;
use serde_json::{Map, Value};

/// One entry of `status.conditions`. Absent fields are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Condition {
    pub kind: String,
    pub status: String,
    pub reason: String,
    pub message: String,
}

fn wrong(path: &[&str], expected: &'static str) -> HealthError {
    HealthError::Field {
        path: format!(".{}", path.join(".")),
        expected,
    }
}

/// Returns the value at a path, or `None` if a part of the path is absent or null.
pub(super) fn nested<'o>(
    object: &'o Object,
    path: &[&str],
) -> Result<Option<&'o Value>, HealthError> {
    let Some((first, rest)) = path.split_first() else {
        return Ok(None);
    };
    let mut value = object.as_map().get(*first);
    for (depth, key) in rest.iter().enumerate() {
        value = match value {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Object(map)) => map.get(*key),
            Some(_) => return Err(wrong(&path[..=depth], "a map")),
        };
    }
    Ok(value)
}

/// Returns a string; fails if the value has another type.
pub(super) fn text<'o>(object: &'o Object, path: &[&str]) -> Result<Option<&'o str>, HealthError> {
    match nested(object, path)? {
        None => Ok(None),
        Some(value) => value
            .as_str()
            .map(Some)
            .ok_or_else(|| wrong(path, "a string")),
    }
}

/// Returns an integer; fails if the value has another type.
pub(super) fn integer(object: &Object, path: &[&str]) -> Result<Option<i64>, HealthError> {
    match nested(object, path)? {
        None => Ok(None),
        Some(value) => value
            .as_i64()
            .map(Some)
            .ok_or_else(|| wrong(path, "an integer")),
    }
}

/// Returns a list, empty if absent; fails if the value has another type.
pub(super) fn list<'o>(object: &'o Object, path: &[&str]) -> Result<&'o [Value], HealthError> {
    match nested(object, path)? {
        None => Ok(&[]),
        Some(value) => value
            .as_array()
            .map(Vec::as_slice)
            .ok_or_else(|| wrong(path, "a list")),
    }
}

/// Returns an integer, or the default if it is absent or has another type.
pub(super) fn integer_or(object: &Object, path: &[&str], default: i64) -> i64 {
    nested(object, path)
        .ok()
        .flatten()
        .and_then(Value::as_i64)
        .unwrap_or(default)
}

/// Returns a string, or the default if it is absent or has another type.
pub(super) fn text_or<'o>(object: &'o Object, path: &[&str], default: &'o str) -> &'o str {
    nested(object, path)
        .ok()
        .flatten()
        .and_then(Value::as_str)
        .unwrap_or(default)
}

/// Returns the entries of `status.conditions`.
pub(super) fn conditions(object: &Object) -> Result<Vec<Condition>, HealthError> {
    const PATH: &[&str] = &["status", "conditions"];
    match nested(object, PATH)? {
        None | Some(Value::Null)
            if matches!(
                object.as_map().get("status"),
                None | Some(Value::Null | Value::Object(_))
            ) =>
        {
            Ok(Vec::new())
        }
        Some(Value::Array(entries)) => entries.iter().map(condition).collect(),
        _ => Err(wrong(PATH, "a list")),
    }
}

fn condition(entry: &Value) -> Result<Condition, HealthError> {
    let map = match entry {
        Value::Null => return Ok(Condition::default()),
        Value::Object(map) => map,
        _ => return Err(wrong(&["status", "conditions"], "a list of maps")),
    };
    Ok(Condition {
        kind: condition_text(map, "type")?,
        status: condition_text(map, "status")?,
        reason: condition_text(map, "reason")?,
        message: condition_text(map, "message")?,
    })
}

fn condition_text(map: &Map<String, Value>, key: &str) -> Result<String, HealthError> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(wrong(&["status", "conditions[]", key], "a string")),
    }
}
