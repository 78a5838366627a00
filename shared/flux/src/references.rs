//! The Secrets and ConfigMaps that an object refers to.

use driftless_manifest::Object;
use serde_json::Value;
use std::collections::BTreeSet;

/// A Secret or ConfigMap that an object refers to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    /// `Secret` or `ConfigMap`.
    pub kind: &'static str,
    /// The namespace, which is that of the object.
    pub namespace: String,
    /// The name of the Secret or ConfigMap.
    pub name: String,
}

/// The kinds of references.
pub const REFERENCE_KINDS: [&str; 2] = ["Secret", "ConfigMap"];

/// The fields whose content is not Flux's: it may contain anything.
const FREE_FIELDS: [&str; 3] = ["values", "postRenderers", "patches"];

/// Returns the Secrets and ConfigMaps that the spec of an object refers to: by fields such as
/// `secretRef`, `certSecretRef` and `configMapRef`, and by the entries of `valuesFrom` and
/// `substituteFrom`.
pub fn references(object: &Object) -> BTreeSet<Reference> {
    let mut found = BTreeSet::new();
    if let Some(spec) = object.as_map().get("spec") {
        collect(object.namespace(), spec, &mut found);
    }
    found
}

fn collect(namespace: &str, value: &Value, found: &mut BTreeSet<Reference>) {
    let Value::Object(fields) = value else {
        for item in value.as_array().into_iter().flatten() {
            collect(namespace, item, found);
        }
        return;
    };
    let fields = fields.iter();
    for (field, value) in fields.filter(|(field, _)| !FREE_FIELDS.contains(&field.as_str())) {
        let lower = field.to_ascii_lowercase();
        if lower.ends_with("secretref") {
            found.extend(reference("Secret", namespace, value));
        } else if lower.ends_with("configmapref") {
            found.extend(reference("ConfigMap", namespace, value));
        } else if field == "valuesFrom" || field == "substituteFrom" {
            for entry in value.as_array().into_iter().flatten() {
                let kinds = REFERENCE_KINDS.into_iter();
                let mut named = kinds.filter(|kind| entry["kind"] == *kind);
                found.extend(named.find_map(|kind| reference(kind, namespace, entry)));
            }
        }
        collect(namespace, value, found);
    }
}

/// Returns the reference by a field with a `name`, which is not empty.
fn reference(kind: &'static str, namespace: &str, field: &Value) -> Option<Reference> {
    let name = field["name"].as_str().filter(|name| !name.is_empty())?;
    Some(Reference {
        kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn names(kind: &str, spec: Value) -> Vec<String> {
        let object = json!({"apiVersion": "v1", "kind": kind,
            "metadata": {"name": "a", "namespace": "team"}, "spec": spec});
        let found = references(&Object::new(object).unwrap());
        let text = |one: Reference| format!("{}/{}/{}", one.kind, one.namespace, one.name);
        found.into_iter().map(text).collect()
    }

    #[test]
    fn references_are_found_in_each_place() {
        let spec = json!({
            "kubeConfig": {"secretRef": {"name": "remote"}},
            "decryption": {"provider": "sops", "secretRef": {"name": "keys"}},
            "postBuild": {"substituteFrom": [
                {"kind": "ConfigMap", "name": "vars"}, {"kind": "Secret", "name": "more"}]},
            "sourceRef": {"kind": "GitRepository", "name": "fleet"},
        });
        let all = [
            "ConfigMap/team/vars",
            "Secret/team/keys",
            "Secret/team/more",
            "Secret/team/remote",
        ];
        let mut found = names("Kustomization", spec);
        found.sort();
        assert_eq!(found, all);
    }

    #[test]
    fn values_of_a_release_are_not_references() {
        let spec = json!({
            "values": {"secretRef": {"name": "no"}, "valuesFrom": [{"kind": "Secret", "name": "no"}]},
            "valuesFrom": [{"kind": "Secret", "name": "yes"}, {"kind": "Other", "name": "no"}],
        });
        assert_eq!(names("HelmRelease", spec), ["Secret/team/yes"]);
        let spec = json!({"certSecretRef": {"name": "ca"}, "proxySecretRef": {"name": "proxy"},
            "verify": {"trustedRootSecretRef": {"name": "root"}, "secretRef": {}}});
        assert_eq!(
            names("OCIRepository", spec),
            ["Secret/team/ca", "Secret/team/proxy", "Secret/team/root"]
        );
    }
}
