//! Functions that templates can call, with the parameter types that Go would check.

use crate::Table;
use crate::context::Exec;
use crate::error::Error;
use crate::func_error::FuncError;
use crate::value::{Elem, Str, Value};
use std::sync::Arc;

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Param {
    /// `interface {}`
    Any,
    /// `reflect.Value`, which may also be a missing value.
    Value,
    /// `reflect.Value` of a function that refuses a value in an interface, as `slice` does for its
    /// indexes.
    Bare,
    /// `string`
    Str,
    /// `int`
    Int,
    /// `int64`
    Int64,
    /// `int32`
    Int32,
    /// `uint32`
    Uint32,
    /// `float64`
    Float64,
    /// `bool`
    Bool,
    /// `[]interface {}`
    List,
    /// `[]string`
    Strings,
    /// `map[string]interface {}`
    Map,
    /// `map[string]string`
    StringMap,
    /// `[]uint8`
    Bytes,
    /// A type of the host, by its name.
    Host(&'static str),
}

impl Param {
    /// Returns Go's name of the type.
    pub fn name(self) -> &'static str {
        match self {
            Param::Any => "interface {}",
            Param::Value | Param::Bare => "reflect.Value",
            Param::Str => "string",
            Param::Int => "int",
            Param::Int64 => "int64",
            Param::Int32 => "int32",
            Param::Uint32 => "uint32",
            Param::Float64 => "float64",
            Param::Bool => "bool",
            Param::List => "[]interface {}",
            Param::Strings => "[]string",
            Param::Map => "map[string]interface {}",
            Param::StringMap => "map[string]string",
            Param::Bytes => "[]uint8",
            Param::Host(name) => name,
        }
    }

    /// Checks whether nil can be passed.
    pub(crate) fn takes_nil(self) -> bool {
        matches!(
            self,
            Param::Any
                | Param::Value
                | Param::Bare
                | Param::List
                | Param::Strings
                | Param::Map
                | Param::StringMap
                | Param::Bytes
        )
    }

    /// Checks whether Go would allow the assignment of a value of this dynamic type.
    pub(crate) fn accepts(self, value: &Value) -> bool {
        use crate::value::IntType as I;
        match (self, value) {
            (Param::Any | Param::Value | Param::Bare, _)
            | (Param::Str, Value::Str(_))
            | (Param::Int, Value::Int(_, I::Int))
            | (Param::Int64, Value::Int(_, I::Int64))
            | (Param::Int32, Value::Int(_, I::Int32))
            | (Param::Uint32, Value::Int(_, I::Uint32))
            | (Param::Float64, Value::Float(_))
            | (Param::Bool, Value::Bool(_))
            | (Param::Bytes, Value::Bytes(_)) => true,
            (Param::List, Value::List(l)) => l.info().elem == Elem::Any,
            (Param::Strings, Value::List(l)) => l.info().elem == Elem::Str,
            (Param::Map, Value::Map(m)) => m.info().elem == Elem::Any,
            (Param::StringMap, Value::Map(m)) => m.info().elem == Elem::Str,
            (Param::Host(name), Value::Object(o)) => {
                let have = o.type_name();
                have == name || have.strip_prefix('*') == Some(name)
            }
            _ => false,
        }
    }
}

/// The code of a function that executes no template.
pub type Plain = fn(&mut Exec<'_>, &[Value]) -> Result<Value, FuncError>;

/// The code of a function that executes templates.
pub type Nested = fn(&mut dyn Execution<'_>, &[Value]) -> Result<Value, FuncError>;

/// The code of a function.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Native {
    Plain(Plain),
    Nested(Nested),
}

/// A running execution, as functions see it that execute templates themselves.
pub trait Execution<'h> {
    /// Returns the budget and the host's state.
    fn exec(&mut self) -> &mut Exec<'h>;

    /// Executes the template `name` on `data` and returns its output.
    ///
    /// # Errors
    /// [`ErrorKind::Exec`](crate::ErrorKind::Exec), [`ErrorKind::Budget`](crate::ErrorKind::Budget)
    /// or [`ErrorKind::NoTemplate`](crate::ErrorKind::NoTemplate).
    fn execute(&mut self, name: &str, data: Value) -> Result<Vec<u8>, Error>;

    /// Parses a source as a template `name` in a separate set on top of the current one, and
    /// executes it. Templates that it defines are visible only to itself.
    ///
    /// # Errors
    /// Those of [`Execution::execute`], and [`ErrorKind::Parse`](crate::ErrorKind::Parse).
    fn execute_text(&mut self, name: &str, text: &Str, data: Value) -> Result<Vec<u8>, Error>;
}

/// A function with its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// The types of its parameters.
    pub params: &'static [Param],
    /// True if the last parameter may be repeated any number of times.
    pub variadic: bool,
    pub(crate) call: Native,
    pub(crate) special: Special,
}

/// The built-in functions that evaluate their arguments differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    No,
    And,
    Or,
    /// `call`, whose message names the callee.
    Call,
}

impl Function {
    /// Creates a function with exactly these parameters.
    pub const fn new(params: &'static [Param], call: Plain) -> Self {
        Function {
            params,
            variadic: false,
            call: Native::Plain(call),
            special: Special::No,
        }
    }

    /// Creates a function with exactly these parameters that executes templates.
    pub const fn nested(params: &'static [Param], call: Nested) -> Self {
        Function {
            params,
            variadic: false,
            call: Native::Nested(call),
            special: Special::No,
        }
    }

    /// Creates a function whose last parameter may be repeated any number of times.
    pub const fn variadic(params: &'static [Param], call: Plain) -> Self {
        Function {
            params,
            variadic: true,
            call: Native::Plain(call),
            special: Special::No,
        }
    }
}

/// Functions by name. The built-in ones always exist, and a function of the same name hides them. A
/// clone shares the table until one of them is changed.
#[derive(Clone, Debug)]
pub struct Functions(Arc<Table<&'static str, Function>>);

impl Functions {
    /// Creates a table without any function.
    pub(crate) fn empty() -> Self {
        Functions(Arc::default())
    }

    /// Adds or replaces a function.
    pub fn insert(&mut self, name: &'static str, function: Function) {
        Arc::make_mut(&mut self.0).insert(name, function);
    }

    /// Removes a function.
    pub fn remove(&mut self, name: &str) {
        Arc::make_mut(&mut self.0).remove(name);
    }

    /// Returns the function of this name.
    pub fn get(&self, name: &str) -> Option<&Function> {
        self.0.get(name)
    }

    /// Returns the function of this name, with the static name.
    pub(crate) fn entry(&self, name: &str) -> Option<(&'static str, Function)> {
        self.0.get_key_value(name).map(|(name, f)| (*name, *f))
    }

    /// Returns the names of all functions.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.keys().copied()
    }
}
