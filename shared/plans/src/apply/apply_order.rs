//! The order in which objects are applied and deleted.

use driftless_manifest::{Object, ObjectId};
use std::cmp::Ordering;

/// Kinds that are applied first, in this order (fluxcd/pkg ssa `ReconcileOrder`).
const FIRST_KINDS: [&str; 23] = [
    "CustomResourceDefinition",
    "Namespace",
    "ClusterRole",
    "ClusterClass",
    "RuntimeClass",
    "PriorityClass",
    "StorageClass",
    "VolumeSnapshotClass",
    "IngressClass",
    "GatewayClass",
    "ClusterRoleBinding",
    "ResourceQuota",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ConfigMap",
    "Secret",
    "Service",
    "LimitRange",
    "Deployment",
    "StatefulSet",
    "CronJob",
    "PodDisruptionBudget",
];

/// Kinds that are applied last, in this order.
const LAST_KINDS: [&str; 2] = [
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

/// A kind with its group, in any version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKind {
    /// The API group; empty for the core group.
    pub group: String,
    /// The kind, such as `Deployment`.
    pub kind: String,
}

impl GroupKind {
    /// Reads a list such as `example.com/Database,Secret` (the controller's
    /// `--custom-apply-stage-kinds`).
    pub fn list(text: &str) -> Vec<Self> {
        let one = |item: &str| {
            let (group, kind) = item.trim().split_once('/').unwrap_or(("", item.trim()));
            Self {
                group: group.to_owned(),
                kind: kind.to_owned(),
            }
        };
        text.split(',')
            .filter(|item| !item.trim().is_empty())
            .map(one)
            .collect()
    }
}

/// A stage of an apply. The stages are applied one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StageName {
    /// Definitions, namespaces and cluster roles.
    Definitions,
    /// Kinds whose name ends in `Class`.
    Classes,
    /// Kinds that the operator configured.
    Custom,
    /// All other kinds.
    Rest,
}

/// Objects that are applied together, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// The name of the stage.
    pub name: StageName,
    /// True if the next stage waits until these objects are current.
    pub wait: bool,
    /// The objects, sorted by [`order`].
    pub objects: Vec<Object>,
}

/// Splits objects into stages; those without objects are left out. `custom` are the kinds of the
/// third stage.
pub fn stages(objects: Vec<Object>, custom: &[GroupKind]) -> Vec<Stage> {
    let names = [
        StageName::Definitions,
        StageName::Classes,
        StageName::Custom,
        StageName::Rest,
    ];
    let mut stages = names.map(|name| Stage {
        name,
        wait: matches!(name, StageName::Definitions | StageName::Classes),
        objects: Vec::new(),
    });
    for object in objects {
        let name = stage_of(&object, custom);
        if let Some(stage) = stages.iter_mut().find(|stage| stage.name == name) {
            stage.objects.push(object);
        }
    }
    for stage in &mut stages {
        stage
            .objects
            .sort_by_cached_key(|object| SortKey::of(&object.id()));
    }
    stages
        .into_iter()
        .filter(|stage| !stage.objects.is_empty())
        .collect()
}

/// Returns the stage of one object.
pub fn stage_of(object: &Object, custom: &[GroupKind]) -> StageName {
    let kind = object.kind();
    let is = |name: &str, api: bool| kind.eq_ignore_ascii_case(name) && api;
    let api = object.api_version();
    if is(
        "CustomResourceDefinition",
        api.starts_with("apiextensions.k8s.io/"),
    ) || is("Namespace", api == "v1")
        || is("ClusterRole", api.starts_with("rbac.authorization.k8s.io/"))
    {
        StageName::Definitions
    } else if kind.ends_with("Class") {
        StageName::Classes
    } else if custom
        .iter()
        .any(|one| one.group == object.group() && one.kind == kind)
    {
        StageName::Custom
    } else {
        StageName::Rest
    }
}

/// Compares two objects in Flux's order of applying: by kind, then by group, kind name, namespace
/// and name. The order of deleting is the reverse.
pub fn order(a: &ObjectId, b: &ObjectId) -> Ordering {
    SortKey::of(a).cmp(&SortKey::of(b))
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct SortKey {
    rank: i32,
    group: String,
    kind: String,
    namespace: String,
    name: String,
}

impl SortKey {
    fn of(id: &ObjectId) -> Self {
        Self {
            rank: rank(&id.kind),
            group: id.group.clone(),
            kind: id.kind.clone(),
            namespace: id.namespace.clone(),
            name: id.name.clone(),
        }
    }
}

fn rank(kind: &str) -> i32 {
    let place = |list: &[&str]| {
        list.iter()
            .position(|one| *one == kind)
            .and_then(|at| i32::try_from(at).ok())
    };
    match (place(&FIRST_KINDS), place(&LAST_KINDS)) {
        (Some(at), _) => at - 100,
        (None, Some(at)) => at + 1,
        (None, None) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(api: &str, kind: &str, name: &str) -> Object {
        Object::new(
            json!({"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "ns"}}),
        )
        .unwrap()
    }

    #[test]
    fn stages_and_their_order() {
        let objects = vec![
            object("v1", "Service", "b"),
            object("example.com/v1", "Database", "d"),
            object("apps/v1", "Deployment", "a"),
            object("v1", "Service", "a"),
            object("storage.k8s.io/v1", "StorageClass", "fast"),
            object(
                "admissionregistration.k8s.io/v1",
                "ValidatingWebhookConfiguration",
                "w",
            ),
            object("example.com/v1", "Namespace", "no-namespace"),
            object("v1", "Namespace", "ns"),
            object("rbac.authorization.k8s.io/v1", "ClusterRole", "r"),
            object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "c"),
            object("example.com/v1", "Alpha", "z"),
            object("another.com/v1", "Zeta", "z"),
        ];
        let found: Vec<(StageName, bool, Vec<String>)> =
            stages(objects, &GroupKind::list("example.com/Database"))
                .into_iter()
                .map(|stage| {
                    let ids = stage
                        .objects
                        .iter()
                        .map(|o| format!("{}/{}", o.kind(), o.name()))
                        .collect();
                    (stage.name, stage.wait, ids)
                })
                .collect();
        let ids = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            found,
            [
                (
                    StageName::Definitions,
                    true,
                    ids("CustomResourceDefinition/c Namespace/ns ClusterRole/r")
                ),
                (StageName::Classes, true, ids("StorageClass/fast")),
                (StageName::Custom, false, ids("Database/d")),
                (
                    StageName::Rest,
                    false,
                    ids(
                        "Namespace/no-namespace Service/a Service/b Deployment/a Zeta/z Alpha/z ValidatingWebhookConfiguration/w"
                    )
                ),
            ]
        );
    }
}
