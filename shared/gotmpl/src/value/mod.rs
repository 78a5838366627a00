//! Go's values, as far as templates use them.

mod complex;
mod cycles;
mod list;
mod map;
mod object;
mod text;
mod types;

pub(crate) use complex::Complex;
pub use cycles::freeing_cycles;
pub use list::List;
pub use map::Map;
pub use object::{Kind, Method, Object};
pub use text::{Str, lossy};
pub use types::{Elem, IntType, TypeInfo};

use std::borrow::Cow;
use std::rc::Rc;

/// A Go value with its dynamic type.
///
/// Lists and maps are references, as in Go: a clone shares its content.
#[derive(Clone, Default)]
pub enum Value {
    /// No value (`reflect.Value{}`): a missing argument, or a `nil` at the end of a pipeline.
    /// Printed `<no value>`.
    #[default]
    NoValue,
    /// A nil interface, as an element of a map or a list. Printed `<nil>` inside others.
    Nil,
    /// `bool`
    Bool(bool),
    /// One of Go's integer types. `uint64` keeps its bits.
    Int(i64, IntType),
    /// `float64`
    Float(f64),
    /// `string`: bytes, most often UTF-8.
    Str(Str),
    /// `[]uint8`
    Bytes(Rc<[u8]>),
    /// A slice of any element type.
    List(List),
    /// A map with strings as keys.
    Map(Map),
    /// A struct, pointer or function of the host.
    Object(Rc<dyn Object>),
}

impl Value {
    /// Creates an `int`.
    pub fn int(i: i64) -> Self {
        Value::Int(i, IntType::Int)
    }

    /// Creates an `int64`.
    pub fn int64(i: i64) -> Self {
        Value::Int(i, IntType::Int64)
    }

    /// Creates a `string`.
    pub fn str(text: impl Into<Str>) -> Self {
        Value::Str(text.into())
    }

    /// Creates a `[]interface {}`.
    pub fn list(items: Vec<Value>) -> Self {
        Value::List(List::new(items))
    }

    /// Creates a `[]string`.
    pub fn strings<S: Into<Str>>(items: impl IntoIterator<Item = S>) -> Self {
        Value::List(List::typed(
            &TypeInfo::STRINGS,
            items.into_iter().map(Value::str).collect(),
        ))
    }

    /// Creates a `map[string]interface {}`.
    pub fn map<K: Into<Str>>(pairs: impl IntoIterator<Item = (K, Value)>) -> Self {
        Value::Map(Map::from_pairs(pairs))
    }

    /// Checks whether it is a missing value or a nil interface.
    pub fn is_nil(&self) -> bool {
        matches!(self, Value::NoValue | Value::Nil)
    }

    /// Returns Go's kind of the value.
    pub fn kind(&self) -> Kind {
        match self {
            Value::NoValue | Value::Nil => Kind::Invalid,
            Value::Bool(_) => Kind::Bool,
            Value::Int(_, t) => Kind::Int(*t),
            Value::Float(_) => Kind::Float64,
            Value::Str(_) => Kind::String,
            Value::Bytes(_) | Value::List(_) => Kind::Slice,
            Value::Map(_) => Kind::Map,
            Value::Object(o) => o.kind(),
        }
    }

    /// Returns Go's name of the dynamic type, as `%T` prints it.
    pub fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Value::NoValue | Value::Nil => "<nil>",
            Value::Bool(_) => "bool",
            Value::Int(_, t) => t.name(),
            Value::Float(_) => "float64",
            Value::Str(_) => "string",
            Value::Bytes(_) => "[]uint8",
            Value::List(l) => l.info().name,
            Value::Map(m) => m.info().name,
            Value::Object(o) => return o.type_name(),
        })
    }

    /// Returns the truth of Go templates: false for false, 0, nil and empty values.
    pub fn truth(&self) -> bool {
        match self {
            Value::NoValue | Value::Nil => false,
            Value::Bool(b) => *b,
            Value::Int(i, _) => *i != 0,
            Value::Float(f) => *f != 0.0,
            Value::Str(s) => !s.is_empty(),
            Value::Bytes(b) => !b.is_empty(),
            Value::List(l) => !l.is_empty(),
            Value::Map(m) => !m.is_empty(),
            Value::Object(o) => !o.is_zero(),
        }
    }

    /// Returns the string, if it is one.
    pub fn as_str(&self) -> Option<&Str> {
        match self {
            Value::Str(s) => Some(s),
            _ => None,
        }
    }

    /// Returns the map, if it is one.
    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Value::Map(m) => Some(m),
            _ => None,
        }
    }

    /// Returns the list, if it is one; bytes are not a list.
    pub fn as_list(&self) -> Option<&List> {
        match self {
            Value::List(l) => Some(l),
            _ => None,
        }
    }

    /// Checks whether it is a list or map, which may hold others.
    fn holds_values(&self) -> bool {
        matches!(self, Value::List(_) | Value::Map(_))
    }

    /// Unwraps an interface at the end of a pipeline like `reflect.Value.Elem`: nil becomes a
    /// missing value.
    pub(crate) fn unwrapped(self) -> Value {
        match self {
            Value::Nil => Value::NoValue,
            other => other,
        }
    }

    /// Returns the value as an element of an interface: a missing value becomes nil.
    pub fn or_nil(self) -> Value {
        match self {
            Value::NoValue => Value::Nil,
            other => other,
        }
    }
}

/// Drops values iteratively, not recursively: templates can nest lists millions of times, and no
/// stack is deep enough for that.
fn dismantle(mut values: Vec<Value>) {
    while let Some(value) = values.pop() {
        match value {
            Value::List(list) => list.move_nested(&mut values),
            Value::Map(map) => map.move_nested(&mut values),
            _ => {}
        }
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Value::Bool(b)
    }
}

impl From<f64> for Value {
    fn from(f: f64) -> Self {
        Value::Float(f)
    }
}

impl From<&str> for Value {
    fn from(s: &str) -> Self {
        Value::str(s)
    }
}

impl From<String> for Value {
    fn from(s: String) -> Self {
        Value::str(s)
    }
}

impl From<Str> for Value {
    fn from(s: Str) -> Self {
        Value::Str(s)
    }
}
