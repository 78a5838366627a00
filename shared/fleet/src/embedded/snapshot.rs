//! The state of a world's clusters: Flux objects, and the objects that they applied.

use super::{Finding, World};
use crate::error::Error;
use crate::ready::revision;
use driftless_core::kustomization::live_objects;
use driftless_flux::{
    ConditionStatus, Conditions, FluxKind, HelmRelease, HelmRepository, Kustomization, ObjectRef,
    generation, is_suspended, source_of, timestamp,
};
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::Cluster as _;
use driftless_kernel::target::{self, Target};
use driftless_manifest::{Gvk, Object, ObjectId};
use driftless_plans::health::{self, Health};
use driftless_plans::inventory::Inventory;
use std::collections::BTreeMap;

/// A Flux object of a hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The name of its hub.
    pub hub: String,
    /// Its kind, namespace and name.
    pub id: ObjectRef,
    /// The Kustomization that applied it.
    pub owner: Option<ObjectRef>,
    /// The name of the cluster that it acts on: its hub, or a remote cluster.
    pub cluster: String,
    /// The source of its files.
    pub source: Option<ObjectRef>,
    /// The state, from its conditions.
    pub state: State,
    /// The reason of its `Ready` condition.
    pub reason: String,
    /// The message of its `Ready` condition.
    pub message: String,
    /// The revision in its status, empty before the first.
    pub revision: String,
    /// The objects that it applied, each with its API version.
    pub inventory: Vec<(ObjectId, String)>,
    /// The errors of an object that failed.
    pub findings: Vec<Finding>,
}

/// The state of a Flux object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// `Ready=True` for the newest generation.
    Ready,
    /// The object is not reconciled yet, or in progress.
    Progressing,
    /// It waits for another object.
    Waiting,
    /// `Ready=False`, but not because it waits.
    Failed,
    /// `spec.suspend` is set.
    Suspended,
}

impl State {
    /// Returns the printed name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Progressing => "Progressing",
            Self::Waiting => "Waiting",
            Self::Failed => "Failed",
            Self::Suspended => "Suspended",
        }
    }
}

/// An object that a Kustomization applied.
pub struct AppliedObject {
    /// Its group, kind, namespace and name.
    pub id: ObjectId,
    /// Its health: `Current`, `InProgress`, `NotFound` and so on.
    pub health: String,
}

/// An object that a Flux object has applied, as the API server of its cluster has it.
#[derive(Clone, Debug)]
pub struct Rendered {
    /// The name of the hub.
    pub hub: String,
    /// The name of the cluster: the hub, or a remote cluster.
    pub cluster: String,
    /// The Kustomization or HelmRelease that applied it.
    pub owner: ObjectRef,
    /// The object, with the defaults and the managed fields of that server.
    pub object: Object,
}

/// Flux objects by hub and reference.
pub type Objects = BTreeMap<(String, ObjectRef), Object>;

impl World {
    /// Returns every Flux object of every hub, with the errors of those that failed.
    ///
    /// # Errors
    /// A server refuses a request.
    pub async fn snapshot(&self) -> Result<Vec<Row>, Error> {
        let mut rows = self.rows(&self.objects().await?);
        for row in &mut rows {
            if row.state == State::Failed {
                row.findings = self.findings(row).await?;
            }
        }
        Ok(rows)
    }

    /// Returns every Flux object of every hub.
    ///
    /// # Errors
    /// A server refuses a request.
    pub async fn objects(&self) -> Result<Objects, Error> {
        let mut all = Objects::new();
        for cluster in &self.hubs {
            let hub = self.hub(&cluster.name).await?;
            for kind in FluxKind::ALL {
                let objects = hub.list(kind).await?.into_iter();
                all.extend(objects.filter_map(|object| {
                    Some(((cluster.name.clone(), ObjectRef::of(&object)?), object))
                }));
            }
        }
        Ok(all)
    }

    /// Returns the states of the objects, ordered by hub, without errors.
    pub fn rows(&self, objects: &Objects) -> Vec<Row> {
        let mut rows = Vec::new();
        for hub in self.hubs.iter().map(|cluster| &*cluster.name) {
            let of_hub = objects.iter().filter(|((of, _), _)| of == hub);
            rows.extend(of_hub.filter_map(|(_, object)| self.row(hub, object)));
        }
        rows
    }

