//! The end of a Kustomization: the objects that it applied are deleted or kept by its deletion
//! policy, then its finalizer is removed.

use super::prune::{Pruned, prune};
use driftless_flux::{DeletionPolicy, Kustomization, reason};
use driftless_kernel::context::{Context, FIRST_CHECK, LONGEST_RETRY, Outcome};
use driftless_kernel::driver::{Report, StepEnd};
use driftless_kernel::failure::{Failure, TargetError};
use driftless_kernel::target;
use driftless_plans::inventory::Inventory;

/// Prunes the inventory. A failure is retried with the finalizer in place, so that no object is
/// forgotten. The status gets the objects that are left.
pub async fn finalize(context: &Context<'_>, owner: Kustomization) -> Report<Kustomization> {
    let mut owner = owner;
    let mut inventory = Inventory::from_status(owner.status.inventory.as_ref());
    let mut end = StepEnd::Released;
    // A suspended object is only released, as in Flux.
    if owner.deletes_on_deletion() && !owner.spec.suspend && !inventory.is_empty() {
        match clean_up(context, &mut owner, &mut inventory).await {
            Ok(None) => {}
            Ok(Some(unfinished)) => end = unfinished,
            Err(TargetError::Gone(failure)) => report_left(context, &inventory, &failure),
            Err(TargetError::Failed(failure)) => end = StepEnd::Failed(failure, LONGEST_RETRY),
        }
    }
    let mut status = owner.status.clone();
    if !inventory.is_empty() {
        status.inventory = Some(inventory.to_status());
    }
    Report {
        object: owner,
        status,
        changed: Vec::new(),
        end,
    }
}

/// Prunes all objects of the inventory, and keeps in it what is left; returns how the step ends if
/// the prune is not finished.
///
/// # Errors
/// `Gone` when nothing can be pruned: the kubeconfig or the service account no longer exists.
async fn clean_up(
    context: &Context<'_>,
    owner: &mut Kustomization,
    inventory: &mut Inventory,
) -> Result<Option<StepEnd>, TargetError> {
    let start = context.ports.clock.now();
    // As in Flux, the account must exist on the hub. On a remote cluster its name alone may have
    // the rights, so the prune is tried.
    let missing = target::missing_account(&context.hub, &*owner).await?;
    let missing = match missing {
        Some(gone) if owner.spec.kube_config.is_none() => return Err(gone),
        missing => missing,
    };
    let target = target::connect(context, &*owner).await?;
    let pruned = prune(context, &target, owner, inventory, start).await;
    inventory.clone_from(&pruned.left);
    match (&pruned.failure, missing) {
        (Some(_), Some(gone)) => return Err(gone),
        (Some(failure), None) => {
            let message = format!("pruning for deleted resource failed: {failure}");
            warn(context, &message);
            return Ok(Some(StepEnd::Failed(failure.clone(), LONGEST_RETRY)));
        }
        (None, _) => {}
    }
    report_pruned(context, owner, &pruned);
    if pruned.is_unfinished {
        let left = pruned.left.len();
        return Ok(Some(StepEnd::Done(Outcome {
            requeue_after: Some(FIRST_CHECK),
            ..Outcome::done(format!("the prune continues with {left} objects"))
        })));
    }
    let waits = owner.spec.deletion_policy == Some(DeletionPolicy::WaitForTermination);
    if !(pruned.is_held || pruned.is_terminating && waits) {
        return Ok(None);
    }
    let mut outcome = Outcome::done("waiting for termination");
    outcome.wait(LONGEST_RETRY);
    Ok(Some(StepEnd::Done(outcome)))
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
