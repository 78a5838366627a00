//! Flux kinds that this version does not serve yet: each such object says so in its own status.

use crate::failure::Failure;
use crate::flux::{Conditions, KUSTOMIZE_CONTROLLER, reason};
use crate::kernel::{Context, Outcome};
use driftless_manifest::Object;
use serde_json::Value;

/// Writes `Ready=False` with the reason `NotSupported`, and tells it in an event: not every client shows the status of such
/// an object.
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
    if !is_told(&object, &message) {
        let why = reason::UNSUPPORTED;
        context.events.tell(true, why, &message, "");
        context.send_events(&object, KUSTOMIZE_CONTROLLER).await;
    }
    Ok(Outcome::done(message))
}

/// Whether the object's status says so already.
fn is_told(object: &Object, message: &str) -> bool {
    let conditions = Conditions::of(object);
    let ready = conditions.ready();
    ready.is_some_and(|ready| ready.reason == reason::UNSUPPORTED && ready.message == message)
}
