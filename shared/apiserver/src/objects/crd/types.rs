//! A structural schema as types for server-side apply; pruning; defaulting.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::schema::{Field, Id, ListType, Scalar, Schema, Struct, Type, UNTYPED_GRANULAR, builtin};

/// Returns the types of a version, and the id of the root.
pub(super) fn convert(schema: &Value) -> (Schema, Id) {
    let mut out = Schema {
        types: vec![Type::Untyped, Type::Deduced],
        ..Schema::default()
    };
    let mut builder = Builder {
        out: &mut out,
        known: BTreeMap::new(),
    };
    let metadata = builder.object_meta();
    let root = builder.build(schema, false);
    let mut structure = match out.types.get(root) {
        Some(Type::Struct(found)) => found.clone(),
        _ => Struct {
            others: Some(UNTYPED_GRANULAR),
            ..Struct::default()
        },
    };
    out.types.push(Type::Scalar(Scalar::String));
    let text = out.types.len() - 1;
    for (name, id) in [("apiVersion", text), ("kind", text), ("metadata", metadata)] {
        structure.fields.insert(name.to_owned(), plain(id));
    }
    out.types.push(Type::Struct(structure));
    let id = out.types.len() - 1;
    (out, id)
}

fn plain(id: Id) -> Field {
    Field {
        id,
        number: 0,
        omit_empty: true,
        omit_zero: false,
        pointer: false,
        required: false,
        default: None,
        key_default: None,
        strategy: String::new(),
        merge_key: String::new(),
    }
}

struct Builder<'a> {
    out: &'a mut Schema,
    known: BTreeMap<Id, Id>,
}

impl Builder<'_> {
    fn push(&mut self, made: Type) -> Id {
        self.out.types.push(made);
        self.out.types.len() - 1
    }

    /// Copies ObjectMeta out of the built-in types.
    fn object_meta(&mut self) -> Id {
        let from = builtin();
        let id = object_meta(&from).unwrap_or(UNTYPED_GRANULAR);
        self.copy(&from, id)
    }

    fn copy(&mut self, from: &Schema, id: Id) -> Id {
        if id <= UNTYPED_GRANULAR {
            return id;
        }
        if let Some(known) = self.known.get(&id) {
            return *known;
        }
        let own = self.push(Type::Deduced);
        self.known.insert(id, own);
        let copied = match from.get(id).clone() {
            Type::List { item, list_type } => Type::List {
                item: self.copy(from, item),
                list_type,
            },
            Type::Map { value, atomic } => Type::Map {
                value: self.copy(from, value),
                atomic,
            },
            Type::Struct(mut found) => {
                for field in found.fields.values_mut() {
                    field.id = self.copy(from, field.id);
                }
                Type::Struct(found)
            }
            other => other,
        };
        self.out.types[own] = copied;
        own
    }

    fn build(&mut self, schema: &Value, open: bool) -> Id {
        let open = open || schema["x-kubernetes-preserve-unknown-fields"] == true;
        if schema["x-kubernetes-int-or-string"] == true {
            return self.push(Type::Scalar(Scalar::IntOrString));
        }
        let made = match schema["type"].as_str() {
            Some("object") => self.object(schema, open),
            Some("array") => self.array(schema, open),
            Some("string") => match schema["format"].as_str() {
                None | Some("" | "byte") => Type::Scalar(Scalar::String),
                Some(_) => Type::Scalar(Scalar::IntOrString),
            },
            Some("boolean") => Type::Scalar(Scalar::Bool),
            Some("integer") => Type::Scalar(Scalar::Int),
            Some("number") => Type::Scalar(Scalar::Float),
            _ => return UNTYPED_GRANULAR,
        };
        self.push(made)
    }

    fn object(&mut self, schema: &Value, open: bool) -> Type {
        let atomic = schema["x-kubernetes-map-type"] == "atomic";
        let properties = schema["properties"].as_object();
        let others = match schema.get("additionalProperties") {
            Some(Value::Object(_)) => Some(self.build(&schema["additionalProperties"], open)),
            Some(Value::Bool(true)) => Some(UNTYPED_GRANULAR),
            Some(Value::Bool(false)) => None,
            _ if open || properties.is_none_or(Map::is_empty) => Some(UNTYPED_GRANULAR),
            _ => None,
        };
        let mut fields = BTreeMap::new();
        for (name, property) in properties.into_iter().flatten() {
            let mut field = plain(self.build(property, open));
            field.key_default = property.get("default").cloned();
            fields.insert(name.clone(), field);
        }
        if schema["x-kubernetes-embedded-resource"] == true {
            for name in ["apiVersion", "kind"] {
                let text = self.push(Type::Scalar(Scalar::String));
                fields.entry(name.to_owned()).or_insert_with(|| plain(text));
            }
            let metadata = self.object_meta();
            fields.insert("metadata".to_owned(), plain(metadata));
        }
        Type::Struct(Struct {
            name: String::new(),
            fields,
            atomic,
            others,
            inline: Vec::new(),
        })
    }

    fn array(&mut self, schema: &Value, open: bool) -> Type {
        let item = self.build(&schema["items"], open);
        let list_type = match schema["x-kubernetes-list-type"].as_str() {
            Some("set") => ListType::Set,
            Some("map") => {
                ListType::Keys(crate::values::texts(&schema["x-kubernetes-list-map-keys"]))
            }
            _ => ListType::Atomic,
        };
        Type::List { item, list_type }
    }
}

