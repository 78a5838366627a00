//! Patches.

use std::sync::Arc;

use serde_json::Value;

use crate::error::{ApiError, FieldError};
use crate::objects;
use crate::objects::patch::{PatchKind, go_map, patched};
use crate::registry::ownership::{own_update, writer};
use crate::request::apply::apply;
use crate::request::body::patch_kind;
use crate::request::call::Call;
use crate::request::checks::keep_reset;
use crate::request::message::Response;
use crate::request::options::Options;
use crate::request::scale;
use crate::store::state::State;
use crate::values::text;

/// Patches an object.
///
/// # Errors
/// The errors of [`update`], and patches that do not fit.
pub(crate) fn patch(state: &mut State, call: &mut Call<'_>) -> Result<Response, ApiError> {
    let resource = Arc::clone(&call.target.resource);
    let kind = patch_kind(call.request.header("content-type"), &resource)?;
    let options = Options::read(call, "PatchOptions", Some(kind))?;
    if call.target.sub() == "scale" {
        return scale::patch(state, call, kind, &options);
    }
    if kind == PatchKind::Apply {
        return apply(state, call, &resource, &options);
    }
    let live = call.live(state)?;
    let patched = patched(kind, &resource, &live, &call.request.body)?;
    let mut warnings = Vec::new();
    let mut new = objects::read(&resource, &patched, options.validation, &mut warnings)
        .map_err(|error| patch_error(kind, &call.request.body, &patched, &error))?;
    call.warnings.append(&mut warnings);
    if patched
        .get("apiVersion")
        .is_some_and(|v| *v != live["apiVersion"])
        || patched.get("kind").is_some_and(|v| *v != live["kind"])
    {
        return Err(ApiError::bad_request(
            "the API version in the data does not match the expected API version",
        ));
    }
    if text(&new, "/metadata/name") != call.target.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            text(&new, "/metadata/name"),
            call.target.name
        )));
    }
    keep_reset(&patched, &mut new);
    let now = call.clock.stamp();
    let writer = writer(&resource, call.target.sub(), &options.manager, &now);
    own_update(state, &resource, &writer, &live, &mut new);
    let object = call.store_changed(state, &resource, &live, new, options.dry_run)?;
    call.object(&resource, 200, object)
}

fn patch_error(kind: PatchKind, body: &[u8], patched: &Value, error: &ApiError) -> ApiError {
    let detail = error.message.clone();
    let strict = detail
        .find("strict decoding error")
        .map(|at| detail[at..].to_owned());
    let detail = strict.unwrap_or_else(|| {
        let at = detail.find("cannot be handled as a ").unwrap_or_default();
        detail[at..]
            .split_once(": ")
            .map_or(detail.clone(), |(_, rest)| rest.to_owned())
    });
    let shown = match kind {
        PatchKind::Strategic => {
            let patch: Value = serde_json::from_slice(body).unwrap_or_default();
            go_map(&patch)
        }
        _ => patched.to_string(),
    };
    ApiError::invalid(
        "",
        "",
        "",
        &[FieldError::invalid("patch", &Value::String(shown), &detail)],
    )
}
