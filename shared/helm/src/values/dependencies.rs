//! Which subcharts count, under which names, and what they give to their parent.

use super::coalesce::{Mode, coalesce, merge_values, tables};
use super::{Table, table};
use crate::chart::{Chart, Dependency};
use crate::compat::Compat;
use crate::error::HelmError;
use crate::semver::is_compatible;
use driftless_gotmpl::fmt::display;
use serde_json::Value as Json;

/// Applies conditions, tags, aliases and import-values: Helm's `ProcessDependenciesWithMerge`.
///
/// # Errors
/// Values that do not fit the subcharts.
pub fn process_dependencies(
    chart: &mut Chart,
    values: &Table,
    compat: Compat,
) -> Result<(), HelmError> {
    enable(chart, values, "", compat)?;
    import_all(chart, compat)
}

fn enable(chart: &mut Chart, values: &Table, path: &str, compat: Compat) -> Result<(), HelmError> {
    let Some(mut requirements) = chart.metadata.dependencies.take() else {
        return Ok(());
    };
    chart.dependencies = renamed(&chart.dependencies, &mut requirements);
    for requirement in &mut requirements {
        requirement.enabled = true;
    }
    let own = coalesce(chart, values, compat)?;
    tags(&mut requirements, &own);
    conditions(&mut requirements, &own, path);
    let off = |name: &str| requirements.iter().any(|r| !r.enabled && r.name == name);
    chart.dependencies.retain(|d| !off(d.name()));
    let kept = requirements
        .iter()
        .filter(|r| !off(&r.name))
        .cloned()
        .collect();
    chart.metadata.dependencies = Some(kept);
    for sub in &mut chart.dependencies {
        let path = format!("{path}{}.", sub.name());
        enable(sub, &own, &path, compat)?;
    }
    Ok(())
}

/// The subcharts that no entry names, then one for each entry, under its alias.
fn renamed(charts: &[Chart], requirements: &mut [Dependency]) -> Vec<Chart> {
    let fits = |chart: &Chart, r: &Dependency| {
        chart.name() == r.name && is_compatible(&r.version, &chart.metadata.version)
    };
    let mut out: Vec<Chart> = charts
        .iter()
        .filter(|c| !requirements.iter().any(|r| fits(c, r)))
        .cloned()
        .collect();
    for requirement in requirements {
        if let Some(chart) = charts.iter().find(|c| fits(c, requirement)) {
            let mut chart = chart.clone();
            if !requirement.alias.is_empty() {
                chart.metadata.name.clone_from(&requirement.alias);
            }
            out.push(chart);
        }
        if !requirement.alias.is_empty() {
            requirement.name.clone_from(&requirement.alias);
        }
    }
    out
}

fn tags(requirements: &mut [Dependency], values: &Table) {
    let Some(tags) = table(values, "tags") else {
        return;
    };
    for requirement in requirements {
        let (mut on, mut off) = (false, false);
        for tag in &requirement.tags {
            match tags.get(tag) {
                Some(Json::Bool(true)) => on = true,
                Some(Json::Bool(false)) => off = true,
                _ => {}
            }
        }
        requirement.enabled = on || !off;
    }
}

fn conditions(requirements: &mut [Dependency], values: &Table, path: &str) {
    for requirement in requirements {
        for condition in requirement.condition.trim().split(',') {
            if condition.is_empty() {
                continue;
            }
            if let Some(Json::Bool(on)) = path_value(values, &format!("{path}{condition}")) {
                requirement.enabled = *on;
                break;
            }
        }
    }
}

/// The value at a dotted path that is no table.
pub(crate) fn path_value<'v>(values: &'v Table, path: &str) -> Option<&'v Json> {
    let value = match path.rsplit_once('.') {
        Some((parent, key)) => table(values, parent)?.get(key)?,
        None => values.get(path)?,
    };
    (!value.is_object()).then_some(value)
}

fn import_all(chart: &mut Chart, compat: Compat) -> Result<(), HelmError> {
    for sub in &mut chart.dependencies {
        import_all(sub, compat)?;
    }
    let Some(requirements) = &chart.metadata.dependencies else {
        return Ok(());
    };
    let mut values = merge_values(chart, compat)?;
    let mut imported = Table::new();
    for requirement in requirements {
        for import in &requirement.import_values {
            let (child, parent) = match import {
                Json::String(name) => (format!("exports.{name}"), ".".to_owned()),
                Json::Object(map) => (named(map, "child"), named(map, "parent")),
                _ => continue,
            };
            let Some(found) = table(&values, &format!("{}.{child}", requirement.name)) else {
                continue;
            };
            tables(
                &mut imported,
                under_path(&parent, found.clone()),
                Mode::Merge,
            );
        }
    }
    tables(&mut values, imported, Mode::Merge);
    chart.values = values;
    Ok(())
}

fn named(map: &Table, key: &str) -> String {
    let value = map.get(key).unwrap_or(&Json::Null);
    display(&crate::convert::to_value(value))
}

fn under_path(path: &str, value: Table) -> Table {
    if path == "." {
        return value;
    }
    let mut out = value;
    for part in path.split('.').rev() {
        let mut outer = Table::new();
        outer.insert(part.to_owned(), Json::Object(out));
        out = outer;
    }
    out
}
