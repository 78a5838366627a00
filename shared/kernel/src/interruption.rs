//! Steps that did not end: they ran out of memory or out of time, so they could write no status.
//!
//! The record of an object counts them ([`crate::schedule`]). After [`MAX_INTERRUPTIONS`] in a row,
//! one step does nothing but report that. The next steps of the object run isolated: alone in their
//! invocation and with more memory, after a back-off. The first of them that ends resets the count.

use crate::context::{Context, LONGEST_RETRY, Outcome};
use crate::failure::Failure;
use crate::ports::Cause;
use crate::schedule::MAX_INTERRUPTIONS;
use driftless_flux::{
    Conditions, FluxKind, HELM_CONTROLLER, KUSTOMIZE_CONTROLLER, NOTIFICATION_CONTROLLER,
    SOURCE_CONTROLLER, SOURCE_WATCHER, generation, is_request_handled, is_suspended,
    parse_duration, reason,
};
use driftless_manifest::Object;
use serde_json::Value;
use std::time::Duration;

/// Writes `Ready=False` with the reason `StepInterrupted`, and requeues the object: at once after a
/// push, a change or a user's request, else after the back-off.
///
/// # Errors
/// The errors of the cluster.
pub async fn report(context: &Context<'_>, object: &Object) -> Result<Outcome, Failure> {
    if is_suspended(object) {
        return Ok(Outcome::done("suspended"));
    }
    let message = format!(
        "the last {MAX_INTERRUPTIONS} steps did not end: they ran out of memory or out of time; the \
         next ones run alone and with more memory. If this stays, make the source or its objects \
         smaller, or raise the memory of the function for isolated steps"
    );
    let failure = Failure::retry(reason::STEP_INTERRUPTED, message);
    let controller = controller(context.id.kind);
    context.report_failure(object, &failure, controller).await?;
    let conditions = Conditions::of(object);
    let ready = conditions.ready();
    let is_observed = ready.is_some_and(|ready| ready.observed_generation == generation(object))
        && is_request_handled(object);
    let outcome = Outcome::failed(failure, longest_retry(object));
    Ok(match is_observed && context.cause != Cause::Push {
        true => outcome,
        false => Outcome {
            requeue_after: Some(Duration::ZERO),
            back_off: None,
            ..outcome
        },
    })
}

/// Returns `spec.retryInterval`, or else 10 minutes.
fn longest_retry(object: &Object) -> Duration {
    let field = object.pointer("/spec/retryInterval");
    let retry = field.and_then(Value::as_str).map(parse_duration);
    retry.and_then(Result::ok).unwrap_or(LONGEST_RETRY)
}

/// Returns Flux's controller of a kind.
fn controller(kind: FluxKind) -> &'static str {
    match kind {
        FluxKind::HelmRelease => HELM_CONTROLLER,
        FluxKind::ArtifactGenerator => SOURCE_WATCHER,
        kind if kind.group() == FluxKind::GitRepository.group() => SOURCE_CONTROLLER,
        kind if kind.group() == FluxKind::Receiver.group() => NOTIFICATION_CONTROLLER,
        _ => KUSTOMIZE_CONTROLLER,
    }
}
