//! The end of a Kustomization: what it applied goes or stays as its deletion policy says, then its finalizer is taken off.

use super::prune::{Pruned, prune};
use crate::failure::{Failure, TargetError};
use crate::flux::{DeletionPolicy, KUSTOMIZE_CONTROLLER, Kustomization, reason};
use crate::inventory::Inventory;
use crate::kernel::{Context, Outcome};
use crate::target;
use std::time::Duration;

/// How soon a deletion that is not over is looked at again.
const AGAIN: Duration = Duration::from_secs(5);
/// The longest delay between tries after a failure.
const RETRY: Duration = Duration::from_secs(60);

/// Runs the end.
///
/// # Errors
/// The cluster's; the finalizer stays, so that nothing is lost.
pub async fn finalize(context: &Context<'_>, owner: &Kustomization) -> Result<Outcome, Failure> {
    let inventory = Inventory::from_status(owner.status.inventory.as_ref());
    // A suspended object is only let go, as in Flux.
    if owner.deletes_on_deletion() && !owner.spec.suspend && !inventory.is_empty() {
        match clean_up(context, owner, &inventory).await {
            Ok(None) => {}
            Ok(Some(outcome)) => return Ok(outcome),
            Err(TargetError::Gone(why)) => leave(context, owner, &inventory, &why).await,
            Err(TargetError::Failed(failure)) => return Ok(Outcome::failed(failure, 0, RETRY)),
        }
    }
    let key = super::memory::key(&context.hub.settings.name, &owner.id);
    context.ports.blobs.delete(&key).await?;
    context
        .remove_finalizer(&owner.object, KUSTOMIZE_CONTROLLER)
        .await?;
    Ok(Outcome::gone("deleted"))
}

/// Prunes all that is in the inventory; the outcome of the step when that is not over.
///
/// # Errors
/// `Gone` when nothing can be pruned any more: the way to the cluster or the service account is gone.
async fn clean_up(
    context: &Context<'_>,
    owner: &Kustomization,
    inventory: &Inventory,
) -> Result<Option<Outcome>, TargetError> {
    // As Flux, the account is looked for on the hub. On another cluster its name alone may have the rights: that is tried.
    let missing = target::missing_account(&context.hub, owner).await?;
    let missing = match missing {
        Some(gone) if owner.spec.kube_config.is_none() => return Err(gone),
        missing => missing,
    };
    let target = target::connect(context, owner).await?;
    let pruned = prune(context, &target, owner, inventory).await;
    match (&pruned.failure, missing) {
        (Some(_), Some(gone)) => return Err(gone),
        (Some(failure), None) => {
            let what = format!("pruning for deleted resource failed: {failure}");
            warn(context, owner, &what).await;
            return Ok(Some(Outcome::failed(failure.clone(), 0, RETRY)));
        }
        (None, _) => {}
    }
    tell(context, owner, &pruned).await;
    let waits = owner.spec.deletion_policy == Some(DeletionPolicy::WaitForTermination);
    Ok((pruned.terminating && waits).then(|| Outcome {
        requeue_after: Some(AGAIN),
        ..Outcome::done("waiting for termination")
    }))
}

/// Says what was pruned.
async fn tell(context: &Context<'_>, owner: &Kustomization, pruned: &Pruned) {
    if pruned.changes.is_empty() {
        return;
    }
    let (what, revision) = (
        pruned.changes.to_string(),
        &owner.status.last_applied_revision,
    );
    let events = context.event(&owner.object, KUSTOMIZE_CONTROLLER);
    events.send(false, reason::SUCCEEDED, &what, revision).await;
}

/// Says what is left behind.
async fn leave(context: &Context<'_>, owner: &Kustomization, inventory: &Inventory, why: &Failure) {
    let left: Vec<String> = inventory.iter().map(|entry| entry.id.to_string()).collect();
    let what = format!("unable to prune objects ({why}): {}", left.join(", "));
    warn(context, owner, &what).await;
}

async fn warn(context: &Context<'_>, owner: &Kustomization, what: &str) {
    let events = context.event(&owner.object, KUSTOMIZE_CONTROLLER);
    events.send(true, reason::PRUNE_FAILED, what, "").await;
}
