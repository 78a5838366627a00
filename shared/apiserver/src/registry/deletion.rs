//! Deletions: an object with finalizers is only marked for deletion.

use std::sync::Arc;

use serde_json::Value;

use crate::registry::{definitions, strategy};
use crate::resources::Resource;
use crate::store::Name;
use crate::store::state::State;
use crate::values::set;

/// The `DeleteOptions` of a request, from its body or its query.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeleteOptions {
    pub dry_run: bool,
    /// The uid that the object must have.
    pub uid: Option<String>,
    /// The version that the object must have.
    pub version: Option<String>,
    /// `Foreground`, `Background`, `Orphan`, or empty.
    pub propagation: String,
    /// Seconds of grace.
    pub grace: Option<i64>,
}

/// The result of a deletion.
pub(crate) enum Outcome {
    /// The object was deleted; its last state.
    Deleted(Arc<Value>),
    /// The object was marked for deletion; its new state.
    Marked(Value),
}

/// Kinds whose deletion answers with the object instead of a Status.
pub(crate) fn answers_object(resource: &Resource) -> bool {
    matches!(
        (resource.group.as_str(), resource.plural.as_str()),
        (
            "",
            "pods"
                | "services"
                | "serviceaccounts"
                | "persistentvolumeclaims"
                | "persistentvolumes"
                | "podtemplates"
                | "replicationcontrollers"
                | "resourcequotas"
        ) | (
            "storage.k8s.io",
            "storageclasses" | "volumeattachments" | "csidrivers" | "csinodes"
        ) | ("policy", "podsecuritypolicies")
    ) && resource.custom.is_none()
}

/// Deletes an object, or marks it for deletion when it has finalizers.
pub(crate) fn delete(
    state: &mut State,
    resource: &Resource,
    key: &Name,
    live: &Value,
    options: &DeleteOptions,
    now: &str,
) -> Outcome {
    let mut object = live.clone();
    let already = object["metadata"].get("deletionTimestamp").is_some();
    let mut finalizers: Vec<Value> = object["metadata"]["finalizers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let policy = match options.propagation.as_str() {
        "Foreground" => Some("foregroundDeletion"),
        "Orphan" => Some("orphan"),
        _ => None,
    };
    if !options.propagation.is_empty() {
        finalizers.retain(|f| f != "foregroundDeletion" && f != "orphan");
        finalizers.extend(policy.map(Value::from));
    }
    let held = !finalizers.is_empty() || strategy::holds_finalizers(resource, &object);
    if !held {
        if options.dry_run {
            return Outcome::Deleted(Arc::new(object));
        }
        if object["metadata"].get("finalizers").is_some() && policy.is_none() && !already {
            set(&mut object, "metadata", "finalizers", None);
        }
        remove(state, resource, key);
        if resource.is("", "pods") {
            object["metadata"]["deletionTimestamp"] = now.into();
            object["metadata"]["deletionGracePeriodSeconds"] = 0.into();
            let generation = object["metadata"]["generation"]
                .as_i64()
                .unwrap_or_default();
            object["metadata"]["generation"] = (generation + 1).into();
        }
        if answers_object(resource) {
            object["metadata"]["resourceVersion"] = state.store.version().to_string().into();
        }
        return Outcome::Deleted(Arc::new(object));
    }
    if !finalizers.is_empty() {
        set(
            &mut object,
            "metadata",
            "finalizers",
            Some(Value::Array(finalizers)),
        );
    }
    if !already {
        object["metadata"]["deletionTimestamp"] = now.into();
        if !resource.is("", "namespaces") {
            object["metadata"]["deletionGracePeriodSeconds"] =
                options.grace.unwrap_or(0).min(0).into();
        }
        if let Some(generation) = object["metadata"]["generation"].as_i64() {
            object["metadata"]["generation"] = (generation + 1).into();
        }
        if resource.is("", "namespaces") {
            object["status"]["phase"] = "Terminating".into();
        }
    }
    if options.dry_run || object == *live {
        return Outcome::Marked(object);
    }
    let stored = state.store.put(&resource.key(), key, object);
    Outcome::Marked(Value::clone(&stored))
}

/// Removes an object from the store, and the custom objects of a removed definition.
pub(crate) fn remove(state: &mut State, resource: &Resource, key: &Name) -> Option<Arc<Value>> {
    let last = state.store.delete(&resource.key(), key)?;
    if resource.is("apiextensions.k8s.io", "customresourcedefinitions") {
        definitions::forget(state, &last);
    }
    Some(last)
}
