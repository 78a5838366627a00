//! The export of spans by OTLP over HTTP. Spans wait in a buffer; nothing is sent before
//! [`flush`], so that a function can end its export before Lambda freezes it.

use crate::tenant_http::{self, Clients};
use async_trait::async_trait;
use bytes::Bytes;
use driftless_kernel::ports::{Connection, SecretStore};
use opentelemetry::{KeyValue, trace::TracerProvider as _};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    SdkTracerProvider, SpanData, SpanExporter as _, SpanProcessor, Tracer,
};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The most spans that wait. Of more, the oldest are dropped, and the log has their number.
const CAPACITY: usize = 8192;
/// The spans of one request.
const BATCH: usize = 512;
/// The number of waiting spans from which the background export begins before its interval.
const FULL: usize = CAPACITY / 2;
/// The time for which nothing is sent after a failure: a collector that is down delays one
/// invocation of a function, and not each.
const PAUSE: Duration = Duration::from_secs(30);
/// The interval of the background export.
const INTERVAL: Duration = Duration::from_secs(2);
/// The time limit of a request in the background.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest answer of a collector, in bytes.
const ANSWER_LIMIT: u64 = 64 << 10;

/// The exporter of this process, if it has one.
static EXPORTER: OnceLock<Exporter> = OnceLock::new();

/// The configuration of the export, from the standard variables of OpenTelemetry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    protocol: Protocol,
    /// The name in the secret manager of the headers, as in `OTEL_EXPORTER_OTLP_HEADERS`.
    headers_secret: Option<String>,
    /// The name of the service, unless the variables have one.
    service: Option<String>,
}

/// An error in the variables of OpenTelemetry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The protocol is not supported.
    #[error(
        "OTEL_EXPORTER_OTLP_PROTOCOL is '{0}', which is not supported: give http/json or http/protobuf, \
         and the endpoint of the collector for it (mostly port 4318)"
    )]
    Protocol(String),
    /// The exporter is not supported.
    #[error("OTEL_TRACES_EXPORTER is '{0}', which is not supported: give otlp or none")]
    Exporter(String),
    /// The endpoint cannot be used.
    #[error("the endpoint of OpenTelemetry is not valid: {0}")]
    Endpoint(String),
}

impl Config {
    /// Reads the configuration; `None` if no endpoint is set, or the export is switched off.
    /// `service` names the process: `serve`, or a function.
    ///
    /// # Errors
    /// A variable has a value that is not supported.
    pub fn from_env(service: &str) -> Result<Option<Self>, ConfigError> {
        Self::of(service, |name| std::env::var(name).ok())
    }

