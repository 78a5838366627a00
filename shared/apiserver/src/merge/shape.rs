//! The shape of a value of a type for server-side apply: a scalar, a list or a map.

use driftless_go::Error as GoError;
use serde_json::{Map, Value};

use super::set::{Element, field};
use crate::schema::{Id, ListType, Scalar, Schema, Struct, Type, UNTYPED, UNTYPED_GRANULAR};

/// The scalars that a type accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Numeric,
    String,
    Bool,
    Any,
}

/// The shape of a value: a scalar, a list or a map.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape<'a> {
    Scalar(Kind),
    List {
        item: Id,
        list_type: &'a ListType,
    },
    Map {
        declared: Option<&'a Struct>,
        others: Option<Id>,
        atomic: bool,
    },
}

/// Returns the shape of a value of a type. An absent or null value of any type is a map.
pub(super) fn shape<'a>(schema: &'a Schema, id: Id, value: Option<&Value>) -> Shape<'a> {
    match schema.get(id) {
        Type::Scalar(scalar) => Shape::Scalar(kind(*scalar)),
        Type::List { item, list_type } => Shape::List {
            item: *item,
            list_type,
        },
        Type::Map { value, atomic } => Shape::Map {
            declared: None,
            others: Some(*value),
            atomic: *atomic,
        },
        Type::Struct(found) => Shape::Map {
            declared: Some(found),
            others: found.others,
            atomic: found.atomic,
        },
        Type::Untyped => anything(value, UNTYPED, true),
        Type::Deduced | Type::OrBool(_) | Type::OrArray(_) => {
            anything(value, UNTYPED_GRANULAR, false)
        }
    }
}

fn anything<'a>(value: Option<&Value>, below: Id, atomic: bool) -> Shape<'a> {
    match value {
        Some(Value::Array(_)) => Shape::List {
            item: UNTYPED,
            list_type: &ListType::Atomic,
        },
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => Shape::Scalar(Kind::Any),
        _ => Shape::Map {
            declared: None,
            others: Some(below),
            atomic,
        },
    }
}

fn kind(scalar: Scalar) -> Kind {
    match scalar {
        Scalar::String | Scalar::Bytes => Kind::String,
        Scalar::Bool => Kind::Bool,
        Scalar::Int32 | Scalar::Int | Scalar::Float => Kind::Numeric,
        Scalar::IntOrString | Scalar::Quantity | Scalar::Time | Scalar::MicroTime => Kind::Any,
    }
}

/// Checks a scalar. Returns the API server's message if it does not match the type.
pub(super) fn scalar_problem(kind: Kind, value: &Value) -> Option<String> {
    let fits = matches!(
        (kind, value),
        (_, Value::Null)
            | (Kind::Numeric | Kind::Any, Value::Number(_))
            | (Kind::String | Kind::Any, Value::String(_))
            | (Kind::Bool | Kind::Any, Value::Bool(_))
    );
    (!fits).then(|| match kind {
        Kind::Numeric => format!("expected numeric (int or float), got {}", go_type(value)),
        Kind::String => format!("expected string, got {}", go_syntax(value)),
        Kind::Bool => format!("expected boolean, got {}", go_plain(value)),
        Kind::Any => format!("expected any scalar, got {}", go_plain(value)),
    })
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// Formats a decoded value, wrapped as structured-merge-diff holds it, as Go's `%#v` does.
fn go_syntax(value: &Value) -> String {
    format!("&value.valueUnstructured{{Value:{}}}", go_literal(value))
}

fn go_literal(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let items: Vec<String> = map
                .iter()
                .map(|(k, v)| format!("{k:?}:{}", go_literal(v)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Array(list) => {
            let items: Vec<String> = list.iter().map(go_literal).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Null => "interface {}(nil)".to_owned(),
        other => other.to_string(),
    }
}

/// Formats a value of structured-merge-diff as Go's `%v` does.
pub(super) fn go_plain(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let items: Vec<String> = map
                .iter()
                .map(|(k, v)| format!("{k}:{}", go_plain_inner(v)))
                .collect();
            format!("&{{map[{}]}}", items.join(" "))
        }
        Value::Array(_) => format!("&{{{}}}", go_plain_inner(value)),
        other => format!("&{{{}}}", go_plain_inner(other)),
    }
}

fn go_plain_inner(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(list) => {
            let items: Vec<String> = list.iter().map(go_plain_inner).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let items: Vec<String> = map
                .iter()
                .map(|(k, v)| format!("{k}:{}", go_plain_inner(v)))
                .collect();
            format!("map[{}]", items.join(" "))
        }
        other => other.to_string(),
    }
}

/// Returns the step to an item of a set or of a keyed list.
pub(super) fn item_element(
    schema: &Schema,
    item: Id,
    list_type: &ListType,
    value: &Value,
) -> Result<Element, GoError> {
    match list_type {
        ListType::Keys(keys) => keyed(schema, item, keys, value),
        ListType::Set => match value {
            Value::Object(_) => {
                Err("associative list without keys has an element that's a map type".into())
            }
            Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
            Value::Null => {
                Err("associative list without keys has an element that's an explicit null".into())
            }
            scalar => Ok(format!("v:{scalar}")),
        },
        ListType::Atomic => Err("invalid indexing of non-associative list".into()),
    }
}

fn keyed(schema: &Schema, item: Id, keys: &[String], value: &Value) -> Result<Element, GoError> {
    let map = match value {
        Value::Object(map) => map,
        Value::Null => {
            return Err("associative list with keys may not have a null element".into());
        }
        _ => return Err("associative list with keys may not have non-map elements".into()),
    };
    let mut found = Map::new();
    for key in keys {
        if let Some(value) = map.get(key) {
            found.insert(key.clone(), value.clone());
        } else if let Some(default) = schema
            .structure(item)
            .and_then(|item| item.fields.get(key))
            .and_then(|field| field.key_default.clone())
        {
            found.insert(key.clone(), default);
        }
    }
    if found.is_empty() {
        let names: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
            names.join(" ")
        ).into());
    }
    Ok(format!("k:{}", Value::Object(found)))
}

/// Returns the type below a key, its step, and whether it is declared; `None` if the key is not
/// allowed.
pub(super) fn below(
    declared: Option<&Struct>,
    others: Option<Id>,
    key: &str,
) -> Option<(Id, Element, bool)> {
    match declared.and_then(|declared| declared.fields.get(key)) {
        Some(found) => Some((found.id, field(key), true)),
        None => others.map(|id| (id, field(key), false)),
    }
}

/// Returns whether a value is absent, null, or without items or fields.
pub(super) fn is_absent_or_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Array(list)) => list.is_empty(),
        Some(Value::Object(map)) => map.is_empty(),
        Some(_) => true,
    }
}
