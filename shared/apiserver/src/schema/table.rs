//! The table of built-in types, as tests/oracle/apiserver-schema writes it.

use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::{Field, ListType, Scalar, Schema, Struct, Type};

/// Returns the built-in types of Kubernetes 1.36, read once and shared.
pub fn builtin() -> Arc<Schema> {
    static SHARED: OnceLock<Arc<Schema>> = OnceLock::new();
    Arc::clone(SHARED.get_or_init(|| Arc::new(read(include_str!("builtin.json")))))
}

fn read(text: &str) -> Schema {
    let table: Value = serde_json::from_str(text).unwrap_or_default();
    let mut schema = Schema {
        types: vec![Type::Untyped, Type::Deduced],
        ..Schema::default()
    };
    for entry in table["types"].as_array().into_iter().flatten() {
        schema.types.push(read_type(entry));
    }
    empty_keys(&mut schema);
    for (kind, id) in table["kinds"].as_object().into_iter().flatten() {
        schema.kinds.insert(kind.clone(), reference(id));
    }
    schema
}

/// Ids in the table do not count [`super::UNTYPED`] and [`super::UNTYPED_GRANULAR`].
fn reference(id: &Value) -> usize {
    id.as_u64()
        .and_then(|id| usize::try_from(id).ok())
        .map_or(super::UNTYPED_GRANULAR, |id| id + 2)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Required strings have the empty string as their default in OpenAPI; the table does not list it.
fn empty_keys(schema: &mut Schema) {
    let texts: Vec<bool> = schema
        .types
        .iter()
        .map(|t| matches!(t, Type::Scalar(Scalar::String)))
        .collect();
    for found in &mut schema.types {
        let Type::Struct(found) = found else { continue };
        for field in found.fields.values_mut() {
            if field.required && !field.pointer && field.key_default.is_none() && texts[field.id] {
                field.key_default = Some("".into());
            }
        }
    }
}

fn read_type(entry: &Value) -> Type {
    let atomic = entry["a"].as_bool().unwrap_or_default();
    let element = || reference(&entry["e"]);
    match entry["k"].as_str().unwrap_or_default() {
        "string" => Type::Scalar(Scalar::String),
        "bool" => Type::Scalar(Scalar::Bool),
        "int32" => Type::Scalar(Scalar::Int32),
        "int" => Type::Scalar(Scalar::Int),
        "float" => Type::Scalar(Scalar::Float),
        "bytes" => Type::Scalar(Scalar::Bytes),
        "intstr" => Type::Scalar(Scalar::IntOrString),
        "quantity" => Type::Scalar(Scalar::Quantity),
        "time" => Type::Scalar(Scalar::Time),
        "microtime" => Type::Scalar(Scalar::MicroTime),
        "list" => Type::List {
            item: element(),
            list_type: match entry["l"].as_str() {
                Some("set") => ListType::Set,
                Some("map") => ListType::Keys(
                    entry["y"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .map(text)
                        .collect(),
                ),
                _ => ListType::Atomic,
            },
        },
        "map" => Type::Map {
            value: element(),
            atomic,
        },
        "struct" => Type::Struct(Struct {
            name: text(&entry["n"]),
            fields: entry["f"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|field| (text(&field["n"]), read_field(field)))
                .collect(),
            atomic,
            others: None,
            inline: entry["i"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|pair| Some((pair[0].as_u64()?, reference(&pair[1]))))
                .collect(),
        }),
        "orbool" => Type::OrBool(element()),
        "orarray" => Type::OrArray(element()),
        "raw" => Type::Untyped,
        _ => Type::Deduced,
    }
}

fn read_field(field: &Value) -> Field {
    let flags = field["g"].as_str().unwrap_or_default();
    let given = |key: &str| field.get(key).filter(|value| !value.is_null()).cloned();
    Field {
        id: reference(&field["t"]),
        number: field["b"].as_u64().unwrap_or_default(),
        omit_empty: flags.contains('e'),
        omit_zero: flags.contains('z'),
        pointer: flags.contains('p'),
        required: flags.contains('r'),
        default: given("d"),
        key_default: given("x"),
        strategy: text(&field["s"]),
        merge_key: text(&field["m"]),
    }
}
