//! Patches: JSON (RFC 6902), merge (RFC 7386), strategic merge.

mod json;
mod strategic;

use driftless_fuel::{FuelLimits, OutOfFuel};
use serde_json::{Map, Value};

pub(crate) use json::operation as json_operation;
pub(crate) use strategic::go_map;

use crate::error::ApiError;
use crate::resources::Resource;
use crate::values::json_kind;

/// The limits on the cost of one patch.
const COST: FuelLimits = FuelLimits {
    steps: 20_000_000,
    bytes: 0,
    nodes: 4_000_000,
    depth: 1_000,
};

/// Returns the refusal of a patch that needs more.
fn too_large(out: OutOfFuel) -> ApiError {
    let message = format!("Request entity too large: the patch needs {out}");
    ApiError::new(413, "RequestEntityTooLarge", message)
}

/// The media types of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// JSON Patch (RFC 6902).
    Json,
    /// JSON Merge Patch (RFC 7386).
    Merge,
    /// A strategic merge patch.
    Strategic,
    /// An applied configuration (server-side apply).
    Apply,
}

/// Applies a patch to a live object, which is not changed.
///
/// # Errors
/// A patch that cannot be read or does not fit the object.
pub fn patched(
    kind: PatchKind,
    resource: &Resource,
    live: &Value,
    body: &[u8],
) -> Result<Value, ApiError> {
    match kind {
        PatchKind::Json => json::apply(live, body),
        PatchKind::Strategic => {
            let patch = document(body)?;
            strategic::apply(&resource.schema, resource.id, live, &patch)
        }
        PatchKind::Merge | PatchKind::Apply => {
            let patch = document(body)?;
            let mut out = live.clone();
            merge(&mut out, &patch);
            Ok(out)
        }
    }
}

fn document(body: &[u8]) -> Result<Value, ApiError> {
    let patch: Value = serde_json::from_slice(body).map_err(|error| {
        let detail = if error.is_eof() {
            "unexpected end of JSON input".to_owned()
        } else {
            error.to_string()
        };
        ApiError::bad_request(format!("error decoding patch: {detail}"))
    })?;
    if patch.is_object() {
        return Ok(patch);
    }
    Err(ApiError::bad_request(format!(
        "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
        json_kind(&patch)
    )))
}

/// Applies a JSON Merge Patch (RFC 7386).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(map) = target.as_object_mut() else {
        return;
    };
    for (key, value) in patch {
        if value.is_null() {
            map.remove(key);
        } else {
            merge(map.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}
