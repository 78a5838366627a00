//! The built-in functions of Go's templates.

mod compare;
mod escape;
mod index;

pub use compare::equal as compare_equal;
pub use escape::html_escape;

use crate::context::Exec;
use crate::fmt;
use crate::func_error::FuncError;
use crate::function::{Function, Functions, Param, Special};
use crate::value::Value;

type Out = Result<Value, FuncError>;

const VALUE: &[Param] = &[Param::Value];
const TWO: &[Param] = &[Param::Value, Param::Value];
const SLICE: &[Param] = &[Param::Value, Param::Bare];
const ANY: &[Param] = &[Param::Any];
const FORMAT: &[Param] = &[Param::Str, Param::Any];

impl Default for Functions {
    fn default() -> Self {
        let mut functions = Functions::empty();
        register(&mut functions);
        functions
    }
}

impl Functions {
    /// Creates a table with only the built-in functions.
    pub fn new() -> Self {
        Self::default()
    }
}

fn register(functions: &mut Functions) {
    let lazy = |special| Function {
        special,
        ..Function::variadic(TWO, |_, _| Err(FuncError::new("not called as a function")))
    };
    functions.insert("and", lazy(Special::And));
    functions.insert("or", lazy(Special::Or));
    functions.insert(
        "not",
        Function::new(VALUE, |_, a| Ok(Value::Bool(!a[0].truth()))),
    );
    functions.insert("eq", Function::variadic(TWO, |_, a| compare::eq(a)));
    functions.insert("ne", Function::new(TWO, |_, a| compare::ne(a)));
    functions.insert("lt", Function::new(TWO, |_, a| compare::lt(a)));
    functions.insert("le", Function::new(TWO, |_, a| compare::le(a)));
    functions.insert("gt", Function::new(TWO, |_, a| compare::gt(a)));
    functions.insert("ge", Function::new(TWO, |_, a| compare::ge(a)));
    functions.insert("len", Function::new(VALUE, |_, a| index::len(&a[0])));
    functions.insert("index", Function::variadic(TWO, |_, a| index::index(a)));
    functions.insert("slice", Function::variadic(SLICE, |_, a| index::slice(a)));
    functions.insert(
        "call",
        Function {
            special: Special::Call,
            ..Function::variadic(TWO, |_, a| index::call(a))
        },
    );
    functions.insert(
        "print",
        Function::variadic(ANY, |e, a| {
            let text = fmt::sprint_within(e.bytes_left(), a);
            charged(e, text)
        }),
    );
    functions.insert(
        "println",
        Function::variadic(ANY, |e, a| {
            let text = fmt::sprintln_within(e.bytes_left(), a);
            charged(e, text)
        }),
    );
    functions.insert("printf", Function::variadic(FORMAT, printf));
    functions.insert(
        "html",
        Function::variadic(ANY, |e, a| {
            let text = html_escape(&escapable(e, a)?);
            charged(e, text)
        }),
    );
    functions.insert(
        "js",
        Function::variadic(ANY, |e, a| {
            let text = escape::js_escape(&escapable(e, a)?);
            charged(e, text)
        }),
    );
    functions.insert(
        "urlquery",
        Function::variadic(ANY, |e, a| {
            let text = escape::query_escape(&escapable(e, a)?);
            charged(e, text)
        }),
    );
}

/// Returns the bytes to escape, after checking that the budget has room for it with every byte as
/// the longest escape.
fn escapable(exec: &Exec<'_>, args: &[Value]) -> Result<Vec<u8>, FuncError> {
    let text = joined(exec, args);
    exec.ensure_capacity(text.len().saturating_mul(6))?;
    Ok(text)
}

fn charged(exec: &mut Exec<'_>, text: Vec<u8>) -> Out {
    exec.charge_bytes(text.len())?;
    Ok(Value::str(text))
}

fn printf(exec: &mut Exec<'_>, args: &[Value]) -> Out {
    let Some((Value::Str(format), rest)) = args.split_first() else {
        return Err("printf: the format is not a string".into());
    };
    let text = fmt::sprintf_within(exec.bytes_left(), format, rest);
    charged(exec, text)
}

/// Joins the arguments like Go's `evalArgs`: a single string unchanged, everything else as
/// `Sprint`.
fn joined(exec: &Exec<'_>, args: &[Value]) -> Vec<u8> {
    if let [Value::Str(s)] = args {
        return s.as_bytes().to_vec();
    }
    // A missing value becomes a string, next to which no space is put.
    let values = args.iter().map(|arg| match arg {
        arg if arg.is_nil() => Value::str("<no value>"),
        arg => arg.clone(),
    });
    fmt::sprint_within(exec.bytes_left(), &values.collect::<Vec<_>>())
}
