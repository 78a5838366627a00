//! The check of values against values.schema.json.

use super::schema_cost;
use crate::chart_tree::ChartNode;
use crate::convert;
use crate::error::HelmError;
use driftless_go::Error as GoError;
use driftless_gotmpl::{Map, Value};
use serde_json::Value as Json;

/// Checks coalesced values against the schemas of the chart and its subcharts. References to files
/// and hosts are refused.
///
/// # Errors
/// [`HelmError::Schema`] with the places that do not match; their values are not repeated.
pub(crate) fn validate(chart: &ChartNode<'_>, values: &Map) -> Result<(), HelmError> {
    let mut problems = String::new();
    check(chart, values, &mut problems);
    if problems.is_empty() {
        return Ok(());
    }
    Err(HelmError::Schema(problems))
}

fn check(chart: &ChartNode<'_>, values: &Map, problems: &mut String) {
    if let Some(schema) = &chart.source.schema
        && let Err(message) = one(schema, values)
    {
        problems.push_str(&format!("{}:\n{message}", chart.name()));
    }
    for sub in &chart.dependencies {
        match values.get(sub.name()) {
            None | Some(Value::Nil) => {}
            Some(Value::Map(inner)) => check(sub, &inner, problems),
            Some(_) => problems.push_str(&format!(
                "{}:\ninvalid type for values: expected object (map)\n",
                sub.name()
            )),
        }
    }
}

fn one(schema: &[u8], values: &Map) -> Result<(), GoError> {
    let schema: Json = serde_json::from_slice(schema)
        .map_err(|e| format!("values.schema.json is not JSON: line {}\n", e.line()))?;
    schema_cost::check(&schema)
        .map_err(|reason| format!("values.schema.json cannot be used: {reason}\n"))?;
    // Linear in time, like Go's own engine.
    let validator = jsonschema::options()
        .with_pattern_options(jsonschema::PatternOptions::regex())
        .build(&schema)
        .map_err(|e| format!("values.schema.json cannot be used: {}\n", e.masked()))?;
    // Numbers as in their JSON text: 1.0 is the integer 1.
    let values = convert::to_json(&Value::Map(values.clone())).map_err(|e| format!("{e}\n"))?;
    let mut out = String::new();
    for error in validator.iter_errors(&values).take(100) {
        let place = error.instance_path().to_string();
        out.push_str(&format!("- at '{place}': {}\n", error.masked()));
    }
    if out.is_empty() {
        Ok(())
    } else {
        Err(out.into())
    }
}
