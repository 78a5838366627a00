//! The built-in admission plugins that do not need nodes, and admission policies.

mod authorizer;
mod evaluation;
mod mutating;
mod policies;
mod validating;

use serde_json::{Value, json};

use crate::error::ApiError;
use crate::resources::Resource;
use crate::store::state::State;

pub(crate) use mutating::mutate;
pub(crate) use policies::Request;
pub(crate) use validating::validate;

/// Namespaces that cannot be deleted.
const UNDELETABLE: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Admits a deletion.
///
/// # Errors
/// 403 for a namespace that cannot be deleted.
pub(crate) fn delete(resource: &Resource, name: &str) -> Result<(), ApiError> {
    if resource.is("", "namespaces") && UNDELETABLE.contains(&name) {
        let detail = "this namespace may not be deleted";
        return Err(ApiError::forbidden(resource, name, detail));
    }
    Ok(())
}

/// Admits a create, and completes the object.
///
/// # Errors
/// 404 for a namespace that does not exist, 403 for one that is being deleted.
pub(crate) fn create(
    state: &State,
    resource: &Resource,
    namespace: &str,
    name: &str,
    object: &mut Value,
) -> Result<(), ApiError> {
    if namespace.is_empty() {
        return storage_class(state, resource, object);
    }
    let namespaces = ("".to_owned(), "namespaces".to_owned());
    let key = (String::new(), namespace.to_owned());
    let Some(found) = state.store.get(&namespaces, &key) else {
        let mut error = ApiError::new(
            404,
            "NotFound",
            format!("namespaces {namespace:?} not found"),
        );
        error.details.insert("name".into(), namespace.into());
        error.details.insert("kind".into(), "namespaces".into());
        return Err(error);
    };
    if found["metadata"].get("deletionTimestamp").is_some() {
        let detail = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let mut error = ApiError::forbidden(resource, name, &detail);
        error.details.insert(
            "causes".into(),
            json!([{
                "reason": "NamespaceTerminating",
                "message": format!("namespace {namespace} is being terminated"),
                "field": "metadata.namespace",
            }]),
        );
        return Err(error);
    }
    storage_class(state, resource, object)
}

/// Sets the default storage class of a claim without one.
fn storage_class(state: &State, resource: &Resource, object: &mut Value) -> Result<(), ApiError> {
    if !resource.is("", "persistentvolumeclaims")
        || object["spec"].get("storageClassName").is_some()
    {
        return Ok(());
    }
    let key = ("storage.k8s.io".to_owned(), "storageclasses".to_owned());
    let default = state.store.list(&key, "", None).find(|(_, class)| {
        class["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"] == "true"
    });
    if let Some(((_, name), _)) = default {
        object["spec"]["storageClassName"] = name.clone().into();
    }
    Ok(())
}
