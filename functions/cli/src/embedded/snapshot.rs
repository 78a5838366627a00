//! What stands on the clusters of a world: Flux's objects, and what they applied.

use super::{Finding, World};
use crate::error::Error;
use crate::ready::{is_static, revision, suspended};
use driftless_core::flux::{
    ConditionStatus, Conditions, FluxKind, HelmRelease, Kustomization, ObjectRef, timestamp,
};
use driftless_core::health::{self, Health};
use driftless_core::hub::Hub;
use driftless_core::inventory::Inventory;
use driftless_core::kustomization::live::{OWNER_NAME, OWNER_NAMESPACE};
use driftless_core::target::{self, Target};
use driftless_manifest::{Gvk, Object, ObjectId};
use serde_json::Value;
use std::collections::BTreeMap;

/// A Flux object of a hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its hub.
    pub hub: String,
    /// Which.
    pub id: ObjectRef,
    /// The Kustomization that applied it.
    pub owner: Option<ObjectRef>,
    /// The cluster that it acts on: its hub, or a remote one.
    pub cluster: String,
    /// Where its files come from.
    pub source: Option<ObjectRef>,
    /// How it stands.
    pub state: State,
    /// The reason of its `Ready` condition.
    pub reason: String,
    /// The message of its `Ready` condition.
    pub message: String,
    /// The revision it has, empty before the first.
    pub revision: String,
    /// What it applied, with the version to ask for it by.
    pub inventory: Vec<(ObjectId, String)>,
    /// What is wrong, where it failed.
    pub told: Vec<Finding>,
}

/// How a Flux object stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// `Ready=True` for the newest generation.
    Ready,
    /// Not looked at yet, or in progress.
    Progressing,
    /// It waits for another object.
    Waiting,
    /// `Ready=False`.
    Failed,
    /// Left alone.
    Suspended,
}

impl State {
    /// As it is printed.
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
pub struct Applied {
    /// Which.
    pub id: ObjectId,
    /// Its health: `Current`, `InProgress`, `NotFound` and so on.
    pub health: String,
}

/// Flux objects by hub and reference.
pub type Objects = BTreeMap<(String, ObjectRef), Object>;

impl World {
    /// Every Flux object of every hub, and what is wrong with those that failed.
    ///
    /// # Errors
    /// What a server refuses.
    pub async fn snapshot(&self) -> Result<Vec<Row>, Error> {
        let mut rows = self.rows(&self.objects().await?);
        for row in &mut rows {
            if row.state == State::Failed {
                row.told = self.tell(row).await?;
            }
        }
        Ok(rows)
    }

    /// Every Flux object of every hub.
    ///
    /// # Errors
    /// What a server refuses.
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

    /// How they stand, hub by hub, without a word on what is wrong.
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
        let told = ["secretRef", "configMapRef"].into_iter().find_map(|field| {
            let path = format!("/spec/kubeConfig/{field}/name");
            let named = object.pointer(&path)?.as_str()?;
            let kind = if field == "secretRef" {
                "Secret"
            } else {
                "ConfigMap"
            };
            Some((format!("{kind}/{}/{named}", id.namespace), named))
        });
        let cluster = match told {
            None => name.clone(),
            Some((told, named)) => self.place(&name, &told).unwrap_or_else(|| named.to_owned()),
        };
        let inventory = Inventory::from_status(object.pointer("/status/inventory"));
        let conditions = Conditions::of(object);
        let ready = conditions.ready();
        Some(Row {
            hub: name,
            owner: owner(object),
            source: source(object),
            cluster,
            state: state(object),
            reason: ready.map(|ready| ready.reason.clone()).unwrap_or_default(),
            message: ready.map(|ready| ready.message.clone()).unwrap_or_default(),
            revision: revision(object),
            inventory: inventory
                .iter()
                .map(|entry| (entry.id, entry.version))
                .collect(),
            told: Vec::new(),
            id,
        })
    }

    /// The objects that a Kustomization or HelmRelease applied, as they are now.
    ///
    /// # Errors
    /// What a server refuses.
    pub async fn applied(&self, row: &Row) -> Result<Vec<Applied>, Error> {
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
                Some(live) => {
                    health::assess(&live, now).map_or(Health::Unknown, |told| told.status)
                }
            };
            all.push(Applied {
                id: id.clone(),
                health: health.to_string(),
            });
        }
        Ok(all)
    }
}

impl World {
    /// Where a Kustomization or HelmRelease works; `None` when it is gone, or none that can be read.
    ///
    /// # Errors
    /// There is no way to its cluster.
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
        let failed = |none| Error::from(driftless_core::failure::Failure::from(none));
        opened.map(Some).map_err(failed)
    }
}

/// The Kustomization whose labels stand on an object; not the object itself, as with a root that applies itself.
fn owner(object: &Object) -> Option<ObjectRef> {
    let (name, namespace) = (object.label(OWNER_NAME)?, object.label(OWNER_NAMESPACE)?);
    let owner = ObjectRef::new(FluxKind::Kustomization, namespace, name);
    (ObjectRef::of(object).as_ref() != Some(&owner)).then_some(owner)
}

/// The source that an object names: a Kustomization's or a chart's; that of a release is its chart.
fn source(object: &Object) -> Option<ObjectRef> {
    let chart = object.pointer("/status/helmChart").and_then(Value::as_str);
    if let Some((namespace, name)) = chart.and_then(|chart| chart.split_once('/')) {
        return Some(ObjectRef::new(FluxKind::HelmChart, namespace, name));
    }
    let places = [
        "/spec/sourceRef",
        "/spec/chartRef",
        "/spec/chart/spec/sourceRef",
    ];
    let reference = places.iter().find_map(|place| object.pointer(place))?;
    let text = |field: &str| {
        reference
            .get(field)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    };
    let namespace = text("namespace").unwrap_or(object.namespace());
    Some(ObjectRef::new(
        FluxKind::parse(text("kind")?)?,
        namespace,
        text("name")?,
    ))
}

fn state(object: &Object) -> State {
    use driftless_core::flux::reason;
    if suspended(object) {
        return State::Suspended;
    }
    if is_static(object) {
        return State::Ready;
    }
    let conditions = Conditions::of(object);
    let Some(ready) = conditions.ready() else {
        return State::Progressing;
    };
    // A source that is there and has no artifact yet; a source or a directory that is not there is a failure.
    let no_artifact =
        ready.reason == reason::ARTIFACT_FAILED && ready.message.starts_with("Source artifact");
    let waits = [reason::DEPENDENCY_NOT_READY, reason::NO_SOURCE_ARTIFACT]
        .contains(&&*ready.reason)
        || no_artifact;
    match ready.status {
        ConditionStatus::True
            if ready.observed_generation == driftless_core::flux::generation(object) =>
        {
            State::Ready
        }
        ConditionStatus::False if waits => State::Waiting,
        ConditionStatus::False => State::Failed,
        ConditionStatus::True | ConditionStatus::Unknown => State::Progressing,
    }
}
