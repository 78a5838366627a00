//! The objects that a Kustomization has applied: `status.inventory`, as Flux writes it, and the
//! guard against mass deletion.

mod prune_guard;

pub use prune_guard::{
    BlockedPrune, IndirectDeletions, Limits, PRUNE_APPROVED, guard, guard_within,
};

use crate::apply::apply_order;
use driftless_manifest::{Object, ObjectId};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// One applied object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The identity of the object.
    pub id: ObjectId,
    /// The version that it was applied in, such as `v1`.
    pub version: String,
}

/// Returns `status.inventory` of a HelmRelease: the objects in the order of its manifest.
pub fn listed(objects: &[Object]) -> Value {
    let entries = objects
        .iter()
        .map(|object| entry(&object.id(), &object.gvk().version));
    json!({"entries": entries.collect::<Vec<_>>()})
}

fn entry(id: &ObjectId, version: &str) -> Value {
    json!({"id": id.inventory_id(), "v": version})
}

/// A set of applied objects.
///
/// It grows before an apply ([`Inventory::union`] is written ahead), and shrinks after a confirmed
/// delete and by the objects whose apply was refused. An entry that cannot be read is kept
/// unchanged and never acted on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Inventory {
    entries: BTreeMap<ObjectId, String>,
    unreadable: Vec<Value>,
}

impl Inventory {
    /// Reads `status.inventory`: `{entries: [{id, v}]}`.
    pub fn from_status(status: Option<&Value>) -> Self {
        let mut inventory = Self::default();
        let entries = status
            .and_then(|status| status.get("entries"))
            .and_then(Value::as_array);
        for entry in entries.into_iter().flatten() {
            let text = |key: &str| entry.get(key).and_then(Value::as_str);
            match (text("id").and_then(ObjectId::from_inventory_id), text("v")) {
                (Some(id), Some(version)) => {
                    inventory.entries.insert(id, version.to_owned());
                }
                _ => inventory.unreadable.push(entry.clone()),
            }
        }
        inventory
    }

    /// Creates the inventory of rendered objects.
    pub fn of(objects: &[Object]) -> Self {
        let entries = objects
            .iter()
            .map(|object| (object.id(), object.gvk().version));
        Self {
            entries: entries.collect(),
            unreadable: Vec::new(),
        }
    }

    /// Returns `status.inventory`, in the order of applying.
    pub fn to_status(&self) -> Value {
        let mut entries: Vec<(&ObjectId, &String)> = self.entries.iter().collect();
        entries.sort_by(|a, b| apply_order::order(a.0, b.0));
        let entries = entries.into_iter().map(|(id, version)| entry(id, version));
        json!({"entries": entries.chain(self.unreadable.iter().cloned()).collect::<Vec<_>>()})
    }

    /// Iterates over the entries that can be read.
    pub fn iter(&self) -> impl Iterator<Item = Entry> {
        self.entries.iter().map(|(id, version)| Entry {
            id: id.clone(),
            version: version.clone(),
        })
    }

    /// Returns the number of entries that can be read.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Checks whether [`Inventory::len`] is 0.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Checks whether the object is in the inventory, in any version.
    pub fn contains(&self, id: &ObjectId) -> bool {
        self.entries.contains_key(id)
    }

    /// Adds an entry; an existing one for the same object gets the new version.
    pub fn insert(&mut self, entry: Entry) {
        self.entries.insert(entry.id, entry.version);
    }

    /// Keeps only the entries that pass, and those that cannot be read.
    pub fn retain(&mut self, mut passes: impl FnMut(&ObjectId) -> bool) {
        self.entries.retain(|id, _| passes(id));
    }

    /// Copies an object's entry from another inventory, if it has one.
    pub fn keep(&mut self, other: &Self, id: &ObjectId) {
        if let Some(version) = other.entries.get(id) {
            self.entries
                .entry(id.clone())
                .or_insert_with(|| version.clone());
        }
    }

    /// Copies the entries of another inventory that cannot be read, unchanged.
    pub fn keep_unreadable(&mut self, other: &Self) {
        for entry in &other.unreadable {
            if !self.unreadable.contains(entry) {
                self.unreadable.push(entry.clone());
            }
        }
    }

    /// Returns the entries of both; versions of `newer` win. This inventory is written ahead of an
    /// apply.
    #[must_use]
    pub fn union(&self, newer: &Self) -> Self {
        let mut all = self.clone();
        all.entries.extend(newer.entries.clone());
        all.keep_unreadable(newer);
        all
    }

    /// Returns the entries that are not in `other`: with the new inventory as `other`, the stale
    /// ones. An entry of which only the version changed is not stale.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let entries = self.entries.iter().filter(|(id, _)| !other.contains(id));
        Self {
            entries: entries.map(|(id, v)| (id.clone(), v.clone())).collect(),
            unreadable: Vec::new(),
        }
    }

    /// Returns the entries in the order of deleting: the reverse of applying.
    pub fn in_deletion_order(&self) -> Vec<Entry> {
        let mut entries: Vec<Entry> = self.iter().collect();
        entries.sort_by(|a, b| apply_order::order(&b.id, &a.id));
        entries
    }
}

