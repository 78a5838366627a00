//! Merging and copying of dictionaries, with Go's aliasing: merged values stay shared with their
//! source.

use super::Out;
use super::arg::{MAP, PIECE, map};
use super::defaults::empty;
use super::equal::{MAX_DEPTH, too_deep};
use driftless_gotmpl::{Exec, FuncError, List, Map, Value};

/// Merges the first dictionary with each of the others like `dario.cat/mergo`'s `Merge`; the first
/// is changed.
pub(super) fn merged(exec: &mut Exec<'_>, a: &[Value], overwrite: bool) -> Out {
    let mut target = map(a, 0);
    for i in 1..a.len() {
        let source = map(a, i);
        if target.is_nil() && !source.is_nil() {
            target = Map::new();
        }
        merge(exec, &target, &source, overwrite, 0)?;
    }
    Ok(Value::Map(target))
}

fn merge(
    exec: &mut Exec<'_>,
    target: &Map,
    source: &Map,
    overwrite: bool,
    depth: usize,
) -> Result<(), FuncError> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    if target.is_nil() {
        return Ok(());
    }
    for (key, new) in source.pairs() {
        exec.charge_bytes(PIECE)?;
        exec.charge(4)?;
        let old = target.get(&*key);
        if new.is_nil() {
            if overwrite {
                target.insert(key, Value::Nil);
            }
            continue;
        }
        if let (Some(Value::Map(inner)), Value::Map(more)) = (&old, &new) {
            merge(exec, inner, more, overwrite, depth + 1)?;
        }
        let list = matches!(new, Value::List(_) | Value::Bytes(_));
        if list && (overwrite || target.is_empty()) {
            target.insert(key.clone(), new.clone());
        }
        // Checked only now: merging may have filled the old one.
        let filled = old.as_ref().is_some_and(|o| !empty_value(o));
        if filled && (list || matches!((&old, &new), (Some(Value::Map(_)), Value::Map(_)))) {
            continue;
        }
        let pointer = matches!(&new, Value::Object(o) if o.kind() == driftless_gotmpl::Kind::Ptr);
        if overwrite && !pointer || !filled {
            target.insert(key, new);
        }
    }
    Ok(())
}

/// Checks like mergo's `isEmptyValue`.
fn empty_value(value: &Value) -> bool {
    !matches!(value, Value::Object(_)) && empty(value)
}

/// Copies like `mitchellh/copystructure`'s `Copy`.
pub(super) fn deep_copy(exec: &mut Exec<'_>, value: &Value, depth: usize) -> Out {
    exec.charge_bytes(PIECE)?;
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    Ok(match value {
        Value::List(list) if !list.is_nil() => {
            let items = list.items().clone();
            let copies: Result<Vec<_>, _> = items
                .iter()
                .map(|v| deep_copy(exec, v, depth + 1))
                .collect();
            Value::List(List::typed(list.info(), copies?))
        }
        Value::Map(dict) if !dict.is_nil() => {
            exec.charge_bytes(MAP)?;
            let mut copy = std::collections::BTreeMap::new();
            for (key, value) in dict.pairs() {
                exec.charge(1)?;
                copy.insert(key, deep_copy(exec, &value, depth + 1)?);
            }
            Value::Map(Map::typed(dict.info(), copy))
        }
        other => other.clone(),
    })
}
