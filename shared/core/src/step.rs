//! A step: one bounded, idempotent piece of work on one object.
//!
//! The step reads the current state, does the missing work, writes the result and returns the
//! objects to reconcile next. It may run repeatedly, late or concurrently with another one without
//! harm.

use crate::kustomization::Kustomizations;
use crate::notification::{self, Checked};
use crate::receiver::{self, Receivers};
use driftless_flux::{
    AlertSpec, FluxKind, HelmRepository, ObjectRef, ProviderSpec, is_request_handled, reason,
};
use driftless_helmrelease::HelmReleases;
use driftless_kernel::concurrent;
use driftless_kernel::context::{Context, LONGEST_RETRY, Outcome, Recorder, events, step_fuel};
use driftless_kernel::driver::drive;
use driftless_kernel::failure::Failure;
use driftless_kernel::hub;
use driftless_kernel::interruption;
use driftless_kernel::journal;
use driftless_kernel::ports::{Alerts, Ports, Request, Result};
use driftless_kernel::schedule::{self, Lease, MessageDecision};
use driftless_manifest::Object;
use driftless_source::artifact_generator::Generators;
use driftless_source::reconciler::Sources;
use driftless_source::{artifact_generator, bucket, git, helm_chart, helm_repository, oci};
use futures::FutureExt as _;
use futures::future::join;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

/// The delay of the first redelivery of a message that failed. Each further delay is four times as
/// long. After the fifth attempt the message goes to the dead letters.
const REDELIVERY: Duration = Duration::from_secs(15);
/// The longest delay of a redelivery: the visibility timeout of the queue on AWS.
const MAX_REDELIVERY: Duration = Duration::from_secs(720);

/// Returns the delay of the redelivery of a message whose step did not end, after it was delivered
/// this many times.
pub fn redelivery(deliveries: u32) -> Duration {
    let times = deliveries.saturating_sub(1).min(8);
    (REDELIVERY * 4_u32.pow(times)).min(MAX_REDELIVERY)
}

/// Revisions that are moved concurrently.
const MOVED_CONCURRENTLY: usize = 16;

/// Runs the step of a request and queues the requests that follow from it. The step may wait for
/// health for at most `wait_budget`. A request with consumers moves their revision.
///
/// # Errors
/// Only errors that must return the message to the queue: those of the queue itself, or of a bucket
/// that cannot be reached. Errors of the object are in its status.
pub async fn run(ports: &Ports, request: &Request, wait_budget: Duration) -> Result<Outcome> {
    match request.consumers.is_empty() {
        true => run_one(ports, request, wait_budget, None).await,
        false => move_revisions(ports, request).await,
    }
}

/// The objects that one message has read for the step of an object whose revision it moves.
struct Listed {
    object: Object,
    alerts: Option<Alerts>,
}

/// Moves the revision of Kustomizations that follow a source, side by side, and queues those of
/// which more changes. Each has its own step, with its own lease.
async fn move_revisions(ports: &Ports, request: &Request) -> Result<Outcome> {
    let (listed, alerts) = listed(ports, request).await.unwrap_or_else(|failure| {
        tracing::warn!(hub = request.hub, "Kustomizations not listed: {failure}");
        <_>::default()
    });
    let (mut steps, mut others) = (Vec::new(), Vec::new());
    for id in &request.consumers {
        let one = Request {
            received: request.received,
            origin: request.origin.clone(),
            ..Request::new(&request.hub, id.clone(), request.cause.clone())
        };
        match listed.get(id) {
            Some(object) => steps.push((one, object.clone())),
            None => others.push((one, Duration::ZERO)),
        }
    }
    let summary = format!(
        "moved the revision of {} objects, and queued {}",
        steps.len(),
        others.len()
    );
    if !others.is_empty() {
        ports.queue.send(others).await?;
    }
    // Those that depend on others come last, so that they need not wait.
    let depends = |(_, object): &(Request, Object)| object.pointer("/spec/dependsOn").is_some();
    let (last, first): (Vec<_>, Vec<_>) = steps.into_iter().partition(depends);
    for steps in [first, last] {
        let steps = steps.into_iter().map(|(one, object)| {
            let alerts = alerts.clone();
            let listed = Listed { object, alerts };
            async move { run_one(ports, &one, Duration::ZERO, Some(listed)).await }.boxed()
        });
        for done in concurrent::run(MOVED_CONCURRENTLY, steps.collect()).await {
            done?;
        }
    }
    tracing::info!(hub = request.hub, object = %request.object, "{summary}");
    Ok(Outcome::done(summary))
}

