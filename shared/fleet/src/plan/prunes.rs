//! The deletions that the prune guard would hold.

use super::compare::{Side, reason_to_stay};
use super::model::Notice;
use driftless_flux::{FluxKind, ObjectRef};
use driftless_manifest::{Object, ObjectId};
use driftless_plans::inventory::{IndirectDeletions, Inventory, PRUNE_APPROVED, guard};
use std::collections::{BTreeMap, BTreeSet};

/// The Kustomization or HelmRelease of a hub.
type Owner = (String, ObjectRef);

/// Returns a notice for each Kustomization whose prune the guard would hold.
pub fn blocked(old: &Side<'_>, new: &Side<'_>) -> Vec<Notice> {
    // The objects by owner, and those of them that the change deletes.
    let mut had: BTreeMap<Owner, Vec<Object>> = BTreeMap::new();
    let mut deleted: BTreeMap<Owner, BTreeSet<ObjectId>> = BTreeMap::new();
    for (key, was) in old.objects() {
        let owner = (was.hub.clone(), was.owner.clone());
        had.entry(owner.clone())
            .or_default()
            .push(was.object.clone());
        let is_known = new.gap(old, &was.hub, &was.owner).is_none();
        if is_known && !new.has(key) && reason_to_stay(was, old, new).is_none() {
            deleted.entry(owner).or_default().insert(was.object.id());
        }
    }
    let mut notices = Vec::new();
    for (owner, objects) in &had {
        let (hub, id) = owner;
        let gone = deleted.get(owner);
        let (Some(gone), true) = (gone, id.kind == FluxKind::Kustomization) else {
            continue;
        };
        if !new.has_flux(hub, id) {
            continue;
        }
        let inventory = Inventory::of(objects);
        let mut left = inventory.clone();
        left.retain(|id| !gone.contains(id));
        let mut below = IndirectDeletions::default();
        add_children(
            hub,
            objects,
            gone,
            &had,
            &deleted,
            &mut below,
            &mut BTreeSet::new(),
        );
        if let Err(stopped) = guard(&inventory, &left, &below) {
            notices.push(Notice {
                place: old.checked.places.of(hub, id, &flux_id(id)),
                about: format!("{hub}: {id}"),
                message: format!(
                    "{stopped}; after the merge, annotate the Kustomization with {PRUNE_APPROVED} and the revision to let it pass"
                ),
            });
        }
    }
    notices
}

/// Adds the objects that are deleted with deleted Kustomizations and HelmReleases.
fn add_children(
    hub: &str,
    objects: &[Object],
    gone: &BTreeSet<ObjectId>,
    had: &BTreeMap<Owner, Vec<Object>>,
    deleted: &BTreeMap<Owner, BTreeSet<ObjectId>>,
    below: &mut IndirectDeletions,
    seen: &mut BTreeSet<ObjectRef>,
) {
    for object in objects.iter().filter(|object| gone.contains(&object.id())) {
        let Some(child) = ObjectRef::of(object).filter(|child| seen.insert(child.clone())) else {
            continue;
        };
        let owner = (hub.to_owned(), child);
        let (Some(objects), Some(gone)) = (had.get(&owner), deleted.get(&owner)) else {
            continue;
        };
        below
            .children
            .push((object.id(), gone.iter().cloned().collect()));
        add_children(hub, objects, gone, had, deleted, below, seen);
    }
}

fn flux_id(id: &ObjectRef) -> ObjectId {
    ObjectId {
        kind: id.kind.as_str().to_owned(),
        group: id.kind.group().to_owned(),
        namespace: id.namespace.clone(),
        name: id.name.clone(),
    }
}
