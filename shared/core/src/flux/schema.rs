//! Rules that the schemas of several specs share.

use schemars::Schema;
use serde_json::Value;

/// A duration as Go writes it.
pub(super) const DURATION: &str = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$";
/// A duration of less than an hour's unit, as Flux takes it for a request.
pub(super) const TIMEOUT: &str = r"^([0-9]+(\.[0-9]+)?(ms|s|m))+$";

/// Takes a property out of the schema of a type that is used in two places, and has it in one of them.
pub(super) fn without(property: &'static str) -> impl FnMut(&mut Schema) {
    move |schema| {
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            properties.remove(property);
        }
    }
}
