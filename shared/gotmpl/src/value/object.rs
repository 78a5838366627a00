//! Kinds of Go values, and host types with fields and methods.

use super::{IntType, Value};
use crate::exec::Exec;
use crate::function::{FuncError, Param};
use std::any::Any;
use std::borrow::Cow;

/// Go's kinds of values, as `reflect.Kind` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// nil
    Invalid,
    /// bool
    Bool,
    /// int, int64, …
    Int(IntType),
    /// float64
    Float64,
    /// complex128
    Complex128,
    /// string
    String,
    /// slice
    Slice,
    /// map
    Map,
    /// struct
    Struct,
    /// pointer to a struct
    Ptr,
    /// func
    Func,
}

impl Kind {
    /// Go's name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Invalid => "invalid",
            Kind::Bool => "bool",
            Kind::Int(t) => t.name(),
            Kind::Float64 => "float64",
            Kind::Complex128 => "complex128",
            Kind::String => "string",
            Kind::Slice => "slice",
            Kind::Map => "map",
            Kind::Struct => "struct",
            Kind::Ptr => "ptr",
            Kind::Func => "func",
        }
    }
}

/// A method of a host type, called as `.Method arg …`.
#[derive(Debug)]
pub struct Method {
    /// The name.
    pub name: &'static str,
    /// What it takes.
    pub params: &'static [Param],
    /// Whether the last parameter may come any number of times.
    pub variadic: bool,
    /// The code: executor, receiver, arguments.
    pub call: fn(&mut Exec<'_>, &Value, &[Value]) -> Result<Value, FuncError>,
}

/// A struct, or a pointer to one, that the host gives to templates.
pub trait Object: Any {
    /// Go's name of the type, with its star for a pointer.
    fn type_name(&self) -> Cow<'static, str>;

    /// [`Kind::Struct`], [`Kind::Ptr`] or an integer kind with methods.
    fn kind(&self) -> Kind {
        Kind::Struct
    }

    /// The number, if [`Object::kind`] is an integer kind.
    fn integer(&self) -> Option<i64> {
        None
    }

    /// Whether it is the zero value of a number; a struct never counts as such.
    fn is_zero(&self) -> bool {
        self.integer() == Some(0)
    }

    /// The exported fields in their order, embedded structs as one field.
    fn fields(&self) -> Vec<(&'static str, Value)>;

    /// One field, also of an embedded struct.
    fn field(&self, name: &str) -> Option<Value> {
        self.fields()
            .into_iter()
            .find(|(n, _)| *n == name)
            .map(|(_, v)| v)
    }

    /// The methods.
    fn methods(&self) -> &'static [Method] {
        &[]
    }

    /// What `String()` gives, if the type has it.
    fn string(&self) -> Option<String> {
        None
    }

    /// The object as JSON sees it; `None` for its fields by their names.
    fn json(&self) -> Option<Value> {
        None
    }

    /// The object's fields as JSON writes them, in their order; `None` if [`Object::json`] tells all.
    fn json_fields(&self) -> Option<Vec<(String, Value)>> {
        None
    }

    /// For downcasts.
    fn as_any(&self) -> &dyn Any;
}