    pub(super) fn of(
        service: &str,
        get: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, ConfigError> {
        let get = |name: &str| get(name).filter(|value| !value.trim().is_empty());
        let of_traces = |name: &str| {
            let own = format!("OTEL_EXPORTER_OTLP_TRACES_{name}");
            get(&own).or_else(|| get(&format!("OTEL_EXPORTER_OTLP_{name}")))
        };
        let is_disabled =
            get("OTEL_SDK_DISABLED").is_some_and(|it| it.eq_ignore_ascii_case("true"));
        let endpoint = of_traces("ENDPOINT").filter(|_| !is_disabled);
        let Some(endpoint) = endpoint else {
            return Ok(None);
        };
        match get("OTEL_TRACES_EXPORTER").as_deref() {
            None | Some("otlp") => {}
            Some("none") => return Ok(None),
            Some(other) => return Err(ConfigError::Exporter(other.to_owned())),
        }
        let protocol = match of_traces("PROTOCOL").as_deref() {
            None | Some("http/json") => Protocol::HttpJson,
            Some("http/protobuf") => Protocol::HttpBinary,
            Some(other) => return Err(ConfigError::Protocol(other.to_owned())),
        };
        let is_url = reqwest::Url::parse(&endpoint)
            .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        if !is_url {
            let expected = "expected a URL such as http://localhost:4318".to_owned();
            return Err(ConfigError::Endpoint(expected));
        }
        let named = get("OTEL_RESOURCE_ATTRIBUTES");
        let is_named = get("OTEL_SERVICE_NAME").is_some()
            || named.is_some_and(|all| all.contains("service.name="));
        Ok(Some(Self {
            protocol,
            headers_secret: get("DRIFTLESS_OTLP_HEADERS_SECRET"),
            service: (!is_named).then(|| format!("driftless-{service}")),
        }))
    }
}

/// Starts the export of this process; a second call has no effect. Returns the tracer of the spans.
pub fn start(config: Config) -> Tracer {
    let buffer = Arc::<Buffer>::default();
    let resource = resource(config.service.as_deref());
    let provider = SdkTracerProvider::builder()
        .with_resource(resource.clone())
        .with_span_processor(Processor(buffer.clone()))
        .build();
    let exporter = Exporter {
        tracer: provider.tracer("driftless"),
        _provider: provider,
        config,
        resource,
        buffer,
        secrets: OnceLock::new(),
        client: tokio::sync::Mutex::default(),
    };
    EXPORTER.get_or_init(|| exporter).tracer.clone()
}

/// Sets the secret manager that has the headers.
pub(crate) fn read_headers_from(secrets: &Arc<dyn SecretStore>) {
    if let Some(exporter) = EXPORTER.get() {
        exporter.secrets.get_or_init(|| secrets.clone());
    }
}

fn resource(service: Option<&str>) -> Resource {
    let mut resource = Resource::builder().with_attributes([
        KeyValue::new("service.namespace", "driftless"),
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
    ]);
    if let Some(service) = service {
        resource = resource.with_service_name(service.to_owned());
    }
    for (attribute, variable) in [
        ("faas.name", "AWS_LAMBDA_FUNCTION_NAME"),
        ("cloud.region", "AWS_REGION"),
    ] {
        if let Ok(value) = std::env::var(variable) {
            resource = resource.with_attribute(KeyValue::new(attribute, value));
        }
    }
    resource.build()
}

/// The export of a process.
struct Exporter {
    tracer: Tracer,
    /// The provider, which ends the export when it is dropped.
    _provider: SdkTracerProvider,
    config: Config,
    resource: Resource,
    buffer: Arc<Buffer>,
    secrets: OnceLock<Arc<dyn SecretStore>>,
    client: tokio::sync::Mutex<Client>,
}

/// The client of the collector.
#[derive(Default)]
struct Client {
    /// The exporter of the library, made by the first flush.
    exporter: Option<SpanExporter>,
    /// The time before which nothing is sent, after a failure.
    paused: Option<Instant>,
}

/// The result of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exported {
    /// All waiting spans were sent, or there were none.
    All,
    /// Spans wait for the next flush, or were dropped: the log has the reason.
    NotAll,
}

/// The spans that wait for the export.
#[derive(Debug, Default)]
struct Buffer {
    state: Mutex<Waiting>,
    is_full: tokio::sync::Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    spans: VecDeque<SpanData>,
    dropped: u64,
}

impl Buffer {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, span: SpanData) {
        let mut waiting = self.lock();
        if waiting.spans.len() >= CAPACITY {
            waiting.spans.pop_front();
            waiting.dropped += 1;
        }
        waiting.spans.push_back(span);
        let is_full = waiting.spans.len() >= FULL;
        drop(waiting);
        if is_full {
            self.is_full.notify_one();
        }
    }

    /// Takes the spans of one request, and the number of those that were dropped.
    fn take(&self) -> (Vec<SpanData>, u64) {
        let mut waiting = self.lock();
        let count = waiting.spans.len().min(BATCH);
        let batch = waiting.spans.drain(..count).collect();
        (batch, std::mem::take(&mut waiting.dropped))
    }

    fn is_empty(&self) -> bool {
        self.lock().spans.is_empty()
    }
}

/// The processor that puts each span into the buffer at its end.
#[derive(Debug)]
struct Processor(Arc<Buffer>);

