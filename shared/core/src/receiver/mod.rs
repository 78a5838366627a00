//! The step of a Receiver: its token becomes the path of its webhook. [`crate::webhook`] finds the
//! Receiver by that path, through a note in the bucket.

pub mod paths;

use driftless_flux::{
    ConditionStatus, NOTIFICATION_CONTROLLER, READY, Receiver, ReceiverStatus, duration_text,
    reason, rfc3339,
};
use driftless_fuel::Tank;
use driftless_kernel::context::{Context, LONGEST_RETRY, Outcome};
use driftless_kernel::credentials;
use driftless_kernel::driver::{Memory, Reconciler, Report, StepEnd};
use driftless_kernel::failure::{Class, Failure};
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::Secret;
use driftless_manifest::Object;
use driftless_plans::health::{ClaimsCheck, ResourceFilter};

/// The reconciler of Receivers.
pub(crate) struct Receivers;

impl Reconciler for Receivers {
    type Object = Receiver;
    type Memory = ();

    const CONTROLLER: &'static str = NOTIFICATION_CONTROLLER;
    const INVALID: &'static str = reason::VALIDATION_FAILED;
    const ADDS_FINALIZER: bool = true;
    const NOTIFIES_FAILURES: bool = false;

    async fn reconcile(
        context: &Context<'_>,
        receiver: Receiver,
        _: &mut Memory<()>,
    ) -> Report<Receiver> {
        let mut status = receiver.status.clone();
        let end = match open(context, &receiver).await {
            Ok(path) => succeeded(context, &receiver, &mut status, path),
            Err(failure) => failed(context, &receiver, &mut status, failure).await,
        };
        report(receiver, status, end)
    }

    async fn finalize(
        context: &Context<'_>,
        receiver: Receiver,
        _: &mut Memory<()>,
    ) -> Report<Receiver> {
        let end = match close(context, None).await {
            Ok(()) => StepEnd::Released,
            Err(failure) => StepEnd::Failed(failure, LONGEST_RETRY),
        };
        let status = receiver.status.clone();
        report(receiver, status, end)
    }
}

fn report(receiver: Receiver, status: ReceiverStatus, end: StepEnd) -> Report<Receiver> {
    Report {
        object: receiver,
        status,
        changed: Vec::new(),
        end,
    }
}

/// Deletes the notes of the paths of a Receiver that does not exist.
///
/// # Errors
/// The bucket's.
pub(crate) async fn forget(context: &Context<'_>) -> Result<(), Failure> {
    close(context, None).await
}

/// Notes the path of the Receiver's webhook, and returns it.
async fn open(context: &Context<'_>, receiver: &Receiver) -> Result<String, Failure> {
    let allow_local = context.hub.settings.allow_local_clusters;
    check(receiver, allow_local, &context.fuel)?;
    let token = match receiver.is_oidc() {
        // As in Flux, the path of such a Receiver is not a secret.
        true => Secret::new(Vec::new()),
        false => token(&context.hub, receiver).await?,
    };
    let path = receiver.webhook_path(token.expose());
    let hub = &context.hub.settings.name;
    let is_new = paths::note(context.ports, hub, &context.id, &path).await?;
    if is_new || path != receiver.status.webhook_path {
        close(context, Some(&path)).await?;
    }
    Ok(path)
}

/// Deletes the notes of all paths of the Receiver but this one.
async fn close(context: &Context<'_>, kept: Option<&str>) -> Result<(), Failure> {
    let hub = &context.hub.settings.name;
    Ok(paths::forget_others(context.ports, hub, &context.id, kept).await?)
}

/// Checks the fields that need no other object.
fn check(receiver: &Receiver, allow_local: bool, fuel: &Tank) -> Result<(), Failure> {
    let terminal = |reason: &'static str, error: String| {
        let prefix = "Reconciliation failed terminally due to configuration error";
        Failure::terminal(reason, format!("{prefix}: {error}"))
    };
    let spec = &receiver.spec;
    let parse = |text: &str| ResourceFilter::parse(text, receiver.is_oidc(), fuel).map(drop);
    if let Some(filter) = spec.filter() {
        parse(filter).map_err(|error| {
            let error = format!("invalid resourceFilter expression: {error}");
            terminal(reason::INVALID_CEL, error)
        })?;
    }
    for (at, resource) in spec.resources.iter().enumerate() {
        let Some(filter) = resource.filter() else {
            continue;
        };
        let (kind, name) = (&resource.selector.kind, &resource.selector.name);
        parse(filter).map_err(|error| {
            let place = format!("resources[{at}] (kind={kind:?}, name={name:?})");
            let error = format!("invalid filter expression for {place}: {error}");
            terminal(reason::INVALID_CEL, error)
        })?;
    }
    if let Some(error) = receiver.contradiction() {
        return Err(terminal(reason::VALIDATION_FAILED, error.to_owned()));
    }
    if let Some(error) = receiver.invalid_provider() {
        return Err(terminal(reason::VALIDATION_FAILED, error));
    }
    let providers = spec.oidc_providers.as_deref().unwrap_or_default();
    for (at, provider) in providers.iter().enumerate() {
        let url = &provider.issuer_url;
        ClaimsCheck::parse(provider, fuel).map_err(|error| {
            let error = format!("oidcProviders[{at}] (issuerURL={url:?}): {error}");
            terminal(reason::INVALID_CEL, error)
        })?;
        if !allow_local && !url.starts_with("https://") {
            let message = format!(
                "spec.oidcProviders[{at}].issuerURL: http:// is not supported: keys that arrive without TLS prove nothing. Use https://"
            );
            return Err(Failure::terminal(reason::UNSUPPORTED, message));
        }
    }
    let interval = receiver.interval().map(drop);
    interval.map_err(|error| terminal(reason::VALIDATION_FAILED, error.to_string()))
}

