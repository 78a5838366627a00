//! JSON Patch (RFC 6902), applied as the real server does: see [`JsonPatch`].

use driftless_fuel::Fuel;
use driftless_go::Error as GoError;
use driftless_manifest::{JsonPatch, JsonPatchOperation};
use serde_json::Value;

use super::COST;
use crate::error::ApiError;

const MAX_OPERATIONS: usize = 10_000;

/// The most bytes that the copies of one patch may add: the real server's `JSONPatchMaxCopyBytes`.
const MAX_COPIED: usize = 3 << 20;

pub(super) fn apply(live: &Value, body: &[u8]) -> Result<Value, ApiError> {
    let raw: Value = serde_json::from_slice(body)
        .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
    if raw.is_object() {
        return Err(ApiError::bad_request(
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ));
    }
    let count = raw.as_array().map_or(0, Vec::len);
    if count > MAX_OPERATIONS {
        let message = format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}"
        );
        return Err(ApiError::new(413, "RequestEntityTooLarge", message));
    }
    let patch = JsonPatch::new(raw).map_err(|_| refused())?;
    let fuel = Fuel::new(COST);
    let mut out = live.clone();
    let mut copied = 0;
    for operation in patch.operations() {
        // The real server refuses operations on the root.
        if operation.names_root() {
            return Err(refused());
        }
        copied += copied_bytes(operation, &out)?;
        if copied > MAX_COPIED {
            return Err(refused());
        }
        operation.apply(&mut out, &fuel).map_err(|_| refused())?;
    }
    Ok(out)
}

/// Applies one operation that an expression made.
///
/// # Errors
/// An operation that is not valid, or that does not fit the object.
pub(crate) fn operation(object: &Value, operation: &Value) -> Result<Value, GoError> {
    let patch =
        JsonPatch::new(Value::Array(vec![operation.clone()])).map_err(|error| error.to_string())?;
    let fuel = Fuel::new(COST);
    let mut out = object.clone();
    for operation in patch.operations() {
        let copied = copied_bytes(operation, &out).map_err(|error| error.message)?;
        if copied > MAX_COPIED {
            return Err(format!("a copy of more than {MAX_COPIED} bytes").into());
        }
        operation
            .apply(&mut out, &fuel)
            .map_err(|error| error.to_string())?;
    }
    Ok(out)
}

/// Returns the bytes of JSON that an operation copies. Without a limit, forty copies that each
/// double an object would make it 2^40 times as large.
fn copied_bytes(operation: &JsonPatchOperation, document: &Value) -> Result<usize, ApiError> {
    let Some(value) = operation.copied(document) else {
        return Ok(0);
    };
    let mut length = Length(0);
    serde_json::to_writer(&mut length, value).map_err(|_| refused())?;
    Ok(length.0)
}

/// A writer that counts bytes.
struct Length(usize);

impl std::io::Write for Length {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patched(operations: &[Value]) -> Result<Value, ApiError> {
        apply(
            &json!({"data": {"a": "x".repeat(1 << 20)}}),
            json!(operations).to_string().as_bytes(),
        )
    }

    #[test]
    fn hostile_inputs_are_refused() {
        let copy =
            |at: usize| json!({"op": "copy", "from": "/data", "path": format!("/data/x{at}")});
        let one = patched(&[copy(0)]).unwrap();
        assert_eq!(one.pointer("/data/a"), one.pointer("/data/x0/a"));
        let doubling: Vec<Value> = (0..40).map(copy).collect();
        for count in [2, 40] {
            let Err(error) = patched(&doubling[..count]) else {
                panic!("{count} copies that double an object of 1 MiB are made");
            };
            assert_eq!(error.to_status()["code"], 422);
        }
    }
}
