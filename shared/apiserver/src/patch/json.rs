//! RFC 6902.

use json_patch::{AddOperation, Patch, PatchOperation};
use serde_json::Value;

use crate::error::ApiError;

const MOST_OPERATIONS: usize = 10_000;

pub(super) fn apply(live: &Value, body: &[u8]) -> Result<Value, ApiError> {
    let raw: Value = serde_json::from_slice(body)
        .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
    if raw.is_object() {
        return Err(ApiError::bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ));
    }
    let patch: Patch = serde_json::from_value(raw.clone()).map_err(|_| refused())?;
    if patch.0.len() > MOST_OPERATIONS {
        return Err(ApiError::new(
            413,
            "RequestEntityTooLarge",
            format!(
                "The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {}",
                patch.0.len()
            ),
        ));
    }
    let mut out = live.clone();
    for operation in patch.0 {
        let operation = as_the_real_server(operation, &out);
        json_patch::patch(&mut out, &[operation]).map_err(|_| refused())?;
    }
    Ok(out)
}

/// A replace of a field that is not there adds it.
fn as_the_real_server(operation: PatchOperation, document: &Value) -> PatchOperation {
    match operation {
        PatchOperation::Replace(replace) if document.pointer(replace.path.as_str()).is_none() => {
            PatchOperation::Add(AddOperation {
                path: replace.path,
                value: replace.value,
            })
        }
        other => other,
    }
}

fn refused() -> ApiError {
    ApiError::new(
        422,
        "Invalid",
        "the server rejected our request due to an error in our request",
    )
    .with_details()
}
