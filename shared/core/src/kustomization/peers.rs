//! The Kustomizations of a hub around one that prunes: which of them go with the prune, which keep what they list, and which may
//! still take something over.

use super::heirs::is_same_cluster;
use crate::apply::drift::{self, Drift};
use crate::apply::normalize;
use crate::flux::{
    ConditionStatus, FluxKind, KUSTOMIZE_CONTROLLER, Kustomization, READY, STALLED, shorten,
};
use crate::helmrelease;
use crate::inventory::{Eligibility, Inventory, eligibility};
use driftless_manifest::{Object, ObjectId};
use std::collections::{BTreeMap, BTreeSet};

/// How much of a child's message is repeated.
const MESSAGE: usize = 300;

/// One of them.
struct Peer {
    object: Kustomization,
    inventory: Inventory,
    /// What it lists it has applied.
    is_reconciled: bool,
}

/// All of them, as they were read.
pub struct Peers {
    owner: ObjectId,
    all: BTreeMap<ObjectId, Peer>,
    /// Kustomizations and HelmReleases that the prune deletes, at every depth.
    going: BTreeSet<ObjectId>,
}

/// A child of the owner that has not been reconciled as this revision has it.
#[derive(Debug, PartialEq, Eq)]
pub struct Unsettled {
    /// Which.
    pub id: ObjectId,
    /// Whether it builds from the directory of a child that goes, or lists what would go.
    pub is_likely_heir: bool,
    /// Whether nothing but a change helps it.
    pub is_stalled: bool,
    /// How it is: the reason and the message of its `Ready`.
    pub state: String,
}

/// How far a child is with a revision.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Course {
    /// Reconciled, or nothing is under way.
    Settled,
    /// On its way.
    Open,
    /// Only a change helps it.
    Stalled,
}

impl Peers {
    /// Judges them for an owner that will have the inventory `new` and that would delete `stale`.
    pub fn of(
        owner: &Kustomization,
        others: Vec<Object>,
        new: &Inventory,
        stale: &Inventory,
    ) -> Self {
        // One that cannot be read does nothing.
        let others = others.into_iter().filter_map(|object| {
            let object = Kustomization::from_object(object).ok()?;
            Some((object.object.id(), Peer::of(object)))
        });
        let mut all: BTreeMap<ObjectId, Peer> = others.collect();
        let own = Peer {
            object: owner.clone(),
            inventory: new.clone(),
            is_reconciled: true,
        };
        all.insert(owner.object.id(), own);
        let mut peers = Self {
            owner: owner.object.id(),
            all,
            going: BTreeSet::new(),
        };
        if owner.spec.kube_config.is_none() {
            peers.going = peers.deleted_with(owner, stale);
            peers.save_what_others_keep();
        }
        peers
    }

    /// Whether a Kustomization that stays has an object of `holder`'s cluster, and takes it over when `holder` prunes it.
    pub fn keep(&self, id: &ObjectId, holder: &Kustomization) -> bool {
        self.all.iter().any(|(peer_id, peer)| {
            !self.going.contains(peer_id)
                && peer.is_reconciled
                && peer.is_beside(holder)
                && peer.inventory.contains(id)
        })
    }

    /// Whether a rendered Kustomization is new, differs from the live one, or has not been reconciled at this revision: it may take
    /// over what would be deleted.
    pub fn may_gain_heirs(&self, rendered: &[Object], revision: &str) -> bool {
        let mut children = rendered.iter().filter(|object| is_kustomization(object));
        children.any(|object| match self.all.get(&object.id()) {
            _ if object.id() == self.owner => false,
            None => true,
            Some(peer) => {
                let mut desired = object.clone();
                normalize::object(&mut desired);
                let drift = drift::compare(&desired, &peer.object.object, KUSTOMIZE_CONTROLLER);
                drift != Drift::Unchanged || self.course(peer, revision) == Course::Open
            }
        })
    }

    /// The owner's children on the hub that are not reconciled at this revision. One that was reconciled and has failed since is left
    /// out.
    pub fn unsettled(&self, revision: &str, stale: &Inventory) -> Vec<Unsettled> {
        let Some(owner) = self.all.get(&self.owner) else {
            return Vec::new();
        };
        if owner.object.spec.kube_config.is_some() {
            return Vec::new();
        }
        let children = self.all.iter();
        let children =
            children.filter(|(id, _)| **id != self.owner && owner.inventory.contains(id));
        let unsettled = children.filter_map(|(id, peer)| {
            let course = self.course(peer, revision);
            (course != Course::Settled).then(|| Unsettled {
                id: id.clone(),
                is_likely_heir: self.is_likely_heir(peer, stale),
                is_stalled: course == Course::Stalled,
                state: peer.state(),
            })
        });
        unsettled.collect()
    }

