//! Deletes objects that are no longer rendered: only those that are provably ours, and only the
//! very object that was read.

use super::heirs::{self, HandoverOutcome, Heirs};
use super::live::{OWNER_NAME, OWNER_NAMESPACE};
use crate::apply::plan::{Action, ChangeSet};
use crate::failure::Failure;
use crate::flux::{FluxKind, Kustomization, reason};
use crate::inventory::{Eligibility, Entry, Inventory, eligibility};
use crate::kernel::Context;
use crate::ports::{Cluster, Deleted, ErrorKind, PortError, Resource};
use crate::target::objects::{self, Item};
use crate::target::{self, Target};
use driftless_manifest::{Gvk, Object};
use std::collections::BTreeSet;

/// The result of a prune.
#[derive(Default)]
pub struct Pruned {
    /// The deleted and the skipped objects.
    pub changes: ChangeSet,
    /// The objects that stay in the inventory: not deleted yet, or not known to be.
    pub left: Inventory,
    /// The objects that leave the inventory and stay on the cluster, because they belong to another
    /// Kustomization.
    pub others: Vec<Item>,
    /// True if an object is terminating.
    pub is_terminating: bool,
    /// True if an object was not deleted yet, because a terminating Flux object needs it to clean
    /// up.
    pub is_held: bool,
    /// The failures of all objects, as one.
    pub failure: Option<Failure>,
}

enum PruneResult {
    Deleted,
    Gone,
    NotOurs,
    /// Belongs to another Kustomization.
    Others(Item),
    Terminating,
}

/// Deletes the stale entries as [`prune_among`] does, with the other Kustomizations that the hub
/// has now.
pub async fn prune(
    context: &Context<'_>,
    target: &Target,
    owner: &Kustomization,
    stale: &Inventory,
) -> Pruned {
    match heirs::others(context, owner).await {
        Ok(others) => prune_among(context, target, owner, stale, &Heirs::of(&others)).await,
        Err(error) => Pruned {
            left: stale.clone(),
            failure: Some(heirs::unread(&error)),
            ..Pruned::default()
        },
    }
}

