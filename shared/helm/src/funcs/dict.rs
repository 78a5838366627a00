//! Functions on dictionaries.

use super::arg::{MAP, PIECE, any, bytes, map, out_list, string, string_list};
use super::merge::{deep_copy, merged};
use super::reflect::ZERO_VALUE;
use super::{A, Entry, M, MS, Out};
use driftless_gotmpl::{Exec, FuncError, Map, Param, Value};

pub(super) const TABLE: &[Entry] = &[
    ("get", MS, |_, a| {
        Ok(map(a, 0).get(bytes(a, 1)).unwrap_or_else(|| Value::str("")))
    }),
    ("set", &[Param::Map, Param::Str, Param::Any], |e, a| {
        e.charge_bytes(PIECE + bytes(a, 1).len())?;
        let dict = map(a, 0);
        if dict.is_nil() {
            return Err("assignment to entry in nil map".into());
        }
        dict.insert(bytes(a, 1), any(a, 2).clone());
        Ok(Value::Map(dict))
    }),
    ("unset", MS, |_, a| {
        let dict = map(a, 0);
        dict.remove(bytes(a, 1));
        Ok(Value::Map(dict))
    }),
    ("hasKey", MS, |_, a| {
        Ok(Value::Bool(map(a, 0).get(bytes(a, 1)).is_some()))
    }),
    ("values", M, |e, a| {
        let values = map(a, 0).entries().values().cloned().collect();
        out_list(e, values)
    }),
    ("deepCopy", A, |e, a| copied(e, any(a, 0))),
    ("mustDeepCopy", A, |e, a| copied(e, any(a, 0))),
];

pub(super) const VARIADIC: &[Entry] = &[
    ("dict", A, |e, a| {
        e.charge_bytes(PIECE.saturating_mul(a.len()).saturating_add(MAP))?;
        let dict = Map::new();
        for pair in a.chunks(2) {
            let value = pair.get(1).cloned().unwrap_or_else(|| Value::str(""));
            dict.insert(string(e, any(pair, 0))?, value);
        }
        Ok(Value::Map(dict))
    }),
    ("pluck", &[Param::Str, Param::Map], |e, a| {
        let dicts = (1..a.len()).map(|i| map(a, i));
        let found = dicts.filter_map(|d| d.get(bytes(a, 0))).collect();
        out_list(e, found)
    }),
    ("keys", M, |e, a| {
        let mut keys = Vec::new();
        for i in 0..a.len() {
            let dict = map(a, i);
            e.charge_bytes(size_of::<Value>().saturating_mul(dict.len()))?;
            e.charge(dict.len() as u64 / 4)?;
            keys.extend(dict.entries().keys().cloned().map(Value::Str));
        }
        Ok(string_list(keys))
    }),
    ("pick", MS, |e, a| {
        e.charge_bytes(PIECE.saturating_mul(a.len()).saturating_add(MAP))?;
        let (dict, picked) = (map(a, 0), Map::new());
        for i in 1..a.len() {
            if let Some(value) = dict.get(bytes(a, i)) {
                picked.insert(bytes(a, i), value);
            }
        }
        Ok(Value::Map(picked))
    }),
    ("omit", MS, |e, a| {
        let dict = map(a, 0);
        e.charge_bytes(PIECE.saturating_mul(dict.len()).saturating_add(MAP))?;
        e.charge(dict.len() as u64)?;
        let kept = Map::from_pairs(dict.pairs());
        for i in 1..a.len() {
            kept.remove(bytes(a, i));
        }
        Ok(Value::Map(kept))
    }),
    ("merge", &[Param::Map, Param::Map], |e, a| {
        merged(e, a, false)
    }),
    ("mustMerge", &[Param::Map, Param::Map], |e, a| {
        merged(e, a, false)
    }),
    ("mergeOverwrite", &[Param::Map, Param::Map], |e, a| {
        merged(e, a, true)
    }),
    ("mustMergeOverwrite", &[Param::Map, Param::Map], |e, a| {
        merged(e, a, true)
    }),
    ("dig", A, dig),
];

fn copied(exec: &mut Exec<'_>, value: &Value) -> Out {
    if matches!(value, Value::NoValue | Value::Nil) {
        return Err(ZERO_VALUE.into());
    }
    deep_copy(exec, value, 0)
}

/// Returns Go's error of a failed type assertion.
fn assertion(value: &Value, wanted: &str) -> FuncError {
    let have = match value {
        Value::NoValue | Value::Nil => "nil".into(),
        other => other.type_name(),
    };
    format!("interface conversion: interface {{}} is {have}, not {wanted}").into()
}

fn dig(exec: &mut Exec<'_>, a: &[Value]) -> Out {
    let [keys @ .., default, dict] = a else {
        return Err("dig needs at least three arguments".into());
    };
    if keys.is_empty() {
        return Err("dig needs at least three arguments".into());
    }
    exec.charge(keys.len() as u64)?;
    let as_map = |value: &Value| match value {
        Value::Map(m) if m.info().name == driftless_gotmpl::TypeInfo::MAP.name => Ok(m.clone()),
        other => Err(assertion(other, "map[string]interface {}")),
    };
    let mut dict = as_map(dict)?;
    if let Some(odd) = keys.iter().find(|k| k.as_str().is_none()) {
        return Err(assertion(odd, "string"));
    }
    for (i, _) in keys.iter().enumerate() {
        let Some(value) = dict.get(bytes(keys, i)) else {
            return Ok(default.clone());
        };
        if i + 1 == keys.len() {
            return Ok(value);
        }
        dict = as_map(&value)?;
    }
    Ok(default.clone())
}
