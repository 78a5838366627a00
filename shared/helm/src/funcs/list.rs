//! Functions on lists.

use super::arg::{any, elements, int, no_list, out_list, slice};
use super::cast::to_int;
use super::defaults::empty;
use super::equal::deep_equal;
use super::{A, AA, Entry, Out};
use driftless_gotmpl::{Elem, Exec, FuncError, List, Param, TypeInfo, Value};

pub(super) const TABLE: &[Entry] = &[
    ("append", AA, push),
    ("push", AA, push),
    ("mustAppend", AA, push),
    ("mustPush", AA, push),
    ("prepend", AA, prepend),
    ("mustPrepend", AA, prepend),
    ("first", A, first),
    ("mustFirst", A, first),
    ("last", A, last),
    ("mustLast", A, last),
    ("rest", A, rest),
    ("mustRest", A, rest),
    ("initial", A, initial),
    ("mustInitial", A, initial),
    ("reverse", A, reverse),
    ("mustReverse", A, reverse),
    ("compact", A, compact),
    ("mustCompact", A, compact),
    ("uniq", A, uniq),
    ("mustUniq", A, uniq),
    ("has", AA, has),
    ("mustHas", AA, has),
    ("chunk", &[Param::Int, Param::Any], chunk),
    ("mustChunk", &[Param::Int, Param::Any], chunk),
];

pub(super) const VARIADIC: &[Entry] = &[
    ("list", A, |e, a| out_list(e, a.to_vec())),
    ("tuple", A, |e, a| out_list(e, a.to_vec())),
    ("without", AA, without),
    ("mustWithout", AA, without),
    ("slice", AA, part),
    ("mustSlice", AA, part),
    ("concat", A, concat),
];

fn push(exec: &mut Exec<'_>, a: &[Value]) -> Out {
    let mut items = slice(exec, any(a, 0), "Cannot push on type")?;
    items.push(any(a, 1).clone());
    out_list(exec, items)
}

fn prepend(exec: &mut Exec<'_>, a: &[Value]) -> Out {
    let mut items = slice(exec, any(a, 0), "Cannot prepend on type")?;
    items.insert(0, any(a, 1).clone());
    out_list(exec, items)
}

fn first(exec: &mut Exec<'_>, a: &[Value]) -> Out {
    if let Value::List(list) = any(a, 0) {
        return Ok(list.get(0).unwrap_or(Value::Nil));
    }
    let items = slice(exec, any(a, 0), "Cannot find first on type")?;
    Ok(items.into_iter().next().unwrap_or(Value::Nil))
}

fn last(exec: &mut Exec<'_>, a: &[Value]) -> Out {
    if let Value::List(list) = any(a, 0) {
        return Ok(list.items().last().cloned().unwrap_or(Value::Nil));
    }
    let items = slice(exec, any(a, 0), "Cannot find last on type")?;
    Ok(items.into_iter().next_back().unwrap_or(Value::Nil))
}

fn rest(exec: &mut Exec<'_>, a: &[Value]) -> Out {
    let items = slice(exec, any(a, 0), "Cannot find rest on type")?;
    match items.split_first() {
        None => Ok(no_list()),
        Some((_, rest)) => out_list(exec, rest.to_vec()),
    }
}

fn initial(exec: &mut Exec<'_>, a: &[Value]) -> Out {
    let mut items = slice(exec, any(a, 0), "Cannot find initial on type")?;
    match items.pop() {
        None => Ok(no_list()),
        Some(_) => out_list(exec, items),
    }
}

fn reverse(exec: &mut Exec<'_>, a: &[Value]) -> Out {
    let mut items = slice(exec, any(a, 0), "Cannot find reverse on type")?;
    items.reverse();
    out_list(exec, items)
}

fn compact(exec: &mut Exec<'_>, a: &[Value]) -> Out {
    let mut items = slice(exec, any(a, 0), "Cannot compact on type")?;
    items.retain(|v| !empty(v));
    out_list(exec, items)
}

/// Checks whether a list contains a value.
fn contains(exec: &mut Exec<'_>, list: &[Value], value: &Value) -> Result<bool, FuncError> {
    for item in list {
        if deep_equal(exec, value, item, 0)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn uniq(exec: &mut Exec<'_>, a: &[Value]) -> Out {
    let mut kept = Vec::new();
    for item in slice(exec, any(a, 0), "Cannot find uniq on type")? {
        if !contains(exec, &kept, &item)? {
            kept.push(item);
        }
    }
    out_list(exec, kept)
}

fn has(exec: &mut Exec<'_>, a: &[Value]) -> Out {
    if any(a, 1).is_nil() {
        return Ok(Value::Bool(false));
    }
    let items = slice(exec, any(a, 1), "Cannot find has on type")?;
    Ok(Value::Bool(contains(exec, &items, any(a, 0))?))
}

fn without(exec: &mut Exec<'_>, a: &[Value]) -> Out {
    let omit = a.get(1..).unwrap_or_default();
    let mut kept = Vec::new();
    for item in slice(exec, any(a, 0), "Cannot find without on type")? {
        if !contains(exec, omit, &item)? {
            kept.push(item);
        }
    }
    out_list(exec, kept)
}

fn part(exec: &mut Exec<'_>, a: &[Value]) -> Out {
    let items = slice(exec, any(a, 0), "list should be type of slice or array but")?;
    if items.is_empty() {
        return Ok(Value::Nil);
    }
    let start = a.get(1).map_or(0, to_int);
    let end = a.get(2).map_or(items.len() as i64, to_int);
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    let Some(kept) = range.and_then(|(start, end)| items.get(start..end)) else {
        return Err("reflect.Value.Slice: slice index out of bounds".into());
    };
    exec.charge_bytes(size_of_val(kept))?;
    Ok(match any(a, 0) {
        Value::List(list) => Value::List(List::typed(list.info(), kept.to_vec())),
        Value::Bytes(b) => Value::Bytes(b[start as usize..end as usize].into()),
        _ => Value::Nil,
    })
}

fn concat(exec: &mut Exec<'_>, a: &[Value]) -> Out {
    let mut all = Vec::new();
    for list in a {
        if list.is_nil() {
            return Err(super::arg::NIL_POINTER.into());
        }
        let Some(items) = elements(exec, list)? else {
            return Err(format!("Cannot concat type {} as list", list.kind().name()).into());
        };
        exec.ensure_capacity((all.len() + items.len()).saturating_mul(size_of::<Value>()))?;
        all.extend(items);
    }
    if all.is_empty() {
        return Ok(no_list());
    }
    out_list(exec, all)
}

/// The type `[][]interface {}`.
const CHUNKS: TypeInfo = TypeInfo::plain("[][]interface {}", Elem::Host);

fn chunk(exec: &mut Exec<'_>, a: &[Value]) -> Out {
    let items = slice(exec, any(a, 1), "Cannot chunk type")?;
    let size = int(a, 0);
    let count = ((items.len() as f64 - 1.0) / size as f64).floor() + 1.0;
    if size <= 0 && count >= 1.0 || count < 0.0 || count.is_nan() {
        return Err("runtime error: makeslice: len out of range".into());
    }
    let size = usize::try_from(size).unwrap_or(1).max(1);
    let chunks = items
        .chunks(size)
        .map(|c| Value::list(c.to_vec()))
        .collect();
    exec.charge_bytes(size_of_val(items.as_slice()))?;
    Ok(Value::List(List::typed(&CHUNKS, chunks)))
}
