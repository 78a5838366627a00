//! The scale subresource.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::error::ApiError;
use crate::merge::managers;
use crate::objects::patch::{PatchKind, patched};
use crate::registry::ownership::{decode_managers, own_update, writer};
use crate::request::call::Call;
use crate::request::message::Response;
use crate::request::options::Options;
use crate::resources::Resource;
use crate::store::state::State;
use crate::values::{set, text};

/// Returns an object's Scale.
pub(crate) fn of(resource: &Resource, object: &Value) -> Value {
    let metadata = &object["metadata"];
    let mut own = json!({
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
        "creationTimestamp": metadata["creationTimestamp"],
    });
    if resource.custom.is_some()
        && let Some(annotations) = metadata.get("annotations")
    {
        own["annotations"] = annotations.clone();
    }
    let paths = paths(resource);
    let number = |path: &str| {
        object
            .pointer(path)
            .and_then(Value::as_i64)
            .unwrap_or_default()
    };
    let mut spec = json!({});
    if number(&paths.0) != 0 {
        spec["replicas"] = number(&paths.0).into();
    }
    let mut status = json!({"replicas": number(&paths.1)});
    let selector = selector(resource, object);
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": own, "spec": spec, "status": status})
}

fn paths(resource: &Resource) -> (String, String, String) {
    let scale = resource
        .custom
        .as_ref()
        .and_then(|custom| custom.scale(&resource.version));
    let pointer = |value: &Value| value.as_str().unwrap_or_default().replace('.', "/");
    match scale {
        Some(scale) => (
            pointer(&scale["specReplicasPath"]),
            pointer(&scale["statusReplicasPath"]),
            pointer(&scale["labelSelectorPath"]),
        ),
        None => (
            "/spec/replicas".into(),
            "/status/replicas".into(),
            "/spec/selector".into(),
        ),
    }
}

fn selector(resource: &Resource, object: &Value) -> String {
    if resource.custom.is_some() {
        return text(object, &paths(resource).2).to_owned();
    }
    let labels = &object["spec"]["selector"]["matchLabels"];
    let labels = if labels.is_object() {
        labels
    } else {
        &object["spec"]["selector"]
    };
    let pairs: Vec<String> = labels
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)))
        .collect();
    pairs.join(",")
}

/// Replaces a Scale.
///
/// # Errors
/// The errors of the update of the object itself.
pub(crate) fn update(
    state: &mut State,
    call: &mut Call<'_>,
    options: &Options,
) -> Result<Response, ApiError> {
    let scale: Value = serde_json::from_slice(&call.request.body)
        .map_err(|_| ApiError::bad_request("the body is not a JSON document"))?;
    set_scale(state, call, &scale, options)
}

/// Patches a Scale.
///
/// # Errors
/// The errors of the update of the object itself, and patches that do not fit.
pub(crate) fn patch(
    state: &mut State,
    call: &mut Call<'_>,
    kind: PatchKind,
    options: &Options,
) -> Result<Response, ApiError> {
    let resource = Arc::clone(&call.target.resource);
    let live = call.live(state)?;
    let kind = match kind {
        PatchKind::Json => PatchKind::Json,
        PatchKind::Apply => {
            return Err(ApiError::bad_request(
                "apply to the scale subresource is not supported by this server",
            ));
        }
        _ => PatchKind::Merge,
    };
    let patched = patched(kind, &resource, &of(&resource, &live), &call.request.body)?;
    set_scale(state, call, &patched, options)
}

fn set_scale(
    state: &mut State,
    call: &mut Call<'_>,
    scale: &Value,
    options: &Options,
) -> Result<Response, ApiError> {
    let resource = Arc::clone(&call.target.resource);
    let live = call.live(state)?;
    let mut new = live.clone();
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or_default();
    let path = paths(&resource).0;
    if let Some(place) = new.pointer_mut(&path) {
        *place = replicas.into();
    } else if let Some((parent, key)) = path.rsplit_once('/')
        && let Some(parent) = new.pointer_mut(parent)
    {
        parent[key] = replicas.into();
    }
    let given = scale["metadata"].get("resourceVersion").cloned();
    new["metadata"]["resourceVersion"] =
        given.unwrap_or_else(|| live["metadata"]["resourceVersion"].clone());
    let now = call.clock.stamp();
    let writer = writer(&resource, call.target.sub(), &options.manager, &now);
    own_update(state, &resource, &writer, &live, &mut new);
    keep_times(&live, &mut new);
    call.target.subresource = None;
    let object = call.store_changed(state, &resource, &live, new, options.dry_run)?;
    Ok(Response::json(200, of(&resource, &object)))
}

/// Restores the times of managedFields: when the real server converts managers between Scale and
/// object, a new manager gets no time and a known one keeps its own.
fn keep_times(live: &Value, new: &mut Value) {
    let before = decode_managers(live);
    let mut after = decode_managers(new);
    for manager in after.iter_mut().filter(|m| m.subresource == "scale") {
        let known = before.iter().find(|known| known.is(manager));
        manager.time = known.and_then(|known| known.time.clone());
    }
    set(new, "metadata", "managedFields", managers::encode(after));
}
