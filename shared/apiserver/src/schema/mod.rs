//! Types: the built-in ones from a table, custom ones from their definitions.

mod table;

use std::collections::BTreeMap;

use serde_json::Value;

pub use table::builtin;

/// Where a type stands in its [`Schema`].
pub type Id = usize;

/// Anything, lists and maps as one value.
pub const UNTYPED: Id = 0;
/// Anything, maps field by field.
pub const DEDUCED: Id = 1;

/// A family of types that refer to each other.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// The types; [`UNTYPED`] and [`DEDUCED`] come first.
    pub types: Vec<Type>,
    /// Root types by `apiVersion/Kind`.
    pub kinds: BTreeMap<String, Id>,
}

/// What a scalar is in JSON and in Go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// A text.
    Text,
    /// A truth value.
    Bool,
    /// A 32 bit number.
    Int32,
    /// A 64 bit number.
    Int,
    /// A floating point number.
    Float,
    /// Bytes, written in base64.
    Bytes,
    /// A number or a text.
    IntOrText,
    /// A resource quantity.
    Quantity,
    /// A time in seconds.
    Time,
    /// A time in microseconds.
    MicroTime,
}

/// How server-side apply sees a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListType {
    /// One value.
    Atomic,
    /// Each item by itself.
    Set,
    /// Items by the values of these fields.
    Keys(Vec<String>),
}

/// One type.
#[derive(Clone, Debug)]
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
        /// How items are told apart.
        list_type: ListType,
    },
    /// A map with free keys.
    Map {
        /// The values' type.
        value: Id,
        /// One value for server-side apply?
        atomic: bool,
    },
    /// A map with declared keys.
    Struct(Struct),
    /// JSON Schema's "a schema or a truth value": apply sees anything.
    OrBool(Id),
    /// JSON Schema's "a schema or a list of them".
    OrArray(Id),
}

/// A map with declared keys.
#[derive(Clone, Debug, Default)]
pub struct Struct {
    /// The definition's name, such as `io.k8s.api.core.v1.Pod`; empty when it has none.
    pub name: String,
    /// The declared fields.
    pub fields: BTreeMap<String, Field>,
    /// One value for server-side apply?
    pub atomic: bool,
    /// The type of undeclared fields, if any are kept.
    pub others: Option<Id>,
    /// Protobuf: numbers and types of messages whose fields are this one's.
    pub inline: Vec<(u64, Id)>,
}

/// One declared field.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its type.
    pub id: Id,
    /// Its number in protobuf; 0 when it has none.
    pub number: u64,
    /// Left out when empty.
    pub omit_empty: bool,
    /// Left out when zero, structs too.
    pub omit_zero: bool,
    /// Absent and zero differ.
    pub pointer: bool,
    /// Declared as required.
    pub required: bool,
    /// What defaulting puts here.
    pub default: Option<Value>,
    /// The default that counts when this is a key of a list.
    pub key_default: Option<Value>,
    /// Strategic merge: `merge`, `replace`, `retainKeys`, joined by commas.
    pub strategy: String,
    /// Strategic merge: the items' key.
    pub merge_key: String,
}

impl Schema {
    /// The type at an id; an id that does not exist is anything.
    pub fn get(&self, id: Id) -> &Type {
        self.types.get(id).unwrap_or(&Type::Deduced)
    }

    /// A struct at an id.
    pub fn structure(&self, id: Id) -> Option<&Struct> {
        match self.get(id) {
            Type::Struct(found) => Some(found),
            _ => None,
        }
    }
}
