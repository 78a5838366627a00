//! A step: one bounded, idempotent piece of work on one object.
//!
//! The step reads the current state, does the missing work, writes the result and returns the
//! objects to reconcile next. It may run repeatedly, late or concurrently with another one without
//! harm.

use crate::kustomization::Kustomizations;
use crate::notification::{self, Checked};
use crate::receiver::{self, Receivers};
use driftless_flux::{AlertSpec, FluxKind, HelmRepository, ProviderSpec, reason};
use driftless_helmrelease::HelmReleases;
use driftless_kernel::context::{Context, LONGEST_RETRY, Outcome, Recorder, step_fuel};
use driftless_kernel::driver::drive;
use driftless_kernel::failure::Failure;
use driftless_kernel::hub;
use driftless_kernel::interruption;
use driftless_kernel::journal;
use driftless_kernel::ports::{Ports, Request, Result};
use driftless_kernel::schedule::{self, Lease, MessageDecision};
use driftless_manifest::Object;
use driftless_source::artifact_generator::Generators;
use driftless_source::reconciler::Sources;
use driftless_source::{artifact_generator, bucket, git, helm_chart, helm_repository, oci};
use std::collections::BTreeMap;
use std::time::Duration;

/// Runs the step of a request and queues the requests that follow from it. The step may wait for
/// health for at most `wait_budget`.
///
/// # Errors
/// Only errors that must return the message to the queue: those of the queue itself, or of a bucket
/// that cannot be reached. Errors of the object are in its status.
pub async fn run(ports: &Ports, request: &Request, wait_budget: Duration) -> Result<Outcome> {
    let mut lease = match schedule::begin(ports, request).await? {
        MessageDecision::Run(lease) => lease,
        MessageDecision::Skip(reason) => {
            tracing::debug!(hub = request.hub, object = %request.object, cause = ?request.cause, "no step: {reason}");
            return Ok(Outcome {
                is_skipped: true,
                ..Outcome::done(reason)
            });
        }
    };
    let own = lease.fence(ports);
    let own = own.of_tenant(&request.hub, &request.object.namespace);
    let mut outcome = match work(&own, request, wait_budget, &mut lease).await {
        Ok(outcome) => outcome,
        // The object could not be read or its status could not be written, so only the log can have
        // the failure.
        Err(failure) => Outcome::failed(failure, LONGEST_RETRY),
    };
    // The record first: the timer finds requests that are stored but not sent.
    let ended = schedule::end(ports, lease, request, &mut outcome).await;
    outcome.enqueue = merge(std::mem::take(&mut outcome.enqueue));
    if !outcome.enqueue.is_empty() {
        ports.queue.send(outcome.enqueue.clone()).await?;
    }
    // The notes last: a dependent that is not queued yet must keep waiting.
    schedule::forget(ports, &outcome.notified).await?;
    if outcome.is_gone {
        journal::delete(ports, &request.hub, &request.object).await;
    }
    log(request, &outcome);
    ended.map(|()| outcome)
}

/// Merges the requests of each object into one.
fn merge(requests: Vec<(Request, Duration)>) -> Vec<(Request, Duration)> {
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
                known.merge(&request);
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
    lease: &mut Lease,
) -> Result<Outcome, Failure> {
    let hub = hub::connect(ports, &request.hub).await?;
    let context = Context {
        ports,
        hub,
        id: request.object.clone(),
        cause: request.cause.clone(),
        wait_budget,
        events: Recorder::default(),
        fuel: step_fuel(),
        is_rehearsal: false,
    };
    context.events.changes.set_received(request.received);
    let Some(object) = context
        .hub
        .get(&context.id)
        .await
        .map_err(|error| Failure::port(reason::FAILED, &error))?
    else {
        match context.id.kind {
            FluxKind::Receiver => receiver::forget(&context).await?,
            FluxKind::Provider => notification::forget(&context).await?,
            _ => driftless_source::forget(&context).await?,
        }
        return Ok(Outcome::gone("gone"));
    };
    let outcome = match lease.only_reports_interruptions() {
        true => interruption::report(&context, &object).await,
        false => reconcile(&context, object, lease).await,
    };
    let mut outcome = outcome.unwrap_or_else(|failure| Outcome::failed(failure, LONGEST_RETRY));
    outcome.enqueue.extend(context.events.take_requests());
    Ok(outcome)
}

/// Runs the step of an object by the reconciler of its kind.
///
/// # Errors
/// The object's status could not be written.
pub(crate) async fn reconcile(
    context: &Context<'_>,
    object: Object,
    lease: &mut Lease,
) -> Result<Outcome, Failure> {
    match context.id.kind {
        FluxKind::GitRepository => drive::<Sources<git::Git>>(context, object, lease).await,
        FluxKind::OCIRepository => drive::<Sources<oci::Oci>>(context, object, lease).await,
        FluxKind::Bucket => drive::<Sources<bucket::Objects>>(context, object, lease).await,
        FluxKind::HelmRepository if HelmRepository::is_static(&object) => {
            helm_repository::reconcile_registry(context, object).await
        }
        FluxKind::HelmRepository => {
            drive::<Sources<helm_repository::Helm>>(context, object, lease).await
        }
        FluxKind::HelmChart => drive::<Sources<helm_chart::Helm>>(context, object, lease).await,
        FluxKind::Kustomization => drive::<Kustomizations>(context, object, lease).await,
        FluxKind::HelmRelease => drive::<HelmReleases>(context, object, lease).await,
        FluxKind::Receiver => drive::<Receivers>(context, object, lease).await,
        FluxKind::ExternalArtifact => artifact_generator::step(context, &object).await,
        FluxKind::ArtifactGenerator => drive::<Generators>(context, object, lease).await,
        FluxKind::Alert => drive::<Checked<AlertSpec>>(context, object, lease).await,
        FluxKind::Provider => drive::<Checked<ProviderSpec>>(context, object, lease).await,
    }
}
