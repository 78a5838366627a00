//! The processing of dependencies: the enabled subcharts, their names, and the values that they
//! export to their parent.

use super::coalesce::{Mode, coalesce, tables};
use crate::chart::Dependency;
use crate::chart_tree::{ChartNode, Requirement, Shared, deep_copy, path_value, table};
use crate::compat::Compat;
use crate::error::HelmError;
use driftless_go::semver::is_compatible;
use driftless_gotmpl::fmt::display;
use driftless_gotmpl::{Map, Value};
use serde_json::{Value as Json, json};

/// Applies conditions, tags, aliases and import-values: Helm's `ProcessDependenciesWithMerge`.
///
/// # Errors
/// Values that do not match the subcharts.
pub(crate) fn process_dependencies(
    chart: &mut ChartNode<'_>,
    values: &Map,
    compat: Compat,
) -> Result<(), HelmError> {
    let mut room = MAX_CHARTS;
    enable(chart, values, "", compat, &mut room)?;
    import_all(chart, compat)?;
    chart.publish_dependencies();
    Ok(())
}

/// The maximal charts of one release, under all their aliases: an alias of a chart whose subcharts
/// have aliases doubles them.
const MAX_CHARTS: usize = 2_000;

fn enable(
    chart: &mut ChartNode<'_>,
    values: &Map,
    path: &str,
    compat: Compat,
    room: &mut usize,
) -> Result<(), HelmError> {
    let Some(requirements) = chart.requirements.take() else {
        return Ok(());
    };
    let wanted = chart.dependencies.len().max(requirements.len());
    *room = room.checked_sub(wanted).ok_or_else(|| {
        let message = format!("the release has more than {MAX_CHARTS} charts");
        HelmError::chart("Chart.yaml", message)
    })?;
    let charts = renamed(&chart.dependencies, &requirements, compat);
    chart.adopt(charts);
    for requirement in &requirements {
        requirement.borrow_mut().entry.enabled = true;
    }
    let own = coalesce(chart, values, Mode::Coalesce, compat)?;
    tags(&requirements, &own);
    conditions(&requirements, &own, path);
    let off = |name: &str| {
        let mut entries = requirements.iter().map(|r| r.borrow());
        entries.any(|r| !r.entry.enabled && r.entry.name == name)
    };
    let mut charts = std::mem::take(&mut chart.dependencies);
    charts.retain(|d| !off(d.name()));
    for sub in &mut charts {
        let path = format!("{path}{}.", sub.name());
        enable(sub, &own, &path, compat, room)?;
    }
    chart.adopt(charts);
    let kept = requirements.iter().filter(|r| !off(&r.borrow().entry.name));
    let kept: Vec<Shared> = kept.cloned().collect();
    // An empty list becomes `None`, as an appended nil slice is in Go.
    chart.requirements = (!kept.is_empty()).then_some(kept);
    Ok(())
}

/// Returns the subcharts that are not in an entry, then one for each entry, under its alias.
fn renamed<'c>(
    charts: &[ChartNode<'c>],
    requirements: &[Shared],
    compat: Compat,
) -> Vec<ChartNode<'c>> {
    let fits = |chart: &ChartNode<'_>, r: &Dependency| {
        chart.name() == r.name && is_compatible(&r.version, &chart.metadata.version)
    };
    let named = |chart: &ChartNode<'_>| requirements.iter().any(|r| fits(chart, &r.borrow().entry));
    let mut out: Vec<ChartNode<'c>> = charts.iter().filter(|c| !named(c)).cloned().collect();
    for requirement in requirements {
        let entry = &mut requirement.borrow_mut().entry;
        if let Some(chart) = charts.iter().find(|c| fits(c, entry)) {
            out.push(chart.aliased(&entry.alias, compat));
        }
        if !entry.alias.is_empty() {
            entry.name.clone_from(&entry.alias);
        }
    }
    out
}

fn tags(requirements: &[Shared], values: &Map) {
    let Ok(tags) = table(values, "tags") else {
        return;
    };
    for requirement in requirements {
        let entry = &mut requirement.borrow_mut().entry;
        let (mut on, mut off) = (false, false);
        for tag in &entry.tags {
            match tags.get(tag) {
                Some(Value::Bool(true)) => on = true,
                Some(Value::Bool(false)) => off = true,
                _ => {}
            }
        }
        entry.enabled = on || !off;
    }
}

fn conditions(requirements: &[Shared], values: &Map, path: &str) {
    for requirement in requirements {
        let entry = &mut requirement.borrow_mut().entry;
        for condition in entry.condition.trim().split(',') {
            if condition.is_empty() {
                continue;
            }
            if let Ok(Value::Bool(on)) = path_value(values, &format!("{path}{condition}")) {
                entry.enabled = on;
                break;
            }
        }
    }
}

fn import_all(chart: &mut ChartNode<'_>, compat: Compat) -> Result<(), HelmError> {
    for sub in &mut chart.dependencies {
        import_all(sub, compat)?;
    }
    let Some(requirements) = chart.requirements.clone() else {
        return Ok(());
    };
    let values = coalesce(chart, &Map::new(), Mode::Merge, compat)?;
    let imported = Map::new();
    for requirement in &requirements {
        import_one(&mut requirement.borrow_mut(), &values, &imported)?;
    }
    // The imported tables may be those of the values: merging must not change them.
    let values = deep_copy(&values)?;
    tables(&values, &imported, Mode::Merge)?;
    chart.values = values;
    Ok(())
}

fn import_one(
    requirement: &mut Requirement,
    values: &Map,
    imported: &Map,
) -> Result<(), HelmError> {
    let imports = std::mem::take(&mut requirement.entry.import_values);
    // An import that was already converted is not read as one again.
    if std::mem::replace(&mut requirement.imported, true) {
        return Ok(());
    }
    for (child, parent) in imports.iter().filter_map(import) {
        let found = table(values, &format!("{}.{child}", requirement.entry.name));
        if let Ok(found) = found {
            tables(imported, &under_path(&parent, found), Mode::Merge)?;
        }
        let read = json!({ "child": child, "parent": parent });
        requirement.entry.import_values.push(read);
    }
    Ok(())
}

/// Returns the paths of an entry of `import-values`.
fn import(entry: &Json) -> Option<(String, String)> {
    let named = |key| {
        let value = entry.get(key).unwrap_or(&Json::Null);
        display(&crate::convert::to_value(value))
    };
    match entry {
        Json::String(name) => Some((format!("exports.{name}"), ".".to_owned())),
        Json::Object(_) => Some((named("child"), named("parent"))),
        _ => None,
    }
}

fn under_path(path: &str, value: Map) -> Map {
    if path == "." {
        return value;
    }
    let mut out = value;
    for part in path.split('.').rev() {
        out = Map::from_pairs([(part, Value::Map(out))]);
    }
    out
}
