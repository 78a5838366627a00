//! Functions for the cells of many kinds.

use serde_json::Value;

/// The name, type and priority of a column, and the function of its cells.
pub(super) type ColumnSpec = (&'static str, &'static str, i64, fn(&Value) -> Value);

/// The priority of columns that only `-o wide` shows.
pub(super) const WIDE: i64 = 1;

/// Returns the string at a pointer, or an empty one.
pub(super) fn text(object: &Value, pointer: &str) -> Value {
    match object.pointer(pointer) {
        Some(Value::String(text)) => text.clone().into(),
        _ => "".into(),
    }
}

/// Returns the number of fields or items at a pointer.
pub(super) fn count(object: &Value, pointer: &str) -> i64 {
    match object.pointer(pointer) {
        Some(Value::Object(map)) => i64::try_from(map.len()).unwrap_or_default(),
        Some(Value::Array(list)) => i64::try_from(list.len()).unwrap_or_default(),
        _ => 0,
    }
}

/// Returns the number at a pointer, or 0.
pub(super) fn number(object: &Value, pointer: &str) -> i64 {
    object
        .pointer(pointer)
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

/// Returns the values of a key in the items at a pointer, joined by commas.
pub(super) fn names(object: &Value, pointer: &str, key: &str) -> Value {
    let list = object.pointer(pointer).and_then(Value::as_array);
    let names: Vec<&str> = list
        .into_iter()
        .flatten()
        .filter_map(|item| item[key].as_str())
        .collect();
    names.join(",").into()
}

/// Returns the names of the containers at a pointer.
pub(super) fn containers_at(object: &Value, pointer: &str) -> Value {
    names(object, pointer, "name")
}

/// Returns the images of the containers at a pointer.
pub(super) fn images_at(object: &Value, pointer: &str) -> Value {
    names(object, pointer, "image")
}

/// Formats labels as `a=b,c=d`; `<none>` without labels.
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