impl SpanProcessor for Processor {
    fn on_start(&self, _: &mut opentelemetry_sdk::trace::Span, _: &opentelemetry::Context) {}

    fn on_end(&self, span: SpanData) {
        if span.span_context.is_sampled() {
            self.0.add(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Sends the waiting spans within a time limit. Without an exporter it does nothing. A collector
/// that fails is not an error: the log has a warning, and nothing is sent for half a minute.
pub async fn flush(limit: Duration) -> Exported {
    match EXPORTER.get() {
        Some(exporter) => exporter.flush(limit).await,
        None => Exported::All,
    }
}

/// Sends the waiting spans every few seconds, until the task is aborted.
pub async fn flush_in_background() {
    let Some(exporter) = EXPORTER.get() else {
        return;
    };
    loop {
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = exporter.buffer.is_full.notified() => {}
        }
        if exporter.flush(PATIENCE).await == Exported::NotAll {
            tokio::time::sleep(INTERVAL).await;
        }
    }
}

impl Exporter {
    async fn flush(&self, limit: Duration) -> Exported {
        if self.buffer.is_empty() {
            return Exported::All;
        }
        let end = Instant::now() + limit;
        let sent = tokio::time::timeout_at(end, async {
            let mut client = self.client.lock().await;
            if client.paused.is_some_and(|until| Instant::now() < until) {
                return Exported::NotAll;
            }
            match self.send_all(&mut client, end).await {
                Ok(()) => Exported::All,
                Err(reason) => {
                    client.paused = Some(Instant::now() + PAUSE);
                    let seconds = PAUSE.as_secs();
                    tracing::warn!(
                        "traces are not exported; the next attempt is in {seconds} s: {reason}"
                    );
                    Exported::NotAll
                }
            }
        });
        sent.await.unwrap_or(Exported::NotAll)
    }

    /// Sends batches until none waits; the error has no secret.
    async fn send_all(&self, client: &mut Client, end: Instant) -> Result<(), String> {
        // The outer limit would end the flush without the pause.
        let left = || {
            let left = end.saturating_duration_since(Instant::now());
            left.saturating_sub(Duration::from_millis(20))
        };
        if client.exporter.is_none() {
            let exporter = tokio::time::timeout(left(), self.exporter()).await;
            let exporter = exporter.map_err(|_| "the headers are not read in time".to_owned());
            client.exporter = Some(exporter??);
        }
        let Some(exporter) = &client.exporter else {
            return Ok(());
        };
        loop {
            let (batch, dropped) = self.buffer.take();
            if dropped > 0 {
                tracing::warn!(dropped, "spans dropped: too many waited for the export");
            }
            if batch.is_empty() {
                return Ok(());
            }
            let spans = batch.len();
            let sent = tokio::time::timeout(left(), exporter.export(batch)).await;
            let sent = sent.map_err(|_| "no answer in time".to_owned());
            let sent = sent.and_then(|sent| sent.map_err(|error| error.to_string()));
            sent.map_err(|reason| format!("{reason} ({spans} spans are lost)"))?;
        }
    }

    /// Makes the exporter of the library, which reads the endpoint and the headers.
    async fn exporter(&self) -> Result<SpanExporter, String> {
        let builder = SpanExporter::builder()
            .with_http()
            .with_protocol(self.config.protocol)
            .with_http_client(Collector::default())
            .with_headers(self.headers().await?);
        let mut exporter = builder.build().map_err(|error| error.to_string())?;
        exporter.set_resource(&self.resource);
        Ok(exporter)
    }

    /// Reads the headers of the secret manager: `NAME=VALUE`, separated by commas.
    async fn headers(&self) -> Result<HashMap<String, String>, String> {
        let Some((name, secrets)) = self.config.headers_secret.as_ref().zip(self.secrets.get())
        else {
            return Ok(HashMap::new());
        };
        let secret = secrets.secret(name).await;
        let secret = secret.map_err(|error| error.to_string())?;
        let secret = secret.ok_or_else(|| {
            format!("the secret manager has no '{name}', expected the headers of the collector")
        })?;
        let form = || format!("the secret '{name}' is not a list of NAME=VALUE");
        let text = secret.expose_str().ok_or_else(form)?;
        let entries = text.split(',').map(str::trim).filter(|it| !it.is_empty());
        let header = |entry: &str| {
            let (name, value) = entry.split_once('=')?;
            Some((name.trim().to_owned(), value.trim().to_owned()))
        };
        entries
            .map(|entry| header(entry).ok_or_else(form))
            .collect()
    }
}

/// The client of a collector, whose address the operator sets.
#[derive(Default)]
struct Collector(Clients);

impl std::fmt::Debug for Collector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Collector")
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(
        &self,
        request: http::Request<Bytes>,
    ) -> Result<http::Response<Bytes>, HttpError> {
        let request = reqwest::Request::try_from(request)?;
        let connection = Connection {
            timeout: PATIENCE,
            allow_local: true,
            ..Connection::default()
        };
        let client = self.0.client(request.url(), &connection)?;
        let answer = client.execute(request).await?;
        let mut response = http::Response::builder().status(answer.status());
        if let Some(after) = answer.headers().get(http::header::RETRY_AFTER) {
            response = response.header(http::header::RETRY_AFTER, after);
        }
        let body = tenant_http::body(answer, ANSWER_LIMIT, "the collector").await?;
        Ok(response.body(body)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_kernel::ports::Secret;
    use driftless_memory::MemorySecrets;
    use opentelemetry::trace::{Span as _, Tracer as _};
    use std::collections::BTreeMap;

    fn exporter(headers: Option<&str>) -> Exporter {
        let buffer = Arc::<Buffer>::default();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(Processor(buffer.clone()))
            .build();
        let stored = headers.map(|text| ("otlp/headers".to_owned(), Secret::new(text.to_owned())));
        let secrets: Arc<dyn SecretStore> = Arc::new(MemorySecrets(BTreeMap::from_iter(stored)));
        Exporter {
            tracer: provider.tracer("test"),
            _provider: provider,
            config: Config {
                protocol: Protocol::HttpJson,
                headers_secret: Some("otlp/headers".to_owned()),
                service: None,
            },
            resource: resource(None),
            buffer,
            secrets: OnceLock::from(secrets),
            client: tokio::sync::Mutex::default(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_pauses_the_export_and_the_buffer_is_bounded() {
        let exporter = exporter(None);
        assert_eq!(exporter.flush(PATIENCE).await, Exported::All);
        for _ in 0..CAPACITY + 3 {
            exporter.tracer.start("a").end();
        }
        let (waiting, start) = (|| exporter.buffer.lock().spans.len(), Instant::now());
        assert_eq!((waiting(), exporter.buffer.lock().dropped), (CAPACITY, 3));
        // The secret of the headers is missing: nothing is sent, and it is not asked again.
        assert_eq!(exporter.flush(PATIENCE).await, Exported::NotAll);
        let paused = exporter.client.lock().await.paused;
        assert_eq!(paused, Some(start + PAUSE));
        assert_eq!(exporter.flush(PATIENCE).await, Exported::NotAll);
        assert_eq!((waiting(), start.elapsed()), (CAPACITY, Duration::ZERO));
    }

    #[tokio::test]
    async fn headers_are_read_from_the_secret_manager() {
        let with_headers = exporter(Some("x-tenant=acme, authorization = Basic YQ==,"));
        let headers = with_headers.headers();
        let headers = headers.await.unwrap();
        assert_eq!(headers["x-tenant"], "acme");
        assert_eq!(headers["authorization"], "Basic YQ==");
        for (stored, words) in [
            (None, "the secret manager has no 'otlp/headers'"),
            (Some("very secret"), "not a list of NAME=VALUE"),
        ] {
            let error = exporter(stored).headers().await.unwrap_err();
            assert!(
                error.contains(words) && !error.contains("very secret"),
                "{error}"
            );
        }
    }
}
