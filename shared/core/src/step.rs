//! A step: one bounded, idempotent piece of work on one object.
//!
//! The step reads the newest truth, does what is missing, writes what it learned and says who should be looked at next.
//! Running it twice, late or beside another one does no harm.

use crate::driver::drive;
use crate::failure::Failure;
use crate::flux::{FluxKind, HelmRepository, reason};
use crate::helmrelease::HelmReleases;
use crate::hub;
use crate::kernel::{Context, LONGEST_RETRY, Outcome, Recorder};
use crate::kustomization::Kustomizations;
use crate::ports::{Ports, Request, Result};
use crate::schedule::{self, Begin, Lease};
use crate::source::reconciler::Sources;
use crate::source::{self, bucket, git, helm_chart, helm_repository, oci};
use crate::unsupported;
use std::collections::BTreeMap;
use std::time::Duration;

/// Runs the step of a request and queues what follows from it. `wait_budget` is how long the step may wait for health.
///
/// # Errors
/// Only what must bring the message back to the queue: the queue itself, or a store that cannot be reached. What is wrong
/// with the object stands in its status.
pub async fn run(ports: &Ports, request: &Request, wait_budget: Duration) -> Result<Outcome> {
    let mut held = match schedule::begin(ports, request).await? {
        Begin::Run(held) => held,
        Begin::Skip(why) => {
            tracing::debug!(hub = request.hub, object = %request.object, cause = ?request.cause, "no step: {why}");
            return Ok(Outcome {
                is_skipped: true,
                ..Outcome::done(why)
            });
        }
    };
    let own = held.fence(ports);
    let own = own.of_tenant(&request.hub, &request.object.namespace);
    let mut outcome = match work(&own, request, wait_budget, &mut held).await {
        Ok(outcome) => outcome,
        // The object could not even be read, or its status not be written: there is nobody to tell but the log.
        Err(failure) => Outcome::failed(failure, LONGEST_RETRY),
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

async fn work(
    ports: &Ports,
    request: &Request,
    wait_budget: Duration,
    held: &mut Lease,
) -> Result<Outcome, Failure> {
    let hub = hub::connect(ports, &request.hub).await?;
    let context = Context {
        ports,
        hub,
        id: request.object.clone(),
        cause: request.cause.clone(),
        wait_budget,
        events: Recorder::default(),
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
        FluxKind::GitRepository => drive::<Sources<git::Git>>(&context, object, held).await,
        FluxKind::OCIRepository => drive::<Sources<oci::Oci>>(&context, object, held).await,
        FluxKind::Bucket => drive::<Sources<bucket::Objects>>(&context, object, held).await,
        FluxKind::HelmRepository if HelmRepository::is_static(&object) => {
            helm_repository::reconcile_registry(&context, object).await
        }
        FluxKind::HelmRepository => {
            drive::<Sources<helm_repository::Helm>>(&context, object, held).await
        }
        FluxKind::HelmChart => drive::<Sources<helm_chart::Helm>>(&context, object, held).await,
        FluxKind::Kustomization => drive::<Kustomizations>(&context, object, held).await,
        FluxKind::HelmRelease => drive::<HelmReleases>(&context, object, held).await,
        _ => unsupported::step(&context, object).await,
    }
}
