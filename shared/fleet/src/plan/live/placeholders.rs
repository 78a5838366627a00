//! Placeholders of values that the repository does not have: what they stand for is not known, so
//! an object with one cannot be compared with the live one.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use driftless_manifest::Object;
use serde_json::Value;

/// The word that every placeholder contains.
const MARK: &str = "placeholder";

/// Gives the entries of a Secret that are placeholders their live values.
pub fn keep_live_entries(desired: &mut Object, live: &Object) {
    if desired.kind() != "Secret" {
        return;
    }
    let Some(Value::Object(data)) = desired.as_map_mut().get_mut("data") else {
        return;
    };
    for (key, value) in data.iter_mut().filter(|(_, value)| is_encoded(value)) {
        let there = live.pointer("/data").and_then(|data| data.get(key));
        if let Some(there) = there {
            *value = there.clone();
        }
    }
}

/// Returns whether the object is a Secret with entries that are placeholders.
pub fn are_in_secret(object: &Object) -> bool {
    let data = object.pointer("/data").and_then(Value::as_object);
    object.kind() == "Secret" && data.is_some_and(|data| data.values().any(is_encoded))
}

/// Returns whether an object other than a Secret has a placeholder.
pub fn has_any(object: &Object) -> bool {
    object.kind() != "Secret" && object.as_map().values().any(is_in)
}

fn is_in(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(MARK),
        Value::Array(items) => items.iter().any(is_in),
        Value::Object(map) => map.values().any(is_in),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn is_encoded(value: &Value) -> bool {
    let decoded = value.as_str().and_then(|text| STANDARD.decode(text).ok());
    decoded.is_some_and(|bytes| String::from_utf8_lossy(&bytes).contains(MARK))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(kind: &str, data: &Value) -> Object {
        let object =
            json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}, "data": data});
        Object::new(object).unwrap()
    }

    #[test]
    fn encrypted_entries_count_as_the_live_ones() {
        let mut desired = object("Secret", &json!({"a": "cGxhY2Vob2xkZXI=", "b": "Yg=="}));
        let live = object("Secret", &json!({"a": "bGl2ZQ==", "b": "bGl2ZQ=="}));
        keep_live_entries(&mut desired, &live);
        assert_eq!(
            desired.pointer("/data"),
            Some(&json!({"a": "bGl2ZQ==", "b": "Yg=="}))
        );
    }

    #[test]
    fn placeholders_are_found_inside_text() {
        assert!(has_any(&object(
            "ConfigMap",
            &json!({"url": "db://placeholder-host/x"})
        )));
        assert!(!has_any(&object(
            "ConfigMap",
            &json!({"url": "db://host/x"})
        )));
    }
}
