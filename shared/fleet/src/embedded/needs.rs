//! The Secrets, ConfigMaps and service accounts that a Flux object needs.

use driftless_flux::{FluxKind, ObjectRef};
use driftless_manifest::Object;
use serde_json::Value;
use std::fmt;

/// An object that a Flux object references in its own namespace on the hub.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Need {
    /// The referenced object.
    pub object: NeededObject,
    /// The use that the Flux object has for it.
    pub purpose: Purpose,
}

/// The reference to an object on the hub.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NeededObject {
    /// `Secret`, `ConfigMap` or `ServiceAccount`.
    pub kind: &'static str,
    /// The namespace of the object.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
}

impl fmt::Display for NeededObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.kind, self.namespace, self.name)
    }
}

/// The use that a Flux object has for an object that it references.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// A source logs in with it.
    Login,
    /// A source verifies TLS certificates with it.
    Certificates,
    /// Files are decrypted with it.
    Keys,
    /// It has the address and credentials of a cluster.
    Cluster,
    /// Its entries are the variables of a build.
    Variables,
    /// An entry of it has values of a release, or the value of one path in them.
    Values {
        /// The key of the entry.
        key: String,
        /// True if the entry is the value of a `targetPath`.
        is_one: bool,
    },
}

/// Returns the objects that a Flux object references and needs.
pub fn of(object: &Object) -> Vec<Need> {
    let Some(id) = ObjectRef::of(object) else {
        return Vec::new();
    };
    let names = Names {
        object,
        namespace: &id.namespace,
    };
    let mut needs = Vec::new();
    match id.kind {
        FluxKind::Kustomization => {
            needs.extend(names.secret("/spec/decryption/secretRef", Purpose::Keys));
            needs.extend(names.cluster());
            needs.extend(names.list("/spec/postBuild/substituteFrom", |_| Purpose::Variables));
        }
        FluxKind::HelmRelease => {
            needs.extend(names.cluster());
            needs.extend(names.list("/spec/valuesFrom", values));
        }
        kind if kind.is_source() || kind == FluxKind::HelmRepository => {
            for field in [
                "/spec/secretRef",
                "/spec/proxySecretRef",
                "/spec/verify/secretRef",
            ] {
                needs.extend(names.secret(field, Purpose::Login));
            }
            needs.extend(names.secret("/spec/certSecretRef", Purpose::Certificates));
            needs.extend(names.account());
        }
        _ => {}
    }
    needs
}

fn values(entry: &Value) -> Purpose {
    let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
    let key = match text("valuesKey") {
        "" => "values.yaml",
        key => key,
    };
    Purpose::Values {
        key: key.to_owned(),
        is_one: !text("targetPath").is_empty(),
    }
}

struct Names<'a> {
    object: &'a Object,
    namespace: &'a str,
}

impl Names<'_> {
    fn need(&self, kind: &'static str, name: &str, purpose: Purpose) -> Need {
        Need {
            object: NeededObject {
                kind,
                namespace: self.namespace.to_owned(),
                name: name.to_owned(),
            },
            purpose,
        }
    }

    fn text(&self, field: &str) -> Option<&str> {
        let text = self.object.pointer(field)?.as_str();
        text.filter(|text| !text.is_empty())
    }

    fn secret(&self, field: &str, purpose: Purpose) -> Option<Need> {
        let name = self.text(&format!("{field}/name"))?;
        Some(self.need("Secret", name, purpose))
    }

    fn account(&self) -> Option<Need> {
        let name = self.text("/spec/serviceAccountName")?;
        Some(self.need("ServiceAccount", name, Purpose::Login))
    }

    fn cluster(&self) -> Option<Need> {
        let map = || {
            let name = self.text("/spec/kubeConfig/configMapRef/name")?;
            Some(self.need("ConfigMap", name, Purpose::Cluster))
        };
        self.secret("/spec/kubeConfig/secretRef", Purpose::Cluster)
            .or_else(map)
    }

    /// Returns the entries of a list that are not optional.
    fn list(&self, field: &str, purpose: impl Fn(&Value) -> Purpose) -> Vec<Need> {
        let entries = self.object.pointer(field).and_then(Value::as_array);
        let needed = entries.into_iter().flatten().filter_map(|entry| {
            let kind = match entry.get("kind")?.as_str()? {
                "Secret" => "Secret",
                "ConfigMap" => "ConfigMap",
                _ => return None,
            };
            let name = entry.get("name")?.as_str()?;
            let optional = entry.get("optional") == Some(&Value::Bool(true));
            (!optional).then(|| self.need(kind, name, purpose(entry)))
        });
        needed.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn needs(api_version: &str, kind: &str, spec: Value) -> Vec<String> {
        let object = json!({"apiVersion": api_version, "kind": kind,
            "metadata": {"name": "a", "namespace": "apps"}, "spec": spec});
        let needs = of(&Object::new(object).unwrap()).into_iter();
        needs
            .map(|need| format!("{} {:?}", need.object, need.purpose))
            .collect()
    }

    #[test]
    fn objects_need_their_references() {
        let spec = json!({
            "decryption": {"secretRef": {"name": "age"}}, "kubeConfig": {"configMapRef": {"name": "edge"}},
            "postBuild": {"substituteFrom": [{"kind": "Secret", "name": "vars"}, {"kind": "ConfigMap", "name": "o", "optional": true}]}});
        let found = needs("kustomize.toolkit.fluxcd.io/v1", "Kustomization", spec);
        let expected = [
            "Secret/apps/age Keys",
            "ConfigMap/apps/edge Cluster",
            "Secret/apps/vars Variables",
        ];
        assert_eq!(found, expected);
        let spec = json!({"valuesFrom": [{"kind": "ConfigMap", "name": "v"}, {"kind": "Secret", "name": "p", "valuesKey": "k", "targetPath": "a.b"}]});
        let found = needs("helm.toolkit.fluxcd.io/v2", "HelmRelease", spec);
        let expected = [
            "ConfigMap/apps/v Values { key: \"values.yaml\", is_one: false }",
            "Secret/apps/p Values { key: \"k\", is_one: true }",
        ];
        assert_eq!(found, expected);
        let spec = json!({"secretRef": {"name": "login"}, "verify": {"secretRef": {"name": "keys"}}, "serviceAccountName": "puller"});
        let found = needs("source.toolkit.fluxcd.io/v1", "OCIRepository", spec);
        let expected = [
            "Secret/apps/login Login",
            "Secret/apps/keys Login",
            "ServiceAccount/apps/puller Login",
        ];
        assert_eq!(found, expected);
    }
}