/// Deletes the stale entries: Kustomizations and HelmReleases first, then the others in reverse
/// order of applying, except those that the former need until they are gone. Each entry leaves the
/// inventory only when its object is gone or proves not to be ours; nothing is deleted while it is
/// unknown which other Kustomizations list it.
pub async fn prune_among(
    context: &Context<'_>,
    target: &Target,
    owner: &Kustomization,
    stale: &Inventory,
    heirs: &Heirs,
) -> Pruned {
    let mut pruned = Pruned::default();
    let entries = stale.in_deletion_order().into_iter();
    let (children, others): (Vec<_>, Vec<_>) = entries.partition(cleans_up);
    // Namespaces with Flux objects that are not gone.
    let mut needed = BTreeSet::new();
    for entry in children.into_iter().chain(others) {
        if is_needed(&entry, &needed) {
            pruned.is_held = true;
            pruned.is_terminating = true;
            pruned.left.insert(entry);
            continue;
        }
        let id = entry.id.clone();
        let child = cleans_up(&entry).then(|| id.namespace.clone());
        match prune_one(context, target, owner, heirs, &entry).await {
            Ok(PruneResult::Deleted) => pruned.changes.push(id, Action::Deleted),
            Ok(PruneResult::Gone) => {}
            Ok(PruneResult::NotOurs) => pruned.changes.push(id, Action::Skipped),
            Ok(PruneResult::Others(item)) => {
                pruned.changes.push(id, Action::Skipped);
                pruned.others.push(item);
            }
            Ok(PruneResult::Terminating) => {
                pruned.is_terminating = true;
                pruned.changes.push(id, Action::Deleted);
                pruned.left.insert(entry);
                needed.extend(child);
            }
            Err(error) => {
                needed.extend(child);
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

/// Checks whether an object deletes other objects, those that it applied, before it is gone.
fn cleans_up(entry: &Entry) -> bool {
    [FluxKind::Kustomization, FluxKind::HelmRelease]
        .iter()
        .any(|kind| entry.id.group == kind.group() && entry.id.kind == kind.as_str())
}

/// Checks whether a Flux object of these namespaces may need an object to clean up: its kubeconfig
/// and the rights of its service account. kustomize-controller 1.9 deletes them together, and the
/// objects that were applied to a remote cluster stay there.
fn is_needed(entry: &Entry, namespaces: &BTreeSet<String>) -> bool {
    let id = &entry.id;
    match (&*id.group, &*id.kind) {
        ("", "Namespace") => namespaces.contains(&id.name),
        ("", "Secret" | "ConfigMap" | "ServiceAccount") => namespaces.contains(&id.namespace),
        ("rbac.authorization.k8s.io", _) => {
            !namespaces.is_empty()
                && (id.namespace.is_empty() || namespaces.contains(&id.namespace))
        }
        _ => false,
    }
}

/// Reads the live object of an entry of an inventory.
///
/// # Errors
/// An error of the cluster: whether the object exists is unknown.
pub async fn find(
    cluster: &dyn Cluster,
    entry: &Entry,
) -> Result<Option<(Resource, Object)>, PortError> {
    let id = &entry.id;
    let gvk = Gvk {
        group: id.group.clone(),
        version: entry.version.clone(),
        kind: id.kind.clone(),
    };
    let resource = match cluster.resource(&gvk).await? {
        Some(resource) => Some(resource),
        // The server may no longer serve the version, but still the kind.
        None => {
            let served = cluster.versions(&id.group, &id.kind).await?;
            served.into_iter().next()
        }
    };
    let Some(resource) = resource else {
        return Ok(None);
    };
    let live = cluster.get(&resource, &id.namespace, &id.name).await?;
    Ok(live.map(|live| (resource, live)))
}

async fn prune_one(
    context: &Context<'_>,
    target: &Target,
    owner: &Kustomization,
    heirs: &Heirs,
    entry: &Entry,
) -> Result<PruneResult, PortError> {
    let found = match find(target.cluster.as_ref(), entry).await {
        Err(error) if error.kind == ErrorKind::Denied => {
            return match is_left_to_others(context, owner, entry).await {
                true => Ok(PruneResult::NotOurs),
                false => Err(error),
            };
        }
        found => found?,
    };
    let Some((resource, live)) = found else {
        return Ok(PruneResult::Gone);
    };
    match eligibility(&live, &owner.id.namespace, &owner.id.name) {
        Eligibility::NotOurs if is_owned(&live) => {
            return Ok(PruneResult::Others(Item::new(live, resource)));
        }
        Eligibility::NotOurs | Eligibility::Kept => return Ok(PruneResult::NotOurs),
        Eligibility::Terminating => return Ok(PruneResult::Terminating),
        Eligibility::Delete => {}
    }
    let handover = heirs
        .hand_over(context, target, owner, &resource, live)
        .await?;
    let live = match handover {
        HandoverOutcome::HandedOver(live) => {
            return Ok(PruneResult::Others(Item::new(live, resource)));
        }
        HandoverOutcome::NoHeir(live) => live,
    };
    let is_ours = |live: &Object| {
        eligibility(live, &owner.id.namespace, &owner.id.name) == Eligibility::Delete
    };
    match objects::delete(target, &resource, &live, "Background", &is_ours).await? {
        Deleted::Gone => Ok(PruneResult::Deleted),
        Deleted::Pending => Ok(PruneResult::Terminating),
    }
}

/// Checks whether an object that the owner may not read is missing, or does not carry the owner's
/// labels: then the inventory lists it only because it was written ahead of an apply that was
/// refused. The installation's own identity reads the object and reveals only this result, which is
/// the same for a missing object and for an object of another owner.
async fn is_left_to_others(context: &Context<'_>, owner: &Kustomization, entry: &Entry) -> bool {
    let Ok(target) = target::open(context.ports, &context.hub, owner, None).await else {
        return false;
    };
    match find(target.cluster.as_ref(), entry).await {
        Ok(None) => true,
        Ok(Some((_, live))) => {
            eligibility(&live, &owner.id.namespace, &owner.id.name) == Eligibility::NotOurs
        }
        Err(_) => false,
    }
}

/// Checks whether the labels name a Kustomization.
fn is_owned(live: &Object) -> bool {
    live.label(OWNER_NAME).is_some() && live.label(OWNER_NAMESPACE).is_some()
}
