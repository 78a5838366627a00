//! `otel`: one span of OpenTelemetry for an event, by OTLP over HTTP. All spans of an Alert for a
//! revision are in one trace.

use super::Provider;
use crate::notification::{Call, Notification};
use crate::protobuf::Message;
use crate::{Event, Failure};
use async_trait::async_trait;
use sha2::{Digest, Sha256};

/// The version of the semantic conventions that the resource follows.
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.34.0";
/// The path of an address without one.
const TRACES: &str = "/v1/traces";

const SPAN_KIND_INTERNAL: u64 = 1;
const STATUS_OK: u64 = 1;
const STATUS_ERROR: u64 = 2;
/// The span is sampled; whether its parent is remote is known, and it is.
const FLAGS: u32 = 0x01 | 0x100 | 0x200;

pub(super) struct Otel;

#[async_trait]
impl Provider for Otel {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let event = notification.event;
        let mut url = notification.url()?;
        // HelmRepositories do not start a deployment.
        if event.involved_object.kind == "HelmRepository" {
            return Ok(());
        }
        if url.path.is_empty() {
            url.path = TRACES.to_owned();
        }
        let mut call = Call::post(url.without_login());
        if !notification.headers.is_empty() {
            call = authorized(call, notification);
        }
        for (name, value) in &notification.headers {
            call = call.header(name, value);
        }
        let call = call.body("application/x-protobuf", export(notification)?.into_bytes());
        notification.deliver(call, "send the span").await
    }
}

/// Adds the login of the Secret, which the headers of the Secret may replace.
fn authorized(call: Call, notification: &Notification<'_>) -> Call {
    let login = &notification.login;
    let token = login.token_or_password();
    if login.username.is_empty() {
        return call.bearer(token);
    }
    match token.is_empty() {
        true => call,
        false => {
            let login = crate::login::Login {
                password: token.to_owned(),
                ..login.clone()
            };
            call.header("authorization", login.basic())
        }
    }
}

/// Returns an `ExportTraceServiceRequest` with one span.
fn export(notification: &Notification<'_>) -> Result<Message, Failure> {
    let alert = &notification.settings.alert;
    let service = format!("{}/{}", alert.namespace, alert.name);
    let resource = Message::default()
        .message(1, attribute("service.instance.id", &alert.uid))
        .message(1, attribute("service.name", &service))
        .message(1, attribute("service.namespace", &alert.namespace));
    let scope = Message::default().bytes(1, "flux:notification-controller");
    let scope_spans = Message::default()
        .message(1, scope)
        .message(2, span(notification)?);
    let resource_spans = Message::default()
        .message(1, resource)
        .message(2, scope_spans)
        .bytes(3, SCHEMA);
    Ok(Message::default().message(1, resource_spans))
}

fn span(notification: &Notification<'_>) -> Result<Message, Failure> {
    let event = notification.event;
    let object = &event.involved_object;
    let start = notification.seconds()?;
    let trace = Sha256::digest(format!(
        "{}:{}",
        notification.settings.alert.uid,
        revision(event)
    ));
    // The id is that of the event, so that a span that is sent again is the same.
    let id = Sha256::digest(format!(
        "{}:{}",
        notification.settings.provider_uid,
        notification.event_json()?
    ));
    let mut span = Message::default()
        .bytes(1, &trace[..16])
        .bytes(2, &id[..8])
        .bytes(5, object.summary())
        .number(6, SPAN_KIND_INTERNAL)
        .fixed64(7, nanoseconds(start))
        .fixed64(8, nanoseconds(notification.now.max(start)))
        .message(9, attribute("object.uid", &object.uid))
        .message(9, attribute("object.kind", &object.kind))
        .message(9, attribute("object.name", &object.name))
        .message(9, attribute("object.namespace", &object.namespace));
    for (key, value) in &event.metadata {
        span = span.message(9, attribute(key, value));
    }
    let status = match event.is_error() {
        true => Message::default()
            .bytes(2, &event.message)
            .number(3, STATUS_ERROR),
        false => Message::default().number(3, STATUS_OK),
    };
    Ok(span.message(15, status).fixed32(16, FLAGS))
}

/// Returns a `KeyValue` of a string.
fn attribute(key: &str, value: &str) -> Message {
    let mut text = Message::default();
    // A member of a `oneof` is written also if it is empty.
    text = match value.is_empty() {
        true => text.message(1, Message::default()),
        false => text.bytes(1, value),
    };
    Message::default().bytes(1, key).message(2, text)
}

/// Returns the revision by which spans are in one trace.
fn revision(event: &Event) -> String {
    let value = |key: &str| event.metadata.get(key);
    match (value("app-version"), value("oci-digest"), value("revision")) {
        (Some(version), Some(digest), _) => format!("{version}@{digest}"),
        (_, _, Some(revision)) => revision.clone(),
        _ => "unknown".to_owned(),
    }
}

fn nanoseconds(seconds: i64) -> u64 {
    u64::try_from(seconds)
        .unwrap_or(0)
        .saturating_mul(1_000_000_000)
}