    /// The Kustomizations and HelmReleases that go when `owner` deletes `stale` and nobody keeps anything.
    fn deleted_with(&self, owner: &Kustomization, stale: &Inventory) -> BTreeSet<ObjectId> {
        let listed = |holder: &Kustomization, inventory: &Inventory| -> Vec<_> {
            let entries = inventory.iter();
            let holder = (holder.id.namespace.clone(), holder.id.name.clone());
            entries
                .map(|entry| (entry.id, Some(holder.clone())))
                .collect()
        };
        let mut open = listed(owner, stale);
        let mut going = BTreeSet::new();
        while let Some((id, holder)) = open.pop() {
            if id.group == FluxKind::HelmRelease.group()
                && id.kind == FluxKind::HelmRelease.as_str()
            {
                let made = self.all.iter().filter(|(_, peer)| peer.is_made_by(&id));
                let made = made.map(|(made, _)| (made.clone(), None));
                let made: Vec<_> = made.collect();
                if going.insert(id) {
                    open.extend(made);
                }
                continue;
            }
            let Some(peer) = self.all.get(&id).filter(|_| id != self.owner) else {
                continue;
            };
            let goes = holder.is_none_or(|(namespace, name)| {
                eligibility(&peer.object.object, &namespace, &name) == Eligibility::Delete
            });
            if !goes || !going.insert(id) {
                continue;
            }
            let one = &peer.object;
            if one.deletes_on_deletion() && !one.spec.suspend && one.spec.kube_config.is_none() {
                open.extend(listed(one, &peer.inventory));
            }
        }
        going
    }

    /// Takes out of those that go what one that stays has in its inventory, until nothing changes. Two that go do not save each other.
    fn save_what_others_keep(&mut self) {
        loop {
            let Some(hub) = self.all.get(&self.owner).map(|own| &own.object) else {
                return;
            };
            let mut going = self.going.iter();
            let saved = going.find(|id| self.all.contains_key(id) && self.keep(id, hub));
            let Some(saved) = saved.cloned() else {
                return;
            };
            self.going.remove(&saved);
        }
    }

    fn course(&self, peer: &Peer, revision: &str) -> Course {
        let one = &peer.object;
        if !peer.lives() || one.spec.suspend || self.going.contains(&one.object.id()) {
            return Course::Settled;
        }
        let owner = self.all.get(&self.owner).map(|own| own.object.source());
        let is_behind = match (owner, one.source()) {
            (Some(Ok(ours)), Ok(theirs)) => {
                ours == theirs && one.status.last_attempted_revision != revision
            }
            _ => false,
        };
        let (generation, conditions) = (one.generation(), &one.status.conditions);
        let ready = conditions.ready();
        let Some(ready) = ready.filter(|one| one.observed_generation == generation && !is_behind)
        else {
            return Course::Open;
        };
        match ready.status {
            ConditionStatus::True => Course::Settled,
            ConditionStatus::Unknown => Course::Open,
            ConditionStatus::False if one.status.observed_generation != Some(generation) => {
                Course::Open
            }
            ConditionStatus::False if conditions.is_true(STALLED) => Course::Stalled,
            // One that was reconciled and fails since is not on its way.
            ConditionStatus::False => Course::Settled,
        }
    }

    fn is_likely_heir(&self, peer: &Peer, stale: &Inventory) -> bool {
        let directory = |one: &Kustomization| {
            let path = one
                .spec
                .path
                .trim_start_matches("./")
                .trim_matches('/')
                .to_owned();
            (one.source().ok(), path)
        };
        let lists_any = |inventory: &Inventory| {
            let mut entries = inventory.iter();
            entries.any(|entry| peer.inventory.contains(&entry.id))
        };
        let going = self.going.iter().filter_map(|id| self.all.get(id));
        let mut going = going.filter(|other| peer.is_beside(&other.object));
        going.any(|other| {
            directory(&other.object) == directory(&peer.object) || lists_any(&other.inventory)
        }) || lists_any(stale)
    }
}

impl Peer {
    fn of(object: Kustomization) -> Self {
        let ready = object.status.conditions.ready();
        let is_ready = ready.is_some_and(|ready| {
            ready.status == ConditionStatus::True
                && ready.observed_generation == object.generation()
        });
        Self {
            inventory: Inventory::from_status(object.status.inventory.as_ref()),
            is_reconciled: is_ready && object.object.meta("deletionTimestamp").is_empty(),
            object,
        }
    }

    fn lives(&self) -> bool {
        self.object.object.meta("deletionTimestamp").is_empty()
    }

    fn is_beside(&self, other: &Kustomization) -> bool {
        let place = |one: &Kustomization| (one.spec.kube_config.clone(), one.id.namespace.clone());
        let (ours, theirs) = (place(&self.object), place(other));
        is_same_cluster((ours.0.as_ref(), &ours.1), (theirs.0.as_ref(), &theirs.1))
    }

    fn is_made_by(&self, release: &ObjectId) -> bool {
        let object = &self.object.object;
        object.label(helmrelease::OWNER_NAME) == Some(&release.name)
            && object.label(helmrelease::OWNER_NAMESPACE) == Some(&release.namespace)
    }

    fn state(&self) -> String {
        match self.object.status.conditions.get(READY) {
            Some(ready) => format!("{}: {}", ready.reason, shorten(&ready.message, MESSAGE)),
            None => "it has not been reconciled yet".to_owned(),
        }
    }
}

fn is_kustomization(object: &Object) -> bool {
    FluxKind::of(&object.gvk()) == Some(FluxKind::Kustomization)
}
