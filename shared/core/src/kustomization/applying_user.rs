//! The cluster that a Kustomization applies to, and its user there.

use driftless_flux::{Invalid, KubeConfigRef, Kustomization};
use driftless_manifest::Object;
use serde::Deserialize;

/// The cluster that a Kustomization applies to, and its user there: all that a handover needs of
/// its spec.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApplyingUser {
    pub(super) kube_config: Option<KubeConfigRef>,
    pub(super) service_account_name: Option<String>,
}

impl ApplyingUser {
    /// Reads the cluster and the user from a live Kustomization.
    ///
    /// # Errors
    /// A field is not valid; the message names it.
    pub fn of(object: &Object) -> std::result::Result<Self, Invalid> {
        let spec = object.pointer("/spec").cloned().unwrap_or_default();
        serde_json::from_value(spec).map_err(|error| Invalid::from(format!("spec: {error}")))
    }

    /// Checks whether a Kustomization of this namespace applies to the same cluster as another one.
    pub fn is_on_cluster_of(&self, namespace: &str, other: &Kustomization) -> bool {
        let theirs = (other.spec.kube_config.as_ref(), &*other.id.namespace);
        is_same_cluster((self.kube_config.as_ref(), namespace), theirs)
    }
}

/// Checks whether two references to kubeconfigs, each with its namespace, lead to the same cluster;
/// no reference means the hub.
pub fn is_same_cluster(
    one: (Option<&KubeConfigRef>, &str),
    other: (Option<&KubeConfigRef>, &str),
) -> bool {
    one.0 == other.0 && (one.0.is_none() || one.1 == other.1)
}
