//! Template values as Go's YAML writes them.

use crate::convert::to_json;
use crate::yaml_read::LONG_KEY;
use driftless_go::json;
use driftless_gotmpl::{FuncError, Value};
use serde_json::Value as Json;

/// Formats a value like Go's YAML, with a line break at its end.
pub(crate) fn to_yaml_text(value: &Value) -> Result<String, FuncError> {
    let json = to_json(value)?;
    if has_long_key(&json) {
        return Err("yaml: did not find expected ',' or '}'".into());
    }
    Ok(driftless_manifest::yaml::to_string(&json))
}

fn has_long_key(json: &Json) -> bool {
    match json {
        Json::Array(items) => items.iter().any(has_long_key),
        Json::Object(map) => map
            .iter()
            .any(|(key, value)| is_long(key) || has_long_key(value)),
        _ => false,
    }
}

fn is_long(key: &str) -> bool {
    // A byte becomes an escape of six bytes at most.
    key.len() * 6 + 2 > LONG_KEY
        && json::to_string(key).is_ok_and(|text| text.chars().count() > LONG_KEY)
}
