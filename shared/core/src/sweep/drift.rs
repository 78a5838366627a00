//! Finds Kustomizations and HelmReleases that have drifted: one LIST for each kind and cluster,
//! compared with the fingerprints of their last step.

use crate::apply::fingerprint::{Applied, fingerprint};
use crate::concurrent;
use crate::flux::{
    DriftMode, FluxKind, HELM_CONTROLLER, HelmRelease, KUSTOMIZE_CONTROLLER, KubeConfigRef,
    Kustomization, ObjectRef,
};
use crate::helmrelease;
use crate::hub::Hub;
use crate::kustomization;
use crate::ports::{Cluster, Ports};
use crate::schedule::Records;
use crate::target::{self, TargetsCluster};
use driftless_manifest::{Gvk, Object, ObjectId};
use futures::FutureExt as _;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

const CONCURRENCY: usize = 16;

/// A Kustomization or HelmRelease, with the fingerprints of its objects at its last step.
struct DriftCandidate {
    id: ObjectRef,
    kube_config: Option<KubeConfigRef>,
    applied: BTreeMap<ObjectId, Applied>,
}

/// The fingerprints of the live objects of one kind and with one owner's label.
type Live = BTreeMap<ObjectId, String>;

/// The objects to LIST: their kind, and the kind of their owner.
type Query = (Gvk, FluxKind);

/// Returns the owners whose objects are gone or changed. The objects of a cluster that cannot be
/// read count as unchanged.
pub async fn drifted(
    ports: &Ports,
    hub: &Hub,
    quiet: &[&Object],
    records: &Records,
) -> BTreeSet<ObjectRef> {
    let loaded = quiet.iter().map(|object| candidate(hub, object, records));

    // One group for each cluster: the hub itself, or a kubeconfig reference in a namespace.
    let mut groups: BTreeMap<String, Vec<DriftCandidate>> = BTreeMap::new();
    for one in loaded.flatten() {
        let group = match &one.kube_config {
            None => String::new(),
            Some(reference) => format!("{} {}", one.id.namespace, json!(reference)),
        };
        groups.entry(group).or_default().push(one);
    }
    let checks = groups
        .into_values()
        .map(|group| check_group(ports, hub, group).boxed());
    concurrent::run(CONCURRENCY, checks.collect())
        .await
        .into_iter()
        .flatten()
        .collect()
}

/// Returns an object with its fingerprints; `None` if it is not ready, is suspended, or does not
/// detect drift.
fn candidate(hub: &Hub, object: &Object, records: &Records) -> Option<DriftCandidate> {
    let hub = &hub.settings.name;
    let id = ObjectRef::of(object)?;
    let (kube_config, applied) = match id.kind {
        FluxKind::Kustomization => {
            let one = Kustomization::from_object(object.clone()).ok()?;
            if one.spec.suspend || !one.status.conditions.is_true("Ready") {
                return None;
            }
            let record = records.of(hub, &id)?;
            let memory: kustomization::memory::Memory = record.memory();
            (one.spec.kube_config, memory.applied)
        }
        FluxKind::HelmRelease => {
            let one = HelmRelease::from_object(object.clone()).ok()?;
            let is_off = one.spec.suspend || one.drift_mode() == DriftMode::Disabled;
            if is_off || !one.status.conditions.is_true("Ready") {
                return None;
            }
            let record = records.of(hub, &id)?;
            let memory: helmrelease::memory::Memory = record.memory();
            (one.spec.kube_config, memory.seen)
        }
        _ => return None,
    };
    let applied = applied
        .into_iter()
        .filter_map(|(id, applied)| Some((ObjectId::from_inventory_id(&id)?, applied)));
    Some(DriftCandidate {
        id,
        kube_config,
        applied: applied.collect(),
    })
}

async fn check_group(ports: &Ports, hub: &Hub, group: Vec<DriftCandidate>) -> BTreeSet<ObjectRef> {
    let mut drifted = BTreeSet::new();
    let Some(first) = group.first() else {
        return drifted;
    };
    let cluster = match target::open(ports, hub, first, None).await {
        Ok(target) => target.cluster,
        Err(error) => {
            let failure: crate::failure::Failure = error.into();
            tracing::warn!(object = %first.id, "drift not checked: {failure}");
            return drifted;
        }
    };
    let queries: BTreeSet<Query> = group.iter().flat_map(DriftCandidate::queries).collect();
    let lists = queries
        .into_iter()
        .map(|query| list(cluster.as_ref(), query).boxed());
    let live: BTreeMap<Query, Live> = concurrent::run(CONCURRENCY, lists.collect())
        .await
        .into_iter()
        .flatten()
        .collect();
    let drifts = group.into_iter().filter(|one| one.differs(&live));
    drifted.extend(drifts.map(|one| one.id));
    drifted
}

impl DriftCandidate {
    fn queries(&self) -> impl Iterator<Item = Query> {
        let kind = self.id.kind;
        let applied = self.applied.iter();
        applied.map(move |(id, applied)| (gvk(id, applied), kind))
    }

    /// Returns whether a live object differs from its fingerprint. Objects that could not be read
    /// count as unchanged.
    fn differs(&self, live: &BTreeMap<Query, Live>) -> bool {
        self.applied.iter().any(|(id, applied)| {
            let read = live.get(&(gvk(id, applied), self.id.kind));
            read.is_some_and(|read| applied.is_changed(read.get(id).map(String::as_str)))
        })
    }
}

impl TargetsCluster for DriftCandidate {
    fn namespace(&self) -> &str {
        &self.id.namespace
    }

    fn kube_config(&self) -> Option<&KubeConfigRef> {
        self.kube_config.as_ref()
    }

    fn service_account(&self) -> Option<&str> {
        None
    }
}

fn gvk(id: &ObjectId, applied: &Applied) -> Gvk {
    Gvk {
        group: id.group.clone(),
        version: applied.version.clone(),
        kind: id.kind.clone(),
    }
}

/// Lists every object of a kind that has the label of a Kustomization or a HelmRelease; `None` if
/// the cluster does not answer.
async fn list(cluster: &dyn Cluster, (gvk, owner): Query) -> Option<(Query, Live)> {
    let (label, manager) = match owner {
        FluxKind::HelmRelease => (helmrelease::OWNER_NAME, HELM_CONTROLLER),
        _ => (kustomization::live::OWNER_NAME, KUSTOMIZE_CONTROLLER),
    };
    let listed = match cluster.resource(&gvk).await {
        // The kind is no longer served: all of its objects are gone.
        Ok(None) => Ok(Vec::new()),
        Ok(Some(resource)) => cluster.list(&resource, "", label).await,
        Err(error) => Err(error),
    };
    match listed {
        Ok(objects) => {
            let live = objects
                .iter()
                .map(|object| (object.id(), fingerprint(object, manager)));
            Some(((gvk, owner), live.collect()))
        }
        Err(error) => {
            tracing::warn!(kind = gvk.kind, %error, "drift not checked");
            None
        }
    }
}