    fn row(&self, hub: &str, object: &Object) -> Option<Row> {
        let id = ObjectRef::of(object)?;
        let name = hub.to_owned();
        let kube_config = ["secretRef", "configMapRef"].into_iter().find_map(|field| {
            let path = format!("/spec/kubeConfig/{field}/name");
            let named = object.pointer(&path)?.as_str()?;
            let kind = if field == "secretRef" {
                "Secret"
            } else {
                "ConfigMap"
            };
            Some((format!("{kind}/{}/{named}", id.namespace), named))
        });
        let cluster = match kube_config {
            None => name.clone(),
            Some((reference, named)) => self
                .place(&name, &reference)
                .unwrap_or_else(|| named.to_owned()),
        };
        let inventory = Inventory::from_status(object.pointer("/status/inventory"));
        let conditions = Conditions::of(object);
        let ready = conditions.ready();
        Some(Row {
            hub: name,
            owner: live_objects::owner(object),
            source: source_of(object),
            cluster,
            state: state(object),
            reason: ready.map(|ready| ready.reason.clone()).unwrap_or_default(),
            message: ready.map(|ready| ready.message.clone()).unwrap_or_default(),
            revision: revision(object),
            inventory: inventory
                .iter()
                .map(|entry| (entry.id, entry.version))
                .collect(),
            findings: Vec::new(),
            id,
        })
    }

    /// Returns the live objects that a Kustomization or HelmRelease applied.
    ///
    /// # Errors
    /// A server refuses a request.
    pub async fn applied(&self, row: &Row) -> Result<Vec<AppliedObject>, Error> {
        if row.inventory.is_empty() {
            return Ok(Vec::new());
        }
        let hub = self.hub(&row.hub).await?;
        let Some(target) = self.target_of(&hub, &row.id).await? else {
            return Ok(Vec::new());
        };
        let now = timestamp(self.ports.clock.now());
        let mut all = Vec::new();
        for (id, version) in &row.inventory {
            let gvk = Gvk {
                group: id.group.clone(),
                version: version.clone(),
                kind: id.kind.clone(),
            };
            let live = match target.cluster.resource(&gvk).await? {
                Some(resource) => {
                    target
                        .cluster
                        .get(&resource, &id.namespace, &id.name)
                        .await?
                }
                None => None,
            };
            let health = match live {
                None => Health::NotFound,
                Some(live) => health::assess(&live, now)
                    .map_or(Health::Unknown, |assessment| assessment.status),
            };
            all.push(AppliedObject {
                id: id.clone(),
                health: health.to_string(),
            });
        }
        Ok(all)
    }
}

impl World {
    /// Returns the objects in the inventories of the rows, in their order.
    ///
    /// # Errors
    /// A server refuses a request.
    pub async fn rendered(&self, rows: &[Row]) -> Result<Vec<Rendered>, Error> {
        let mut all = Vec::new();
        for row in rows.iter().filter(|row| !row.inventory.is_empty()) {
            // A cluster that nothing was applied to has no server.
            let Ok(cluster) = self.admin(&row.cluster) else {
                continue;
            };
            for (id, version) in &row.inventory {
                let gvk = Gvk {
                    group: id.group.clone(),
                    version: version.clone(),
                    kind: id.kind.clone(),
                };
                let Some(resource) = cluster.resource(&gvk).await? else {
                    continue;
                };
                let live = cluster.get(&resource, &id.namespace, &id.name).await?;
                all.extend(live.map(|object| Rendered {
                    hub: row.hub.clone(),
                    cluster: row.cluster.clone(),
                    owner: row.id.clone(),
                    object,
                }));
            }
        }
        Ok(all)
    }

    /// Returns the target of a Kustomization or HelmRelease, or `None` if the object does not exist
    /// or is not valid.
    ///
    /// # Errors
    /// The target cannot be opened.
    pub async fn target_of(&self, hub: &Hub, id: &ObjectRef) -> Result<Option<Target>, Error> {
        let Some(object) = hub.get(id).await? else {
            return Ok(None);
        };
        let opened = match id.kind {
            FluxKind::HelmRelease => match HelmRelease::from_object(object) {
                Ok(one) => target::open(&self.ports, hub, &one, None).await,
                Err(_) => return Ok(None),
            },
            _ => match Kustomization::from_object(object) {
                Ok(one) => target::open(&self.ports, hub, &one, None).await,
                Err(_) => return Ok(None),
            },
        };
        let failed = |none| Error::from(driftless_kernel::failure::Failure::from(none));
        opened.map(Some).map_err(failed)
    }
}

fn state(object: &Object) -> State {
    if is_suspended(object) {
        return State::Suspended;
    }
    if HelmRepository::is_static(object) {
        return State::Ready;
    }
    let conditions = Conditions::of(object);
    let Some(ready) = conditions.ready() else {
        return State::Progressing;
    };
    match ready.status {
        ConditionStatus::True if ready.observed_generation == generation(object) => State::Ready,
        ConditionStatus::False if ready.is_waiting() => State::Waiting,
        ConditionStatus::False => State::Failed,
        ConditionStatus::True | ConditionStatus::Unknown => State::Progressing,
    }
}
