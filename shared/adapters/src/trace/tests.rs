use super::export::{Config, ConfigError};
use super::*;
use driftless_flux::{FluxKind, ObjectRef};
use driftless_kernel::ports::{Cause, Queue as _};
use driftless_memory::MemoryQueue;

fn request() -> Request {
    let object = ObjectRef::new(FluxKind::Kustomization, "apps", "web");
    Request::new("staging", object, Cause::Push)
}

/// Sends a request by a traced queue, and returns its origin.
async fn sent(queue: &Arc<MemoryQueue>, request: Request) -> Option<Origin> {
    let traced = TracedQueue::new(queue.clone());
    let send = traced.send(vec![(request, Duration::ZERO)]);
    send.await.unwrap();
    queue.take().remove(0).0.origin
}

#[tokio::test]
async fn what_is_sent_while_a_delivery_is_handled_has_its_origin() {
    let queue = Arc::<MemoryQueue>::default();
    assert_eq!(sent(&queue, request()).await, None);

    let work = sent(&queue, request());
    let first = delivery("72d3162e\n", Some("push"), work).await.unwrap();
    assert_eq!(first.delivery.as_deref(), Some("72d3162e"));
    let ids = first
        .traceparent
        .as_ref()
        .and_then(TraceParent::ids)
        .unwrap();
    assert!(
        !ids.is_sampled,
        "a process without an exporter asks others for no export"
    );

    // The message, its step and the requests of the step are of the same chain.
    let of_first = Request {
        origin: Some(first.clone()),
        ..request()
    };
    let second = message(&of_first, sent(&queue, request())).await;
    assert_eq!(second.as_ref(), Some(&first));
    // A request that has an origin keeps it.
    let other = message(&request(), sent(&queue, request())).await.unwrap();
    assert_eq!(other.delivery, None);
    assert_ne!(other.traceparent, first.traceparent);
    let kept = message(
        &of_first,
        sent(
            &queue,
            Request {
                origin: Some(other.clone()),
                ..request()
            },
        ),
    );
    assert_eq!(kept.await, Some(other));
}

#[tokio::test]
async fn requests_to_api_servers_are_counted_for_the_work_that_sends_them() {
    count_api_request();
    let two = async {
        count_api_request();
        count_api_request();
        api_requests()
    };
    let one = async {
        count_api_request();
        tokio::task::yield_now().await;
        api_requests()
    };
    let (request, both) = (request(), request());
    let both = futures::future::join(message(&request, two), message(&both, one)).await;
    assert_eq!((both, api_requests()), ((2, 1), 0));
}

fn config(variables: &[(&str, &str)]) -> Result<Option<Config>, ConfigError> {
    Config::of("reconcile", |name| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    })
}

#[test]
fn traces_are_exported_only_with_an_endpoint() {
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318");
    for none in [
        &[][..],
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")],
        &[endpoint, ("OTEL_SDK_DISABLED", "TRUE")],
        &[endpoint, ("OTEL_TRACES_EXPORTER", "none")],
        &[("OTEL_TRACES_EXPORTER", "otlp")],
    ] {
        assert_eq!(config(none), Ok(None), "{none:?}");
    }
    for some in [
        &[endpoint][..],
        &[(
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "https://a.example/v1/traces",
        )],
        &[endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")],
    ] {
        assert!(config(some).unwrap().is_some(), "{some:?}");
    }
    for (name, value, words) in [
        (
            "OTEL_EXPORTER_OTLP_PROTOCOL",
            "grpc",
            "give http/json or http/protobuf",
        ),
        ("OTEL_TRACES_EXPORTER", "zipkin", "give otlp or none"),
        (
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "localhost:4318",
            "expected a URL",
        ),
    ] {
        let error = config(&[endpoint, (name, value)]).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
