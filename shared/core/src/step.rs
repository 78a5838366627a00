//! A step: one bounded, idempotent piece of work on one object.
//!
//! The step reads the newest truth, does what is missing, writes what it learned and says who should be looked at next.
//! Running it twice, late or beside another one does no harm.

use crate::failure::{Class, Failure};
use crate::flux::{FluxKind, ObjectRef, reason};
use crate::hub::{self, Hub};
use crate::ports::{Cause, Ports, Request, Result};
use crate::schedule::{self, Begin};
use crate::{helmrelease, kustomization, source, unsupported};
use std::collections::BTreeMap;
use std::time::Duration;

/// The first and the longest delay between tries after a failure.
const FIRST_RETRY: Duration = Duration::from_secs(10);
/// See [`FIRST_RETRY`].
pub(crate) const LONGEST_RETRY: Duration = Duration::from_secs(600);

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
    pub wait_budget: Duration,
}

/// How a step ended.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Look at this object again after this long.
    pub requeue_after: Option<Duration>,
    /// Who to look at next.
    pub enqueue: Vec<(Request, Duration)>,
    /// One line for the log. What is waited for stands in it: other words are progress.
    pub summary: String,
    /// Why it did not succeed, as the object's status says it too.
    pub failure: Option<Failure>,
    /// The object ended as those who wait for it need it: they are looked at next.
    pub notifies: bool,
    /// The object is gone: nothing of its schedule is kept.
    pub is_gone: bool,
    /// There was no need for a step: the summary says why.
    pub is_skipped: bool,
    /// The notes of those who are woken, to be deleted when their requests are sent.
    pub(crate) notified: Vec<String>,
}

impl Outcome {
    /// Nothing more to do.
    pub fn done(summary: impl Into<String>) -> Self {
        Self {
            summary: summary.into(),
            ..Self::default()
        }
    }

    /// The object is gone, or let go.
    pub fn gone(summary: impl Into<String>) -> Self {
        Self {
            is_gone: true,
            ..Self::done(summary)
        }
    }

    /// A failure that the object's status tells; `failures` counts the tries so far.
    pub fn failed(failure: Failure, failures: u32, retry_interval: Duration) -> Self {
        let requeue_after = match failure.class {
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
            requeue_after,
            summary: format!("{}: {}", failure.reason, failure.message),
            failure: Some(failure),
            ..Self::default()
        }
    }
}

impl Context<'_> {
    /// A request for another object of the same hub.
    pub fn request(&self, object: ObjectRef, cause: Cause) -> (Request, Duration) {
        let request = Request::new(&self.hub.settings.name, object, cause);
        (request, Duration::ZERO)
    }
}

/// Runs the step of a request and queues what follows from it. `wait_budget` is how long the step may wait for health.
///
/// # Errors
/// Only what must bring the message back to the queue: the queue itself, or a store that cannot be reached. What is wrong
/// with the object stands in its status.
pub async fn run(ports: &Ports, request: &Request, wait_budget: Duration) -> Result<Outcome> {
    let held = match schedule::begin(ports, request).await? {
        Begin::Run(held) => held,
        Begin::Skip(why) => {
            tracing::debug!(hub = request.hub, object = %request.object, cause = ?request.cause, "no step: {why}");
            return Ok(Outcome {
                is_skipped: true,
                ..Outcome::done(why)
            });
        }
    };
    let fenced = held.fence(ports);
    let mut outcome = match work(&fenced, request, wait_budget).await {
        Ok(outcome) => outcome,
        // The object could not even be read, or its status not be written: there is nobody to tell but the log.
        Err(failure) => Outcome::failed(failure, held.hops(), LONGEST_RETRY),
    };
    // The record first: what is stored and not sent is found by the timer.
    let ended = schedule::end(ports, held, request, &mut outcome).await;
    outcome.enqueue = merged(std::mem::take(&mut outcome.enqueue));
    if !outcome.enqueue.is_empty() {
        ports.queue.send(outcome.enqueue.clone()).await?;
    }
    // The notes last: who is not queued yet still waits.
    schedule::forget(ports, &outcome.notified).await?;
    log(request, &outcome);
    ended.map(|()| outcome)
}

/// One request an object that is asked for more than once.
fn merged(requests: Vec<(Request, Duration)>) -> Vec<(Request, Duration)> {
    let mut merged: Vec<(Request, Duration)> = Vec::with_capacity(requests.len());
    let mut places = BTreeMap::new();
    for (request, after) in requests {
        if request.token.is_some() {
            merged.push((request, after));
            continue;
        }
        let place = *places.entry(request.object.clone()).or_insert(merged.len());
        match merged.get_mut(place) {
            Some((known, sooner)) => {
                known.cause = known.cause.clone().stronger(&request.cause);
                *sooner = after.min(*sooner);
            }
            None => merged.push((request, after)),
        }
    }
    merged
}

fn log(request: &Request, outcome: &Outcome) {
    let requeue_after_seconds = outcome.requeue_after.map(|after| after.as_secs_f64());
    match &outcome.failure {
        Some(failure) => tracing::warn!(
            hub = request.hub, object = %request.object, reason = failure.reason, requeue_after_seconds, "{}", failure.message
        ),
        None => tracing::info!(
            hub = request.hub, object = %request.object, cause = ?request.cause, enqueued = outcome.enqueue.len(),
            requeue_after_seconds, "{}", outcome.summary
        ),
    }
}

async fn work(ports: &Ports, request: &Request, wait_budget: Duration) -> Result<Outcome, Failure> {
    let hub = hub::connect(ports, &request.hub).await?;
    let context = Context {
        ports,
        hub,
        id: request.object.clone(),
        cause: request.cause.clone(),
        wait_budget,
    };
    let Some(object) = context
        .hub
        .get(&context.id)
        .await
        .map_err(|error| Failure::port(reason::FAILED, &error))?
    else {
        source::forget(&context).await?;
        return Ok(Outcome::gone("gone"));
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
