//! Conversions between JSON and template values.

use driftless_go::Error as GoError;
use driftless_go::float;
use driftless_gotmpl::fmt::display;
use driftless_gotmpl::{Elem, IntType, Map as GoMap, Object, Str, Value};
use serde_json::{Map, Number, Value as Json};
use std::collections::BTreeMap;

/// Converts JSON as Go's `encoding/json` decodes it: every number keeps its type.
pub(crate) fn to_value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Nil,
        Json::Bool(b) => Value::Bool(*b),
        Json::Number(n) => match n.as_i64() {
            Some(i) => Value::int64(i),
            None => Value::Float(n.as_f64().unwrap_or(f64::MAX)),
        },
        Json::String(s) => Value::str(s),
        Json::Array(items) => Value::list(items.iter().map(to_value).collect()),
        Json::Object(map) => Value::Map(to_map(map)),
    }
}

/// Converts a table to a Go map.
pub(crate) fn to_map(map: &Map<String, Json>) -> GoMap {
    let entries: BTreeMap<Str, Value> = map
        .iter()
        .map(|(k, v)| (Str::from(k), to_value(v)))
        .collect();
    GoMap::typed(&driftless_gotmpl::TypeInfo::MAP, entries)
}

/// Converts every number to a float64, as decoding into `interface {}` does.
pub(crate) fn floats(mut json: Json) -> Json {
    make_floats(&mut json);
    json
}

fn make_floats(json: &mut Json) {
    match json {
        Json::Number(n) if !n.is_f64() => {
            if let Some(f) = n.as_f64().and_then(Number::from_f64) {
                *n = f;
            }
        }
        Json::Array(items) => items.iter_mut().for_each(make_floats),
        Json::Object(map) => map.values_mut().for_each(make_floats),
        _ => {}
    }
}

/// Returns a scalar as the string that `sigs.k8s.io/yaml` converts it to where a string is
/// expected; null is the empty string.
pub(crate) fn text_of(value: &Json) -> Option<String> {
    Some(match value {
        Json::Null => String::new(),
        Json::String(s) => s.clone(),
        Json::Bool(b) => b.to_string(),
        Json::Number(n) if n.is_i64() || n.is_u64() => n.to_string(),
        Json::Number(n) => {
            // The number is converted to 32 bits there.
            let short = format!("{}", n.as_f64().unwrap_or_default() as f32);
            float::format(short.parse().unwrap_or_default(), 'g', None)
        }
        Json::Array(_) | Json::Object(_) => return None,
    })
}

/// The maximal nesting that is written; Go would not terminate for a value that contains itself.
const MAX_DEPTH: usize = 500;

/// Converts a template value to JSON, numbers as YAML would read them from JSON's text.
pub(crate) fn to_json(value: &Value) -> Result<Json, GoError> {
    json_at(value, 0)
}

fn json_at(value: &Value, depth: usize) -> Result<Json, GoError> {
    if depth > MAX_DEPTH {
        return Err("the value is nested too deeply, or holds itself".into());
    }
    Ok(match value {
        Value::NoValue | Value::Nil => Json::Null,
        Value::Bool(b) => Json::Bool(*b),
        Value::Int(i, t) if *t == IntType::Uint64 => Json::Number((*i as u64).into()),
        Value::Int(i, _) => Json::Number((*i).into()),
        Value::Float(f) => Json::Number(number(*f)?),
        Value::Str(s) => Json::String(s.lossy().into_owned()),
        Value::Bytes(b) => {
            use base64::Engine as _;
            Json::String(base64::engine::general_purpose::STANDARD.encode(b))
        }
        Value::List(l) if l.is_nil() => Json::Null,
        Value::List(l) => Json::Array(
            l.items()
                .iter()
                .map(|v| json_at(v, depth + 1))
                .collect::<Result<_, _>>()?,
        ),
        Value::Map(m) if m.is_nil() => Json::Null,
        Value::Map(m) => map_json(m, depth)?,
        Value::Object(o) => object_json(&**o, depth)?,
    })
}

fn map_json(map: &GoMap, depth: usize) -> Result<Json, GoError> {
    let mut out = Map::new();
    for (key, value) in map.entries().iter() {
        let value = match (map.info().elem, value) {
            (Elem::Bytes, Value::Str(s)) => json_at(&Value::Bytes(s.as_bytes().into()), depth)?,
            _ => json_at(value, depth + 1)?,
        };
        out.insert(key.lossy().into_owned(), value);
    }
    Ok(Json::Object(out))
}

fn object_json(object: &dyn Object, depth: usize) -> Result<Json, GoError> {
    if let Some(value) = object.json() {
        return json_at(&value, depth + 1);
    }
    let mut out = Map::new();
    for (name, value) in object.fields() {
        out.insert(name.to_owned(), json_at(&value, depth + 1)?);
    }
    Ok(Json::Object(out))
}

/// Converts a float64 to the number that a YAML reader reads from its JSON text.
fn number(f: f64) -> Result<Number, GoError> {
    if !f.is_finite() {
        return Err(format!("json: unsupported value: {}", display(&Value::Float(f))).into());
    }
    let text = float::json(f);
    if !text.contains(['.', 'e']) {
        if let Ok(i) = text.parse::<i64>() {
            return Ok(i.into());
        }
        if let Ok(u) = text.parse::<u64>() {
            return Ok(u.into());
        }
    }
    Number::from_f64(f).ok_or_else(|| "json: unsupported value".into())
}
