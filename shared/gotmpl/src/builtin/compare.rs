//! `eq` and the other comparisons.

use super::Out;
use crate::fmt::sprintf_within;
use crate::func_error::FuncError;
use crate::value::{Complex, Kind, Value};
use std::cmp::Ordering;
use std::rc::Rc;

/// Go's basic kinds; values of the same kind compare.
#[derive(PartialEq, Clone, Copy)]
enum Basic {
    None,
    Bool,
    Int,
    Uint,
    Float,
    Str,
}

fn basic(value: &Value) -> Basic {
    match value.kind() {
        Kind::Bool => Basic::Bool,
        Kind::Int(t) if t.unsigned() => Basic::Uint,
        Kind::Int(_) => Basic::Int,
        Kind::Float64 => Basic::Float,
        Kind::String => Basic::Str,
        _ => Basic::None,
    }
}

fn bits(value: &Value) -> i64 {
    match value {
        Value::Int(i, _) => *i,
        _ => 0,
    }
}

fn incompatible(a: &Value, b: &Value) -> FuncError {
    FuncError::new(format!(
        "incompatible types for comparison: {} and {}",
        a.type_name(),
        b.type_name()
    ))
}

pub(super) fn eq(args: &[Value]) -> Out {
    let Some((first, rest)) = args.split_first() else {
        return Err("missing argument for comparison".into());
    };
    if rest.is_empty() {
        return Err("missing argument for comparison".into());
    }
    for other in rest {
        if equal(first, other)? {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

/// Compares two values like Go templates' `eq`.
///
/// # Errors
/// The types are not comparable.
pub fn equal(a: &Value, b: &Value) -> Result<bool, FuncError> {
    let (ka, kb) = (basic(a), basic(b));
    if ka != kb {
        return match (ka, kb) {
            (Basic::Int, Basic::Uint) | (Basic::Uint, Basic::Int) => {
                Ok(signed_first(a, b).0 >= 0 && bits(a) == bits(b))
            }
            _ if a.is_nil() || b.is_nil() => Ok(false),
            _ => Err(incompatible(a, b)),
        };
    }
    Ok(match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Float(a), Value::Float(b)) => a == b,
        (Value::Str(a), Value::Str(b)) => a == b,
        (Value::Int(a, _), Value::Int(b, _)) => a == b,
        _ => return other_equal(a, b),
    })
}

/// Formats a value with `%v` for a message.
fn format_v(value: &Value) -> String {
    let text = sprintf_within(4096, b"%v", std::slice::from_ref(value));
    String::from_utf8_lossy(&text).into_owned()
}

/// Formats a value with `%s` for a message, cut to a bounded length.
fn format_s(value: &Value) -> String {
    let text = sprintf_within(4096, b"%s", std::slice::from_ref(value));
    String::from_utf8_lossy(&text).into_owned()
}

fn other_equal(a: &Value, b: &Value) -> Result<bool, FuncError> {
    if is_nil(a) || is_nil(b) {
        return Ok(is_nil(a) == is_nil(b));
    }
    if a.kind() != b.kind() {
        return Err(FuncError::new(format!(
            "non-comparable types {}: {}, {}: {}",
            format_s(a),
            a.type_name(),
            b.type_name(),
            format_v(b)
        )));
    }
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => match (Complex::of(&**a), Complex::of(&**b)) {
            (Some(a), Some(b)) => Ok(a == b),
            _ => Ok(Rc::ptr_eq(a, b)),
        },
        _ => Err(FuncError::new(format!(
            "non-comparable type {}: {}",
            format_s(b),
            b.type_name()
        ))),
    }
}

fn is_nil(value: &Value) -> bool {
    match value {
        Value::NoValue | Value::Nil => true,
        Value::List(l) => l.is_nil(),
        Value::Map(m) => m.is_nil(),
        _ => false,
    }
}

/// Returns the two integers, the signed one first.
fn signed_first(a: &Value, b: &Value) -> (i64, i64) {
    if basic(a) == Basic::Int {
        (bits(a), bits(b))
    } else {
        (bits(b), bits(a))
    }
}

fn less(a: &Value, b: &Value) -> Result<bool, FuncError> {
    let (ka, kb) = (basic(a), basic(b));
    let bad = || FuncError::new("invalid type for comparison");
    if ka == Basic::None || kb == Basic::None {
        return Err(bad());
    }
    match (ka, kb) {
        (Basic::Int, Basic::Uint) => Ok(bits(a) < 0 || (bits(a) as u64) < bits(b) as u64),
        (Basic::Uint, Basic::Int) => Ok(bits(b) >= 0 && (bits(a) as u64) < bits(b) as u64),
        _ if ka != kb => Err(incompatible(a, b)),
        (Basic::Bool, _) => Err(bad()),
        (Basic::Uint, _) => Ok((bits(a) as u64) < bits(b) as u64),
        (Basic::Int, _) => Ok(bits(a) < bits(b)),
        _ => match (a, b) {
            (Value::Float(a), Value::Float(b)) => Ok(a < b),
            (Value::Str(a), Value::Str(b)) => Ok(a.cmp(b) == Ordering::Less),
            _ => Err(bad()),
        },
    }
}

pub(super) fn ne(a: &[Value]) -> Out {
    Ok(Value::Bool(!equal(&a[0], &a[1])?))
}

pub(super) fn lt(a: &[Value]) -> Out {
    Ok(Value::Bool(less(&a[0], &a[1])?))
}

fn less_or_equal(a: &Value, b: &Value) -> Result<bool, FuncError> {
    Ok(less(a, b)? || equal(a, b)?)
}

pub(super) fn le(a: &[Value]) -> Out {
    Ok(Value::Bool(less_or_equal(&a[0], &a[1])?))
}

pub(super) fn gt(a: &[Value]) -> Out {
    Ok(Value::Bool(!less_or_equal(&a[0], &a[1])?))
}

pub(super) fn ge(a: &[Value]) -> Out {
    Ok(Value::Bool(!less(&a[0], &a[1])?))
}
