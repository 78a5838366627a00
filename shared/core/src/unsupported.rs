//! Flux kinds that this version does not serve yet: each such object says so in its own status.

use crate::failure::Failure;
use crate::flux::{KUSTOMIZE_CONTROLLER, reason};
use crate::step::{Context, Outcome};
use driftless_manifest::Object;
use serde_json::Value;

/// Writes `Ready=False` with the reason `NotSupported`.
///
/// # Errors
/// The cluster's.
pub async fn step(context: &Context<'_>, object: Object) -> Result<Outcome, Failure> {
    if !object.meta("deletionTimestamp").is_empty()
        || object.pointer("/spec/suspend") == Some(&Value::Bool(true))
    {
        return Ok(Outcome::done("left alone"));
    }
    let message = format!(
        "{} is not supported by this version of driftless: nothing is done for this object",
        context.id.kind
    );
    let failure = Failure::terminal(reason::UNSUPPORTED, &message);
    context
        .stall(&object, &failure, KUSTOMIZE_CONTROLLER)
        .await?;
    Ok(Outcome::done(message))
}
