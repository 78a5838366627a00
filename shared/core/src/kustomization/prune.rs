//! Deleting what is no longer rendered: only what is provably ours, only the object that was looked at.

use super::heirs::{Handed, Heirs};
use super::live::{OWNER_NAME, OWNER_NAMESPACE};
use crate::apply::plan::{Action, ChangeSet};
use crate::failure::Failure;
use crate::flux::{Kustomization, reason};
use crate::inventory::{Eligibility, Entry, Inventory, eligibility};
use crate::kernel::Context;
use crate::ports::{Cluster, Deleted, PortError, Resource};
use crate::target::Target;
use crate::target::objects::{self, Item};
use driftless_manifest::{Gvk, Object};

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

/// Deletes the stale entries in reverse order of applying. Each entry leaves the inventory only when its object is gone
/// or proves not to be ours; nothing is deleted while it is not known who else has it.
pub async fn prune(
    context: &Context<'_>,
    target: &Target,
    owner: &Kustomization,
    stale: &Inventory,
) -> Pruned {
    let heirs = match Heirs::read(context, owner).await {
        Ok(heirs) => heirs,
        Err(error) => {
            let what = "nothing was pruned, because it cannot be read which other Kustomizations have the objects, too";
            return Pruned {
                left: stale.clone(),
                failure: Some(Failure::port(reason::PRUNE_FAILED, &error).context(what)),
                ..Pruned::default()
            };
        }
    };
    let mut pruned = Pruned::default();
    for entry in stale.in_deletion_order() {
        let id = entry.id.clone();
        match prune_one(context, target, owner, &heirs, &entry).await {
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
    let cluster = target.cluster.as_ref();
    let Some((resource, live)) = find(cluster, entry).await? else {
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

/// Whether the labels name a Kustomization.
fn is_owned(live: &Object) -> bool {
    live.label(OWNER_NAME).is_some() && live.label(OWNER_NAMESPACE).is_some()
}
