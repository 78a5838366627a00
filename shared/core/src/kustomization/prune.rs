//! Deleting what is no longer rendered: only what is provably ours, only the object that was looked at.

use super::live::{OWNER_NAME, OWNER_NAMESPACE, living_inventory};
use crate::apply::plan::{Action, ChangeSet};
use crate::failure::Failure;
use crate::flux::{Kustomization, reason};
use crate::inventory::{Eligibility, Entry, Inventory, eligibility};
use crate::ports::{Delete, Deleted, ErrorKind, PortError};
use crate::step::Context;
use crate::target::Target;
use driftless_manifest::{Gvk, Object};
use serde_json::json;

/// What a prune did.
#[derive(Default)]
pub struct Pruned {
    /// What was deleted.
    pub changes: ChangeSet,
    /// What stays in the inventory: not deleted yet, or not known to be.
    pub left: Inventory,
    /// Whether something is on its way out.
    pub terminating: bool,
    /// What failed.
    pub failure: Option<Failure>,
}

enum One {
    Deleted,
    Gone,
    NotOurs,
    Terminating,
}

/// Deletes the stale entries in reverse order of applying. Each entry leaves the inventory only when its object is gone
/// or proves not to be ours.
pub async fn prune(
    context: &Context<'_>,
    target: &Target,
    owner: &Kustomization,
    stale: &Inventory,
) -> Pruned {
    let mut pruned = Pruned::default();
    for entry in stale.in_deletion_order() {
        let id = entry.id.clone();
        match prune_one(context, target, owner, &entry).await {
            Ok(One::Deleted) => pruned.changes.push(id, Action::Deleted),
            Ok(One::Gone) => {}
            Ok(One::NotOurs) => pruned.changes.push(id, Action::Skipped),
            Ok(One::Terminating) => {
                pruned.terminating = true;
                pruned.changes.push(id, Action::Deleted);
                pruned.left.insert(entry);
            }
            Err(error) => {
                let failure = Failure::port(reason::PRUNE_FAILED, &error)
                    .context(format!("{id} delete failed"));
                match &mut pruned.failure {
                    None => pruned.failure = Some(failure),
                    Some(first) => {
                        first.message = format!("{}\n{}", first.message, failure.message)
                    }
                }
                pruned.left.insert(entry);
            }
        }
    }
    pruned
}

async fn prune_one(
    context: &Context<'_>,
    target: &Target,
    owner: &Kustomization,
    entry: &Entry,
) -> Result<One, PortError> {
    let id = &entry.id;
    let gvk = Gvk {
        group: id.group.clone(),
        version: entry.version.clone(),
        kind: id.kind.clone(),
    };
    let resource = match target.cluster.resource(&gvk).await? {
        Some(resource) => resource,
        // The version may have gone from the server while the kind is still there.
        None => match target
            .cluster
            .versions(&id.group, &id.kind)
            .await?
            .into_iter()
            .next()
        {
            Some(resource) => resource,
            None => return Ok(One::Gone),
        },
    };
    let Some(live) = target
        .cluster
        .get(&resource, &id.namespace, &id.name)
        .await?
    else {
        return Ok(One::Gone);
    };
    let conditions = match eligibility(&live, &owner.id.namespace, &owner.id.name) {
        Eligibility::NotOurs | Eligibility::Kept => return Ok(One::NotOurs),
        Eligibility::Terminating => return Ok(One::Terminating),
        Eligibility::Delete(conditions) => conditions,
    };
    if let Some(heir) = heir(context, owner, &live).await {
        // Somebody else renders it too: it changes hands and is not deleted.
        let labels = json!({"metadata": {"labels": {OWNER_NAME: heir.1, OWNER_NAMESPACE: heir.0}}});
        let patch = crate::ports::Patch::Merge(labels);
        let manager = crate::flux::KUSTOMIZE_CONTROLLER;
        target
            .cluster
            .patch(&resource, &id.namespace, &id.name, None, &patch, manager)
            .await?;
        return Ok(One::NotOurs);
    }
    let how = Delete {
        uid: Some(conditions.uid),
        resource_version: Some(conditions.resource_version),
        propagation: Some("Background"),
    };
    match target
        .cluster
        .delete(&resource, &id.namespace, &id.name, &how)
        .await
    {
        Ok(Deleted::Gone) => Ok(One::Deleted),
        Ok(Deleted::Pending) => Ok(One::Terminating),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(One::Gone),
        Err(error) => Err(error),
    }
}

/// Another living Kustomization of the hub that lists the object.
async fn heir(
    context: &Context<'_>,
    owner: &Kustomization,
    live: &Object,
) -> Option<(String, String)> {
    let others = context
        .hub
        .list(crate::flux::FluxKind::Kustomization)
        .await
        .ok()?;
    for other in others {
        let key = (other.namespace().to_owned(), other.name().to_owned());
        let lists_it = key != (owner.id.namespace.clone(), owner.id.name.clone())
            && Inventory::from_status(other.pointer("/status/inventory")).contains(&live.id());
        if lists_it && living_inventory(context, owner, &key).await.is_some() {
            return Some(key);
        }
    }
    None
}