/// The decision whether a live object that is no longer rendered may be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Eligibility {
    /// It is ours and may be deleted: this very object, by its uid and resourceVersion.
    Delete,
    /// It is already being deleted.
    Terminating,
    /// Its labels name another owner or no owner.
    NotOurs,
    /// Its options keep it: `prune: Disabled`, `reconcile: Disabled` or `ssa: Ignore`.
    Kept,
}

/// Returns whether the Kustomization `namespace`/`name` may delete a live object: both owner labels
/// must name it.
pub fn eligibility(live: &Object, namespace: &str, name: &str) -> Eligibility {
    let label = |key: &str| live.label(&format!("kustomize.toolkit.fluxcd.io/{key}"));
    if label("name") != Some(name) || label("namespace") != Some(namespace) {
        Eligibility::NotOurs
    } else if crate::apply::annotations::Policy::of(live).keeps() {
        Eligibility::Kept
    } else if !live.meta("deletionTimestamp").is_empty() {
        Eligibility::Terminating
    } else {
        Eligibility::Delete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(ids: &[(&str, &str)]) -> Value {
        let entries: Vec<Value> = ids
            .iter()
            .map(|(id, v)| json!({"id": id, "v": v}))
            .collect();
        json!({"entries": entries})
    }

    #[test]
    fn read_write_union_minus() {
        let old = status(&[
            ("_apps__Namespace", "v1"),
            ("apps_a_apps_Deployment", "v1beta1"),
            ("apps_b__ConfigMap", "v1"),
        ]);
        let old = Inventory::from_status(Some(&old));
        let new = status(&[
            ("_apps__Namespace", "v1"),
            ("apps_a_apps_Deployment", "v1"),
            ("apps_c__Secret", "v1"),
        ]);
        let new = Inventory::from_status(Some(&new));
        assert_eq!(
            old.minus(&new).to_status(),
            status(&[("apps_b__ConfigMap", "v1")])
        );
        assert_eq!(
            old.union(&new).to_status(),
            status(&[
                ("_apps__Namespace", "v1"),
                ("apps_b__ConfigMap", "v1"),
                ("apps_c__Secret", "v1"),
                ("apps_a_apps_Deployment", "v1"),
            ])
        );
        let order: Vec<String> = old
            .in_deletion_order()
            .iter()
            .map(|entry| entry.id.to_string())
            .collect();
        assert_eq!(
            order,
            ["Deployment/apps/a", "ConfigMap/apps/b", "Namespace/apps"]
        );
        assert_eq!(Inventory::from_status(None), Inventory::default());
    }

    #[test]
    fn an_entry_that_cannot_be_read_is_never_lost_and_never_stale() {
        let odd = json!({"entries": [{"id": "nonsense", "v": "v1"}, {"v": "v1"}, {"id": "apps_b__ConfigMap", "v": "v1"}]});
        let odd = Inventory::from_status(Some(&odd));
        assert_eq!(odd.len(), 1);
        let union = odd.union(&Inventory::default());
        assert_eq!(
            union.to_status()["entries"].as_array().map(Vec::len),
            Some(3)
        );
        assert_eq!(odd.minus(&Inventory::default()).len(), 1);
        let mut next = Inventory::default();
        next.keep_unreadable(&odd);
        next.keep_unreadable(&odd);
        let entries = next.to_status()["entries"].as_array().map(Vec::len);
        assert_eq!(entries, Some(2));
    }

    #[test]
    fn only_our_own_objects_may_go() {
        let live = |name: &str, namespace: &str, annotation: &str, deleted: Option<&str>| {
            Object::new(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
                "name": "c", "uid": "u", "resourceVersion": "7", "deletionTimestamp": deleted,
                "labels": {"kustomize.toolkit.fluxcd.io/name": name, "kustomize.toolkit.fluxcd.io/namespace": namespace},
                "annotations": {annotation: "disabled"}}}))
            .unwrap()
        };
        for (live, expected) in [
            (live("k", "ns", "x", None), Eligibility::Delete),
            (live("other", "ns", "x", None), Eligibility::NotOurs),
            (live("k", "other", "x", None), Eligibility::NotOurs),
            (
                live("k", "ns", "kustomize.toolkit.fluxcd.io/prune", None),
                Eligibility::Kept,
            ),
            (
                live("k", "ns", "kustomize.toolkit.fluxcd.io/reconcile", None),
                Eligibility::Kept,
            ),
            (
                live("k", "ns", "x", Some("2026-01-01T00:00:00Z")),
                Eligibility::Terminating,
            ),
        ] {
            assert_eq!(eligibility(&live, "ns", "k"), expected);
        }
    }
}
