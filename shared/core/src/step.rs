//! A step: one bounded, idempotent piece of work on one object.
//!
//! The step reads the newest truth, does what is missing, writes what it learned and says who should be looked at next.
//! Running it twice, late or beside another one does no harm.

use crate::failure::{Class, Failure};
use crate::flux::{FluxKind, ObjectRef, reason};
use crate::hub::{self, Hub};
use crate::ports::{Cause, Ports, Request, Result};
use crate::{helmrelease, kustomization, lease, source, unsupported};
use std::time::Duration;

/// How soon a request comes back when another worker holds the object.
const BUSY: Duration = Duration::from_secs(3);
/// The first and the longest delay between tries after a failure.
const FIRST_RETRY: Duration = Duration::from_secs(10);
const LONGEST_RETRY: Duration = Duration::from_secs(600);

/// What one step works with.
pub struct Context<'a> {
    /// The ports.
    pub ports: &'a Ports,
    /// The hub of the object.
    pub hub: Hub,
    /// The object.
    pub id: ObjectRef,
    /// Why it is looked at.
    pub cause: Cause,
    /// How long the step may wait for other objects before it puts itself back.
    pub patience: Duration,
}

/// How a step ended.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Look at this object again after this long.
    pub again: Option<Duration>,
    /// Who to look at next.
    pub next: Vec<(Request, Duration)>,
    /// One line for the log.
    pub summary: String,
    /// Why it did not succeed, as the object's status says it too.
    pub failure: Option<Failure>,
}

impl Outcome {
    /// Nothing more to do.
    pub fn done(summary: impl Into<String>) -> Self {
        Self {
            summary: summary.into(),
            ..Self::default()
        }
    }

    /// A failure that the object's status tells; `failures` counts the tries so far.
    pub fn failed(failure: Failure, failures: u32, retry_interval: Duration) -> Self {
        let again = match failure.class {
            Class::Retry(after) => {
                let backoff = FIRST_RETRY.saturating_mul(2u32.saturating_pow(failures.min(16)));
                Some(
                    backoff
                        .min(retry_interval)
                        .min(LONGEST_RETRY)
                        .max(after.unwrap_or_default()),
                )
            }
            Class::Terminal | Class::Waiting => None,
        };
        Self {
            again,
            summary: format!("{}: {}", failure.reason, failure.message),
            failure: Some(failure),
            ..Self::default()
        }
    }
}

impl Context<'_> {
    /// A request for another object of the same hub.
    pub fn request(&self, object: ObjectRef, cause: Cause) -> (Request, Duration) {
        (
            Request {
                hub: self.hub.settings.name.clone(),
                object,
                cause,
            },
            Duration::ZERO,
        )
    }
}

/// Runs the step of a request and queues what follows from it. `patience` is how long the step may wait for health.
///
/// # Errors
/// Only what must bring the message back to the queue: the queue itself, or a store that cannot be reached. What is wrong
/// with the object stands in its status.
pub async fn run(ports: &Ports, request: &Request, patience: Duration) -> Result<Outcome> {
    let key = format!(
        "{}/{}",
        crate::state::key_part(&request.hub),
        request.object.key()
    );
    let Some(held) = lease::acquire(ports, &key).await? else {
        let again = Request {
            cause: request.cause.clone(),
            ..request.clone()
        };
        ports.queue.send(vec![(again, BUSY)]).await?;
        return Ok(Outcome::done("another worker has it"));
    };
    let result = work(ports, request, patience).await;
    lease::release(ports, held).await;
    let mut outcome = match result {
        Ok(outcome) => outcome,
        // The object could not even be read, or its status not be written: there is nobody to tell but the log.
        Err(failure) => Outcome::failed(failure, 0, LONGEST_RETRY),
    };
    if let Some(after) = outcome.again {
        outcome.next.push((
            Request {
                cause: Cause::Again,
                ..request.clone()
            },
            after,
        ));
    }
    if !outcome.next.is_empty() {
        ports.queue.send(outcome.next.clone()).await?;
    }
    match &outcome.failure {
        Some(failure) => tracing::warn!(
            hub = request.hub, object = %request.object, reason = failure.reason, again = ?outcome.again, "{}", failure.message
        ),
        None => tracing::info!(
            hub = request.hub, object = %request.object, cause = ?request.cause, next = outcome.next.len(), "{}", outcome.summary
        ),
    }
    Ok(outcome)
}

async fn work(ports: &Ports, request: &Request, patience: Duration) -> Result<Outcome, Failure> {
    let hub = hub::connect(ports, &request.hub).await?;
    let context = Context {
        ports,
        hub,
        id: request.object.clone(),
        cause: request.cause.clone(),
        patience,
    };
    let Some(object) = context
        .hub
        .get(&context.id)
        .await
        .map_err(|error| Failure::port(reason::FAILED, &error))?
    else {
        return Ok(Outcome::done("gone"));
    };
    match request.object.kind {
        FluxKind::GitRepository => source::git::step(&context, object).await,
        FluxKind::OCIRepository => source::oci::step(&context, object).await,
        FluxKind::Bucket => source::bucket::step(&context, object).await,
        FluxKind::HelmRepository => source::helm_repository::step(&context, object).await,
        FluxKind::HelmChart => source::helm_chart::step(&context, object).await,
        FluxKind::Kustomization => kustomization::step(&context, object).await,
        FluxKind::HelmRelease => helmrelease::step(&context, object).await,
        _ => unsupported::step(&context, object).await,
    }
}
