//! Go's `text/template`, as of Go 1.26.
//!
//! A [`Templates`] set is parsed once and executed any number of times, each time with [`Limits`].
//! Values are Go's: a [`Value`] has a dynamic type, lists and maps are shared references, strings
//! are bytes. Messages are those of Go.
//!
//! ```
//! use driftless_gotmpl::{Functions, Limits, Templates, Value};
//! let mut set = Templates::new(Functions::new());
//! set.parse("hello", "Hello {{ .name | printf \"%q\" }}!")?;
//! let data = Value::map([("name", Value::from("world"))]);
//! assert_eq!(set.execute("hello", data, &(), Limits::default())?, b"Hello \"world\"!");
//! # Ok::<(), driftless_gotmpl::Error>(())
//! ```
//!
//! This crate has only the built-in functions. A host adds others with [`Functions`]. [`Limits`]
//! bound every execution, in steps, levels, bytes and variables; deep templates need stack: a host
//! that allows 1,000 levels runs them on a thread with about 256 MiB.
//!
//! Not supported: channels, functions as values, delimiters other than `{{` and `}}`.
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod builtin;
mod context;
mod error;
mod exec;
pub mod fmt;
mod func_error;
mod function;
mod lex;
mod name_stack;
mod parse;
mod set;
mod value;

/// A hash table by name. Names come from untrusted templates: the hash has a random seed in every
/// process.
type Table<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;

/// Compiles and runs the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use builtin::{compare_equal, html_escape};
pub use context::{Exec, Limits};
pub use error::{Error, ErrorKind, shortened};
pub use exec::Executor;
pub use func_error::FuncError;
pub use function::{Execution, Function, Functions, Nested, Param, Plain};
pub use set::{MissingKey, Templates};
pub use value::{
    Elem, IntType, Kind, List, Map, Method, Object, Str, TypeInfo, Value, freeing_cycles, lossy,
};
