//! Go's `text/template`, as of Go 1.26.
//!
//! A [`Templates`] set is parsed once and executed as often as wanted, each time with [`Limits`]. Values are Go's: a
//! [`Value`] has a dynamic type, lists and maps are shared references, strings are bytes. Messages read as Go's.
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
//! Only the built-in functions are here. A host adds its own with [`Functions`]: sprig's and Helm's stand in
//! `driftless-helm` (`funcs`), since they need YAML, time and entropy. [`Limits`] bound every execution, in steps, levels,
//! bytes and variables; deep templates need stack, so that a host that allows 1,000 levels runs them on a thread with some 256 MiB.
//!
//! Not there: channels, functions as values, delimiters other than `{{` and `}}`.
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod builtin;
mod error;
mod exec;
pub mod fmt;
mod function;
mod lex;
mod parse;
mod scope;
mod set;
mod value;

/// Names to things. Names come from templates that are not trusted: the hash has a seed of its own in every process.
type Table<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;

/// The README's example runs, too.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use builtin::{compare_equal, html_escape};
pub use error::{Error, ErrorKind, shortened};
pub use exec::{Exec, Limits};
pub use function::{FuncError, Function, Functions, Native, Param};
pub use parse::unquote;
pub use set::{MissingKey, Templates};
pub use value::{
    Elem, IntType, Kind, List, Map, Method, Object, Str, TypeInfo, Value, freeing_cycles, lossy,
};
