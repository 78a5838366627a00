//! Go's integer types.

use super::Method;

/// Go's integer types that templates use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IntType {
    /// `int`
    Int,
    /// `int64`
    Int64,
    /// `int32`, also as `rune`
    Int32,
    /// `uint8`, also as `byte`
    Uint8,
    /// `uint32`
    Uint32,
    /// `uint64`
    Uint64,
}

impl IntType {
    /// Returns Go's name of the type.
    pub fn name(self) -> &'static str {
        match self {
            IntType::Int => "int",
            IntType::Int64 => "int64",
            IntType::Int32 => "int32",
            IntType::Uint8 => "uint8",
            IntType::Uint32 => "uint32",
            IntType::Uint64 => "uint64",
        }
    }

    /// Checks whether the type is unsigned.
    pub fn unsigned(self) -> bool {
        matches!(self, IntType::Uint8 | IntType::Uint32 | IntType::Uint64)
    }
}

/// The element type of a list or map: it decides about nil and missing keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elem {
    /// `interface {}`
    Any,
    /// `string`
    Str,
    /// `int`
    Int,
    /// `int64`
    Int64,
    /// `bool`
    Bool,
    /// `float64`
    Float64,
    /// `[]uint8`
    Bytes,
    /// `map[string]interface {}`
    Map,
    /// A type of the host.
    Host,
}

/// A named or unnamed list or map type.
#[derive(Debug)]
pub struct TypeInfo {
    /// The name as `%T` prints it.
    pub name: &'static str,
    /// The type of the elements.
    pub elem: Elem,
    /// The methods of a named type.
    pub methods: &'static [Method],
}

impl TypeInfo {
    /// `[]interface {}`
    pub const LIST: TypeInfo = TypeInfo::plain("[]interface {}", Elem::Any);
    /// `[]string`
    pub const STRINGS: TypeInfo = TypeInfo::plain("[]string", Elem::Str);
    /// `[]int`
    pub const INTS: TypeInfo = TypeInfo::plain("[]int", Elem::Int);
    /// `map[string]interface {}`
    pub const MAP: TypeInfo = TypeInfo::plain("map[string]interface {}", Elem::Any);
    /// `map[string]string`
    pub const STRING_MAP: TypeInfo = TypeInfo::plain("map[string]string", Elem::Str);

    /// Creates a type without methods.
    pub const fn plain(name: &'static str, elem: Elem) -> Self {
        TypeInfo {
            name,
            elem,
            methods: &[],
        }
    }

    /// Returns the zero value of the elements.
    pub fn zero(&self) -> super::Value {
        use super::{IntType, List, Map, Value};
        match self.elem {
            Elem::Any | Elem::Host => Value::Nil,
            Elem::Str => Value::str(""),
            Elem::Int => Value::int(0),
            Elem::Int64 => Value::Int(0, IntType::Int64),
            Elem::Bool => Value::Bool(false),
            Elem::Float64 => Value::Float(0.0),
            Elem::Bytes => Value::List(List::nil(&BYTES)),
            Elem::Map => Value::Map(Map::nil(&TypeInfo::MAP)),
        }
    }
}

const BYTES: TypeInfo = TypeInfo::plain("[]uint8", Elem::Any);
