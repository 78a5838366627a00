//! The prune guard.
//!
//! Deleting the objects that a commit removed is ordinary work, also with their namespace, and a
//! small Kustomization may become empty. The guard holds mass deletion, the result of a wrong path,
//! a broken overlay or a bad merge. A prune is held if it would delete
//!
//! 1. more than 10 objects that are more than half of the inventory (so also an empty render of
//!    more than 10 objects), or
//! 2. more than 100 objects, or
//! 3. more than 5 objects whose deletion also deletes data of others: Namespaces,
//!    CustomResourceDefinitions, PersistentVolumes and PersistentVolumeClaims.
//!
//! The objects that a deleted Kustomization or HelmRelease deletes count as if they were in the
//! inventory: see [`IndirectDeletions`].
//!
//! The annotation [`PRUNE_APPROVED`] on the Kustomization, with the revision as its value, lets
//! exactly that revision pass.

use super::Inventory;
use driftless_manifest::ObjectId;
use std::fmt;

/// The annotation that lets a held prune of one revision pass; its value is that revision.
pub const PRUNE_APPROVED: &str = "driftless.dev/prune-approved";

/// Maximum number of Kustomizations and HelmReleases that a message names.
const NAMED_CHILDREN: usize = 3;

/// The limits above which a prune is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The number of objects that may always be deleted.
    pub free: usize,
    /// The share of an inventory that may be deleted, in percent.
    pub percent: usize,
    /// The maximum number of deleted objects.
    pub objects: usize,
    /// The maximum number of deleted objects with data of others.
    pub data: usize,
}

impl Default for Limits {
    /// Returns the limits 10 objects, 50 percent, 100 objects, and 5 objects with data.
    fn default() -> Self {
        Self {
            free: 10,
            percent: 50,
            objects: 100,
            data: 5,
        }
    }
}

/// The objects that are deleted with the Kustomizations and HelmReleases that a prune would delete,
/// at every depth.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndirectDeletions {
    /// Each Kustomization and HelmRelease with the objects that are deleted with it.
    pub children: Vec<(ObjectId, Vec<ObjectId>)>,
    /// True if there are more objects, which were not read because the limit was reached.
    pub is_cut: bool,
}

impl IndirectDeletions {
    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.children.iter().map(|(_, objects)| objects.len()).sum()
    }

    /// Checks whether [`IndirectDeletions::len`] is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn iter(&self) -> impl Iterator<Item = &ObjectId> {
        self.children.iter().flat_map(|(_, objects)| objects)
    }
}

/// A prune that waits for approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedPrune {
    /// The number of objects that it would delete.
    pub stale: usize,
    /// The number of objects in the inventory and below it.
    pub of: usize,
    /// Those objects whose deletion also deletes data of others.
    pub data: Vec<ObjectId>,
    /// Those objects that are deleted with a Kustomization or HelmRelease.
    pub below: IndirectDeletions,
    cause: Cause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Share(usize),
    Objects(usize),
    Data(usize),
}

impl BlockedPrune {
    /// Returns the message for the user, with `notes` after the counts and the instruction for the
    /// approval at the end.
    pub fn message(&self, notes: &str, revision: &str) -> String {
        format!(
            "{self}{notes}; to let this revision pass, annotate the Kustomization with {PRUNE_APPROVED}={revision}"
        )
    }
}

