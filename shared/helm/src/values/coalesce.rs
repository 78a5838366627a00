//! A chart's own values under the user's, for the chart and its subcharts.

use super::Table;
use crate::chart::Chart;
use crate::compat::Compat;
use crate::error::HelmError;
use serde_json::Value as Json;

const GLOBAL: &str = "global";

/// Puts a chart's values under `values`, with those of its subcharts: Helm's `CoalesceValues`.
///
/// # Errors
/// A value that is no table where a subchart stands.
pub fn coalesce(chart: &Chart, values: &Table, compat: Compat) -> Result<Table, HelmError> {
    let mut values = values.clone();
    chart_values(chart, &mut values, Mode::Coalesce, compat)?;
    Ok(values)
}

/// The same without taking nulls as deletions: Helm's `MergeValues`.
pub(super) fn merge_values(chart: &Chart, compat: Compat) -> Result<Table, HelmError> {
    let mut values = Table::new();
    chart_values(chart, &mut values, Mode::Merge, compat)?;
    Ok(values)
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Mode {
    /// Null deletes.
    Coalesce,
    /// Null is a value.
    Merge,
}

fn chart_values(
    chart: &Chart,
    dest: &mut Table,
    mode: Mode,
    compat: Compat,
) -> Result<(), HelmError> {
    own_values(chart, dest, mode, compat);
    for sub in &chart.dependencies {
        let name = sub.name();
        let mut inner = match dest.get_mut(name) {
            None => Table::new(),
            Some(Json::Object(table)) => std::mem::take(table),
            Some(_) => {
                return Err(HelmError::Values(format!(
                    "type mismatch on {name}: the values of a subchart must be a table"
                )));
            }
        };
        globals(&mut inner, dest);
        chart_values(sub, &mut inner, mode, compat)?;
        dest.insert(name.to_owned(), Json::Object(inner));
    }
    Ok(())
}

fn own_values(chart: &Chart, dest: &mut Table, mode: Mode, compat: Compat) {
    let clean = compat == Compat::Helm4 && mode == Mode::Coalesce;
    for (key, value) in &chart.values {
        match dest.get_mut(key) {
            Some(Json::Null) if mode == Mode::Coalesce => {
                dest.remove(key);
            }
            Some(Json::Object(have)) => {
                if let Json::Object(own) = value {
                    let is_subchart = chart.dependencies.iter().any(|d| d.name() == key);
                    let inner = if is_subchart { Mode::Merge } else { mode };
                    let mut own = own.clone();
                    if clean {
                        drop_nulls(&mut own);
                    }
                    tables(have, own, inner);
                }
            }
            Some(_) => {}
            None => {
                if clean && value.is_null() {
                    continue;
                }
                let mut value = value.clone();
                if clean && let Json::Object(table) = &mut value {
                    drop_nulls(table);
                }
                dest.insert(key.clone(), value);
            }
        }
    }
}

fn drop_nulls(table: &mut Table) {
    table.retain(|_, v| !v.is_null());
    for value in table.values_mut() {
        if let Json::Object(inner) = value {
            drop_nulls(inner);
        }
    }
}

/// Lays `src` under `dst`: Helm's `CoalesceTables` and `MergeTables`.
pub(super) fn tables(dst: &mut Table, mut src: Table, mode: Mode) {
    let mut known: Vec<String> = Vec::new();
    for (key, value) in &src {
        if !value.is_null() {
            known.push(key.clone());
        }
    }
    // A null of the destination hides the source's value, but is told from a null of the source.
    for (key, value) in dst.iter() {
        if value.is_null() {
            src.insert(key.clone(), Json::Null);
        }
    }
    for (key, value) in src {
        match dst.get_mut(&key) {
            Some(Json::Null) if mode == Mode::Coalesce && known.contains(&key) => {
                dst.remove(&key);
            }
            None => {
                dst.insert(key, value);
            }
            Some(Json::Object(have)) => {
                if let Json::Object(value) = value {
                    tables(have, value, mode);
                }
            }
            Some(_) => {}
        }
    }
}

/// A parent's globals over a subchart's.
fn globals(dest: &mut Table, source: &Table) {
    let empty = Table::new();
    let from = match source.get(GLOBAL) {
        None => &empty,
        Some(Json::Object(table)) => table,
        Some(_) => return,
    };
    let entry = dest
        .entry(GLOBAL)
        .or_insert_with(|| Json::Object(Table::new()));
    let Json::Object(to) = entry else {
        return;
    };
    for (key, value) in from {
        match (to.get_mut(key), value) {
            (Some(Json::Object(have)), Json::Object(value)) => {
                let under = std::mem::replace(have, value.clone());
                tables(have, under, Mode::Merge);
            }
            (Some(Json::Object(_)), _) => {}
            (Some(_), Json::Object(_)) => {}
            (_, value) => {
                to.insert(key.clone(), value.clone());
            }
        }
    }
}
