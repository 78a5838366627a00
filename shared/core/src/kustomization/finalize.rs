//! The end of a Kustomization: what it applied goes or stays as its deletion policy says, then its finalizer is taken off.

use super::prune::{Pruned, prune};
use crate::driver::StepEnd;
use crate::failure::{Failure, TargetError};
use crate::flux::{DeletionPolicy, Kustomization, reason};
use crate::inventory::Inventory;
use crate::kernel::{Context, Outcome};
use crate::target;
use std::time::Duration;

/// How soon a deletion that is not over is looked at again.
const AGAIN: Duration = Duration::from_secs(5);
/// The longest delay between tries after a failure.
const RETRY: Duration = Duration::from_secs(60);

/// Cleans up. What fails is tried again with the finalizer on, so that nothing is lost.
pub async fn finalize(context: &Context<'_>, owner: &Kustomization) -> StepEnd {
    let inventory = Inventory::from_status(owner.status.inventory.as_ref());
    // A suspended object is only let go, as in Flux.
    if owner.deletes_on_deletion() && !owner.spec.suspend && !inventory.is_empty() {
        match clean_up(context, owner, &inventory).await {
            Ok(None) => {}
            Ok(Some(end)) => return end,
            Err(TargetError::Gone(why)) => leave(context, &inventory, &why),
            Err(TargetError::Failed(failure)) => return StepEnd::Failed(failure, RETRY),
        }
    }
    StepEnd::Released
}

/// Prunes all that is in the inventory; how the step ends when that is not over.
///
/// # Errors
/// `Gone` when nothing can be pruned any more: the way to the cluster or the service account is gone.
async fn clean_up(
    context: &Context<'_>,
    owner: &Kustomization,
    inventory: &Inventory,
) -> Result<Option<StepEnd>, TargetError> {
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
            warn(context, &what);
            return Ok(Some(StepEnd::Failed(failure.clone(), RETRY)));
        }
        (None, _) => {}
    }
    tell(context, owner, &pruned);
    let waits = owner.spec.deletion_policy == Some(DeletionPolicy::WaitForTermination);
    let outcome = || Outcome {
        requeue_after: Some(AGAIN),
        ..Outcome::done("waiting for termination")
    };
    let lasts = pruned.held || pruned.terminating && waits;
    Ok(lasts.then(|| StepEnd::Done(outcome())))
}

/// Says what was pruned.
fn tell(context: &Context<'_>, owner: &Kustomization, pruned: &Pruned) {
    if pruned.changes.is_empty() {
        return;
    }
    let what = pruned.changes.to_string();
    let revision = &owner.status.last_applied_revision;
    context
        .events
        .record(false, reason::SUCCEEDED, &what, revision);
}

/// Says what is left behind.
fn leave(context: &Context<'_>, inventory: &Inventory, why: &Failure) {
    let left: Vec<String> = inventory.iter().map(|entry| entry.id.to_string()).collect();
    let what = format!("unable to prune objects ({why}): {}", left.join(", "));
    warn(context, &what);
}

fn warn(context: &Context<'_>, what: &str) {
    context.events.record(true, reason::PRUNE_FAILED, what, "");
}
