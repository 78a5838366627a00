//! YAML, JSON and TOML, written and read.

use super::arg::{MAP, PIECE, any, bytes, out, text};
use super::json_write::Form;
use super::write_cost::pay;
use super::{A, Entry, Out, S, json_read, json_write, pretty, toml_write};
use crate::yaml_write::to_yaml_text;
use driftless_go::Error as GoError;
use driftless_gotmpl::{Exec, FuncError, Map, TypeInfo, Value};
use serde_json::Value as Json;

pub(super) const TABLE: &[Entry] = &[
    ("toYaml", A, |e, a| quiet(yaml(e, any(a, 0)))),
    ("toYamlPretty", A, |e, a| {
        quiet(pretty::write(e, any(a, 0)).and_then(|t| out(e, t)))
    }),
    ("fromYaml", S, |e, a| {
        let read = read_yaml(e, bytes(a, 0))?;
        // sigs.k8s.io/yaml leaves the existing map if the input is null.
        Ok(match read {
            Ok(Value::Nil) => Value::map::<&str>([]),
            read => map_or_error(read),
        })
    }),
    ("fromYamlArray", S, |e, a| {
        let read = read_yaml(e, bytes(a, 0))?;
        Ok(match read {
            Ok(Value::Nil) => Value::list(Vec::new()),
            read => list_or_error(read),
        })
    }),
    ("toJson", A, |e, a| {
        quiet(json(e, any(a, 0), Form::default()))
    }),
    ("mustToJson", A, |e, a| json(e, any(a, 0), Form::default())),
    ("toPrettyJson", A, |e, a| quiet(json(e, any(a, 0), PRETTY))),
    ("mustToPrettyJson", A, |e, a| json(e, any(a, 0), PRETTY)),
    ("toRawJson", A, |e, a| json(e, any(a, 0), RAW)),
    ("mustToRawJson", A, |e, a| json(e, any(a, 0), RAW)),
    ("fromJson", S, |e, a| {
        let read = json_read::read(e, bytes(a, 0))?;
        Ok(map_or_error(read.and_then(|v| as_map(v, ""))))
    }),
    ("mustFromJson", S, |e, a| {
        json_read::read(e, bytes(a, 0))?.map_err(FuncError::new)
    }),
    ("fromJsonArray", S, |e, a| {
        let read = json_read::read(e, bytes(a, 0))?;
        Ok(list_or_error(read.and_then(|v| as_list(v, ""))))
    }),
    ("toToml", A, |e, a| match toml_write::write(e, any(a, 0)) {
        Ok(text) => Ok(Value::str(text)),
        Err(toml_write::Failure::Encode(message)) => out(e, message),
        Err(toml_write::Failure::Function(error)) => Err(error),
    }),
    ("fromToml", S, |e, a| {
        e.charge_bytes(bytes(a, 0).len().saturating_mul(16))?;
        Ok(match text(a, 0).parse::<toml::Table>() {
            Ok(table) => super::toml_read::table(&table),
            Err(error) => error_map(&format!("toml: {}", error.message())),
        })
    }),
];

/// The functions that only Helm 4 has.
pub(super) const HELM4: &[Entry] = &[
    ("mustToYaml", A, |e, a| yaml(e, any(a, 0))),
    ("mustToToml", A, |e, a| {
        match toml_write::write(e, any(a, 0)) {
            Ok(text) => Ok(Value::str(text)),
            Err(toml_write::Failure::Encode(message)) => Err(message.into()),
            Err(toml_write::Failure::Function(error)) => Err(error),
        }
    }),
];

const PRETTY: Form = Form {
    pretty: true,
    raw: false,
};
const RAW: Form = Form {
    pretty: false,
    raw: true,
};

fn json(exec: &mut Exec<'_>, value: &Value, form: Form) -> Out {
    Ok(Value::str(json_write::write(exec, value, form)?))
}

/// Converts an error to an empty string, as Helm's functions drop it; a budget error stays.
fn quiet(result: Out) -> Out {
    match result {
        Err(error) if !error.budget => Ok(Value::str("")),
        other => other,
    }
}

fn yaml(exec: &mut Exec<'_>, value: &Value) -> Out {
    pay(exec, value, 0)?;
    let text = to_yaml_text(value)?;
    out(exec, text.strip_suffix('\n').unwrap_or(&text))
}

fn read_yaml(exec: &mut Exec<'_>, text: &[u8]) -> Result<Result<Value, GoError>, FuncError> {
    // Nodes of the scanner, JSON and the values themselves are in memory at the same time.
    exec.ensure_capacity(text.len().saturating_mul(8))?;
    exec.charge_bytes(text.len().saturating_mul(2))?;
    exec.charge(text.len() as u64)?;
    // Copies for aliases can be many times as large as the source; the scanner's nodes are freed
    // after reading.
    let before = exec.fuel().nodes_spent();
    let read = crate::yaml_read::read(text, exec.fuel())?;
    let nodes = exec.fuel().nodes_spent().saturating_sub(before);
    exec.fuel().give_back(nodes, 0);
    if let Ok(json) = &read {
        exec.charge_bytes(table_bytes(json))?;
    }
    Ok(read.map(|json| crate::convert::to_value(&json)))
}

/// Returns the bytes of the maps and lists that a value becomes.
fn table_bytes(json: &Json) -> usize {
    match json {
        Json::Array(items) => items.iter().map(|item| PIECE + table_bytes(item)).sum(),
        Json::Object(map) => {
            MAP + map
                .values()
                .map(|item| PIECE + table_bytes(item))
                .sum::<usize>()
        }
        _ => 0,
    }
}

const IN_YAML: &str = "error unmarshaling JSON: while decoding JSON: ";

/// Returns a map, or Go's error for anything else; null is the nil map.
fn as_map(value: Value, context: &str) -> Result<Value, GoError> {
    match value {
        Value::Map(_) => Ok(value),
        Value::Nil | Value::NoValue => Ok(Value::Map(Map::nil(&TypeInfo::MAP))),
        other => Err(mismatch(&other, context, "map[string]interface {}").into()),
    }
}

fn as_list(value: Value, context: &str) -> Result<Value, GoError> {
    match value {
        Value::List(_) => Ok(value),
        Value::Nil | Value::NoValue => Ok(super::arg::no_list()),
        other => Err(mismatch(&other, context, "[]interface {}").into()),
    }
}

fn mismatch(value: &Value, context: &str, wanted: &str) -> String {
    let have = match value {
        Value::Map(_) => "object",
        Value::List(_) => "array",
        Value::Str(_) => "string",
        Value::Bool(_) => "bool",
        _ => "number",
    };
    format!("{context}json: cannot unmarshal {have} into Go value of type {wanted}")
}

fn error_map(message: &str) -> Value {
    Value::map([("Error", Value::str(message))])
}

fn map_or_error(read: Result<Value, GoError>) -> Value {
    match read.and_then(|v| as_map(v, IN_YAML)) {
        Ok(value) => value,
        Err(error) => error_map(error.as_str()),
    }
}

fn list_or_error(read: Result<Value, GoError>) -> Value {
    match read.and_then(|v| as_list(v, IN_YAML)) {
        Ok(value) => value,
        Err(error) => Value::list(vec![Value::str(error.as_str())]),
    }
}
