//! Go's `reflect.DeepEqual`.

use driftless_gotmpl::{Exec, FuncError, Value};
use std::rc::Rc;

/// The maximal nesting of compared values; deeper ones, and values that contain themselves, are an
/// error.
pub(super) const MAX_DEPTH: usize = 1_000;

/// Returns the error for a value that is nested too deeply.
pub(super) fn too_deep() -> FuncError {
    "the value is nested too deeply, or holds itself".into()
}

/// Checks whether both values are equal in type and content.
pub(super) fn deep_equal(
    exec: &mut Exec<'_>,
    a: &Value,
    b: &Value,
    depth: usize,
) -> Result<bool, FuncError> {
    exec.charge(1)?;
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    Ok(match (a, b) {
        (Value::NoValue | Value::Nil, Value::NoValue | Value::Nil) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a, s), Value::Int(b, t)) => a == b && s == t,
        (Value::Float(a), Value::Float(b)) => a == b,
        (Value::Str(a), Value::Str(b)) => a == b,
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::List(a), Value::List(b)) => {
            if a.info().name != b.info().name || a.is_nil() != b.is_nil() || a.len() != b.len() {
                return Ok(false);
            }
            if a.same(b) {
                return Ok(true);
            }
            let (left, right) = (a.items(), b.items());
            for (x, y) in left.iter().zip(right.iter()) {
                if !deep_equal(exec, x, y, depth + 1)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Map(a), Value::Map(b)) => {
            if a.info().name != b.info().name || a.is_nil() != b.is_nil() || a.len() != b.len() {
                return Ok(false);
            }
            if a.same(b) {
                return Ok(true);
            }
            for (key, x) in a.pairs() {
                match b.get(&*key) {
                    Some(y) if deep_equal(exec, &x, &y, depth + 1)? => {}
                    _ => return Ok(false),
                }
            }
            true
        }
        (Value::Object(a), Value::Object(b)) => {
            if a.type_name() != b.type_name() {
                return Ok(false);
            }
            Rc::ptr_eq(a, b) || a.string().is_some() && a.string() == b.string()
        }
        _ => false,
    })
}
