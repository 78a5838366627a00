//! Flux kinds that this version does not support: the status of each such object reports it.

use crate::failure::Failure;
use crate::flux::{KUSTOMIZE_CONTROLLER, is_suspended, reason};
use crate::kernel::{Context, Outcome};
use driftless_manifest::Object;

/// Writes `Ready=False` with the reason `NotSupported`, and sends an event: not every client shows
/// the status of such an object.
///
/// # Errors
/// The errors of the cluster.
pub async fn step(context: &Context<'_>, object: Object) -> Result<Outcome, Failure> {
    if !object.meta("deletionTimestamp").is_empty() || is_suspended(&object) {
        return Ok(Outcome::done(
            "skipped: the object is suspended or being deleted",
        ));
    }
    let message = format!(
        "{} is not supported by this version of driftless: nothing is done for this object",
        context.id.kind
    );
    let failure = Failure::terminal(reason::UNSUPPORTED, &message);
    context
        .report_failure(&object, &failure, KUSTOMIZE_CONTROLLER)
        .await?;
    Ok(Outcome::done(message))
}
