//! Drift that a process sees by watches: which objects are watched for an owner, and whether a
//! change of one of them is drift. The sweep finds the same, and what a watch has missed.

use super::{cluster_watch, drifted_objects};
use driftless_flux::{FluxKind, KubeConfigRef, ObjectRef, is_suspended, kustomization_of};
use driftless_helmrelease::{OWNER_NAME, OWNER_NAMESPACE};
use driftless_kernel::failure::Failure;
use driftless_kernel::hub::{self, Hub};
use driftless_kernel::ports::{Cluster, FollowRequest, Following, Ports};
use driftless_kernel::schedule::read_record;
use driftless_kernel::target::{self, TargetsCluster};
use driftless_manifest::{Gvk, Object, ObjectId};
use driftless_plans::apply::fingerprint::fingerprint;
use serde::Deserialize as _;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Objects of one kind, with the label of one kind of owners, on one cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Watched {
    /// The cluster that has the objects.
    pub cluster: WatchedCluster,
    /// The kind of the objects.
    pub gvk: Gvk,
    /// The kind of their owners.
    pub owner: FluxKind,
}

/// The cluster of an owner: the hub, or what `spec.kubeConfig` in a namespace leads to.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct WatchedCluster {
    /// The namespace of the owner; empty for the hub.
    namespace: String,
    /// `spec.kubeConfig`; `None` for the hub.
    kube_config: Option<KubeConfigRef>,
}

impl WatchedCluster {
    /// Returns the cluster of an object; `None` if its `spec.kubeConfig` cannot be parsed.
    fn of(object: &Object) -> Option<Self> {
        let reference = object.pointer("/spec/kubeConfig");
        let Some(reference) = reference.filter(|reference| !reference.is_null()) else {
            return Some(Self::default());
        };
        Some(Self {
            namespace: object.namespace().to_owned(),
            kube_config: Some(KubeConfigRef::deserialize(reference).ok()?),
        })
    }

    /// Connects as the identity of the hub or of the kubeconfig, as the sweep does.
    async fn connect(&self, ports: &Ports, hub: &Hub) -> Result<Arc<dyn Cluster>, Failure> {
        Ok(target::open(ports, hub, self, None).await?.cluster)
    }
}

impl TargetsCluster for WatchedCluster {
    fn namespace(&self) -> &str {
        &self.namespace
    }

    fn kube_config(&self) -> Option<&KubeConfigRef> {
        self.kube_config.as_ref()
    }

    fn service_account(&self) -> Option<&str> {
        None
    }
}

/// Returns what is watched for an object: the kinds of its inventory, if it detects drift and its
/// cluster is known.
pub fn watched(object: &Object) -> BTreeSet<Watched> {
    let owner = match ObjectRef::of(object).map(|id| id.kind) {
        Some(owner @ FluxKind::Kustomization) => owner,
        Some(owner @ FluxKind::HelmRelease) if detects_drift(object) => owner,
        _ => return BTreeSet::new(),
    };
    if is_suspended(object) {
        return BTreeSet::new();
    }
    let Some(cluster) = WatchedCluster::of(object) else {
        return BTreeSet::new();
    };
    let entries = object.pointer("/status/inventory/entries");
    let entries = entries.and_then(Value::as_array).into_iter().flatten();
    let kinds: BTreeSet<Gvk> = entries.filter_map(kind).collect();
    kinds
        .into_iter()
        .map(|gvk| Watched {
            cluster: cluster.clone(),
            gvk,
            owner,
        })
        .collect()
}

fn detects_drift(release: &Object) -> bool {
    let mode = release.pointer("/spec/driftDetection/mode");
    matches!(mode.and_then(Value::as_str), Some("enabled" | "warn"))
}

/// Returns the kind of an entry of an inventory.
fn kind(entry: &Value) -> Option<Gvk> {
    let id = ObjectId::from_inventory_id(entry["id"].as_str()?)?;
    Some(Gvk {
        group: id.group,
        version: entry["v"].as_str()?.to_owned(),
        kind: id.kind,
    })
}

impl Watched {
    /// Starts the watch; `None` if the cluster does not serve the kind.
    ///
    /// # Errors
    /// The cluster cannot be reached.
    pub async fn follow(&self, ports: &Ports, hub: &Hub) -> Result<Option<Following>, Failure> {
        let cluster = self.cluster.connect(ports, hub).await?;
        let resource = cluster.resource(&self.gvk).await?;
        let (label, _) = cluster_watch::marks(self.owner);
        Ok(resource.map(|resource| {
            cluster.follow(&FollowRequest {
                labels: label.to_owned(),
                ..FollowRequest::metadata(resource)
            })
        }))
    }

