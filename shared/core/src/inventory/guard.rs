//! The prune guard.
//!
//! Deleting what a commit removed is an ordinary act, also with its namespace, and a small Kustomization may be emptied. What
//! is held is mass deletion, as a wrong path, a broken overlay or a bad merge makes it. A prune is held when it would delete
//!
//! 1. more than 10 objects that are more than half of the inventory (so also an empty render of more than 10 objects), or
//! 2. more than 100 objects, or
//! 3. more than 5 objects that take others' data with them: Namespaces, CustomResourceDefinitions, PersistentVolumes and
//!    PersistentVolumeClaims.
//!
//! The annotation [`PRUNE_APPROVED`] on the Kustomization, with the revision as its value, lets exactly that revision pass.

use super::Inventory;
use driftless_manifest::ObjectId;
use std::fmt;

/// The annotation that lets a held prune of one revision pass; its value is that revision.
pub const PRUNE_APPROVED: &str = "driftless.dev/prune-approved";

/// From where on a prune is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// So many objects may always go.
    pub free: usize,
    /// Of an inventory, this share in percent may go.
    pub percent: usize,
    /// Never more objects than this.
    pub objects: usize,
    /// Never more objects with others' data than this.
    pub data: usize,
}

impl Default for Limits {
    /// 10 always, half, 100, 5.
    fn default() -> Self {
        Self {
            free: 10,
            percent: 50,
            objects: 100,
            data: 5,
        }
    }
}

/// A prune that waits for approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// How many objects it would delete.
    pub stale: usize,
    /// Of how many.
    pub of: usize,
    /// Those of them that take others' data with them.
    pub data: Vec<ObjectId>,
    why: Why,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    Share(usize),
    Objects(usize),
    Data(usize),
}

impl Held {
    /// What to tell the user, with the way to approve it.
    pub fn message(&self, revision: &str) -> String {
        format!(
            "{self}; to let this revision pass, annotate the Kustomization with {PRUNE_APPROVED}={revision}"
        )
    }
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            stale,
            of,
            data,
            why,
        } = self;
        write!(f, "prune held: {stale} of {of} objects would be deleted, ")?;
        match why {
            Why::Share(percent) => write!(f, "more than {percent}%"),
            Why::Objects(limit) => write!(f, "more than {limit}"),
            Why::Data(limit) => {
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
        }
    }
}

impl std::error::Error for Held {}

/// Whether what goes from `old` to `new` may be deleted; `approved` when the annotation names this very revision.
///
/// # Errors
/// [`Held`], by the default [`Limits`].
pub fn guard(old: &Inventory, new: &Inventory, approved: bool) -> Result<(), Held> {
    guard_within(Limits::default(), old, new, approved)
}

/// As [`guard`], with limits of the operator.
///
/// # Errors
/// [`Held`].
pub fn guard_within(
    limits: Limits,
    old: &Inventory,
    new: &Inventory,
    approved: bool,
) -> Result<(), Held> {
    let stale = old.minus(new);
    let (count, of) = (stale.len(), old.len());
    let data: Vec<ObjectId> = stale
        .iter()
        .map(|entry| entry.id)
        .filter(has_data)
        .collect();
    let why =
        if count > limits.free && count.saturating_mul(100) > of.saturating_mul(limits.percent) {
            Why::Share(limits.percent)
        } else if count > limits.objects {
            Why::Objects(limits.objects)
        } else if data.len() > limits.data {
            Why::Data(limits.data)
        } else {
            return Ok(());
        };
    if approved {
        Ok(())
    } else {
        Err(Held {
            stale: count,
            of,
            data,
            why,
        })
    }
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
            let found = guard(&old, &new, false).err().map(|held| held.to_string());
            let held = held.map(|text| format!("prune held: {text}"));
            assert_eq!(found, held);
            assert_eq!(guard(&old, &new, true), Ok(()));
        }
    }

    #[test]
    fn data_counts_more() {
        let rest = inventory("ConfigMap", 50);
        assert_eq!(
            guard(&rest.union(&inventory("Namespace", 5)), &rest, false),
            Ok(())
        );
        let held = guard(&rest.union(&inventory("Namespace", 8)), &rest, false).unwrap_err();
        let message = held.message("main@sha1:abc");
        assert!(
            message.contains("more than 5 of them with others' data (Namespace/ns/0, "),
            "{message}"
        );
        assert!(
            message.ends_with("driftless.dev/prune-approved=main@sha1:abc"),
            "{message}"
        );
    }
}
