//! `index`, `slice`, `len`, `call`.

use super::Out;
use crate::func_error::FuncError;
use crate::value::{IntType, List, Value};

fn position(index: &Value, limit: usize) -> Result<usize, FuncError> {
    match index {
        Value::Int(i, _) => match usize::try_from(*i) {
            Ok(i) if i <= limit => Ok(i),
            _ => Err(format!("index out of range: {i}").into()),
        },
        other if other.is_nil() => Err("cannot index slice/array with nil".into()),
        other => Err(format!("cannot index slice/array with type {}", other.type_name()).into()),
    }
}

/// Returns the error with which Go panics if the index is the length.
fn beyond(kind: &str) -> FuncError {
    format!("reflect: {kind} index out of range").into()
}

pub(super) fn index(args: &[Value]) -> Out {
    let Some((first, rest)) = args.split_first() else {
        return Err("index of untyped nil".into());
    };
    let mut item = first.clone();
    if item.is_nil() {
        return Err("index of untyped nil".into());
    }
    for key in rest {
        item = match &item {
            Value::NoValue | Value::Nil => return Err("index of nil pointer".into()),
            Value::Map(map) => match key {
                Value::Str(key) => map.get(key.as_bytes()).unwrap_or_else(|| map.info().zero()),
                other if other.is_nil() => {
                    return Err("value is nil; should be of type string".into());
                }
                other => {
                    return Err(
                        format!("value has type {}; should be string", other.type_name()).into(),
                    );
                }
            },
            Value::List(list) => list
                .get(position(key, list.len())?)
                .ok_or_else(|| beyond("slice"))?,
            Value::Str(text) => byte(text.get(position(key, text.len())?), "string")?,
            Value::Bytes(bytes) => byte(bytes.get(position(key, bytes.len())?), "slice")?,
            other => return Err(format!("can't index item of type {}", other.type_name()).into()),
        };
    }
    Ok(item)
}

fn byte(b: Option<&u8>, kind: &str) -> Out {
    match b {
        Some(b) => Ok(Value::Int(i64::from(*b), IntType::Uint8)),
        None => Err(beyond(kind)),
    }
}

pub(super) fn slice(args: &[Value]) -> Out {
    let (item, indexes) = match args.split_first() {
        None => return Err("slice of untyped nil".into()),
        Some((item, _)) if item.is_nil() => return Err("slice of untyped nil".into()),
        Some(parts) => parts,
    };
    if indexes.len() > 3 {
        return Err(format!("too many slice indexes: {}", indexes.len()).into());
    }
    let len = match item {
        Value::Str(_) if indexes.len() == 3 => return Err("cannot 3-index slice a string".into()),
        Value::Str(s) => s.len(),
        Value::Bytes(b) => b.len(),
        Value::List(l) => l.len(),
        other => return Err(format!("can't slice item of type {}", other.type_name()).into()),
    };
    let mut bounds = [0, len, len];
    for (bound, index) in bounds.iter_mut().zip(indexes) {
        *bound = position(index, len)?;
    }
    for pair in bounds
        .windows(2)
        .take(if indexes.len() == 3 { 2 } else { 1 })
    {
        if pair[0] > pair[1] {
            return Err(format!("invalid slice index: {} > {}", pair[0], pair[1]).into());
        }
    }
    let [from, to, _] = bounds;
    Ok(match item {
        Value::Str(s) => Value::str(&s[from..to]),
        Value::Bytes(b) => Value::Bytes(b[from..to].into()),
        Value::List(l) => Value::List(List::typed(l.info(), l.items()[from..to].to_vec())),
        _ => Value::Nil,
    })
}

pub(super) fn len(value: &Value) -> Out {
    let len = match value {
        Value::NoValue => return Err("reflect: call of reflect.Value.Type on zero Value".into()),
        Value::Nil => return Err("len of nil pointer".into()),
        Value::Str(s) => s.len(),
        Value::Bytes(b) => b.len(),
        Value::List(l) => l.len(),
        Value::Map(m) => m.len(),
        other => return Err(format!("len of type {}", other.type_name()).into()),
    };
    Ok(Value::int(len as i64))
}

/// Fails: no value is a function in this implementation. The last argument is the name of the
/// callee.
pub(super) fn call(args: &[Value]) -> Out {
    match args {
        [value, .., name] if !value.is_nil() => {
            let name = name.as_str().cloned().unwrap_or_default();
            Err(format!("non-function {name} of type {}", value.type_name()).into())
        }
        _ => Err("call of nil".into()),
    }
}
