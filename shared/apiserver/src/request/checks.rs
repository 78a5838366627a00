//! Checks that create, update, patch and apply share.

use serde_json::{Value, json};

use crate::error::ApiError;
use crate::resources::Resource;
use crate::values::text;

/// Returns the name of an object, which must be the name in the URL.
pub(crate) fn name_of_url(url: &str, object: &Value) -> Result<String, ApiError> {
    match text(object, "/metadata/name") {
        "" => Err(ApiError::bad_request(format!(
            "the name of the object ({url} based on URL) was undeterminable: name must be provided"
        ))),
        name if name != url => Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({url})"
        ))),
        name => Ok(name.to_owned()),
    }
}

/// Keeps an empty `managedFields` list, which resets the owners: reading drops empty lists.
pub(crate) fn keep_reset(document: &Value, new: &mut Value) {
    let given = document["metadata"]
        .get("managedFields")
        .and_then(Value::as_array);
    if given.is_some_and(Vec::is_empty) {
        new["metadata"]["managedFields"] = json!([]);
    }
}

/// Warnings about topology spread constraints that select nothing.
pub(crate) fn topology_spread_warnings(resource: &Resource, object: &Value) -> Vec<String> {
    let path = match resource.plural.as_str() {
        "pods" => "spec",
        "deployments" | "statefulsets" | "daemonsets" | "replicasets" | "jobs" => {
            "spec.template.spec"
        }
        _ => return Vec::new(),
    };
    let pointer = format!("/{}/topologySpreadConstraints", path.replace('.', "/"));
    let list = object.pointer(&pointer).and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .enumerate()
        .filter(|(_, constraint)| resource.custom.is_none() && constraint.get("labelSelector").is_none())
        .map(|(index, _)| {
            format!(
                "{path}.topologySpreadConstraints[{index}].labelSelector: a null labelSelector results in matching no pod"
            )
        })
        .collect()
}

/// Removes duplicate owner references, with a warning.
pub(crate) fn dedup_owners(object: &mut Value, warnings: &mut Vec<String>) {
    let Some(list) = object["metadata"]
        .get_mut("ownerReferences")
        .and_then(Value::as_array_mut)
    else {
        return;
    };
    let mut kept: Vec<Value> = Vec::new();
    let mut duplicates = Vec::new();
    for owner in std::mem::take(list) {
        if kept.contains(&owner) {
            duplicates.push(text(&owner, "/uid").to_owned());
        } else {
            kept.push(owner);
        }
    }
    *list = kept;
    if !duplicates.is_empty() {
        warnings.push(format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            duplicates.join(", ")
        ));
    }
}

pub(crate) fn match_namespace(namespace: &str, object: &mut Value) -> Result<(), ApiError> {
    let given = text(object, "/metadata/namespace");
    if given.is_empty() && !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    } else if given != namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}
