//! The end of a Kustomization: what it applied goes or stays as its deletion policy says, then its finalizer is taken off.

use super::prune::prune;
use crate::failure::Failure;
use crate::flux::{DeletionPolicy, KUSTOMIZE_CONTROLLER, Kustomization, reason};
use crate::inventory::Inventory;
use crate::step::{Context, Outcome};
use crate::target::{self, NoTarget};
use std::time::Duration;

/// How soon a deletion that is not over is looked at again.
const AGAIN: Duration = Duration::from_secs(5);

/// Runs the end.
///
/// # Errors
/// The cluster's; the finalizer stays, so that nothing is lost.
pub async fn finalize(context: &Context<'_>, owner: &Kustomization) -> Result<Outcome, Failure> {
    let inventory = Inventory::from_status(owner.status.inventory.as_ref());
    // A suspended object is only let go, as in Flux.
    if owner.deletes_on_deletion() && !owner.spec.suspend && !inventory.is_empty() {
        match target::connect(context, owner).await {
            Ok(target) => {
                let pruned = prune(context, &target, owner, &inventory).await;
                if let Some(failure) = pruned.failure {
                    let events = context.event(&owner.object, KUSTOMIZE_CONTROLLER);
                    events
                        .send(
                            true,
                            reason::PRUNE_FAILED,
                            &format!("pruning for deleted resource failed: {failure}"),
                            "",
                        )
                        .await;
                    return Ok(Outcome::failed(failure, 0, Duration::from_secs(60)));
                }
                if !pruned.changes.is_empty() {
                    let events = context.event(&owner.object, KUSTOMIZE_CONTROLLER);
                    events
                        .send(
                            false,
                            reason::SUCCEEDED,
                            &pruned.changes.to_string(),
                            &owner.status.last_applied_revision,
                        )
                        .await;
                }
                let waits = owner.spec.deletion_policy == Some(DeletionPolicy::WaitForTermination);
                if pruned.terminating && waits {
                    return Ok(Outcome {
                        again: Some(AGAIN),
                        ..Outcome::done("waiting for termination")
                    });
                }
            }
            Err(NoTarget::Gone(failure)) => {
                // The way to the cluster is gone for good: say what is left behind, and let the object go.
                let left: Vec<String> =
                    inventory.iter().map(|entry| entry.id.to_string()).collect();
                let message = format!("unable to prune objects ({failure}): {}", left.join(", "));
                context
                    .event(&owner.object, KUSTOMIZE_CONTROLLER)
                    .send(true, reason::PRUNE_FAILED, &message, "")
                    .await;
            }
            Err(NoTarget::Failed(failure)) => {
                return Ok(Outcome::failed(failure, 0, Duration::from_secs(60)));
            }
        }
    }
    let key = super::memory::key(&context.hub.settings.name, &owner.id);
    context.ports.blobs.delete(&key).await?;
    context
        .remove_finalizer(&owner.object, KUSTOMIZE_CONTROLLER)
        .await?;
    Ok(Outcome::done("deleted"))
}
