//! Which Kustomizations have drifted: one LIST a kind and cluster, compared with the fingerprints of the last apply.

use crate::concurrent;
use crate::flux::{Kustomization, ObjectRef};
use crate::hub::Hub;
use crate::kustomization::live::OWNER_NAME;
use crate::kustomization::memory::{self, Memory};
use crate::ports::{Cluster, Ports};
use crate::state;
use crate::target;
use driftless_manifest::{Gvk, Object, ObjectId};
use futures::FutureExt as _;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const CONCURRENCY: usize = 16;

/// The Kustomizations whose objects are gone or changed. A cluster that cannot be read tells nothing: its objects are
/// neither drifted nor gone.
pub async fn drifted(ports: &Ports, hub: &Hub, quiet: &[&Object]) -> BTreeSet<ObjectRef> {
    let ready = quiet
        .iter()
        .filter_map(|object| Kustomization::from_object((*object).clone()).ok());
    let ready = ready.filter(|one| one.status.conditions.is_true("Ready") && !one.spec.suspend);
    let loads = ready.map(|one| {
        async move {
            let key = memory::key(&hub.settings.name, &one.id);
            let memory = state::load(ports.blobs.as_ref(), &key)
                .await
                .map(|(memory, _)| memory)
                .unwrap_or_default();
            (one, memory)
        }
        .boxed()
    });
    let loaded: Vec<(Kustomization, Memory)> = concurrent::run(CONCURRENCY, loads.collect()).await;

    // One group a cluster: the hub itself, or a kubeconfig reference in a namespace.
    let mut groups: BTreeMap<String, Vec<(Kustomization, Memory)>> = BTreeMap::new();
    for (one, memory) in loaded {
        let group = match &one.spec.kube_config {
            None => String::new(),
            Some(reference) => format!("{} {}", one.id.namespace, serde_json::json!(reference)),
        };
        groups.entry(group).or_default().push((one, memory));
    }
    let looks = groups
        .into_values()
        .map(|group| look(ports, hub, group).boxed());
    concurrent::run(CONCURRENCY, looks.collect())
        .await
        .into_iter()
        .flatten()
        .collect()
}

async fn look(
    ports: &Ports,
    hub: &Hub,
    group: Vec<(Kustomization, Memory)>,
) -> BTreeSet<ObjectRef> {
    let mut drifted = BTreeSet::new();
    let Some((first, _)) = group.first() else {
        return drifted;
    };
    let cluster: Arc<dyn Cluster> = match target::open(ports, hub, first, None).await {
        Ok(target) => target.cluster,
        Err(error) => {
            let failure: crate::failure::Failure = error.into();
            tracing::warn!(object = %first.id, "drift not checked: {failure}");
            return drifted;
        }
    };
    let mut kinds: BTreeMap<Gvk, BTreeSet<String>> = BTreeMap::new();
    for (id, version) in group.iter().flat_map(|(_, memory)| ids(memory)) {
        kinds
            .entry(Gvk {
                group: id.group,
                version,
                kind: id.kind,
            })
            .or_default()
            .insert(id.namespace);
    }
    let lists = kinds
        .into_keys()
        .map(|gvk| list(cluster.as_ref(), gvk).boxed());
    let lists: Vec<Option<(Gvk, Vec<Object>)>> =
        concurrent::run(CONCURRENCY, lists.collect()).await;
    let mut live: BTreeMap<ObjectId, String> = BTreeMap::new();
    let mut read: BTreeSet<Gvk> = BTreeSet::new();
    for (gvk, objects) in lists.into_iter().flatten() {
        live.extend(
            objects
                .iter()
                .map(|object| (object.id(), memory::fingerprint(object))),
        );
        read.insert(gvk);
    }
    for (one, memory) in &group {
        let differs = memory.applied.iter().any(|(text, applied)| {
            let Some(id) = ObjectId::from_inventory_id(text) else {
                return false;
            };
            let gvk = Gvk {
                group: id.group.clone(),
                version: applied.version.clone(),
                kind: id.kind.clone(),
            };
            read.contains(&gvk) && live.get(&id) != Some(&applied.fields)
        });
        if differs {
            drifted.insert(one.id.clone());
        }
    }
    drifted
}

fn ids(memory: &Memory) -> Vec<(ObjectId, String)> {
    let parse = |(id, applied): (&String, &memory::Applied)| {
        Some((ObjectId::from_inventory_id(id)?, applied.version.clone()))
    };
    memory.applied.iter().filter_map(parse).collect()
}

/// Every object of a kind that some Kustomization applied; `None` when the cluster does not answer.
async fn list(cluster: &dyn Cluster, gvk: Gvk) -> Option<(Gvk, Vec<Object>)> {
    let listed = match cluster.resource(&gvk).await {
        // A kind that is not served any more: everything of it is gone.
        Ok(None) => Ok(Vec::new()),
        Ok(Some(resource)) => cluster.list(&resource, "", OWNER_NAME).await,
        Err(error) => Err(error),
    };
    match listed {
        Ok(objects) => Some((gvk, objects)),
        Err(error) => {
            tracing::warn!(kind = gvk.kind, %error, "drift not checked");
            None
        }
    }
}
