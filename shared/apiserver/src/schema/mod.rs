//! The types of objects: [`builtin`] returns those of Kubernetes 1.36; those of custom resources
//! are made from their definitions.

mod table;

use std::collections::BTreeMap;

use serde_json::Value;

pub use table::builtin;

/// The index of a type in its [`Schema`].
pub type Id = usize;

/// Any value; lists and maps are one value.
pub const UNTYPED: Id = 0;
/// Any value; managers own the fields of maps separately.
pub const UNTYPED_GRANULAR: Id = 1;

/// A set of types that refer to each other.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Schema {
    /// The types; [`UNTYPED`] and [`UNTYPED_GRANULAR`] come first.
    pub types: Vec<Type>,
    /// Root types by `apiVersion/Kind`.
    pub kinds: BTreeMap<String, Id>,
}

/// The type of a scalar in JSON and in Go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scalar {
    /// A JSON string.
    String,
    /// A JSON boolean.
    Bool,
    /// A 32-bit integer.
    Int32,
    /// A 64-bit integer.
    Int,
    /// A floating-point number.
    Float,
    /// Bytes, encoded in base64.
    Bytes,
    /// An integer or a string.
    IntOrString,
    /// A resource quantity.
    Quantity,
    /// A time in seconds.
    Time,
    /// A time in microseconds.
    MicroTime,
}

/// The identity of a list's items in server-side apply (`x-kubernetes-list-type`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListType {
    /// The list as a whole is one value.
    Atomic,
    /// A set: managers own each value separately.
    Set,
    /// A map: items are identified by the values of these fields.
    Keys(Vec<String>),
}

/// The type of a value.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Type {
    /// Any value, as one value: see [`UNTYPED`].
    Untyped,
    /// Any value, field by field: see [`UNTYPED_GRANULAR`].
    Deduced,
    /// A string, number or boolean.
    Scalar(Scalar),
    /// A list of items of one type.
    List {
        /// The items' type.
        item: Id,
        /// The identity of the items.
        list_type: ListType,
    },
    /// A map with any keys.
    Map {
        /// The values' type.
        value: Id,
        /// True if server-side apply treats the map as one value.
        atomic: bool,
    },
    /// A map with declared keys.
    Struct(Struct),
    /// JSON Schema's "a schema or a boolean": server-side apply accepts any value.
    OrBool(Id),
    /// JSON Schema's "a schema or a list of them".
    OrArray(Id),
}

/// A map with declared keys.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Struct {
    /// The definition's name, such as `io.k8s.api.core.v1.Pod`, or empty.
    pub name: String,
    /// The declared fields.
    pub fields: BTreeMap<String, Field>,
    /// True if server-side apply treats the struct as one value.
    pub atomic: bool,
    /// The type of undeclared fields, if any are kept.
    pub others: Option<Id>,
    /// Protobuf: numbers and types of messages whose fields are this one's.
    pub inline: Vec<(u64, Id)>,
}

/// One declared field.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Field {
    /// The type of the field.
    pub id: Id,
    /// The number in protobuf; 0 if it has none.
    pub number: u64,
    /// True if an empty value is left out (`omitempty`).
    pub omit_empty: bool,
    /// True if a zero value is left out, structs included (`omitzero`).
    pub omit_zero: bool,
    /// True if the field is a pointer in Go, so that absent and zero differ.
    pub pointer: bool,
    /// True if the field is required.
    pub required: bool,
    /// The value that defaulting sets.
    pub default: Option<Value>,
    /// The default that is used when this field is a key of a list.
    pub key_default: Option<Value>,
    /// Strategic merge: `merge`, `replace`, `retainKeys`, joined by commas.
    pub strategy: String,
    /// Strategic merge: the items' key.
    pub merge_key: String,
}

impl Schema {
    /// Returns the type with an id; [`Type::Deduced`] if it does not exist.
    pub fn get(&self, id: Id) -> &Type {
        self.types.get(id).unwrap_or(&Type::Deduced)
    }

    /// Returns the struct with an id; `None` if the type is not a struct.
    pub fn structure(&self, id: Id) -> Option<&Struct> {
        match self.get(id) {
            Type::Struct(found) => Some(found),
            _ => None,
        }
    }
}
