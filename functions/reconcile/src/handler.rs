//! Handles a batch of messages: runs one step for each of them.

use aws_lambda_events::sqs::{BatchItemFailure, SqsBatchResponse, SqsEvent, SqsMessage};
use driftless_adapters::embedded_metrics::{self, MetricsLine, Unit, count, millis};
use driftless_adapters::lambda::{self, UnreadableMessage};
use driftless_adapters::trace;
use driftless_core::step;
use driftless_flux::ObjectRef;
use driftless_kernel::context::Outcome;
use driftless_kernel::ports::{self, PortError, Ports, Request};
use futures::StreamExt as _;
use lambda_runtime::{Error, LambdaEvent};
use std::time::Duration;

/// The number of messages of a batch that are handled concurrently.
const CONCURRENCY: usize = 10;
/// The time for which a step may wait for health before it requeues itself.
const WAIT_BUDGET: Duration = Duration::from_secs(8);
/// The part of the function's time that is reserved for the writes after a wait.
const RESERVE: Duration = Duration::from_secs(60);
/// The part of the function's time that is reserved for the response with the failed messages:
/// without a response, SQS delivers all messages again.
const RESPONSE_MARGIN: Duration = Duration::from_secs(5);

/// Runs the step of each message. Messages whose step could not be started or did not end in time
/// return to the queue.
///
/// # Errors
/// None: each message reports its failure.
pub async fn handle(
    ports: &Ports,
    event: LambdaEvent<SqsEvent>,
) -> Result<SqsBatchResponse, Error> {
    let deadline = event.context.deadline();
    let left = lambda::time_left(deadline, ports.clock.now());
    let steps = event.payload.records.into_iter().map(|message| async move {
        let id = message.message_id.clone().unwrap_or_default();
        let step = run_step(ports, &message, wait_budget(left));
        let done = tokio::time::timeout(left.saturating_sub(RESPONSE_MARGIN), step).await;
        match done.unwrap_or(Err(StepError::Timeout)) {
            Ok(()) => None,
            Err(reason) => {
                tracing::error!(message = id, "{reason}: the message returns to the queue");
                let source = message.event_source_arn.as_deref();
                let receipt = message.receipt_handle.as_deref();
                lambda::redeliver(ports, source, receipt, delay(&message)).await;
                let mut failure = BatchItemFailure::default();
                failure.item_identifier = id;
                Some(failure)
            }
        }
    });
    let failures: Vec<_> = futures::stream::iter(steps)
        .buffer_unordered(CONCURRENCY)
        .collect()
        .await;
    let left = lambda::time_left(deadline, ports.clock.now());
    trace::flush(trace::EXPORT_LIMIT.min(left / 2)).await;
    let mut response = SqsBatchResponse::default();
    response.batch_item_failures = failures.into_iter().flatten().collect();
    Ok(response)
}

/// Returns the delay of the redelivery of a message that failed.
fn delay(message: &SqsMessage) -> Duration {
    let received = message.attributes.get("ApproximateReceiveCount");
    let received = received.and_then(|count| count.parse::<u32>().ok());
    step::redelivery(received.unwrap_or(1))
}

