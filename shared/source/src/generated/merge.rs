//! The merge of YAML files, as Helm merges values files: maps are merged, everything else is
//! replaced.

use driftless_flux::Invalid;
use driftless_manifest::yaml::{self, Dialect, Limits, Node, NodeKind};
use serde_json::{Map, Number, Value};

/// The line that separates documents.
const SEPARATOR: &str = "---";

/// Returns the YAML of a file with another one merged over it.
///
/// # Errors
/// A file is not YAML, or a document is not a map; the message names the file.
pub fn merge(base: (&str, &[u8]), over: (&str, &[u8])) -> Result<String, Invalid> {
    let over = load(over.0, over.1)?;
    let merged = merge_maps(load(base.0, base.1)?, over);
    Ok(yaml::to_string(&Value::Object(merged)))
}

/// Reads the documents of a file into one map.
///
/// # Errors
/// Those of `merge`.
pub fn load(file: &str, content: &[u8]) -> Result<Map<String, Value>, Invalid> {
    let mut merged = Map::new();
    for document in documents(file, content)? {
        let nodes = yaml::parse(&document, file, &Limits::default());
        let nodes = nodes
            .map_err(|error| Invalid::from(format!("cannot unmarshal YAML document: {error}")))?;
        let Some(mut node) = nodes.into_iter().next() else {
            continue;
        };
        keep_last(&mut node);
        let value = yaml::node_to_value(&node, file, Dialect::V2);
        let value = value
            .map_err(|error| Invalid::from(format!("cannot unmarshal YAML document: {error}")))?;
        match value {
            Value::Null => {}
            Value::Object(map) => merged = merge_maps(merged, map),
            other => {
                let kind = kind(&other);
                return Err(format!(
                    "cannot unmarshal YAML document: {file}: expected a map, found {kind}"
                )
                .into());
            }
        }
    }
    merged.values_mut().for_each(as_floats);
    Ok(merged)
}

/// Splits a file at the lines that begin with `---`.
fn documents(file: &str, content: &[u8]) -> Result<Vec<Vec<u8>>, Invalid> {
    let (mut documents, mut open) = (Vec::new(), Vec::new());
    for line in content.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some(rest) = line.strip_prefix(SEPARATOR.as_bytes()) else {
            open.extend_from_slice(line);
            open.push(b'\n');
            continue;
        };
        let rest = rest.trim_ascii();
        if !rest.is_empty() && !rest.starts_with(b"#") {
            return Err(format!(
                "error reading YAML document: {file}: invalid Yaml document separator: expected only a comment after '---'"
            ).into());
        }
        documents.push(std::mem::take(&mut open));
    }
    documents.push(open);
    Ok(documents)
}

/// Keeps the last of the pairs of a map with the same key, as Go's library does.
fn keep_last(node: &mut Node) {
    match &mut node.kind {
        NodeKind::Map(pairs) => {
            let keys: Vec<Option<String>> = pairs
                .iter()
                .map(|(key, _)| key.text().filter(|text| *text != "<<").map(str::to_owned))
                .collect();
            let mut seen = std::collections::BTreeSet::new();
            let mut kept: Vec<bool> = keys
                .into_iter()
                .rev()
                .map(|key| key.is_none_or(|key| seen.insert(key)))
                .collect();
            pairs.retain(|_| kept.pop().unwrap_or(true));
            pairs.iter_mut().for_each(|(_, value)| keep_last(value));
        }
        NodeKind::Seq(items) => items.iter_mut().for_each(keep_last),
        _ => {}
    }
}

fn merge_maps(mut base: Map<String, Value>, over: Map<String, Value>) -> Map<String, Value> {
    for (key, value) in over {
        let merged = match (base.remove(&key), value) {
            (Some(Value::Object(old)), Value::Object(new)) => Value::Object(merge_maps(old, new)),
            (_, value) => value,
        };
        base.insert(key, merged);
    }
    base
}

/// Rounds numbers to floats, as Go's library reads them into a map.
fn as_floats(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let Some(float) = number.as_f64() else { return };
            *number = integer(float)
                .map(Number::from)
                .or_else(|| Number::from_f64(float))
                .unwrap_or_else(|| number.clone());
        }
        Value::Array(items) => items.iter_mut().for_each(as_floats),
        Value::Object(map) => map.values_mut().for_each(as_floats),
        _ => {}
    }
}

/// Returns a float without a fraction as an integer, if its digits fit.
fn integer(float: f64) -> Option<i64> {
    // The digits of a float above 2^53 are those that Go prints: `123456789012345680`.
    let is_whole = float.fract() == 0.0 && float.abs() < 1e18;
    is_whole.then(|| format!("{float}").parse().ok()).flatten()
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "a list",
        Value::String(_) => "a string",
        Value::Number(_) => "a number",
        Value::Bool(_) => "a boolean",
        Value::Null | Value::Object(_) => "null",
    }
}
