//! Fields that an API server refuses to change, and changes of definitions.

use driftless_manifest::Object;
use serde_json::{Map, Value};

/// A kind with fields that cannot change after the creation.
struct Immutable {
    group: &'static str,
    kind: &'static str,
    fields: &'static [&'static str],
}

/// The immutable fields of Kubernetes' kinds.
const IMMUTABLE: [Immutable; 14] = [
    of(
        "batch",
        "Job",
        &["/spec/template", "/spec/selector", "/spec/completionMode"],
    ),
    of("apps", "Deployment", &["/spec/selector"]),
    of("apps", "DaemonSet", &["/spec/selector"]),
    of("apps", "ReplicaSet", &["/spec/selector"]),
    of(
        "apps",
        "StatefulSet",
        &[
            "/spec/selector",
            "/spec/serviceName",
            "/spec/podManagementPolicy",
            "/spec/volumeClaimTemplates",
        ],
    ),
    of("", "Service", &["/spec/clusterIP", "/spec/clusterIPs"]),
    of(
        "",
        "PersistentVolumeClaim",
        &[
            "/spec/accessModes",
            "/spec/storageClassName",
            "/spec/volumeMode",
            "/spec/selector",
            "/spec/dataSource",
            "/spec/dataSourceRef",
        ],
    ),
    of("", "Secret", &["/type"]),
    of("rbac.authorization.k8s.io", "RoleBinding", &["/roleRef"]),
    of(
        "rbac.authorization.k8s.io",
        "ClusterRoleBinding",
        &["/roleRef"],
    ),
    of(
        "storage.k8s.io",
        "StorageClass",
        &[
            "/provisioner",
            "/parameters",
            "/reclaimPolicy",
            "/volumeBindingMode",
        ],
    ),
    of("scheduling.k8s.io", "PriorityClass", &["/value"]),
    of("networking.k8s.io", "IngressClass", &["/spec/controller"]),
    of(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        &[
            "/spec/group",
            "/spec/scope",
            "/spec/names/kind",
            "/spec/names/plural",
        ],
    ),
];

const fn of(group: &'static str, kind: &'static str, fields: &'static [&'static str]) -> Immutable {
    Immutable {
        group,
        kind,
        fields,
    }
}

/// Returns the immutable fields that a change changes, such as `spec.selector`.
pub fn changed(
    before: &Object,
    after: &Object,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
) -> Vec<String> {
    let (old, new) = (Value::Object(old.clone()), Value::Object(new.clone()));
    let known = IMMUTABLE
        .iter()
        .filter(|one| (one.group, one.kind) == (after.group(), after.kind()));
    let mut fields: Vec<&str> = known.flat_map(|one| one.fields.iter().copied()).collect();
    let is_locked = before.pointer("/immutable") == Some(&Value::Bool(true));
    if is_locked && before.group().is_empty() && ["ConfigMap", "Secret"].contains(&before.kind()) {
        fields.extend(["/data", "/binaryData", "/stringData", "/immutable"]);
    }
    fields.retain(|field| old.pointer(field) != new.pointer(field));
    // The server completes a field that a state leaves out.
    fields.retain(|field| {
        let is_assigned = field.starts_with("/spec/clusterIP");
        !(is_assigned && (old.pointer(field).is_none() || new.pointer(field).is_none()))
    });
    let names = fields.into_iter();
    names
        .map(|field| field.trim_start_matches('/').replace('/', "."))
        .collect()
}

/// Returns warnings about a changed definition: versions that are no longer served or stored.
pub fn definition(before: &Object, after: &Object) -> Vec<String> {
    if before.kind() != "CustomResourceDefinition" {
        return Vec::new();
    }
    let served = |of: &Object| -> Vec<String> {
        let versions = of.pointer("/spec/versions").and_then(Value::as_array);
        let served = versions
            .into_iter()
            .flatten()
            .filter(|one| one.get("served").and_then(Value::as_bool).unwrap_or(true));
        let names = served.filter_map(|one| one.get("name")?.as_str().map(str::to_owned));
        names.collect()
    };
    let storage = |of: &Object| {
        let versions = of.pointer("/spec/versions")?.as_array()?;
        let stored = versions
            .iter()
            .find(|one| one.get("storage") == Some(&Value::Bool(true)))?;
        Some(stored.get("name")?.as_str()?.to_owned())
    };
    let kept = served(after);
    let gone: Vec<String> = served(before)
        .into_iter()
        .filter(|version| !kept.contains(version))
        .collect();
    let mut warnings = vec![
        "the definition changes: objects of its kind are validated by the new schema".to_owned(),
    ];
    if !gone.is_empty() {
        let versions = gone.join(", ");
        warnings.push(format!(
            "the definition no longer serves {versions}: objects of these versions cannot be read or applied"
        ));
    }
    if let (Some(old), Some(new)) = (storage(before), storage(after))
        && old != new
    {
        warnings.push(format!(
            "the storage version changes from {old} to {new}: stored objects need a migration before {old} is removed"
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::diff::stated;
    use serde_json::json;

    fn changed_fields(api: &str, kind: &str, before: Value, after: Value) -> Vec<String> {
        let object = |more: Value| {
            let mut all = json!({"apiVersion": api, "kind": kind, "metadata": {"name": "a"}});
            let map = all.as_object_mut().unwrap();
            map.extend(more.as_object().cloned().unwrap());
            Object::new(all).unwrap()
        };
        let (before, after) = (object(before), object(after));
        changed(&before, &after, &stated(&before), &stated(&after))
    }

    #[test]
    fn immutable_fields() {
        let selector =
            |app: &str| json!({"spec": {"selector": {"matchLabels": {"app": app}}, "replicas": 1}});
        let more = json!({"spec": {"selector": {"matchLabels": {"app": "a"}}, "replicas": 2}});
        assert_eq!(
            changed_fields("apps/v1", "Deployment", selector("a"), selector("b")),
            ["spec.selector"]
        );
        assert!(changed_fields("apps/v1", "Deployment", selector("a"), more).is_empty());
        let role = |name: &str| json!({"roleRef": {"kind": "Role", "name": name}});
        let group = "rbac.authorization.k8s.io/v1";
        assert_eq!(
            changed_fields(group, "RoleBinding", role("a"), role("b")),
            ["roleRef"]
        );
        let locked = |value: &str| json!({"immutable": true, "data": {"a": value}});
        assert_eq!(
            changed_fields("v1", "ConfigMap", locked("a"), locked("b")),
            ["data"]
        );
    }

    #[test]
    fn versions_of_definitions() {
        let definition_of = |versions: Value| {
            Object::new(
                json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "a.b"}, "spec": {"versions": versions}}),
            )
            .unwrap()
        };
        let before = definition_of(json!([{"name": "v1", "served": true, "storage": true}]));
        let after = definition_of(json!([{"name": "v2", "served": true, "storage": true}]));
        let warnings = definition(&before, &after).join("\n");
        assert!(warnings.contains("no longer serves v1"), "{warnings}");
        assert!(warnings.contains("from v1 to v2"), "{warnings}");
    }
}
