//! Functions that templates can call, with the types that Go would check.

use crate::Table;
use crate::exec::Exec;
use crate::value::{Elem, Value};
use std::sync::Arc;

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Param {
    /// `interface {}`
    Any,
    /// `reflect.Value`: also what is no value.
    Value,
    /// `reflect.Value` of a function that refuses what is still in an interface, as `slice` does with its indexes.
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
    /// A type of the host's, by its name.
    Host(&'static str),
}

impl Param {
    /// Go's name of the type.
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

    /// Whether nil can be passed.
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

    /// Whether Go would let a value of this dynamic type be assigned.
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

/// Why a function failed: its message becomes part of the template's error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FuncError {
    /// The message, as Go's function would word it.
    pub message: String,
    /// Whether a budget of the execution is used up.
    pub budget: bool,
}

impl FuncError {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        FuncError {
            message: message.into(),
            budget: false,
        }
    }
}

impl From<String> for FuncError {
    fn from(message: String) -> Self {
        Self::new(message)
    }
}

impl From<&str> for FuncError {
    fn from(message: &str) -> Self {
        Self::new(message)
    }
}

/// The code of a function.
pub type Native = fn(&mut Exec<'_>, &[Value]) -> Result<Value, FuncError>;

/// A function with its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// What it takes.
    pub params: &'static [Param],
    /// Whether the last parameter may come any number of times.
    pub variadic: bool,
    /// The code.
    pub call: Native,
    pub(crate) special: Special,
}

/// The built-in functions that do not evaluate their arguments as others do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    No,
    And,
    Or,
    /// Its message names what was called.
    Call,
}

impl Function {
    /// A function with exactly these parameters.
    pub const fn new(params: &'static [Param], call: Native) -> Self {
        Function {
            params,
            variadic: false,
            call,
            special: Special::No,
        }
    }

    /// A function whose last parameter may come any number of times.
    pub const fn variadic(params: &'static [Param], call: Native) -> Self {
        Function {
            params,
            variadic: true,
            call,
            special: Special::No,
        }
    }
}

/// Functions by name. The built-in ones are always there, and a function of the same name hides them. A clone shares the
/// table until one of them is changed.
#[derive(Clone, Debug)]
pub struct Functions(Arc<Table<&'static str, Function>>);

impl Default for Functions {
    fn default() -> Self {
        let mut functions = Functions(Arc::default());
        crate::builtin::register(&mut functions);
        functions
    }
}

impl Functions {
    /// Only the built-in functions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces a function.
    pub fn insert(&mut self, name: &'static str, function: Function) {
        Arc::make_mut(&mut self.0).insert(name, function);
    }

    /// Takes a function away.
    pub fn remove(&mut self, name: &str) {
        Arc::make_mut(&mut self.0).remove(name);
    }

    /// The function of this name.
    pub fn get(&self, name: &str) -> Option<&Function> {
        self.0.get(name)
    }

    /// The function of this name, with the name as it lives on.
    pub(crate) fn entry(&self, name: &str) -> Option<(&'static str, Function)> {
        self.0.get_key_value(name).map(|(name, f)| (*name, *f))
    }

    /// Every name.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.keys().copied()
    }
}
