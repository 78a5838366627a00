//! Rules that the schemas of several specs share.

use schemars::Schema;
use serde_json::Value;

/// The pattern of a duration in Go's format.
pub(super) const DURATION: &str = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$";
/// The pattern of a duration without hours, which Flux requires for the timeout of a request.
pub(super) const TIMEOUT: &str = r"^([0-9]+(\.[0-9]+)?(ms|s|m))+$";

/// Returns a transform that removes a property from a schema: for a type that is used in two
/// places, of which one does not have the property.
pub(super) fn without(property: &'static str) -> impl FnMut(&mut Schema) {
    move |schema| {
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            properties.remove(property);
        }
    }
}