/// The reason that a step did not end, so that its message returns to the queue.
#[derive(Debug, thiserror::Error)]
enum StepError {
    #[error("the step did not end in time")]
    Timeout,
    #[error(transparent)]
    Message(#[from] UnreadableMessage),
    #[error("{object}: {error}")]
    Step { object: ObjectRef, error: PortError },
}

async fn run_step(
    ports: &Ports,
    message: &SqsMessage,
    wait_budget: Duration,
) -> Result<(), StepError> {
    let request: Request = lambda::read(message.body.as_deref(), "a request")?;
    let start = ports.clock.now();
    let step = async {
        let done = step::run(ports, &request, wait_budget).await;
        let took = ports.clock.now().saturating_sub(start);
        metrics(&request, &done, took, age(message, start)).write(start);
        done
    };
    let done = trace::message(&request, step).await;
    done.map(|_| ()).map_err(|error| StepError::Step {
        object: request.object,
        error,
    })
}

/// Returns the time for which a message waited in the queue; `None` if it is not known, or if the
/// message was received before. `now` is the time since 1970.
fn age(message: &SqsMessage, now: Duration) -> Option<Duration> {
    let attribute = |name: &str| message.attributes.get(name);
    if attribute("ApproximateReceiveCount").is_some_and(|count| count != "1") {
        return None;
    }
    let sent = attribute("SentTimestamp")?.parse().ok()?;
    Some(now.saturating_sub(Duration::from_millis(sent)))
}

/// Returns the metrics of a message. One with consumers counts as a step of their kind. A message
/// with a token was sent with a delay, so that its age is not the time that it waited.
fn metrics(
    request: &Request,
    done: &ports::Result<Outcome>,
    took: Duration,
    age: Option<Duration>,
) -> MetricsLine {
    let id = request.consumers.first().unwrap_or(&request.object);
    let origin = request.origin.as_ref();
    let delivery = origin.and_then(|origin| origin.delivery.as_deref());
    let mut line = MetricsLine::new("reconcile")
        .with("hub", &request.hub)
        .with("kind", id.kind.as_str())
        .with("object", &request.object.to_string())
        .with("delivery", delivery.unwrap_or_default())
        .metrics(
            &["function", "hub", "kind"],
            &[
                ("Steps", Unit::Count, 1.0),
                ("StepDuration", Unit::Milliseconds, millis(took)),
            ],
        );
    let mut of_hub = vec![("ApiRequests", Unit::Count, count(trace::api_requests()))];
    if request.token.is_none()
        && let Some(age) = age
    {
        of_hub.push(("QueueAge", Unit::Milliseconds, millis(age)));
    }
    line = line.metrics(&["function", "hub"], &of_hub);
    let class = match done {
        Err(_) => Some("error"),
        Ok(outcome) => {
            line = line.with("cluster", &outcome.cluster);
            outcome.failure.as_ref().map(embedded_metrics::class)
        }
    };
    match class {
        None => line,
        Some(class) => line.with("class", class).metrics(
            &["function", "hub", "class"],
            &[("Failures", Unit::Count, 1.0)],
        ),
    }
}

/// Returns the time for which a step may wait, so that enough time is left for the writes after the
/// wait.
fn wait_budget(left: Duration) -> Duration {
    left.saturating_sub(RESERVE).min(WAIT_BUDGET)
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_adapters::aws::OneHub;
    use driftless_flux::FluxKind;
    use driftless_kernel::hub::{self, Settings};
    use driftless_kernel::ports::{self, Blobs as _};
    use driftless_kernel::ports::{
        Access, Cause, Cluster, Clusters, ErrorKind, Impersonation, Secret,
    };
    use driftless_kernel::schedule::{self, MessageDecision};
    use driftless_memory::faults::Fault;
    use driftless_memory::{MemoryBlobs, MemoryQueue, MemorySecrets, TestClock};
    use lambda_runtime::Context;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    const BATCH: &str = include_str!("../../../events/reconcile-sqs.json");
    const BROKEN: &str = include_str!("../../../events/reconcile-sqs-broken.json");
    const FIRST: &str = "059f36b4-87a3-44ab-83d2-661975830a7d";
    const SECOND: &str = "2e1424d4-f796-459a-8184-9c92662be6da";

    struct World {
        ports: Ports,
        blobs: Arc<MemoryBlobs>,
        queue: Arc<MemoryQueue>,
    }

    fn world() -> World {
        let (blobs, queue) = (Arc::<MemoryBlobs>::default(), Arc::<MemoryQueue>::default());
        let ports =
            driftless_memory::ports(blobs.clone(), queue.clone(), Arc::<TestClock>::default());
        World {
            ports,
            blobs,
            queue,
        }
    }

    async fn invoke(world: &World, event: &str, seconds: u64) -> Vec<String> {
        let mut context = Context::default();
        let since = world.ports.clock.now() + Duration::from_secs(seconds);
        context.deadline = since.as_millis().try_into().unwrap();
        let event = LambdaEvent::new(serde_json::from_str(event).unwrap(), context);
        let answer = serde_json::to_value(handle(&world.ports, event).await.unwrap()).unwrap();
        let failures = answer["batchItemFailures"].as_array().unwrap();
        let id = |one: &serde_json::Value| one["itemIdentifier"].as_str().unwrap().to_owned();
        failures.iter().map(id).collect()
    }

    fn object(kind: FluxKind, name: &str) -> ObjectRef {
        ObjectRef::new(kind, "flux-system", name)
    }

    /// A newer version, which knows the message, takes it from the queue.
    #[tokio::test]
    async fn a_message_of_a_newer_format_returns_to_the_queue() {
        let world = world();
        let body = |format: u64| {
            let body = serde_json::json!({"format": format, "hub": "staging", "cause": "timer", "new": [1],
                "object": {"kind": "Kustomization", "namespace": "apps", "name": "web"}});
            serde_json::json!({"Records": [{"messageId": FIRST, "body": body.to_string()}]})
                .to_string()
        };
        assert_eq!(invoke(&world, &body(2), 60).await, [FIRST]);
        assert!(world.blobs.list("").await.unwrap().is_empty(), "no step");
        assert_eq!(invoke(&world, &body(1), 60).await, [""; 0]);
        assert!(!world.blobs.list("").await.unwrap().is_empty(), "a step");
    }

    #[tokio::test]
    async fn every_message_runs_the_step_of_its_object() {
        let world = world();
        let settings = Settings {
            name: "staging".into(),
            ..Settings::default()
        };
        hub::register(&world.ports, &settings).await.unwrap();
        assert!(invoke(&world, BATCH, 120).await.is_empty());
        // Each step found no kubeconfig for the hub, and requeued itself.
        let mut sent = world.queue.take();
        sent.sort_by_key(|(request, _)| request.object.clone());
        let expected = [
            object(FluxKind::GitRepository, "flux-system"),
            object(FluxKind::Kustomization, "apps"),
        ];
        let objects: Vec<_> = sent.iter().map(|(request, _)| &request.object).collect();
        assert_eq!(objects, expected.iter().collect::<Vec<_>>());
        for (request, delay) in &sent {
            assert_eq!(
                (request.hub.as_str(), &request.cause),
                ("staging", &Cause::Requeue)
            );
            assert!(*delay >= Duration::from_secs(10), "{delay:?}");
        }
    }

    /// The function of a stack for one hub does nothing for another one; its log has the reason.
    #[tokio::test]
    async fn a_message_of_a_hub_of_another_stack_is_refused() {
        let mut world = world();
        let settings = Settings {
            name: "staging".into(),
            ..Settings::default()
        };
        hub::register(&world.ports, &settings).await.unwrap();
        world.ports.blobs = Arc::new(OneHub::new(world.blobs.clone(), "production"));
        assert!(invoke(&world, BATCH, 120).await.is_empty());
        assert!(world.queue.take().is_empty(), "nothing is requeued");
        let failure = hub::connect(&world.ports, "staging").await.err().unwrap();
        assert!(failure.message.contains("serves hub 'production' alone"));
    }

    #[tokio::test]
    async fn an_object_with_another_workers_lease_is_requeued_once() {
        let world = world();
        let apps = object(FluxKind::Kustomization, "apps");
        let request = Request::new("staging", apps.clone(), Cause::Changed);
        let held = schedule::begin(&world.ports, &request).await.unwrap();
        assert!(matches!(held, MessageDecision::Run(_)));
        for expected in [1, 0] {
            assert!(invoke(&world, BATCH, 120).await.is_empty());
            let sent = world.queue.take();
            assert_eq!(sent.len(), expected, "{sent:?}");
            for (request, delay) in sent {
                assert_eq!((&request.object, &request.cause), (&apps, &Cause::Source));
                assert!(request.token.is_some());
                assert!(delay >= schedule::LEASE_DURATION, "{delay:?}");
            }
        }
    }

    #[tokio::test]
    async fn an_invalid_message_fails_alone() {
        let world = world();
        assert_eq!(invoke(&world, BROKEN, 120).await, [SECOND]);
        // The steps of the other messages ran.
        let records = world.ports.blobs.list("objects/").await.unwrap();
        assert_eq!(records.len(), 2, "{records:?}");
    }

    #[tokio::test]
    async fn a_write_without_an_answer_is_repeated() {
        let world = world();
        world.blobs.fail_next(Fault::Before);
        assert!(invoke(&world, BATCH, 120).await.is_empty());
        assert!(world.queue.take().is_empty());
        let records = world.ports.blobs.list("objects/").await.unwrap();
        assert_eq!(records.len(), 2, "{records:?}");
    }

    #[tokio::test]
    async fn a_failed_message_is_redelivered_soon() {
        let world = world();
        let seconds = |event: &str| {
            let receipts = world.queue.take_redelivered();
            assert_eq!(receipts.len(), 1, "{event}");
            receipts[0].1.as_secs()
        };
        for (count, expected) in [(1, 15), (2, 60), (3, 240), (4, 720), (9, 720)] {
            let count = format!("\"ApproximateReceiveCount\": \"{count}\"");
            let event = BROKEN.replace("\"ApproximateReceiveCount\": \"1\"", &count);
            assert_eq!(invoke(&world, &event, 120).await, [SECOND]);
            assert_eq!(seconds(&event), expected, "{count}");
        }
    }

    #[tokio::test]
    async fn with_a_broken_queue_all_messages_are_redelivered() {
        let world = world();
        let settings = Settings {
            name: "staging".into(),
            ..Settings::default()
        };
        hub::register(&world.ports, &settings).await.unwrap();
        world.queue.set_broken(true);
        assert_eq!(invoke(&world, BATCH, 120).await.len(), 2);
    }

    /// Clusters whose connections hang.
    struct Dark;

    #[async_trait::async_trait]
    impl Clusters for Dark {
        async fn connect(
            &self,
            _: &Access,
            _: Option<&Impersonation>,
        ) -> ports::Result<Arc<dyn Cluster>> {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            Err(PortError::new(ErrorKind::Unavailable, "dark"))
        }
    }

    #[tokio::test]
    async fn an_endless_step_fails_before_the_function_times_out() {
        let mut world = world();
        let settings = Settings {
            name: "staging".into(),
            ..Settings::default()
        };
        hub::register(&world.ports, &settings).await.unwrap();
        let kubeconfig = "{apiVersion: v1, kind: Config, current-context: c,\
            clusters: [{name: c, cluster: {server: 'https://192.0.2.1'}}],\
            users: [{name: c, user: {token: t}}],\
            contexts: [{name: c, context: {cluster: c, user: c}}]}";
        let keys = BTreeMap::from([("hubs/staging".to_owned(), Secret::new(kubeconfig))]);
        world.ports.secrets = Arc::new(MemorySecrets(keys));
        world.ports.clusters = Arc::new(Dark);
        let start = std::time::Instant::now();
        let mut failed = invoke(&world, BATCH, 6).await;
        failed.sort();
        assert_eq!(failed, [FIRST, SECOND]);
        assert!(start.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn wait_budget_ends_before_the_deadline() {
        let seconds = Duration::from_secs;
        assert_eq!(wait_budget(Duration::ZERO), Duration::ZERO);
        assert_eq!(wait_budget(seconds(120)), WAIT_BUDGET);
        assert_eq!(wait_budget(seconds(63)), seconds(3));
    }
}
