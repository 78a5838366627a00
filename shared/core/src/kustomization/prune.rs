//! Deleting what is no longer rendered: only what is provably ours, only the object that was looked at.

use super::heirs::{self, Handed, Heirs};
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

/// What a prune did.
#[derive(Default)]
pub struct Pruned {
    /// What was deleted.
    pub changes: ChangeSet,
    /// What stays in the inventory: not deleted yet, or not known to be.
    pub left: Inventory,
    /// What leaves the inventory and stays, because it is another Kustomization's: as it was seen.
    pub others: Vec<Item>,
    /// Whether something is on its way out.
    pub terminating: bool,
    /// Whether something was not deleted yet, because a Flux object that is on its way out needs it to clean up.
    pub held: bool,
    /// What failed.
    pub failure: Option<Failure>,
}

enum One {
    Deleted,
    Gone,
    NotOurs,
    /// Another Kustomization's.
    Others(Item),
    Terminating,
}

/// Deletes the stale entries as [`prune_among`] does, with the other Kustomizations of now.
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

/// Deletes the stale entries: Kustomizations and HelmReleases first, then the others in reverse order of applying, but for what the
/// former need until they are gone. Each entry leaves the inventory only when its object is gone
/// or proves not to be ours; nothing is deleted while it is not known who else has it.
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
            pruned.held = true;
            pruned.terminating = true;
            pruned.left.insert(entry);
            continue;
        }
        let id = entry.id.clone();
        let child = cleans_up(&entry).then(|| id.namespace.clone());
        match prune_one(context, target, owner, heirs, &entry).await {
            Ok(One::Deleted) => pruned.changes.push(id, Action::Deleted),
            Ok(One::Gone) => {}
            Ok(One::NotOurs) => pruned.changes.push(id, Action::Skipped),
            Ok(One::Others(item)) => {
                pruned.changes.push(id, Action::Skipped);
                pruned.others.push(item);
            }
            Ok(One::Terminating) => {
                pruned.terminating = true;
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

/// Whether an object deletes others before it goes: what it applied itself.
fn cleans_up(entry: &Entry) -> bool {
    [FluxKind::Kustomization, FluxKind::HelmRelease]
        .iter()
        .any(|kind| entry.id.group == kind.group() && entry.id.kind == kind.as_str())
}

/// Whether a Flux object of these namespaces may need an object to clean up: the way to its cluster and the rights of its service
/// account. kustomize-controller 1.9 deletes them together, and what was applied to a remote cluster stays there.
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

/// The live object of an inventory's entry.
///
/// # Errors
/// The cluster's: it is not known whether there is one.
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
        // The version may have gone from the server while the kind is still there.
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
) -> Result<One, PortError> {
    let found = match find(target.cluster.as_ref(), entry).await {
        Err(error) if error.kind == ErrorKind::Denied => {
            return match is_left_to_others(context, owner, entry).await {
                true => Ok(One::NotOurs),
                false => Err(error),
            };
        }
        found => found?,
    };
    let Some((resource, live)) = found else {
        return Ok(One::Gone);
    };
    match eligibility(&live, &owner.id.namespace, &owner.id.name) {
        Eligibility::NotOurs if is_owned(&live) => {
            return Ok(One::Others(Item::new(live, resource)));
        }
        Eligibility::NotOurs | Eligibility::Kept => return Ok(One::NotOurs),
        Eligibility::Terminating => return Ok(One::Terminating),
        Eligibility::Delete => {}
    }
    let handed = heirs
        .hand_over(context, target, owner, &resource, live)
        .await?;
    let live = match handed {
        Handed::Over(live) => return Ok(One::Others(Item::new(live, resource))),
        Handed::ToNobody(live) => live,
    };
    let is_ours = |live: &Object| {
        eligibility(live, &owner.id.namespace, &owner.id.name) == Eligibility::Delete
    };
    match objects::delete(target, &resource, &live, "Background", &is_ours).await? {
        Deleted::Gone => Ok(One::Deleted),
        Deleted::Pending => Ok(One::Terminating),
    }
}

/// Whether an object that the owner may not read is not there, or does not carry the owner's labels: then the inventory lists it because
/// it was written ahead of an apply that was refused. The installation's own identity looks, and nothing but this answer comes of it: it
/// is the same for an object that is not there and for somebody else's.
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

/// Whether the labels name a Kustomization.
fn is_owned(live: &Object) -> bool {
    live.label(OWNER_NAME).is_some() && live.label(OWNER_NAMESPACE).is_some()
}