impl fmt::Display for BlockedPrune {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            stale,
            of,
            data,
            below,
            cause,
        } = self;
        let least = if below.is_cut { "at least " } else { "" };
        write!(
            f,
            "prune held: {least}{stale} of {of} objects would be deleted, "
        )?;
        match cause {
            Cause::Share(percent) => write!(f, "more than {percent}%"),
            Cause::Objects(limit) => write!(f, "more than {limit}"),
            Cause::Data(limit) => {
                let names: Vec<String> = data
                    .iter()
                    .take(limit + 1)
                    .map(ToString::to_string)
                    .collect();
                write!(
                    f,
                    "more than {limit} of them with others' data ({}",
                    names.join(", ")
                )?;
                f.write_str(if data.len() > limit + 1 {
                    ", …)"
                } else {
                    ")"
                })
            }
        }?;
        let with = below.children.iter();
        let mut with = with.filter(|(_, objects)| !objects.is_empty());
        for (child, objects) in with.by_ref().take(NAMED_CHILDREN) {
            write!(f, ", {} of them with {child}", objects.len())?;
        }
        match with.next() {
            Some(_) => f.write_str(", …"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for BlockedPrune {}

/// Checks whether the objects of `old` that are not in `new` may be deleted without an approval,
/// with those `below` them.
///
/// # Errors
/// [`BlockedPrune`], by the default [`Limits`].
pub fn guard(
    old: &Inventory,
    new: &Inventory,
    below: &IndirectDeletions,
) -> Result<(), BlockedPrune> {
    guard_within(Limits::default(), old, new, below)
}

/// Checks like [`guard`], with other limits.
///
/// # Errors
/// [`BlockedPrune`].
pub fn guard_within(
    limits: Limits,
    old: &Inventory,
    new: &Inventory,
    below: &IndirectDeletions,
) -> Result<(), BlockedPrune> {
    let stale = old.minus(new);
    let (count, of) = (stale.len() + below.len(), old.len() + below.len());
    let all = stale
        .iter()
        .map(|entry| entry.id)
        .chain(below.iter().cloned());
    let data: Vec<ObjectId> = all.filter(has_data).collect();
    let cause =
        if count > limits.free && count.saturating_mul(100) > of.saturating_mul(limits.percent) {
            Cause::Share(limits.percent)
        } else if count > limits.objects {
            Cause::Objects(limits.objects)
        } else if data.len() > limits.data {
            Cause::Data(limits.data)
        } else {
            return Ok(());
        };
    Err(BlockedPrune {
        stale: count,
        of,
        data,
        below: below.clone(),
        cause,
    })
}

fn has_data(id: &ObjectId) -> bool {
    match id.group.as_str() {
        "" => matches!(
            id.kind.as_str(),
            "Namespace" | "PersistentVolume" | "PersistentVolumeClaim"
        ),
        "apiextensions.k8s.io" => id.kind == "CustomResourceDefinition",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn inventory(kind: &str, count: usize) -> Inventory {
        let entries: Vec<Value> = (0..count)
            .map(|n| json!({"id": format!("ns_{n}__{kind}"), "v": "v1"}))
            .collect();
        Inventory::from_status(Some(&json!({"entries": entries})))
    }

    #[test]
    fn mass_deletion_is_held_and_ordinary_work_is_not() {
        for (old, left, held) in [
            (1, 0, None),
            (10, 0, None),
            (
                11,
                0,
                Some("11 of 11 objects would be deleted, more than 50%"),
            ),
            (20, 10, None),
            (22, 11, None),
            (
                22,
                10,
                Some("12 of 22 objects would be deleted, more than 50%"),
            ),
            (300, 200, None),
            (
                300,
                199,
                Some("101 of 300 objects would be deleted, more than 100"),
            ),
            (5, 9, None),
        ] {
            let (old, new) = (inventory("ConfigMap", old), inventory("ConfigMap", left));
            let found = guard(&old, &new, &IndirectDeletions::default())
                .err()
                .map(|held| held.to_string());
            let held = held.map(|text| format!("prune held: {text}"));
            assert_eq!(found, held);
        }
    }

    #[test]
    fn data_counts_more() {
        let (rest, nothing) = (inventory("ConfigMap", 50), IndirectDeletions::default());
        assert_eq!(
            guard(&rest.union(&inventory("Namespace", 5)), &rest, &nothing),
            Ok(())
        );
        let held = guard(&rest.union(&inventory("Namespace", 8)), &rest, &nothing).unwrap_err();
        let message = held.message(": Namespace/ns/0", "main@sha1:abc");
        assert!(
            message.contains("more than 5 of them with others' data (Namespace/ns/0, "),
            "{message}"
        );
        assert!(
            message.ends_with("driftless.dev/prune-approved=main@sha1:abc"),
            "{message}"
        );
    }

    #[test]
    fn the_guard_counts_objects_of_deleted_children() {
        let (old, left) = (inventory("ConfigMap", 4), inventory("ConfigMap", 3));
        let child = |name: &str, kind: &str, count: usize| {
            let id = format!("flux-system_{name}_kustomize.toolkit.fluxcd.io_Kustomization");
            let objects = inventory(kind, count);
            let objects: Vec<ObjectId> = objects.iter().map(|entry| entry.id).collect();
            (ObjectId::from_inventory_id(&id).unwrap(), objects)
        };
        let held = |children: Vec<(ObjectId, Vec<ObjectId>)>, is_cut: bool| {
            let below = IndirectDeletions { children, is_cut };
            guard(&old, &left, &below)
                .err()
                .map(|held| held.to_string())
        };
        assert_eq!(held(vec![child("a", "Service", 9)], false), None);
        assert_eq!(
            held(vec![child("a", "Service", 10), child("b", "Pod", 0)], false).as_deref(),
            Some(
                "prune held: 11 of 14 objects would be deleted, more than 50%, 10 of them with \
                 Kustomization/flux-system/a"
            )
        );
        let many = ["a", "b", "c", "d"].map(|name| child(name, "Service", 30));
        let many = held(many.to_vec(), true).unwrap();
        assert!(
            many.starts_with("prune held: at least 121 of 124 objects would be deleted, ")
                && many.ends_with("30 of them with Kustomization/flux-system/c, …"),
            "{many}"
        );
        let data = held(vec![child("a", "PersistentVolumeClaim", 6)], false).unwrap();
        assert!(
            data.contains("more than 5 of them with others' data"),
            "{data}"
        );
    }
}
