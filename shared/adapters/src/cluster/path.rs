//! Builds the URL paths of the Kubernetes API.

use crate::percent::encode;
use driftless_kernel::ports::{ErrorKind, PortError, Resource, Result};

/// Returns the path of a resource's objects in a namespace; in all namespaces if `namespace` is
/// empty.
///
/// # Errors
/// Fails if a name is not valid in a path.
pub fn collection(resource: &Resource, namespace: &str) -> Result<String> {
    let gvk = &resource.gvk;
    let mut path = if gvk.group.is_empty() {
        "/api".to_owned()
    } else {
        format!("/apis/{}", segment(&gvk.group)?)
    };
    path.push_str(&format!("/{}", segment(&gvk.version)?));
    if resource.namespaced && !namespace.is_empty() {
        path.push_str(&format!("/namespaces/{}", segment(namespace)?));
    }
    path.push_str(&format!("/{}", segment(&resource.plural)?));
    Ok(path)
}

/// Returns the path of one object.
///
/// # Errors
/// Fails without a namespace for a namespaced resource, or if a name is not valid in a path.
pub fn object(resource: &Resource, namespace: &str, name: &str) -> Result<String> {
    Ok(format!(
        "{}/{}",
        directory(resource, namespace, name)?,
        segment(name)?
    ))
}

/// Returns the path to which a new object is posted.
///
/// # Errors
/// Fails without a namespace for a namespaced resource, or if a name is not valid in a path.
pub fn directory(resource: &Resource, namespace: &str, name: &str) -> Result<String> {
    if resource.namespaced && namespace.is_empty() {
        let kind = &resource.gvk.kind;
        return Err(PortError::new(
            ErrorKind::Invalid,
            format!("{kind}/{name} has no namespace, and its kind needs one"),
        ));
    }
    collection(resource, namespace)
}

/// Encodes one segment of a path. `.`, `..`, `/` and `%` are refused: they are not valid in names
/// of Kubernetes, and would change the path.
fn segment(name: &str) -> Result<String> {
    if name.is_empty() || name == "." || name == ".." || name.contains(['/', '%']) {
        return Err(PortError::new(
            ErrorKind::Invalid,
            format!("'{name}' is not a valid name of a Kubernetes object"),
        ));
    }
    Ok(encode(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_manifest::Gvk;

    fn resource(api_version: &str, kind: &str, plural: &str, namespaced: bool) -> Resource {
        Resource {
            gvk: Gvk::new(api_version, kind),
            plural: plural.into(),
            namespaced,
        }
    }

    #[test]
    fn urls() {
        let pods = resource("v1", "Pod", "pods", true);
        let roles = resource(
            "rbac.authorization.k8s.io/v1",
            "ClusterRole",
            "clusterroles",
            false,
        );
        assert_eq!(
            object(&pods, "a", "b").unwrap(),
            "/api/v1/namespaces/a/pods/b"
        );
        assert_eq!(collection(&pods, "").unwrap(), "/api/v1/pods");
        assert_eq!(
            object(&roles, "ignored", "system:a b").unwrap(),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Aa%20b"
        );
        assert_eq!(object(&pods, "", "b").unwrap_err().kind, ErrorKind::Invalid);
        for name in ["", ".", "..", "a/b", "..%2f", "a?b/../.."] {
            assert_eq!(
                object(&pods, "a", name).unwrap_err().kind,
                ErrorKind::Invalid,
                "{name}"
            );
        }
        assert!(
            object(&pods, "a", "b?dryRun=All#x")
                .unwrap()
                .ends_with("/b%3FdryRun%3DAll%23x")
        );
    }
}