/// Reads the Secret of a Receiver.
///
/// # Errors
/// `TokenNotFound`: the Secret cannot be read, or the spec names none.
pub(crate) async fn secret(hub: &Hub, receiver: &Receiver) -> Result<Object, Failure> {
    let namespace = &receiver.id.namespace;
    let name = receiver
        .spec
        .secret_ref
        .as_ref()
        .map(|secret| &*secret.name);
    let name = name.unwrap_or_default();
    let unread = |problem: &str| {
        let message =
            format!("unable to read token from secret '{namespace}/{name}' error: {problem}");
        Failure::retry(reason::TOKEN_NOT_FOUND, message)
    };
    match credentials::secret(hub, namespace, name).await {
        Ok(Some(secret)) => Ok(secret),
        Ok(None) => Err(unread(&format!("secrets \"{name}\" not found"))),
        Err(failure) => Err(Failure {
            is_unavailable: failure.is_unavailable,
            ..unread(&failure.message)
        }),
    }
}

/// Returns the token in the Secret of a Receiver. An empty one is refused: the path of the webhook
/// could be guessed, and a signature with an empty key proves nothing.
///
/// # Errors
/// `TokenNotFound`: the Secret has no token.
pub(crate) fn token_of(receiver: &Receiver, secret: &Object) -> Result<Secret, Failure> {
    let token = credentials::entry(secret, "token");
    token
        .filter(|token| !token.expose().is_empty())
        .ok_or_else(|| {
            let place = format!("{}/{}", receiver.id.namespace, secret.name());
            let message = format!("invalid '{place}' secret data: required fields 'token'");
            Failure::retry(reason::TOKEN_NOT_FOUND, message)
        })
}

async fn token(hub: &Hub, receiver: &Receiver) -> Result<Secret, Failure> {
    let secret = secret(hub, receiver).await?;
    token_of(receiver, &secret)
}

/// Sets the conditions of a Receiver that has a path. An event is sent if the path is new or the
/// Receiver was not ready; Flux sends one at each interval.
fn succeeded(
    context: &Context<'_>,
    receiver: &Receiver,
    status: &mut ReceiverStatus,
    path: String,
) -> StepEnd {
    let (generation, now) = (receiver.generation(), rfc3339(context.ports.clock.now()));
    let message = format!("Receiver initialized for path: {path}");
    let conditions = &mut status.conditions;
    conditions.set_ready(reason::META_SUCCEEDED, &message, generation, &now);
    status.observed_generation = Some(generation);
    status.webhook_path = path;
    let is_new = status.webhook_path != receiver.status.webhook_path
        || !receiver.status.conditions.is_true(READY)
        || receiver.status.observed_generation != Some(generation);
    if is_new {
        let interval = duration_text(receiver.interval().unwrap_or_default());
        let finished = format!("Reconciliation finished, next run in {interval}");
        let events = &context.events;
        events.record(false, reason::META_SUCCEEDED, &finished, "");
    }
    StepEnd::Done(Outcome::done("the webhook has its path"))
}

/// Sets the conditions of a failure. Without a token the webhook has no path; a terminal failure
/// leaves the path that the last generation had, as in Flux, but the Receiver is not ready.
async fn failed(
    context: &Context<'_>,
    receiver: &Receiver,
    status: &mut ReceiverStatus,
    failure: Failure,
) -> StepEnd {
    if failure.reason == reason::TOKEN_NOT_FOUND && !failure.is_unavailable {
        status.webhook_path = String::new();
        if let Err(failure) = close(context, None).await {
            return StepEnd::Failed(failure, LONGEST_RETRY);
        }
    }
    let (generation, now) = (receiver.generation(), rfc3339(context.ports.clock.now()));
    let Failure {
        reason, message, ..
    } = &failure;
    let is_terminal = failure.class == Class::Terminal;
    let conditions = &mut status.conditions;
    let not_ready = ConditionStatus::False;
    conditions.set(READY, not_ready, reason, message, generation, &now);
    if is_terminal {
        conditions.set_stalled(reason, message, generation, &now);
        status.observed_generation = Some(generation);
    } else {
        let retry = reason::PROGRESSING_WITH_RETRY;
        conditions.set_reconciling(retry, "Reconciliation in progress", generation, &now);
    }
    let before = receiver.status.conditions.get(READY);
    if before.map(|ready| (&*ready.reason, &ready.message)) != Some((*reason, message)) {
        let event = match is_terminal {
            true => reason,
            false => reason::SOURCE_FAILED,
        };
        context.events.record(true, event, message, "");
    }
    StepEnd::Failed(failure, LONGEST_RETRY)
}
