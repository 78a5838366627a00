//! Kinds of Go values, and host types with fields and methods.

use super::{IntType, Value};
use crate::context::Exec;
use crate::func_error::FuncError;
use crate::function::Param;
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
    /// Returns Go's name of the kind.
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
    /// The name of the method.
    pub name: &'static str,
    /// The types of its parameters.
    pub params: &'static [Param],
    /// True if the last parameter may be repeated any number of times.
    pub variadic: bool,
    /// The native code, with executor, receiver and arguments.
    pub call: fn(&mut Exec<'_>, &Value, &[Value]) -> Result<Value, FuncError>,
}

/// A struct, or a pointer to one, that the host passes to templates.
pub trait Object: Any {
    /// Returns Go's name of the type, with its star for a pointer.
    fn type_name(&self) -> Cow<'static, str>;

    /// Returns [`Kind::Struct`], [`Kind::Ptr`] or an integer kind with methods.
    fn kind(&self) -> Kind {
        Kind::Struct
    }

    /// Returns the number, if [`Object::kind`] is an integer kind.
    fn integer(&self) -> Option<i64> {
        None
    }

    /// Checks whether it is the zero value of a number; a struct never is.
    fn is_zero(&self) -> bool {
        self.integer() == Some(0)
    }

    /// Returns the exported fields in their order, embedded structs as one field.
    fn fields(&self) -> Vec<(&'static str, Value)>;

    /// Returns one field, also of an embedded struct.
    fn field(&self, name: &str) -> Option<Value> {
        self.fields()
            .into_iter()
            .find(|(n, _)| *n == name)
            .map(|(_, v)| v)
    }

    /// Returns the methods of the type.
    fn methods(&self) -> &'static [Method] {
        &[]
    }

    /// Returns the result of `String()`, if the type has it.
    fn string(&self) -> Option<String> {
        None
    }

    /// Returns the object as JSON marshals it; `None` for its fields by their names.
    fn json(&self) -> Option<Value> {
        None
    }

    /// Returns the object's fields as JSON marshals them, in their order; `None` if
    /// [`Object::json`] returns everything.
    fn json_fields(&self) -> Option<Vec<(String, Value)>> {
        None
    }

    /// Returns the object for downcasts.
    fn as_any(&self) -> &dyn Any;
}
