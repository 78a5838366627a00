//! Handles the timer's event, which becomes a message for each hub, and these messages, each of
//! which starts a sweep.

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use driftless_adapters::embedded_metrics::{MetricsLine, Unit, count, millis};
use driftless_adapters::{lambda, trace};
use driftless_core::sweep::{self, Report, SweepStart};
use driftless_kernel::ports::{Cause, Ports, SweepRequest};
use lambda_runtime::{Error, LambdaEvent};
use serde_json::{Value, json};
use std::time::Duration;

/// The metric of sweeps that failed. A metric filter of infra/template.yaml counts the lines of the
/// log that have it in the field `metric`, by the field `hub`.
const NOT_SWEPT: &str = "HubNotSwept";

/// Handles an event: queues a message for each hub for the timer's event, and sweeps the hub of
/// such a message.
///
/// The function does not fail if a hub cannot be swept: Lambda would slow down the delivery of the
/// messages of all hubs. A line of the log reports it, and the next minute is the retry.
///
/// # Errors
/// Fails if the registry or the queue does not answer, or if a message is not valid.
pub async fn handle(ports: &Ports, event: LambdaEvent<Value>) -> Result<Value, Error> {
    if event.payload.get("Records").is_some() {
        for hub in hubs(serde_json::from_value(event.payload)?)? {
            let start = ports.clock.now();
            let sweep = async {
                let report = sweep::sweep_hub(ports, hub.clone()).await;
                let now = ports.clock.now();
                log(&report);
                metrics(&report, now.saturating_sub(start)).write(now);
            };
            trace::timer("sweep", &hub, sweep).await;
        }
        trace::flush(trace::EXPORT_LIMIT).await;
        // No message returns to the queue.
        return Ok(serde_json::to_value(SqsBatchResponse::default())?);
    }
    // The timer's event has no content that is used.
    let start = trace::timer("sweep", "", sweep::start(ports)).await;
    trace::flush(trace::EXPORT_LIMIT).await;
    match start? {
        SweepStart::Swept(reports) => {
            reports.iter().for_each(log);
            Ok(json!({"hubs": reports.iter().map(answer).collect::<Vec<_>>()}))
        }
        SweepStart::Queued(hubs) => {
            tracing::info!(hubs = hubs.len(), "queued a sweep of each hub");
            Ok(json!({"queued": hubs}))
        }
    }
}

/// Returns the metrics of a sweep.
fn metrics(report: &Report, took: Duration) -> MetricsLine {
    let drifted = report.queued.iter().filter(|one| one.cause == Cause::Drift);
    let failed = u32::from(report.failure.is_some());
    MetricsLine::new("drift").with("hub", &report.hub).metrics(
        &["function", "hub"],
        &[
            ("Sweeps", Unit::Count, 1.0),
            ("SweepDuration", Unit::Milliseconds, millis(took)),
            ("SweepsFailed", Unit::Count, failed.into()),
            ("DriftFound", Unit::Count, count(drifted.count() as u64)),
            (
                "ObjectsQueued",
                Unit::Count,
                count(report.queued.len() as u64),
            ),
            ("ApiRequests", Unit::Count, count(trace::api_requests())),
        ],
    )
}

/// Reads the hub of each message.
fn hubs(messages: SqsEvent) -> Result<Vec<String>, Error> {
    let hub = |message: SqsMessage| {
        let request = lambda::read(message.body.as_deref(), "{\"sweep\": \"HUB\"}");
        let hub = request.map(|SweepRequest { sweep }| sweep);
        hub.map_err(Error::from)
    };
    messages.records.into_iter().map(hub).collect()
}

fn log(report: &Report) {
    let (hub, queued) = (&report.hub, report.queued.len());
    match &report.failure {
        None => tracing::info!(hub, queued, "swept"),
        Some(failure) => tracing::error!(
            hub,
            queued,
            metric = NOT_SWEPT,
            "the hub was not swept completely: {failure}"
        ),
    }
}

