//! values.schema.json.

use super::Table;
use crate::chart::Chart;
use crate::convert;
use crate::error::HelmError;
use serde_json::Value as Json;

/// Checks coalesced values against the schemas of the chart and its subcharts. References to files and hosts are refused.
///
/// # Errors
/// [`HelmError::Schema`] with the places that do not fit; their values are not repeated.
pub fn validate(chart: &Chart, values: &Table) -> Result<(), HelmError> {
    let mut problems = String::new();
    check(chart, values, &mut problems);
    if problems.is_empty() {
        return Ok(());
    }
    Err(HelmError::Schema(problems))
}

fn check(chart: &Chart, values: &Table, problems: &mut String) {
    if let Some(schema) = &chart.schema
        && let Err(message) = one(schema, values)
    {
        problems.push_str(&format!("{}:\n{message}", chart.name()));
    }
    for sub in &chart.dependencies {
        match values.get(sub.name()) {
            None | Some(Json::Null) => {}
            Some(Json::Object(inner)) => check(sub, inner, problems),
            Some(_) => problems.push_str(&format!(
                "{}:\ninvalid type for values: expected object (map)\n",
                sub.name()
            )),
        }
    }
}

/// JSON nesting of a schema.
const MAX_DEPTH: usize = 200;

fn depth(value: &Json) -> usize {
    match value {
        Json::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Json::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn one(schema: &[u8], values: &Table) -> Result<(), String> {
    let schema: Json = serde_json::from_slice(schema)
        .map_err(|e| format!("values.schema.json is no JSON: line {}\n", e.line()))?;
    if depth(&schema) > MAX_DEPTH {
        return Err("values.schema.json is nested too deeply\n".to_owned());
    }
    let validator = jsonschema::options()
        .build(&schema)
        .map_err(|e| format!("values.schema.json cannot be used: {}\n", e.masked()))?;
    let values = plain(&Json::Object(values.clone()));
    let mut out = String::new();
    for error in validator.iter_errors(&values).take(100) {
        let place = error.instance_path().to_string();
        out.push_str(&format!("- at '{place}': {}\n", error.masked()));
    }
    if out.is_empty() { Ok(()) } else { Err(out) }
}

/// Numbers as their JSON text reads: 1.0 is the integer 1.
fn plain(value: &Json) -> Json {
    convert::to_json(&convert::to_value(value)).unwrap_or(Json::Null)
}
