//! A collector of traces: it gets spans by OTLP over HTTP as JSON, and checks that a trace has no
//! gap.

use crate::service::{Received, Service};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

/// A collector on a loopback port.
pub struct Collector {
    service: Service,
    spans: Mutex<Vec<Span>>,
    last: Mutex<Option<Received>>,
}

/// A span that the collector got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The id of the trace, in hex.
    pub trace: String,
    /// The id of the span, in hex.
    pub id: String,
    /// The id of the parent; empty for the root.
    pub parent: String,
    /// The name of the span.
    pub name: String,
    /// The name of the service that made it.
    pub service: String,
    /// The attributes, as text.
    pub attributes: BTreeMap<String, String>,
}

impl Span {
    /// Returns an attribute; empty if the span does not have it.
    pub fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

impl Default for Collector {
    fn default() -> Self {
        Self::start()
    }
}

impl Collector {
    /// Starts a collector that accepts each request.
    pub fn start() -> Self {
        let service = Service::start();
        service.answer_at("/v1/traces", "{}");
        Self {
            service,
            spans: Mutex::default(),
            last: Mutex::default(),
        }
    }

    /// Returns the value of `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub fn endpoint(&self) -> String {
        self.service.origin()
    }

    /// Returns all spans until now.
    pub fn spans(&self) -> Vec<Span> {
        let mut spans = self.spans.lock().expect("the spans");
        for request in self.service.take_requests() {
            assert_eq!(request.line, "POST /v1/traces");
            assert_eq!(request.header("content-type"), "application/json");
            let body: Value = serde_json::from_str(&request.body).expect("JSON");
            spans.extend(read(&body));
            *self.last.lock().expect("the last request") = Some(request);
        }
        spans.clone()
    }

    /// Returns a header of the last request; empty if the request does not have it.
    pub fn header(&self, name: &str) -> String {
        let last = self.last.lock().expect("the last request");
        last.as_ref()
            .map(|request| request.header(name).to_owned())
            .unwrap_or_default()
    }

    /// Returns the trace whose root is the delivery with this id.
    ///
    /// # Errors
    /// The root has not come, or a span whose parent has not come.
    pub fn trace_of_delivery(&self, delivery: &str) -> Result<Vec<Span>, String> {
        let spans = self.spans();
        let is_root =
            |span: &&Span| span.name == "delivery" && span.attribute("delivery") == delivery;
        let root = spans.iter().find(is_root);
        let trace = &root.ok_or(format!("no delivery {delivery}"))?.trace;
        let of_trace = spans.iter().filter(|span| span.trace == *trace);
        let of_trace: Vec<Span> = of_trace.cloned().collect();
        let known: BTreeSet<&str> = of_trace.iter().map(|span| &*span.id).collect();
        assert_eq!(known.len(), of_trace.len(), "spans with the same id");
        for span in &of_trace {
            let is_root = span.name == "delivery";
            assert_eq!(span.parent.is_empty(), is_root, "two roots: {span:?}");
            if !is_root && !known.contains(&*span.parent) {
                return Err(format!("no parent of {span:?}"));
            }
        }
        Ok(of_trace)
    }

    /// Answers each request only after this time.
    pub fn delay(&self, delay: Duration) {
        self.service.answer(200, delay, "{}");
    }
}

fn read(body: &Value) -> Vec<Span> {
    let mut spans = Vec::new();
    for resource in list(&body["resourceSpans"]) {
        let service = attributes(&resource["resource"]["attributes"]);
        let service = service.get("service.name").cloned().unwrap_or_default();
        for scope in list(&resource["scopeSpans"]) {
            for span in list(&scope["spans"]) {
                let text = |field: &str| span[field].as_str().unwrap_or_default().to_owned();
                spans.push(Span {
                    trace: text("traceId"),
                    id: text("spanId"),
                    parent: text("parentSpanId"),
                    name: text("name"),
                    service: service.clone(),
                    attributes: attributes(&span["attributes"]),
                });
            }
        }
    }
    spans
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn attributes(values: &Value) -> BTreeMap<String, String> {
    let read = |one: &Value| {
        let value = one["value"]
            .as_object()
            .and_then(|value| value.values().next());
        let value = match value {
            Some(Value::String(text)) => text.clone(),
            other => other.cloned().unwrap_or_default().to_string(),
        };
        (one["key"].as_str().unwrap_or_default().to_owned(), value)
    };
    list(values).iter().map(read).collect()
}