/// Removes fields that the schema does not have, except `apiVersion`, `kind` and `metadata`.
pub(super) fn prune_root(schema: &Value, map: &mut Map<String, Value>, unknown: &mut Vec<String>) {
    let mut kept = Map::new();
    for key in ["apiVersion", "kind", "metadata"] {
        if let Some(value) = map.remove(key) {
            kept.insert(key.to_owned(), value);
        }
    }
    let mut rest = Value::Object(std::mem::take(map));
    prune(schema, &mut rest, &Path::Root, unknown);
    if let Value::Object(rest) = rest {
        *map = rest;
    }
    map.append(&mut kept);
}

/// The path of a field, formatted only when the schema does not have the field.
enum Path<'a> {
    Root,
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl std::fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Key(Self::Root, key) => f.write_str(key),
            Self::Key(parent, key) => write!(f, "{parent}.{key}"),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

fn prune(schema: &Value, value: &mut Value, path: &Path<'_>, unknown: &mut Vec<String>) {
    let open = schema["x-kubernetes-preserve-unknown-fields"] == true;
    match value {
        Value::Object(map) => {
            let properties = schema["properties"].as_object();
            let others = schema
                .get("additionalProperties")
                .filter(|o| o.is_object() || **o == true);
            let embedded = schema["x-kubernetes-embedded-resource"] == true;
            let mut gone = Vec::new();
            for (key, value) in map.iter_mut() {
                let below = Path::Key(path, key);
                if embedded && matches!(key.as_str(), "apiVersion" | "kind" | "metadata") {
                    continue;
                }
                match (properties.and_then(|p| p.get(key)), others) {
                    (Some(property), _) => prune(property, value, &below, unknown),
                    (None, Some(others)) if others.is_object() => {
                        prune(others, value, &below, unknown)
                    }
                    (None, Some(_)) => {}
                    (None, None) if open => {}
                    (None, None) => {
                        unknown.push(below.to_string());
                        gone.push(key.clone());
                    }
                }
            }
            for key in gone {
                map.remove(&key);
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter_mut().enumerate() {
                prune(&schema["items"], value, &Path::Index(path, index), unknown);
            }
        }
        _ => {}
    }
}

/// Fills in the schema's defaults.
pub(super) fn default(schema: &Value, value: &mut Value, merged: bool) {
    match value {
        Value::Object(map) => {
            for (key, property) in schema["properties"].as_object().into_iter().flatten() {
                let nullable = property["nullable"] == true;
                let absent = match map.get(key) {
                    None => true,
                    Some(Value::Null) => !nullable,
                    Some(_) => false,
                };
                if absent {
                    match property.get("default") {
                        Some(own) => map.insert(key.clone(), own.clone()),
                        None if merged => None,
                        // A null that is not allowed is taken as absent.
                        None => map.remove(key),
                    };
                }
                if let Some(value) = map.get_mut(key) {
                    default(property, value, merged);
                }
            }
            let others = &schema["additionalProperties"];
            if others.is_object() {
                let known = schema["properties"].as_object();
                let is_other = |key: &str| known.is_none_or(|known| !known.contains_key(key));
                if others["nullable"] != true && !merged {
                    map.retain(|key, value| {
                        !value.is_null() || !is_other(key) || others.get("default").is_some()
                    });
                }
                for (_, value) in map.iter_mut().filter(|(key, _)| is_other(key)) {
                    match others.get("default") {
                        Some(own) if value.is_null() && others["nullable"] != true => {
                            *value = own.clone();
                        }
                        _ => {}
                    }
                    default(others, value, merged);
                }
            }
        }
        Value::Array(list) => {
            for value in list {
                default(&schema["items"], value, merged);
            }
        }
        _ => {}
    }
}

/// ObjectMeta among the built-in types.
pub(crate) fn object_meta(types: &Schema) -> Option<Id> {
    let root = types.structure(*types.kinds.get("v1/ConfigMap")?)?;
    root.fields.get("metadata").map(|field| field.id)
}