    /// Returns the owner that the labels of a live object name.
    pub fn owner_of(&self, live: &Object) -> Option<ObjectRef> {
        match self.owner {
            FluxKind::HelmRelease => {
                let (name, namespace) = (live.label(OWNER_NAME)?, live.label(OWNER_NAMESPACE)?);
                Some(ObjectRef::new(FluxKind::HelmRelease, namespace, name))
            }
            _ => kustomization_of(live),
        }
    }

    /// Returns the fingerprint of the fields of a live object that its owner has applied.
    pub fn fingerprint(&self, live: &Object) -> String {
        fingerprint(live, cluster_watch::marks(self.owner).1)
    }
}

/// The result of a check of changed objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriftCheck {
    /// The objects are as the last step of their owner has left them, or their drift is not
    /// corrected now.
    Unchanged,
    /// A step of the owner runs or is queued: the change may be its own.
    Busy,
    /// The owner needs a step.
    Drifted,
}

/// Checks whether objects differ from what the last step of their owner has left. `live` has their
/// fingerprints now; `None` for an object that is gone.
///
/// # Errors
/// The bucket's, or the hub's.
pub async fn check(
    ports: &Ports,
    hub: &str,
    owner: &ObjectRef,
    live: &BTreeMap<ObjectId, Option<String>>,
) -> Result<DriftCheck, Failure> {
    let Some(record) = read_record(ports, hub, owner).await? else {
        return Ok(DriftCheck::Unchanged);
    };
    if record.is_busy(ports.clock.now()) {
        return Ok(DriftCheck::Busy);
    }
    let applied = drifted_objects::applied(owner.kind, &record);
    let differs = live.iter().any(|(id, now)| {
        let applied = applied.get(&id.inventory_id());
        applied.is_some_and(|applied| applied.is_changed(now.as_deref()))
    });
    if !differs {
        return Ok(DriftCheck::Unchanged);
    }
    let object = hub::connect(ports, hub).await?.get(owner).await?;
    let is_checked = object.is_some_and(|object| drifted_objects::checked(&object).is_some());
    Ok(match is_checked {
        true => DriftCheck::Drifted,
        false => DriftCheck::Unchanged,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn owner(kind: &str, spec: Value) -> Object {
        let version = match kind {
            "HelmRelease" => "helm.toolkit.fluxcd.io/v2",
            _ => "kustomize.toolkit.fluxcd.io/v1",
        };
        let entries = json!([
            {"id": "team_a__ConfigMap", "v": "v1"},
            {"id": "team_b__ConfigMap", "v": "v1"},
            {"id": "team_web_apps_Deployment", "v": "v1"},
        ]);
        Object::new(json!({"apiVersion": version, "kind": kind,
            "metadata": {"name": "apps", "namespace": "team"},
            "spec": spec, "status": {"inventory": {"entries": entries}}}))
        .unwrap()
    }

    fn kinds(object: &Object) -> Vec<String> {
        let kinds = watched(object).into_iter().map(|one| one.gvk.kind);
        kinds.collect()
    }

    #[test]
    fn the_kinds_of_an_inventory_are_watched() {
        let all = ["ConfigMap", "Deployment"];
        let mut found = kinds(&owner("Kustomization", json!({})));
        found.sort();
        assert_eq!(found, all);
        assert!(kinds(&owner("Kustomization", json!({"suspend": true}))).is_empty());
        assert!(kinds(&owner("HelmRelease", json!({}))).is_empty());
        let detects = json!({"driftDetection": {"mode": "enabled"}});
        assert_eq!(kinds(&owner("HelmRelease", detects)).len(), 2);
    }

    #[test]
    fn a_remote_cluster_is_that_of_a_namespace() {
        let remote = json!({"kubeConfig": {"secretRef": {"name": "remote"}}});
        let hub = watched(&owner("Kustomization", json!({})));
        let remote = watched(&owner("Kustomization", remote));
        assert!(hub.is_disjoint(&remote));
        assert_eq!(hub.len(), remote.len());
        let unknown = json!({"kubeConfig": {"secretRef": "remote"}});
        assert!(kinds(&owner("Kustomization", unknown)).is_empty());
    }
}
