//! Writes built objects into one file, or into one file for each object.

use crate::error::Error;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The built-in kinds that are cluster-scoped. Unknown kinds count as namespaced, as in kustomize.
const CLUSTER_SCOPED: [&str; 26] = [
    "/ComponentStatus",
    "/Namespace",
    "/Node",
    "/PersistentVolume",
    "admissionregistration.k8s.io/MutatingWebhookConfiguration",
    "admissionregistration.k8s.io/ValidatingAdmissionPolicy",
    "admissionregistration.k8s.io/ValidatingAdmissionPolicyBinding",
    "admissionregistration.k8s.io/ValidatingWebhookConfiguration",
    "apiextensions.k8s.io/CustomResourceDefinition",
    "apiregistration.k8s.io/APIService",
    "authentication.k8s.io/SelfSubjectReview",
    "authentication.k8s.io/TokenReview",
    "authorization.k8s.io/SelfSubjectAccessReview",
    "authorization.k8s.io/SelfSubjectRulesReview",
    "authorization.k8s.io/SubjectAccessReview",
    "certificates.k8s.io/CertificateSigningRequest",
    "flowcontrol.apiserver.k8s.io/FlowSchema",
    "flowcontrol.apiserver.k8s.io/PriorityLevelConfiguration",
    "networking.k8s.io/IngressClass",
    "node.k8s.io/RuntimeClass",
    "rbac.authorization.k8s.io/ClusterRole",
    "rbac.authorization.k8s.io/ClusterRoleBinding",
    "scheduling.k8s.io/PriorityClass",
    "storage.k8s.io/CSIDriver",
    "storage.k8s.io/CSINode",
    "storage.k8s.io/StorageClass",
];

/// Writes all objects into one file.
pub fn file(path: &Path, documents: &[Value]) -> Result<(), Error> {
    write(path, documents)
}

/// Writes one file for each object, with kustomize's names: `group_version_kind_name.yaml` in lower
/// case, with the namespace first if there is more than one.
pub fn directory(path: &Path, documents: &[Value]) -> Result<(), Error> {
    let namespaces: BTreeSet<&str> = documents.iter().filter_map(namespace).collect();
    for document in documents {
        let (group, version) = group_and_version(document);
        let place = namespace(document)
            .filter(|_| namespaces.len() > 1)
            .unwrap_or_default();
        let (kind, name) = (text(document, "/kind"), text(document, "/metadata/name"));
        let parts = [place, group, version, kind];
        let mut parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.push(name);
        let file = format!("{}.yaml", parts.join("_").to_lowercase());
        if file.contains('/') {
            return Err(Error::new(format!(
                "{kind} {name}: the name is not a valid file name"
            )));
        }
        write(&path.join(file), std::slice::from_ref(document))?;
    }
    Ok(())
}

fn text<'d>(document: &'d Value, pointer: &str) -> &'d str {
    document
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn group_and_version(document: &Value) -> (&str, &str) {
    let api_version = text(document, "/apiVersion");
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// Returns the namespace of an object; `None` for cluster-scoped kinds.
fn namespace(document: &Value) -> Option<&str> {
    let kind = format!(
        "{}/{}",
        group_and_version(document).0,
        text(document, "/kind")
    );
    if CLUSTER_SCOPED.contains(&kind.as_str()) {
        return None;
    }
    Some(match text(document, "/metadata/namespace") {
        "" => "default",
        namespace => namespace,
    })
}

fn write(path: &Path, documents: &[Value]) -> Result<(), Error> {
    let text = driftless_kustomize::documents_to_yaml(documents);
    fs::write(path, text)
        .map_err(|error| Error::caused_by(error).context(format!("write {}", path.display())))
}
