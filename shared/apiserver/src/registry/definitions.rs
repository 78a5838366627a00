//! CustomResourceDefinitions: the resources that they serve, and their status.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::merge::managers;
use crate::merge::managers::Writer;
use crate::objects::crd::resources;
use crate::registry::ownership::versions;
use crate::resources::Resource;
use crate::store::state::State;
use crate::values::{set, take, text, texts};

/// Replaces the served resources of a definition.
fn register(state: &mut State, definition: &Value) {
    unregister(state, definition);
    for resource in resources(definition) {
        let key = (resource.api_version(), resource.plural.clone());
        state.custom.insert(key, Arc::new(resource));
    }
}

fn unregister(state: &mut State, definition: &Value) {
    let group = text(definition, "/spec/group").to_owned();
    let plural = text(definition, "/spec/names/plural").to_owned();
    state
        .custom
        .retain(|_, resource| resource.group != group || resource.plural != plural);
}

/// Stops serving a definition, and deletes its objects.
pub(crate) fn forget(state: &mut State, definition: &Value) {
    unregister(state, definition);
    let key = (
        text(definition, "/spec/group").to_owned(),
        text(definition, "/spec/names/plural").to_owned(),
    );
    let names: Vec<_> = state
        .store
        .list(&key, "", None)
        .map(|(name, _)| name.clone())
        .collect();
    for name in names {
        state.store.delete(&key, &name);
    }
}

/// Establishes a definition after a write, as controllers of the API server do.
pub(crate) fn after_write(state: &mut State, resource: &Resource, stored: &Value, stamp: &str) {
    if !resource.is("apiextensions.k8s.io", "customresourcedefinitions") {
        return;
    }
    register(state, stored);
    let mut new = stored.clone();
    establish(&mut new, stamp);
    if new == *stored {
        return;
    }
    let known = managers::decode(stored["metadata"].get("managedFields")).unwrap_or_default();
    let mut old = stored.clone();
    take(&mut old, &["metadata", "managedFields"]);
    take(&mut new, &["metadata", "managedFields"]);
    let writer = Writer {
        name: "kube-apiserver",
        api_version: resource.api_version_ref(),
        subresource: "status",
        now: stamp,
    };
    let known = managers::update(
        &versions(state, resource, "status"),
        &old,
        &new,
        known,
        &writer,
    );
    set(
        &mut new,
        "metadata",
        "managedFields",
        managers::encode(known),
    );
    let name = text(stored, "/metadata/name").to_owned();
    state
        .store
        .put(&resource.key(), &(String::new(), name), new);
}

fn establish(definition: &mut Value, stamp: &str) {
    let mut names = definition["spec"]["names"].clone();
    if let Some(map) = names.as_object_mut() {
        map.retain(|_, value| !value.is_null());
    }
    definition["status"]["acceptedNames"] = names;
    let mut stored = texts(&definition["status"]["storedVersions"]);
    for version in definition["spec"]["versions"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let name = text(version, "/name").to_owned();
        if version["storage"] == true && !stored.contains(&name) {
            stored.push(name);
        }
    }
    definition["status"]["storedVersions"] = json!(stored);
    let has = definition["status"]["conditions"]
        .as_array()
        .is_some_and(|list| !list.is_empty());
    if !has {
        let condition = |kind: &str, reason: &str, message: &str| {
            json!({
                "type": kind, "status": "True", "reason": reason, "message": message,
                "lastTransitionTime": stamp,
            })
        };
        let conditions = json!([
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition(
                "Established",
                "InitialNamesAccepted",
                "the initial names have been accepted"
            ),
        ]);
        definition["status"]["conditions"] = conditions;
    }
}
