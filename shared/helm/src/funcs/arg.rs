//! Arguments as Rust types, and results as values.

use super::Out;
use driftless_gotmpl::{Exec, FuncError, List, Map, Str, TypeInfo, Value, lossy};
use std::borrow::Cow;

/// Go's error of a nil pointer dereference.
pub(super) const NIL_POINTER: &str =
    "runtime error: invalid memory address or nil pointer dereference";

/// Returns the bytes of a `string` parameter.
pub(super) fn bytes(args: &[Value], at: usize) -> &[u8] {
    match args.get(at) {
        Some(Value::Str(s)) => s,
        _ => &[],
    }
}

/// Returns a `string` parameter, with U+FFFD for invalid UTF-8.
pub(super) fn text(args: &[Value], at: usize) -> Cow<'_, str> {
    lossy(bytes(args, at))
}

/// Returns an `int` parameter.
pub(super) fn int(args: &[Value], at: usize) -> i64 {
    match args.get(at) {
        Some(Value::Int(i, _)) => *i,
        _ => 0,
    }
}

/// Returns a `map[string]interface {}` parameter.
pub(super) fn map(args: &[Value], at: usize) -> Map {
    match args.get(at) {
        Some(Value::Map(m)) => m.clone(),
        _ => Map::nil(&TypeInfo::MAP),
    }
}

/// Returns any parameter.
pub(super) fn any(args: &[Value], at: usize) -> &Value {
    args.get(at).unwrap_or(&Value::Nil)
}

/// The bytes of a string in a list or map, in addition to its content.
pub(super) const PIECE: usize = 64;

/// The bytes of a list, in addition to its elements.
const LIST: usize = 96;

/// The bytes of a map with its first entries.
pub(super) const MAP: usize = 640;

/// Charges for a string and returns it as a result.
pub(super) fn out(exec: &mut Exec<'_>, text: impl Into<Str>) -> Out {
    let text = text.into();
    exec.charge_bytes(text.len())?;
    Ok(Value::Str(text))
}

/// Charges for a list and returns it as a result.
pub(super) fn out_list(exec: &mut Exec<'_>, items: Vec<Value>) -> Out {
    exec.charge_bytes(LIST.saturating_add(size_of_val(items.as_slice())))?;
    Ok(Value::list(items))
}

/// Charges for the elements of a slice and returns them; `None` for another kind.
pub(super) fn elements(
    exec: &mut Exec<'_>,
    value: &Value,
) -> Result<Option<Vec<Value>>, FuncError> {
    Ok(match value {
        Value::List(list) => {
            // The list is copied for the duration of the function.
            exec.ensure_capacity(size_of_val(list.items().as_slice()))?;
            exec.charge(list.len() as u64 / 4)?;
            Some(list.items().clone())
        }
        Value::Bytes(bytes) => {
            exec.ensure_capacity(bytes.len().saturating_mul(size_of::<Value>()))?;
            exec.charge(bytes.len() as u64 / 4)?;
            let byte = |b: &u8| Value::Int(i64::from(*b), driftless_gotmpl::IntType::Uint8);
            Some(bytes.iter().map(byte).collect())
        }
        _ => None,
    })
}

/// Returns the elements of a slice; fails like Go's function for another kind.
pub(super) fn slice(
    exec: &mut Exec<'_>,
    value: &Value,
    complaint: &str,
) -> Result<Vec<Value>, FuncError> {
    if value.is_nil() {
        return Err(NIL_POINTER.into());
    }
    match elements(exec, value)? {
        Some(items) => Ok(items),
        None => Err(format!("{complaint} {}", value.kind().name()).into()),
    }
}

/// Formats like sprig's `strval`.
pub(super) fn string(exec: &mut Exec<'_>, value: &Value) -> Result<Str, FuncError> {
    Ok(match value {
        Value::Str(s) => s.clone(),
        Value::Bytes(b) => Str::from(&b[..]),
        other => Str::from(exec.display(other)?),
    })
}

/// Converts like sprig's `strslice`: the strings of a slice without its nils, or of one value.
pub(super) fn strings(exec: &mut Exec<'_>, value: &Value) -> Result<Vec<Str>, FuncError> {
    let all = match elements(exec, value)? {
        Some(items) => items,
        None if value.is_nil() => Vec::new(),
        None => vec![value.clone()],
    };
    let typed = matches!(value, Value::List(l) if l.info().elem != driftless_gotmpl::Elem::Any);
    let kept = all.iter().filter(|v| typed || !v.is_nil());
    kept.map(|v| string(exec, v)).collect()
}

/// Returns a `[]string` as a result.
pub(super) fn string_list(items: Vec<Value>) -> Value {
    Value::List(List::typed(&TypeInfo::STRINGS, items))
}

/// Returns the nil `[]string`.
pub(super) fn no_strings() -> Value {
    Value::List(List::nil(&TypeInfo::STRINGS))
}

/// Returns the nil `[]interface {}`.
pub(super) fn no_list() -> Value {
    Value::List(List::nil(&TypeInfo::LIST))
}
