//! Kinds without a definition: each gets a definition that allows every field, so that the other
//! objects are checked, and a note.

use super::diagnostic::{Diagnostic, Diagnostics};
use super::kind_names::{self, Names};
use super::observed::Observed;
use crate::embedded::{MANAGED_BY, MANAGER, Row, object_of};
use crate::error::Error;
use driftless_kernel::ports::Cluster as _;
use driftless_manifest::{Gvk, Object, ObjectId};
use regex::Regex;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// The API groups of Kubernetes' own kinds that contain a dot. The group of a definition must
/// contain one.
const BUILTIN: [&str; 20] = [
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "auditregistration.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "settings.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// Checks whether a CustomResourceDefinition may define kinds of a group.
fn is_custom(group: &str) -> bool {
    group.contains('.') && !BUILTIN.contains(&group)
}

/// The API group of Flux Operator.
const FLUX_OPERATOR: &str = "fluxcd.controlplane.io";

/// The cluster, group and kind.
type Key = (String, String, String);

/// The kinds that the check has defined.
#[derive(Default)]
pub struct Definitions(BTreeMap<Key, MissingDefinition>);

struct MissingDefinition {
    hubs: BTreeSet<String>,
    /// The objects that were refused without the definition.
    objects: BTreeSet<String>,
    names: Names,
    versions: BTreeSet<String>,
}

/// An object that was refused because its kind is not defined.
struct RefusedKind<'r> {
    row: &'r Row,
    gvk: Gvk,
    object: Option<ObjectId>,
}

impl Definitions {
    /// Returns whether no kind was defined.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks whether objects of a defined kind may create Flux objects on a hub.
    pub fn bring_objects(&self, hub: &str) -> bool {
        let mut sets = self.0.iter().filter(|((_, group, kind), _)| {
            group == FLUX_OPERATOR && kind.starts_with("ResourceSet")
        });
        sets.any(|(_, missing)| missing.hubs.contains(hub))
    }

    /// Defines the kinds for which objects were refused. Returns whether it defined or changed any.
    ///
    /// # Errors
    /// A server refuses a request.
    pub async fn add(&mut self, observed: Observed<'_>) -> Result<bool, Error> {
        let Observed { world, objects, .. } = observed;
        let mut any = self.rescope(observed).await?;
        let all: Vec<RefusedKind<'_>> = observed.failed().flat_map(undefined).collect();
        for one in &all {
            let Gvk {
                group,
                version,
                kind,
            } = one.gvk.clone();
            let key = (one.row.cluster.clone(), group.clone(), kind.clone());
            let served = world
                .admin(&one.row.cluster)?
                .versions(&group, &kind)
                .await?;
            if !self.0.contains_key(&key) && !served.is_empty() {
                // A definition exists without this version: a mistake that the user must fix.
                continue;
            }
            if !self.0.contains_key(&key) {
                let same = |other: &&RefusedKind<'_>| {
                    (&other.gvk.group, &other.gvk.kind) == (&group, &kind)
                };
                let ids = all
                    .iter()
                    .filter(same)
                    .filter_map(|other| other.object.clone());
                let ids: Vec<ObjectId> = ids.collect();
                let names = kind_names::names(world, &one.gvk, &ids, objects);
                self.0.insert(key.clone(), MissingDefinition::new(names));
            }
            let Some(missing) = self.0.get_mut(&key) else {
                continue;
            };
            missing.hubs.insert(one.row.hub.clone());
            missing
                .objects
                .extend(one.object.as_ref().map(ToString::to_string));
            if missing.versions.insert(version) {
                any = true;
                world.give(&key.0, &missing.definition(&key)?).await?;
            }
        }
        Ok(any)
    }

    /// Makes kinds cluster-scoped that were assumed to be namespaced, if an object without a
    /// namespace was refused.
    async fn rescope(&mut self, observed: Observed<'_>) -> Result<bool, Error> {
        let mut any = false;
        for row in observed.failed() {
            for kind in row.message.lines().filter_map(without_namespace) {
                let mut known = self.0.iter_mut();
                let found = known.find(|((cluster, _, own), missing)| {
                    *cluster == row.cluster && *own == kind && missing.names.namespaced
                });
                if let Some((key, missing)) = found {
                    missing.names.namespaced = false;
                    observed
                        .world
                        .replace(&key.0, &missing.definition(key)?)
                        .await?;
                    any = true;
                }
            }
        }
        Ok(any)
    }

    /// Adds a note for each defined kind, with its objects.
    pub fn add_notes(&self, rows: &[Row], diagnostics: &mut Diagnostics) {
        for ((cluster, group, kind), missing) in &self.0 {
            let versions = missing
                .versions
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>();
            let about = format!("{group}/{} {kind}", versions.join(","));
            let occurrences = diagnostics
                .entry(diagnostic(group, kind, about))
                .or_default();
            occurrences.hubs.extend(missing.hubs.iter().cloned());
            let of_cluster = rows.iter().filter(|row| row.cluster == *cluster);
            let applied = of_cluster.flat_map(|row| row.inventory.iter().map(|(id, _)| id));
            let applied = applied.filter(|id| id.group == *group && id.kind == *kind);
            occurrences.users.extend(applied.map(ToString::to_string));
            if occurrences.users.is_empty() {
                occurrences.users.extend(missing.objects.iter().cloned());
            }
        }
    }
}

