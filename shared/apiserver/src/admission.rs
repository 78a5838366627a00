//! The built-in admission plugins that matter to objects without nodes.

use serde_json::{Value, json};

use crate::error::ApiError;
use crate::registry::Resource;
use crate::server::Server;

/// Namespaces that cannot be deleted.
pub(crate) const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// Before a create.
pub(crate) fn create(
    server: &Server,
    resource: &Resource,
    namespace: &str,
    name: &str,
    object: &mut Value,
) -> Result<(), ApiError> {
    if namespace.is_empty() {
        return storage_class(server, resource, object);
    }
    let namespaces = ("".to_owned(), "namespaces".to_owned());
    let key = (String::new(), namespace.to_owned());
    let Some(found) = server.store.get(&namespaces, &key) else {
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
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let mut error = ApiError::forbidden(resource, name, &why);
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
    storage_class(server, resource, object)
}

/// A claim without a class gets the default one.
fn storage_class(server: &Server, resource: &Resource, object: &mut Value) -> Result<(), ApiError> {
    if !resource.is("", "persistentvolumeclaims")
        || object["spec"].get("storageClassName").is_some()
    {
        return Ok(());
    }
    let key = ("storage.k8s.io".to_owned(), "storageclasses".to_owned());
    let default = server.store.list(&key, "", None).find(|(_, class)| {
        class["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"] == "true"
    });
    if let Some(((_, name), _)) = default {
        object["spec"]["storageClassName"] = name.clone().into();
    }
    Ok(())
}
