//! Merges the user's values with those of the chart and its subcharts.

use crate::chart_tree::{ChartNode, MAX_DEPTH, deep_copy, too_deep};
use crate::compat::Compat;
use crate::error::HelmError;
use driftless_gotmpl::{Map, Value};

const GLOBAL: &str = "global";

/// The meaning of null.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Mode {
    /// Null deletes a chart's default.
    Coalesce,
    /// Null is a value.
    Merge,
}

/// Merges a chart's values, and those of its subcharts, under a copy of `values`: Helm's
/// `CoalesceValues` and `MergeValues`.
///
/// # Errors
/// A value that is not a table under the name of a subchart.
pub(crate) fn coalesce(
    chart: &ChartNode<'_>,
    values: &Map,
    mode: Mode,
    compat: Compat,
) -> Result<Map, HelmError> {
    let values = deep_copy(values)?;
    chart_values(chart, &values, mode, compat)?;
    Ok(values)
}

fn chart_values(
    chart: &ChartNode<'_>,
    dest: &Map,
    mode: Mode,
    compat: Compat,
) -> Result<(), HelmError> {
    own_values(chart, dest, mode, compat)?;
    for sub in &chart.dependencies {
        let name = sub.name();
        let inner = match dest.get(name) {
            None => {
                let inner = Map::new();
                dest.insert(name, Value::Map(inner.clone()));
                inner
            }
            Some(Value::Map(inner)) => inner,
            Some(_) => {
                return Err(HelmError::Values(format!(
                    "type mismatch on {name}: the values of a subchart must be a table"
                )));
            }
        };
        globals(&inner, dest)?;
        chart_values(sub, &inner, mode, compat)?;
    }
    Ok(())
}

fn own_values(
    chart: &ChartNode<'_>,
    dest: &Map,
    mode: Mode,
    compat: Compat,
) -> Result<(), HelmError> {
    let clean = compat == Compat::Helm4;
    for (key, own) in deep_copy(&chart.values)?.pairs() {
        match (dest.get(&*key), own) {
            (Some(Value::Nil), _) if mode == Mode::Coalesce => {
                dest.remove(&*key);
            }
            (Some(Value::Map(have)), Value::Map(own)) => {
                let is_subchart = chart
                    .dependencies
                    .iter()
                    .any(|d| d.name().as_bytes() == key.as_bytes());
                let inner = if is_subchart { Mode::Merge } else { mode };
                if clean && inner == Mode::Coalesce {
                    drop_nulls(&own);
                }
                tables(&have, &own, inner)?;
            }
            (Some(_), _) => {}
            (None, own) => {
                if clean && mode == Mode::Coalesce {
                    match &own {
                        Value::Nil => continue,
                        Value::Map(table) => drop_nulls(table),
                        _ => {}
                    }
                }
                dest.insert(key, own);
            }
        }
    }
    Ok(())
}

fn drop_nulls(table: &Map) {
    for (key, value) in table.pairs() {
        match value {
            Value::Nil => {
                table.remove(&*key);
            }
            Value::Map(inner) => drop_nulls(&inner),
            _ => {}
        }
    }
}

/// Merges `src` under `dst`: Helm's `CoalesceTables` and `MergeTables`. As in Helm, `src` is also
/// changed, and `dst` takes over its tables.
///
/// # Errors
/// Tables that are nested too deeply, or contain themselves.
pub(crate) fn tables(dst: &Map, src: &Map, mode: Mode) -> Result<(), HelmError> {
    tables_at(dst, src, mode, 0)
}

fn tables_at(dst: &Map, src: &Map, mode: Mode, depth: usize) -> Result<(), HelmError> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    let before = src.pairs();
    // A null of the destination hides the source's value, but differs from a null of the source.
    for (key, value) in dst.pairs() {
        if value.is_nil() {
            src.insert(key, Value::Nil);
        }
    }
    let known = |key: &[u8]| {
        // Sorted by key.
        before
            .binary_search_by(|(k, _)| k.as_bytes().cmp(key))
            .is_ok_and(|at| !before[at].1.is_nil())
    };
    for (key, value) in src.pairs() {
        match (dst.get(&*key), value) {
            (Some(Value::Nil), _) if mode == Mode::Coalesce && known(&key) => {
                dst.remove(&*key);
            }
            (None, value) => dst.insert(key, value),
            (Some(Value::Map(have)), Value::Map(value)) => {
                tables_at(&have, &value, mode, depth + 1)?;
            }
            (Some(_), _) => {}
        }
    }
    Ok(())
}

/// Merges a parent's globals over a subchart's. Tables are copied one level deep, as in Helm:
/// deeper ones are the parent's own.
fn globals(dest: &Map, source: &Map) -> Result<(), HelmError> {
    let to = match dest.get(GLOBAL) {
        None => Map::new(),
        Some(Value::Map(to)) => to,
        Some(_) => return Ok(()),
    };
    let from = match source.get(GLOBAL) {
        None => Map::new(),
        Some(Value::Map(from)) => from,
        Some(_) => return Ok(()),
    };
    for (key, value) in from.pairs() {
        match (to.get(&*key), value) {
            (have, Value::Map(value)) => {
                let copy = Map::typed(value.info(), value.pairs().into_iter().collect());
                match have {
                    None => to.insert(key, Value::Map(copy)),
                    Some(Value::Map(have)) => {
                        tables(&copy, &have, Mode::Merge)?;
                        to.insert(key, Value::Map(copy));
                    }
                    Some(_) => {}
                }
            }
            (Some(Value::Map(_)), _) => {}
            (_, value) => to.insert(key, value),
        }
    }
    dest.insert(GLOBAL, Value::Map(to));
    Ok(())
}
