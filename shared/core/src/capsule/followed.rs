//! The objects that decide about the kubeconfigs, for a process that watches them.

use super::desired_objects::{CAPSULE, KINDS, TENANT_KIND};
use super::{ENABLED_ANNOTATION, GLOBAL_ANNOTATION, LABEL, MANAGER, ON, TOKEN_ANNOTATION};
use driftless_manifest::{Gvk, Object};
use driftless_plans::apply::fingerprint::fingerprint;
use serde_json::json;

/// Objects of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    version: &'static str,
    kind: &'static str,
    selector: String,
}

/// Returns what a reconciliation reads: the Tenants, the accounts, and what was created for them.
pub fn followed() -> Vec<Followed> {
    let all = [(CAPSULE, TENANT_KIND), ("v1", "ServiceAccount")];
    let created = KINDS.into_iter().chain([("v1", "Namespace")]);
    let kinds = |kinds: (&'static str, &'static str), selector: String| Followed {
        version: kinds.0,
        kind: kinds.1,
        selector,
    };
    all.into_iter()
        .map(|one| kinds(one, String::new()))
        .chain(created.map(|one| kinds(one, format!("{LABEL}={ON}"))))
        .collect()
}

impl Followed {
    /// Returns the kind of the objects.
    pub fn gvk(&self) -> Gvk {
        Gvk::new(self.version, self.kind)
    }

    /// Returns the label selector of the objects; empty for all.
    pub fn selector(&self) -> &str {
        &self.selector
    }

    /// Returns what a reconciliation depends on in the metadata of an object: another state means
    /// that it may have work to do.
    pub fn state(&self, object: &Object) -> String {
        let annotations = [ENABLED_ANNOTATION, GLOBAL_ANNOTATION, TOKEN_ANNOTATION];
        let annotations = annotations.map(|name| object.annotation(name));
        json!([
            object.meta("uid"),
            object.pointer("/metadata/generation"),
            object.meta("deletionTimestamp"),
            annotations,
            object.pointer("/metadata/ownerReferences"),
            fingerprint(object, MANAGER),
        ])
        .to_string()
    }
}
