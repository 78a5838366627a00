//! Arguments as Rust's types, and results as values.

use super::Out;
use driftless_gotmpl::{Exec, FuncError, List, Map, Str, TypeInfo, Value, lossy};
use std::borrow::Cow;

/// What Go says when it looks into nil.
pub(super) const NIL_POINTER: &str =
    "runtime error: invalid memory address or nil pointer dereference";

/// The bytes of a `string` parameter.
pub(super) fn bytes(args: &[Value], at: usize) -> &[u8] {
    match args.get(at) {
        Some(Value::Str(s)) => s,
        _ => &[],
    }
}

/// The text of a `string` parameter, with U+FFFD for what is no UTF-8.
pub(super) fn text(args: &[Value], at: usize) -> Cow<'_, str> {
    lossy(bytes(args, at))
}

/// An `int` parameter.
pub(super) fn int(args: &[Value], at: usize) -> i64 {
    match args.get(at) {
        Some(Value::Int(i, _)) => *i,
        _ => 0,
    }
}

/// A `map[string]interface {}` parameter.
pub(super) fn map(args: &[Value], at: usize) -> Map {
    match args.get(at) {
        Some(Value::Map(m)) => m.clone(),
        _ => Map::nil(&TypeInfo::MAP),
    }
}

/// Any parameter.
pub(super) fn any(args: &[Value], at: usize) -> &Value {
    args.get(at).unwrap_or(&Value::Nil)
}

/// Bytes of a string in a list or map, besides its own.
pub(super) const PIECE: usize = 64;

/// Bytes of a list, besides its elements.
const LIST: usize = 96;

/// Bytes of a map with its first entries.
pub(super) const MAP: usize = 640;

/// A text as a result, paid for.
pub(super) fn out(exec: &mut Exec<'_>, text: impl Into<Str>) -> Out {
    let text = text.into();
    exec.charge_bytes(text.len())?;
    Ok(Value::Str(text))
}

/// A list as a result, paid for.
pub(super) fn out_list(exec: &mut Exec<'_>, items: Vec<Value>) -> Out {
    exec.charge_bytes(LIST.saturating_add(size_of_val(items.as_slice())))?;
    Ok(Value::list(items))
}

/// The elements of a slice, paid for; nothing if it is none.
pub(super) fn elements(
    exec: &mut Exec<'_>,
    value: &Value,
) -> Result<Option<Vec<Value>>, FuncError> {
    Ok(match value {
        Value::List(list) => {
            // The list is copied, for as long as the function runs.
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

/// The elements of a slice; where Go's function says what it cannot do with another kind.
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

/// sprig's `strval`.
pub(super) fn string(exec: &mut Exec<'_>, value: &Value) -> Result<Str, FuncError> {
    Ok(match value {
        Value::Str(s) => s.clone(),
        Value::Bytes(b) => Str::from(&b[..]),
        other => Str::from(exec.display(other)?),
    })
}

/// sprig's `strslice`: the texts of a slice without its nils, or of one value.
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

/// A `[]string` as a result.
pub(super) fn string_list(items: Vec<Value>) -> Value {
    Value::List(List::typed(&TypeInfo::STRINGS, items))
}

/// The nil `[]string`.
pub(super) fn no_strings() -> Value {
    Value::List(List::nil(&TypeInfo::STRINGS))
}

/// The nil `[]interface {}`.
pub(super) fn no_list() -> Value {
    Value::List(List::nil(&TypeInfo::LIST))
}
