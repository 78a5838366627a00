//! Which subcharts count, under which names, and what they give to their parent.

use super::coalesce::{Mode, coalesce, tables};
use crate::chart::Dependency;
use crate::compat::Compat;
use crate::error::HelmError;
use crate::semver::is_compatible;
use crate::work::{Work, deep_copy, path_value, table};
use driftless_gotmpl::fmt::display;
use driftless_gotmpl::{Map, Value};
use serde_json::{Value as Json, json};

/// Applies conditions, tags, aliases and import-values: Helm's `ProcessDependenciesWithMerge`.
///
/// # Errors
/// Values that do not fit the subcharts.
pub(crate) fn process_dependencies(
    chart: &mut Work<'_>,
    values: &Map,
    compat: Compat,
) -> Result<(), HelmError> {
    enable(chart, values, "", compat)?;
    import_all(chart, compat)
}

fn enable(chart: &mut Work<'_>, values: &Map, path: &str, compat: Compat) -> Result<(), HelmError> {
    let Some(mut requirements) = chart.metadata.dependencies.take() else {
        return Ok(());
    };
    chart.dependencies = renamed(&chart.dependencies, &mut requirements);
    for requirement in &mut requirements {
        requirement.enabled = true;
    }
    let own = coalesce(chart, values, Mode::Coalesce, compat)?;
    tags(&mut requirements, &own);
    conditions(&mut requirements, &own, path);
    let off = |name: &str| requirements.iter().any(|r| !r.enabled && r.name == name);
    chart.dependencies.retain(|d| !off(d.name()));
    let kept: Vec<Dependency> = requirements
        .iter()
        .filter(|r| !off(&r.name))
        .cloned()
        .collect();
    // An empty list is none, as an appended nil slice is in Go.
    chart.metadata.dependencies = (!kept.is_empty()).then_some(kept);
    for sub in &mut chart.dependencies {
        let path = format!("{path}{}.", sub.name());
        enable(sub, &own, &path, compat)?;
    }
    Ok(())
}

/// The subcharts that no entry names, then one for each entry, under its alias.
fn renamed<'c>(charts: &[Work<'c>], requirements: &mut [Dependency]) -> Vec<Work<'c>> {
    let fits = |chart: &Work<'_>, r: &Dependency| {
        chart.name() == r.name && is_compatible(&r.version, &chart.metadata.version)
    };
    let mut out: Vec<Work<'c>> = charts
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

fn tags(requirements: &mut [Dependency], values: &Map) {
    let Some(tags) = table(values, "tags") else {
        return;
    };
    for requirement in requirements {
        let (mut on, mut off) = (false, false);
        for tag in &requirement.tags {
            match tags.get(tag) {
                Some(Value::Bool(true)) => on = true,
                Some(Value::Bool(false)) => off = true,
                _ => {}
            }
        }
        requirement.enabled = on || !off;
    }
}

fn conditions(requirements: &mut [Dependency], values: &Map, path: &str) {
    for requirement in requirements {
        for condition in requirement.condition.trim().split(',') {
            if condition.is_empty() {
                continue;
            }
            if let Some(Value::Bool(on)) = path_value(values, &format!("{path}{condition}")) {
                requirement.enabled = on;
                break;
            }
        }
    }
}

fn import_all(chart: &mut Work<'_>, compat: Compat) -> Result<(), HelmError> {
    for sub in &mut chart.dependencies {
        import_all(sub, compat)?;
    }
    let Some(mut requirements) = chart.metadata.dependencies.take() else {
        return Ok(());
    };
    let values = coalesce(chart, &Map::new(), Mode::Merge, compat)?;
    let imported = Map::new();
    for requirement in &mut requirements {
        let imports = std::mem::take(&mut requirement.import_values);
        for (child, parent) in imports.iter().filter_map(import) {
            let found = table(&values, &format!("{}.{child}", requirement.name));
            if let Some(found) = found {
                tables(&imported, &under_path(&parent, found), Mode::Merge);
            }
            let read = json!({ "child": child, "parent": parent });
            requirement.import_values.push(read);
        }
    }
    chart.metadata.dependencies = Some(requirements);
    // The imported tables may be those of the values: what is merged must not be changed by that.
    let values = deep_copy(&values);
    tables(&values, &imported, Mode::Merge);
    chart.values = values;
    Ok(())
}

/// The paths of an entry of `import-values`.
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
