//! The other Kustomizations of a hub while one of them prunes: which of them the prune deletes,
//! which keep the objects that they list, and which may still take over an object.

use super::applying_user::is_same_cluster;
use driftless_flux::{
    ConditionStatus, FluxKind, KUSTOMIZE_CONTROLLER, Kustomization, READY, STALLED, shorten,
};
use driftless_manifest::{Object, ObjectId};
use driftless_plans::apply::change_detection::{self, Drift};
use driftless_plans::apply::normalize;
use driftless_plans::inventory::{Eligibility, Inventory, eligibility};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum length of a child's message within ours, in bytes.
const MESSAGE: usize = 300;

/// A Kustomization of the hub.
struct Peer {
    object: Kustomization,
    inventory: Inventory,
    /// True if it has applied all objects that it lists.
    is_reconciled: bool,
}

/// All Kustomizations of the hub at one time.
pub struct Peers {
    owner: ObjectId,
    all: BTreeMap<ObjectId, Peer>,
    /// Kustomizations and HelmReleases that the prune deletes, at every depth.
    going: BTreeSet<ObjectId>,
}

/// A child of the owner that has not been reconciled at this revision.
#[derive(Debug, PartialEq, Eq)]
pub struct PendingChild {
    /// The identity of the child.
    pub id: ObjectId,
    /// True if it builds from the directory of a child that would be deleted, or lists an object
    /// that would be deleted.
    pub is_likely_heir: bool,
    /// True if only a change of the object or its source can help.
    pub is_stalled: bool,
    /// The reason and the message of its `Ready` condition.
    pub state: String,
}

/// The state of a child at a revision.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ChildState {
    /// Reconciled, or no step is pending.
    Settled,
    /// Its reconciliation is not finished.
    Pending,
    /// Only a change can help.
    Stalled,
}

impl Peers {
    /// Analyzes the Kustomizations for an owner that will have the inventory `new` and that would
    /// delete `stale`.
    pub fn of(
        owner: &Kustomization,
        others: Vec<Object>,
        new: &Inventory,
        stale: &Inventory,
    ) -> Self {
        // A Kustomization whose spec is not valid does nothing.
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

    /// Checks whether a Kustomization that stays lists an object of `holder`'s cluster, and takes
    /// it over when `holder` prunes it.
    pub fn keep(&self, id: &ObjectId, holder: &Kustomization) -> bool {
        self.all.iter().any(|(peer_id, peer)| {
            !self.going.contains(peer_id)
                && peer.is_reconciled
                && peer.is_on_cluster_of(holder)
                && peer.inventory.contains(id)
        })
    }

    /// Checks whether a rendered Kustomization is new, differs from the live one, or has not been
    /// reconciled at this revision: it may take over objects that would be deleted.
    pub fn may_gain_heirs(&self, rendered: &[Object], revision: &str) -> bool {
        let mut children = rendered.iter().filter(|object| is_kustomization(object));
        children.any(|object| match self.all.get(&object.id()) {
            _ if object.id() == self.owner => false,
            None => true,
            Some(peer) => {
                let mut desired = object.clone();
                normalize::object(&mut desired);
                let drift =
                    change_detection::compare(&desired, &peer.object.object, KUSTOMIZE_CONTROLLER);
                drift != Drift::Unchanged || self.child_state(peer, revision) == ChildState::Pending
            }
        })
    }

    /// Returns the owner's children on the hub that are not reconciled at this revision, without
    /// those that were reconciled and have failed since.
    pub fn unsettled(&self, revision: &str, stale: &Inventory) -> Vec<PendingChild> {
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
            let child_state = self.child_state(peer, revision);
            (child_state != ChildState::Settled).then(|| PendingChild {
                id: id.clone(),
                is_likely_heir: self.is_likely_heir(peer, stale),
                is_stalled: child_state == ChildState::Stalled,
                state: peer.state(),
            })
        });
        unsettled.collect()
    }

    /// Returns the Kustomizations and HelmReleases that are deleted when `owner` deletes `stale`
    /// and no other one keeps an object.
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
                let created = self.all.iter().filter(|(_, peer)| peer.is_created_by(&id));
                let created = created.map(|(created, _)| (created.clone(), None));
                let created: Vec<_> = created.collect();
                if going.insert(id) {
                    open.extend(created);
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

    /// Removes from `going` those that a staying Kustomization lists, until the set is stable. Two
    /// that are deleted do not save one another.
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

    fn child_state(&self, peer: &Peer, revision: &str) -> ChildState {
        let one = &peer.object;
        if !peer.lives() || one.spec.suspend || self.going.contains(&one.object.id()) {
            return ChildState::Settled;
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
            return ChildState::Pending;
        };
        match ready.status {
            ConditionStatus::True => ChildState::Settled,
            ConditionStatus::Unknown => ChildState::Pending,
            ConditionStatus::False if one.status.observed_generation != Some(generation) => {
                ChildState::Pending
            }
            ConditionStatus::False if conditions.is_true(STALLED) => ChildState::Stalled,
            // A child that was reconciled and has failed since is not pending.
            ConditionStatus::False => ChildState::Settled,
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
        let mut going = going.filter(|other| peer.is_on_cluster_of(&other.object));
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

    fn is_on_cluster_of(&self, other: &Kustomization) -> bool {
        let place = |one: &Kustomization| (one.spec.kube_config.clone(), one.id.namespace.clone());
        let (ours, theirs) = (place(&self.object), place(other));
        is_same_cluster((ours.0.as_ref(), &ours.1), (theirs.0.as_ref(), &theirs.1))
    }

    fn is_created_by(&self, release: &ObjectId) -> bool {
        let object = &self.object.object;
        object.label(driftless_helmrelease::OWNER_NAME) == Some(&release.name)
            && object.label(driftless_helmrelease::OWNER_NAMESPACE) == Some(&release.namespace)
    }

    fn state(&self) -> String {
        match self.object.status.conditions.get(READY) {
            Some(ready) => format!("{}: {}", ready.reason, shorten(&ready.message, MESSAGE)),
            None => "not reconciled yet".to_owned(),
        }
    }
}

fn is_kustomization(object: &Object) -> bool {
    FluxKind::of(&object.gvk()) == Some(FluxKind::Kustomization)
}
