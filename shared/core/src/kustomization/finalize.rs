//! The end of a Kustomization: the objects that it applied are deleted or kept by its deletion
//! policy, then its finalizer is removed.

use super::prune::{Pruned, prune};
use crate::driver::StepEnd;
use crate::failure::{Failure, TargetError};
use crate::flux::{DeletionPolicy, Kustomization, reason};
use crate::inventory::Inventory;
use crate::kernel::{Context, Outcome};
use crate::target;
use std::time::Duration;

/// Delay until an unfinished deletion is checked again.
const TERMINATION_CHECK: Duration = Duration::from_secs(5);
/// The longest delay between tries after a failure.
const RETRY: Duration = Duration::from_secs(60);

/// Prunes the inventory. A failure is retried with the finalizer in place, so that no object is
/// forgotten.
pub async fn finalize(context: &Context<'_>, owner: &Kustomization) -> StepEnd {
    let inventory = Inventory::from_status(owner.status.inventory.as_ref());
    // A suspended object is only released, as in Flux.
    if owner.deletes_on_deletion() && !owner.spec.suspend && !inventory.is_empty() {
        match clean_up(context, owner, &inventory).await {
            Ok(None) => {}
            Ok(Some(end)) => return end,
            Err(TargetError::Gone(failure)) => report_left(context, &inventory, &failure),
            Err(TargetError::Failed(failure)) => return StepEnd::Failed(failure, RETRY),
        }
    }
    StepEnd::Released
}

/// Prunes all objects of the inventory; returns how the step ends if the prune is not finished.
///
/// # Errors
/// `Gone` when nothing can be pruned: the kubeconfig or the service account no longer exists.
async fn clean_up(
    context: &Context<'_>,
    owner: &Kustomization,
    inventory: &Inventory,
) -> Result<Option<StepEnd>, TargetError> {
    // As in Flux, the account must exist on the hub. On a remote cluster its name alone may have
    // the rights, so the prune is tried.
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
            let message = format!("pruning for deleted resource failed: {failure}");
            warn(context, &message);
            return Ok(Some(StepEnd::Failed(failure.clone(), RETRY)));
        }
        (None, _) => {}
    }
    report_pruned(context, owner, &pruned);
    let waits = owner.spec.deletion_policy == Some(DeletionPolicy::WaitForTermination);
    let outcome = || Outcome {
        requeue_after: Some(TERMINATION_CHECK),
        ..Outcome::done("waiting for termination")
    };
    let is_unfinished = pruned.is_held || pruned.is_terminating && waits;
    Ok(is_unfinished.then(|| StepEnd::Done(outcome())))
}

/// Records an event with the pruned objects.
fn report_pruned(context: &Context<'_>, owner: &Kustomization, pruned: &Pruned) {
    if pruned.changes.is_empty() {
        return;
    }
    let message = pruned.changes.to_string();
    let revision = &owner.status.last_applied_revision;
    context
        .events
        .record(false, reason::SUCCEEDED, &message, revision);
}

/// Records an event with the objects that stay on the cluster.
fn report_left(context: &Context<'_>, inventory: &Inventory, failure: &Failure) {
    let left: Vec<String> = inventory.iter().map(|entry| entry.id.to_string()).collect();
    let message = format!("unable to prune objects ({failure}): {}", left.join(", "));
    warn(context, &message);
}

fn warn(context: &Context<'_>, message: &str) {
    context
        .events
        .record(true, reason::PRUNE_FAILED, message, "");
}
