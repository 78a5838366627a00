use crate::error::Error;
use driftless_manifest::Object;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The built-in kinds that live outside of namespaces. Kinds that are not known count as namespaced, as in kustomize.
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

/// Writes everything into one file.
pub fn file(path: &Path, objects: &[Object]) -> Result<(), Error> {
    write(path, objects)
}

/// Writes one file an object, under kustomize's names: `group_version_kind_name.yaml` in lower case, with the namespace
/// before it when there is more than one.
pub fn folder(path: &Path, objects: &[Object]) -> Result<(), Error> {
    let namespaces: BTreeSet<&str> = objects.iter().filter_map(namespace).collect();
    for object in objects {
        let gvk = object.gvk();
        let place = namespace(object)
            .filter(|_| namespaces.len() > 1)
            .unwrap_or_default();
        let parts = [place, &gvk.group, &gvk.version, &gvk.kind, object.name()];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let name = format!("{}.yaml", parts.join("_").to_lowercase());
        if name.contains('/') {
            return Err(Error::new(format!(
                "{} {}: its name is no file name",
                object.kind(),
                object.name()
            )));
        }
        write(&path.join(name), std::slice::from_ref(object))?;
    }
    Ok(())
}

/// The namespace an object goes to; `None` for cluster-scoped kinds.
fn namespace(object: &Object) -> Option<&str> {
    let kind = format!("{}/{}", object.group(), object.kind());
    if CLUSTER_SCOPED.contains(&kind.as_str()) {
        return None;
    }
    Some(match object.namespace() {
        "" => "default",
        namespace => namespace,
    })
}

fn write(path: &Path, objects: &[Object]) -> Result<(), Error> {
    let text = driftless_kustomize::to_yaml(objects);
    fs::write(path, text).map_err(|error| Error::new(format!("write {}: {error}", path.display())))
}