/// Returns the Kustomizations of a request whose revision may move: not those that are deleted,
/// suspended, or requested by a user. Returns also the Alerts, if notifications are sent; each step
/// lists them itself if they cannot be read.
async fn listed(
    ports: &Ports,
    request: &Request,
) -> Result<(BTreeMap<ObjectRef, Object>, Option<Alerts>), Failure> {
    let hub = hub::connect(ports, &request.hub).await?;
    let alerts = async {
        match ports.notifiers.is_used() {
            true => events::alerts(ports, &hub).await.ok(),
            false => None,
        }
    };
    let consumers: BTreeSet<&ObjectRef> = request.consumers.iter().collect();
    let may_move = |object: &Object| {
        ObjectRef::of(object).is_some_and(|id| consumers.contains(&id))
            && object.meta("deletionTimestamp").is_empty()
            && object.pointer("/spec/suspend") != Some(&Value::Bool(true))
            && is_request_handled(object)
    };
    let objects = hub.list_where(FluxKind::Kustomization, may_move);
    let (alerts, objects) = join(alerts, objects).await;
    let objects = objects?.into_iter();
    let with_id = objects.filter_map(|object| Some((ObjectRef::of(&object)?, object)));
    Ok((with_id.collect(), alerts))
}

/// Runs the step of a request's object in a span, which has the ids of each line of its log.
async fn run_one(
    ports: &Ports,
    request: &Request,
    wait_budget: Duration,
    listed: Option<Listed>,
) -> Result<Outcome> {
    let ObjectRef {
        kind,
        namespace,
        name,
    } = &request.object;
    let span = tracing::error_span!(
        "step",
        otel.status_code = Empty,
        hub = request.hub,
        object = %request.object,
        kind = kind.as_str(),
        namespace,
        name,
        cause = ?request.cause,
        step = Empty,
        revision = Empty,
        cluster = Empty,
        result = Empty,
        reason = Empty,
        writes_without_span = Empty,
    );
    // Boxed, as the parts of a step that have spans: without optimisation, the future of a span
    // takes the stack of its content several times.
    let done = Box::pin(run_in_span(ports, request, wait_budget, listed));
    let done = done.instrument(span.clone()).await;
    record_result(&span, &done);
    done
}

/// Records the result of a step into its span: the reason of a failure, but no message.
fn record_result(span: &Span, done: &Result<Outcome>) {
    let result = match done {
        Err(_) => "error",
        Ok(outcome) if outcome.is_skipped => "skipped",
        Ok(outcome) => {
            span.record("cluster", &outcome.cluster);
            match &outcome.failure {
                None => "done",
                Some(failure) => {
                    span.record("reason", failure.reason);
                    "failed"
                }
            }
        }
    };
    span.record("result", result);
    if matches!(result, "error" | "failed") {
        span.record("otel.status_code", "ERROR");
    }
}

/// Runs the step of a request's object, which is read unless it was `listed`: then only its
/// revision may move.
async fn run_in_span(
    ports: &Ports,
    request: &Request,
    wait_budget: Duration,
    listed: Option<Listed>,
) -> Result<Outcome> {
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
    Span::current().record("step", lease.step());
    let own = lease.fence(ports);
    let own = own.of_tenant(&request.hub, &request.object.namespace);
    let mut outcome = match work(&own, request, wait_budget, listed, &mut lease).await {
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
        if request.token.is_some() || !request.consumers.is_empty() {
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
    listed: Option<Listed>,
    lease: &mut Lease,
) -> Result<Outcome, Failure> {
    let hub = hub::connect(ports, &request.hub).await?;
    let (listed, alerts) = match listed {
        Some(Listed { object, alerts }) => (Some(object), alerts),
        None => (None, None),
    };
    let context = Context {
        ports,
        hub,
        id: request.object.clone(),
        cause: request.cause.clone(),
        wait_budget,
        events: Recorder::with_alerts(alerts),
        fuel: step_fuel(),
        is_rehearsal: false,
        only_moves_revision: listed.is_some(),
    };
    context.events.changes.set_received(request.received);
    context.events.changes.set_commit(request.commit.clone());
    let found = match listed {
        Some(object) => Some(object),
        None => {
            let found = context.hub.get(&context.id).await;
            found.map_err(|error| Failure::port(reason::FAILED, &error))?
        }
    };
    let Some(object) = found else {
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