impl MissingDefinition {
    fn new(names: Names) -> Self {
        Self {
            hubs: BTreeSet::new(),
            objects: BTreeSet::new(),
            names,
            versions: BTreeSet::new(),
        }
    }

    fn definition(&self, (_, group, kind): &Key) -> Result<Object, Error> {
        let Names { plural, namespaced } = &self.names;
        let version = |(at, name): (usize, &String)| {
            json!({"name": name, "served": true, "storage": at == 0,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
        };
        let versions: Vec<Value> = self.versions.iter().enumerate().map(version).collect();
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}"), "labels": {MANAGED_BY: MANAGER}},
            "spec": {
                "group": group, "scope": if *namespaced { "Namespaced" } else { "Cluster" },
                "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
                "versions": versions,
            },
        });
        Object::new(definition).map_err(Error::new)
    }
}

/// Returns the diagnostic for a kind that is not defined.
fn diagnostic(group: &str, kind: &str, about: String) -> Diagnostic {
    match group {
        FLUX_OPERATOR => Diagnostic::unchecked(
            about,
            format!("Flux Operator is not served: the objects that a {kind} creates are missing"),
        ),
        "image.toolkit.fluxcd.io" => Diagnostic::unserved(
            about,
            "Flux's image automation: a hub has no definition of the kind, so that a Kustomization with these objects is not applied",
        ),
        _ => Diagnostic::unchecked(
            about,
            "no applied object defines it (a chart may): any content of its objects is accepted",
        ),
    }
}

/// Returns the kinds that the message of a row reports as not defined.
fn undefined(row: &Row) -> Vec<RefusedKind<'_>> {
    static FORM: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#"no matches for kind "([^"]+)" in version "([^"]+)""#).ok());
    let Some(form) = FORM.as_ref() else {
        return Vec::new();
    };
    let lines = row.message.lines().flat_map(|line| {
        form.captures_iter(line).map(move |found| RefusedKind {
            row,
            gvk: Gvk::new(&found[2], &found[1]),
            object: object_of(line).filter(|id| id.kind == found[1]),
        })
    });
    lines.filter(|one| is_custom(&one.gvk.group)).collect()
}

/// Returns the kind of an object that a message line reports to have no namespace.
fn without_namespace(line: &str) -> Option<String> {
    static FORM: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"\b([A-Z][A-Za-z0-9]*)/\S+ (?:namespace not specified|has no namespace, and its kind needs one)").ok()
    });
    Some(FORM.as_ref()?.captures(line)?[1].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_adapters::embedded::Embedded;
    use driftless_apiserver::User;
    use driftless_memory::TestClock;
    use std::sync::Arc;

    #[tokio::test]
    async fn every_group_of_a_new_cluster_is_kubernetes_own() {
        let server = Embedded::new(Arc::new(TestClock::default()));
        let cluster = server.cluster(User::admin("admin"), "new").unwrap();
        let served = cluster.abilities().await.unwrap().api_versions;
        assert!(
            served
                .iter()
                .any(|one| one.starts_with("networking.k8s.io/")),
            "{served:?}"
        );
        for one in &served {
            let group = Gvk::new(
                one.split('/')
                    .take(2)
                    .collect::<Vec<_>>()
                    .join("/")
                    .as_str(),
                "",
            )
            .group;
            assert!(!is_custom(&group), "{one}");
        }
        for group in [
            "gateway.networking.k8s.io",
            "snapshot.storage.k8s.io",
            "externaldns.k8s.io",
        ] {
            assert!(is_custom(group), "{group}");
        }
        assert!(!is_custom("extensions") && !is_custom("policy"));
    }

    #[test]
    fn objects_without_a_namespace() {
        for (line, kind) in [
            (
                "Realm/a namespace not specified: set metadata.namespace, or spec.targetNamespace",
                Some("Realm"),
            ),
            (
                "ClusterIssuer/a has no namespace, and its kind needs one",
                Some("ClusterIssuer"),
            ),
            ("ConfigMap/apps/a dry-run failed", None),
        ] {
            assert_eq!(without_namespace(line).as_deref(), kind, "{line}");
        }
    }
}