fn answer(report: &Report) -> Value {
    json!({
        "hub": report.hub,
        "queued": report.queued.iter().map(|one| one.object.to_string()).collect::<Vec<_>>(),
        "failure": report.failure.as_ref().map(|failure| &failure.message),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use driftless_flux::{FluxKind, ObjectRef};
    use driftless_kernel::hub::{self, Settings};
    use driftless_kernel::ports::{
        Access, ApiCapabilities, ApplyRequest, Cluster, Clusters, Delete, Deleted, ErrorKind,
        Impersonation, ListRequest, PatchRequest, PortError, Precondition, Queue, Request,
        Resource, Result, Secret, Token, TokenRequest,
    };
    use driftless_manifest::{Gvk, Object};
    use driftless_memory::{MemoryBlobs, MemoryQueue, MemorySecrets, TestClock};
    use std::sync::{Arc, Mutex};

    const MINUTE: &str = include_str!("../../../events/drift-schedule.json");
    const SWEEP: &str = include_str!("../../../events/drift-sweep.json");

    /// Hubs with one new GitRepository each. The hub at `dark` refuses connections, the one at
    /// `hanging` never answers, and the one at `forbidding` refuses a kind.
    struct Hubs(Arc<TestClock>);

    struct OneSource {
        forbids: bool,
    }

    #[async_trait]
    impl Clusters for Hubs {
        async fn connect(
            &self,
            access: &Access,
            _: Option<&Impersonation>,
        ) -> Result<Arc<dyn Cluster>> {
            if access.server.contains("hanging") {
                // Longer than the time limit of the hub, but not of the whole sweep.
                self.0.advance(Duration::from_secs(21));
                std::future::pending::<()>().await;
            }
            match access.server.contains("dark") {
                true => refused(),
                false => Ok(Arc::new(OneSource {
                    forbids: access.server.contains("forbidding"),
                })),
            }
        }
    }

    fn refused<T>() -> Result<T> {
        Err(PortError::new(ErrorKind::Unavailable, "no answer"))
    }

    #[async_trait]
    impl Cluster for OneSource {
        async fn resource(&self, gvk: &Gvk) -> Result<Option<Resource>> {
            Ok(self.versions(&gvk.group, &gvk.kind).await?.pop())
        }
        async fn versions(&self, group: &str, kind: &str) -> Result<Vec<Resource>> {
            let is_forbidden = self.forbids && kind == FluxKind::Alert.as_str();
            let served = kind == FluxKind::GitRepository.as_str() || is_forbidden;
            let resource = Resource {
                gvk: Gvk::new(&format!("{group}/v1"), kind),
                plural: "gitrepositories".into(),
                namespaced: true,
            };
            Ok(served.then_some(resource).into_iter().collect())
        }
        async fn abilities(&self) -> Result<ApiCapabilities> {
            refused()
        }
        async fn get(&self, _: &Resource, _: &str, _: &str) -> Result<Option<Object>> {
            refused()
        }
        async fn list(&self, request: &ListRequest<'_>) -> Result<Vec<Object>> {
            let resource = request.resource;
            if resource.gvk.kind != FluxKind::GitRepository.as_str() {
                return refused();
            }
            let source = json!({
                "apiVersion": resource.gvk.api_version(),
                "kind": resource.gvk.kind,
                "metadata": {"name": "flux-system", "namespace": "flux-system", "generation": 1},
                "spec": {"url": "https://github.com/acme/fleet", "interval": "1m"},
            });
            Ok(vec![Object::new(source).unwrap()])
        }
        async fn apply(&self, _: &ApplyRequest<'_>) -> Result<Object> {
            refused()
        }
        async fn create(&self, _: &Resource, _: &Object, _: &str) -> Result<Object> {
            refused()
        }
        async fn patch(&self, _: &PatchRequest<'_>) -> Result<Object> {
            refused()
        }
        async fn delete(&self, _: &Resource, _: &str, _: &str, _: &Delete) -> Result<Deleted> {
            refused()
        }
        async fn token(&self, _: &TokenRequest, _: Duration) -> Result<Token> {
            refused()
        }
    }

    fn kubeconfig(server: &str) -> Secret {
        Secret::new(format!(
            "{{apiVersion: v1, kind: Config, current-context: c,\
             clusters: [{{name: c, cluster: {{server: 'https://{server}.example'}}}}],\
             users: [{{name: c, user: {{token: t}}}}],\
             contexts: [{{name: c, context: {{cluster: c, user: c}}}}]}}"
        ))
    }

    /// A queue that accepts sweeps and records their hubs.
    #[derive(Default)]
    struct SweepQueue(Mutex<Vec<String>>);

    #[async_trait]
    impl Queue for SweepQueue {
        async fn send(&self, _: Vec<(Request, Duration)>) -> Result<()> {
            Ok(())
        }
        async fn sweep(&self, hubs: &[String]) -> Result<bool> {
            self.0.lock().unwrap().extend_from_slice(hubs);
            Ok(true)
        }
    }

    async fn world(hubs: &[&str]) -> (Ports, Arc<MemoryQueue>) {
        let queue = Arc::<MemoryQueue>::default();
        let clock = Arc::<TestClock>::default();
        let blobs = Arc::<MemoryBlobs>::default();
        let mut ports = driftless_memory::ports(blobs, queue.clone(), clock.clone());
        let keys = hubs
            .iter()
            .map(|hub| (format!("hubs/{hub}"), kubeconfig(hub)));
        ports.secrets = Arc::new(MemorySecrets(keys.collect()));
        ports.clusters = Arc::new(Hubs(clock));
        for hub in hubs {
            let settings = Settings {
                name: (*hub).into(),
                ..Settings::default()
            };
            hub::register(&ports, &settings).await.unwrap();
        }
        (ports, queue)
    }

    async fn invoke(ports: &Ports) -> Result<Value, String> {
        invoke_with(ports, MINUTE).await
    }

    async fn invoke_with(ports: &Ports, event: &str) -> Result<Value, String> {
        let event = serde_json::from_str(event).unwrap();
        let event = LambdaEvent::new(event, lambda_runtime::Context::default());
        handle(ports, event)
            .await
            .map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn each_hub_has_its_own_message_and_sweep() {
        let (mut ports, queue) = world(&["dark", "hanging", "staging"]).await;
        let sweeps = Arc::<SweepQueue>::default();
        let work = std::mem::replace(&mut ports.queue, sweeps.clone());
        let expected = json!({"queued": ["dark", "hanging", "staging"]});
        assert_eq!(invoke(&ports).await, Ok(expected));
        assert_eq!(*sweeps.0.lock().unwrap(), ["dark", "hanging", "staging"]);

        ports.queue = work;
        let done = json!({"batchItemFailures": []});
        assert_eq!(invoke_with(&ports, SWEEP).await, Ok(done.clone()));
        assert_eq!(queue.take().len(), 1);
        // A hub that cannot be swept fails neither the function nor the message.
        let dark = SWEEP.replace("staging", "dark");
        assert_eq!(invoke_with(&ports, &dark).await, Ok(done));
        let broken = SWEEP.replace("sweep", "sweeps");
        let refused = invoke_with(&ports, &broken).await.unwrap_err();
        assert!(
            refused.starts_with("the message is not {\"sweep\": \"HUB\"}: line 1"),
            "{refused}"
        );
    }

    /// A queue that does not answer.
    struct NoQueue;

    #[async_trait]
    impl Queue for NoQueue {
        async fn send(&self, _: Vec<(Request, Duration)>) -> Result<()> {
            refused()
        }
        async fn sweep(&self, _: &[String]) -> Result<bool> {
            refused()
        }
    }

    #[tokio::test]
    async fn the_function_fails_if_it_cannot_request_sweeps() {
        let (mut ports, _) = world(&["staging"]).await;
        ports.queue = Arc::new(NoQueue);
        assert_eq!(invoke(&ports).await, Err("no answer".to_owned()));
        // A hub whose objects cannot be queued is not swept, but its message is done.
        let lines = counted(invoke_with(&ports, SWEEP)).await;
        assert_eq!(lines.len(), 1, "{lines:?}");
    }

    /// Runs `work`, and returns the lines of the log that the metric filter of the template counts.
    async fn counted(work: impl Future<Output = Result<Value, String>>) -> Vec<Value> {
        let log = Arc::<Mutex<Vec<u8>>>::default();
        let writer = log.clone();
        let lines = tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .with_writer(move || Log(writer.clone()));
        // With one dispatcher only, the first use of a log line in another thread would disable it.
        let second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
        let guard = tracing::subscriber::set_default(lines.finish());
        work.await.unwrap();
        drop((guard, second));
        let log = String::from_utf8(std::mem::take(&mut *log.lock().unwrap())).unwrap();
        let lines = log.lines().map(|line| serde_json::from_str(line).unwrap());
        lines
            .filter(|line: &Value| line["metric"] == NOT_SWEPT)
            .collect()
    }

    struct Log(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn each_hub_that_was_not_swept_is_a_line_for_the_metric() {
        let template = include_str!("../../../infra/template.yaml");
        let pattern = format!("FilterPattern: '{{ $.metric = \"{NOT_SWEPT}\" }}'");
        assert!(
            template.contains(&pattern),
            "no metric filter has {pattern}"
        );

        let (ports, _) = world(&["dark", "forbidding", "staging"]).await;
        let lines = counted(invoke_with(&ports, &SWEEP.replace("staging", "dark"))).await;
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_eq!(
            (&lines[0]["hub"], &lines[0]["level"]),
            (&json!("dark"), &json!("ERROR"))
        );
        assert!(counted(invoke_with(&ports, SWEEP)).await.is_empty());
        let lines = counted(invoke(&ports)).await;
        let hubs: Vec<&Value> = lines.iter().map(|line| &line["hub"]).collect();
        assert_eq!(hubs, ["dark", "forbidding"]);
    }

    #[tokio::test]
    async fn each_minute_queues_and_reports_the_due_objects() {
        let (ports, queue) = world(&["staging"]).await;
        let name = "GitRepository/flux-system/flux-system";
        let report = |queued: &[&str]| json!({"hubs": [{"hub": "staging", "queued": queued, "failure": null}]});
        assert_eq!(invoke(&ports).await, Ok(report(&[name])));
        let sent = queue.take();
        assert_eq!(sent.len(), 1);
        let (request, delay) = &sent[0];
        let object = ObjectRef::new(FluxKind::GitRepository, "flux-system", "flux-system");
        assert_eq!(
            (&request.object, request.hub.as_str()),
            (&object, "staging")
        );
        assert!(request.cause == Cause::Timer && delay.is_zero());
        // A moment later nothing is due.
        assert_eq!(invoke(&ports).await, Ok(report(&[])));
        assert!(queue.take().is_empty());
    }

    /// Sweeps all hubs, and returns the failure of the one at this place.
    async fn failure(ports: &Ports, place: usize) -> String {
        let answer = invoke(ports).await.unwrap();
        let failure = answer["hubs"][place]["failure"].as_str();
        failure.unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn a_dark_hub_does_not_stop_the_others() {
        let (ports, queue) = world(&["dark", "staging"]).await;
        assert_eq!(failure(&ports, 0).await, "no answer");
        let sent = queue.take();
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0].0.hub, "staging");
    }

    #[tokio::test]
    async fn a_broken_document_of_the_registry_fails_only_its_hub() {
        let (ports, queue) = world(&["staging"]).await;
        let put = ports
            .blobs
            .put("hubs/broken.json", "{".into(), Precondition::None);
        put.await.unwrap();
        let failed = failure(&ports, 0).await;
        let expected = "the registration of hub 'broken' is damaged";
        assert!(failed.starts_with(expected), "{failed}");
        assert_eq!(queue.take().len(), 1);
    }

    #[tokio::test]
    async fn a_forbidden_kind_does_not_stop_the_others() {
        let (ports, queue) = world(&["forbidding"]).await;
        let expected = "not listed: Alert: no answer";
        assert_eq!(failure(&ports, 0).await, expected);
        assert_eq!(queue.take().len(), 1);
        // The kind that was not listed is still a failure, and the queued object is not queued
        // again.
        assert_eq!(failure(&ports, 0).await, expected);
        assert!(queue.take().is_empty());
    }

    #[tokio::test]
    async fn a_hanging_hub_does_not_delay_the_others() {
        let (ports, queue) = world(&["hanging", "staging"]).await;
        let failed = failure(&ports, 0).await;
        assert!(failed.starts_with("the check for due objects did not finish within"));
        assert_eq!(queue.take().len(), 1);
    }

    #[tokio::test]
    async fn a_broken_queue_is_a_failure_and_the_next_event_tries_again() {
        let (ports, queue) = world(&["staging"]).await;
        queue.set_broken(true);
        assert_eq!(failure(&ports, 0).await, "the queue does not answer");
        queue.set_broken(false);
        let answer = invoke(&ports).await.unwrap();
        assert_eq!(answer["hubs"][0]["queued"].as_array().unwrap().len(), 1);
    }
}
