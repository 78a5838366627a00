//! The types of objects: [`builtin`] returns those of Kubernetes 1.36; those of custom resources are made from their
//! definitions.

mod table;

use std::collections::BTreeMap;

use serde_json::Value;

pub use table::builtin;

/// The index of a type in its [`Schema`].
pub type Id = usize;

/// Any value; lists and maps are one value.
pub const UNTYPED: Id = 0;
/// Any value; maps are taken field by field.
pub const DEDUCED: Id = 1;

/// A set of types that refer to each other.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Schema {
    /// The types; [`UNTYPED`] and [`DEDUCED`] come first.
    pub types: Vec<Type>,
    /// Root types by `apiVersion/Kind`.
    pub kinds: BTreeMap<String, Id>,
}

/// What a scalar is in JSON and in Go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scalar {
    /// A string.
    String,
    /// A boolean.
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

/// How server-side apply treats the items of a list (`x-kubernetes-list-type`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListType {
    /// The list as a whole is one value.
    Atomic,
    /// A set: each value is owned by itself.
    Set,
    /// A map: items are identified by the values of these fields.
    Keys(Vec<String>),
}

/// One type.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Type {
    /// See [`UNTYPED`].
    Untyped,
    /// See [`DEDUCED`].
    Deduced,
    /// A scalar.
    Scalar(Scalar),
    /// A list.
    List {
        /// The items' type.
        item: Id,
        /// How items are identified.
        list_type: ListType,
    },
    /// A map with any keys.
    Map {
        /// The values' type.
        value: Id,
        /// Whether server-side apply takes it as one value.
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
    /// The definition's name, such as `io.k8s.api.core.v1.Pod`; empty when it has none.
    pub name: String,
    /// The declared fields.
    pub fields: BTreeMap<String, Field>,
    /// Whether server-side apply takes it as one value.
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
    /// Its type.
    pub id: Id,
    /// Its number in protobuf; 0 when it has none.
    pub number: u64,
    /// Whether an empty value is left out (`omitempty`).
    pub omit_empty: bool,
    /// Whether a zero value is left out, structs included (`omitzero`).
    pub omit_zero: bool,
    /// Whether it is a pointer in Go, so that absent and zero differ.
    pub pointer: bool,
    /// Whether it is required.
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
    /// The type with an id; [`Type::Deduced`] when there is no such type.
    pub fn get(&self, id: Id) -> &Type {
        self.types.get(id).unwrap_or(&Type::Deduced)
    }

    /// The struct with an id; `None` when the type is not a struct.
    pub fn structure(&self, id: Id) -> Option<&Struct> {
        match self.get(id) {
            Type::Struct(found) => Some(found),
            _ => None,
        }
    }
}
