//! Traces: the spans of the work that follows from an event, and their export by OTLP.
//!
//! The core makes spans by `tracing`. This module begins the first span of a delivery, of a message
//! and of a sweep, and adds the context of the trace to each message that is sent meanwhile
//! ([`TracedQueue`]). So a push is one trace through all messages, also if other processes handle
//! them. Without an exporter the spans have ids nevertheless: the log has the id of the trace in
//! the field `chain` of each line.

mod export;
mod queue;
#[cfg(test)]
mod tests;

pub(crate) use export::read_headers_from;
pub use export::{Config, ConfigError, Exported, flush, flush_in_background, start};
pub use queue::TracedQueue;

use driftless_kernel::ports::{Origin, Request, TraceIds, TraceParent, delivery_id};
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// The time that a function waits for the export of its spans at the end of an invocation.
pub const EXPORT_LIMIT: Duration = Duration::from_secs(1);

tokio::task_local! {
    static CURRENT: Work;
}

/// The work of the current task.
#[derive(Clone)]
struct Work {
    /// The origin of the requests that the work sends, unless its spans are exported.
    origin: Origin,
    /// The number of requests to API servers.
    api_requests: Arc<AtomicU64>,
}

/// Handles a delivery in a span that begins a trace. The core records the host, the repository and
/// the commit into it, after it has verified the delivery.
pub async fn delivery<T>(id: &str, event: Option<&str>, work: impl Future<Output = T>) -> T {
    let id = delivery_id(id);
    let event = event.map(delivery_id);
    let span = tracing::error_span!(
        "delivery",
        otel.kind = "server",
        otel.status_code = Empty,
        chain = Empty,
        delivery = id,
        event,
        host = Empty,
        repository = Empty,
        "ref" = Empty,
        commit = Empty,
        status = Empty,
    );
    run(span, None, Some(&id), work).await
}

/// Handles a message in a span that continues the trace of its origin, or begins one.
pub async fn message<T>(request: &Request, work: impl Future<Output = T>) -> T {
    let origin = request.origin.as_ref();
    let delivery = origin.and_then(|origin| origin.delivery.as_deref());
    let span = tracing::error_span!(
        "message",
        otel.kind = "consumer",
        chain = Empty,
        delivery,
        hub = request.hub,
        object = %request.object,
        cause = ?request.cause,
        consumers = request.consumers.len(),
    );
    let parent = origin.and_then(|origin| origin.traceparent.as_ref());
    run(span, parent, delivery, work).await
}

/// Runs work that a timer or a user began, in a span that begins a trace. `hub` is empty if the
/// work is about all hubs.
pub async fn timer<T>(name: &'static str, hub: &str, work: impl Future<Output = T>) -> T {
    let hub = (!hub.is_empty()).then_some(hub);
    let span = tracing::error_span!("timer", otel.name = name, chain = Empty, hub);
    run(span, None, None, work).await
}

/// Runs an invocation of a function as [`timer`] does, and exports its spans.
pub async fn invocation<T>(function: &'static str, work: impl Future<Output = T>) -> T {
    let done = timer(function, "", work).await;
    flush(EXPORT_LIMIT).await;
    done
}

/// Returns the number of requests to API servers that the current work has sent.
pub fn api_requests() -> u64 {
    let count = CURRENT.try_with(|work| work.api_requests.load(Ordering::Relaxed));
    count.unwrap_or_default()
}

/// Counts a request to an API server.
pub(crate) fn count_api_request() {
    let add = |work: &Work| work.api_requests.fetch_add(1, Ordering::Relaxed);
    // Outside of all work, the number is not used.
    CURRENT.try_with(add).unwrap_or_default();
}

async fn run<T>(
    span: Span,
    parent: Option<&TraceParent>,
    delivery: Option<&str>,
    work: impl Future<Output = T>,
) -> T {
    let parent = parent.and_then(TraceParent::ids);
    if let Some(ids) = parent {
        let remote = opentelemetry::Context::new().with_remote_span_context(remote(ids));
        // It fails without an exporter, which alone needs the parent.
        span.set_parent(remote).unwrap_or_default();
    }
    let ids = exported(&span).or(parent).unwrap_or_else(random);
    span.record("chain", hex::encode(ids.trace));
    let work = Box::pin(work).instrument(span);
    let current = Work {
        origin: Origin::new(TraceParent::new(ids), delivery),
        api_requests: Arc::default(),
    };
    CURRENT.scope(current, work).await
}

/// Returns the origin of a request that is sent now; `None` outside of all work.
fn origin() -> Option<Origin> {
    let origin = CURRENT.try_with(|work| work.origin.clone()).ok()?;
    match exported(&Span::current()) {
        Some(ids) => Some(Origin {
            traceparent: Some(TraceParent::new(ids)),
            ..origin
        }),
        None => Some(origin),
    }
}

/// Returns the ids of a span; `None` if spans are not exported.
fn exported(span: &Span) -> Option<TraceIds> {
    let context = span.context();
    let context = context.span().span_context().clone();
    context.is_valid().then(|| TraceIds {
        trace: context.trace_id().to_bytes(),
        span: context.span_id().to_bytes(),
        is_sampled: context.is_sampled(),
    })
}

fn remote(ids: TraceIds) -> SpanContext {
    let flags = match ids.is_sampled {
        true => TraceFlags::SAMPLED,
        false => TraceFlags::default(),
    };
    let (trace, span) = (TraceId::from_bytes(ids.trace), SpanId::from_bytes(ids.span));
    SpanContext::new(trace, span, flags, true, TraceState::default())
}

/// Returns ids of a trace that is not exported.
fn random() -> TraceIds {
    let mut ids = TraceIds {
        trace: [0; 16],
        span: [0; 8],
        is_sampled: false,
    };
    for part in [&mut ids.trace[..], &mut ids.span[..]] {
        // Without random numbers, the lines of the log have no chain.
        getrandom::fill(part).unwrap_or_default();
    }
    ids
}
