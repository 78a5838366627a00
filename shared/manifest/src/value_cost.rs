//! The fuel that JSON values cost.

use driftless_fuel::{Fuel, MAP_NODES, OutOfFuel, TEXT_PER_NODE, text_nodes};
use serde_json::Value;

/// Returns the nodes that a JSON value counts as, with its contents.
pub fn value_nodes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(text) => text_nodes(text.len()),
        Value::Array(items) => 1 + items.iter().map(value_nodes).sum::<usize>(),
        Value::Object(map) => {
            let field =
                |(key, value): (&String, &Value)| key.len() / TEXT_PER_NODE + value_nodes(value);
            1 + MAP_NODES + map.iter().map(field).sum::<usize>()
        }
    }
}

/// Refuses a value that is nested too deeply below `above` levels.
///
/// # Errors
/// [`FuelKind::Depth`](driftless_fuel::FuelKind::Depth).
pub fn check_depth(fuel: &Fuel, above: usize, value: &Value) -> Result<(), OutOfFuel> {
    fuel.depth(above)?;
    match value {
        Value::Array(items) => items
            .iter()
            .try_for_each(|item| check_depth(fuel, above + 1, item)),
        Value::Object(map) => map
            .values()
            .try_for_each(|item| check_depth(fuel, above + 1, item)),
        _ => Ok(()),
    }
}
