//! What the cells of many kinds are made of.

use serde_json::Value;

/// Name, type, priority, and the cell.
pub(super) type Made = (&'static str, &'static str, i64, fn(&Value) -> Value);

/// Columns of `-o wide` alone.
pub(super) const WIDE: i64 = 1;

/// The text at a pointer; empty when there is none.
pub(super) fn text(object: &Value, pointer: &str) -> Value {
    match object.pointer(pointer) {
        Some(Value::String(text)) => text.clone().into(),
        _ => "".into(),
    }
}

/// How many fields or items are at a pointer.
pub(super) fn count(object: &Value, pointer: &str) -> i64 {
    match object.pointer(pointer) {
        Some(Value::Object(map)) => i64::try_from(map.len()).unwrap_or_default(),
        Some(Value::Array(list)) => i64::try_from(list.len()).unwrap_or_default(),
        _ => 0,
    }
}

/// The number at a pointer; 0 when there is none.
pub(super) fn number(object: &Value, pointer: &str) -> i64 {
    object
        .pointer(pointer)
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

/// The values of a key in the items at a pointer, joined by commas.
pub(super) fn names(object: &Value, pointer: &str, key: &str) -> Value {
    let list = object.pointer(pointer).and_then(Value::as_array);
    let names: Vec<&str> = list
        .into_iter()
        .flatten()
        .filter_map(|item| item[key].as_str())
        .collect();
    names.join(",").into()
}

/// The names of the containers at a pointer.
pub(super) fn containers_at(object: &Value, pointer: &str) -> Value {
    names(object, pointer, "name")
}

/// The images of the containers at a pointer.
pub(super) fn images_at(object: &Value, pointer: &str) -> Value {
    names(object, pointer, "image")
}

/// Labels as `a=b,c=d`; `<none>` without any.
pub(super) fn pairs(labels: Option<&Value>) -> String {
    let pairs: Vec<String> = labels
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if pairs.is_empty() {
        "<none>".to_owned()
    } else {
        pairs.join(",")
    }
}
