//! `sentry`: an error event, or a transaction with one span for an event without an error, in an
//! envelope that is sent to the host of the DSN.

use super::Provider;
use crate::Failure;
use crate::notification::{Call, Notification};
use crate::url::Url;
use async_trait::async_trait;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// The name and version of this client.
const CLIENT: &str = concat!("driftless/", env!("CARGO_PKG_VERSION"));

pub(super) struct Sentry;

/// The parts of a Data Source Name: `https://PUBLIC:SECRET@HOST/PATH/PROJECT`.
struct Dsn {
    origin: String,
    path: String,
    project: String,
    public: String,
    secret: Option<String>,
}

#[async_trait]
impl Provider for Sentry {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let address = notification.required(&notification.settings.address, "the DSN")?;
        let dsn = parse(address).ok_or_else(|| {
            notification.refusal("the address is not a DSN in the form https://KEY@HOST/PROJECT")
        })?;
        // The ids are those of the event, so that an event that is sent again is the same.
        let seed = format!(
            "{}:{}",
            notification.settings.provider_uid,
            notification.event_json()?
        );
        let ids = hex::encode(Sha256::digest(seed));
        let (id, ids) = ids.split_at(32);
        let (span, trace) = (&ids[..16], Sha256::digest(id));
        let item = match notification.event.is_error() {
            true => error(notification, id),
            false => transaction(notification, id, span, &hex::encode(&trace[..16])),
        };
        let kind = item["type"].as_str().unwrap_or("event");
        let sent_at = jiff::Timestamp::from_second(notification.now).unwrap_or_default();
        let header = json!({"event_id": id, "sent_at": sent_at.to_string(), "dsn": address});
        let item_json = notification.json(&item)?;
        let item_header = json!({"type": kind, "length": item_json.len()});
        let envelope = [
            notification.json(&header)?,
            notification.json(&item_header)?,
            item_json,
        ];
        let mut login = format!("Sentry sentry_version=7, sentry_client={CLIENT}");
        login += &format!(", sentry_key={}", dsn.public);
        if let Some(secret) = &dsn.secret {
            login += &format!(", sentry_secret={secret}");
        }
        let url = format!("{}{}/api/{}/envelope/", dsn.origin, dsn.path, dsn.project);
        let call = Call::post(url)
            .body("application/x-sentry-envelope", envelope.join("\n") + "\n")
            .header("x-sentry-auth", login);
        notification.deliver(call, "send the event").await
    }
}

fn parse(dsn: &str) -> Option<Dsn> {
    let url = Url::parse(dsn)?;
    let login = url.userinfo.as_ref()?;
    let (public, secret) = match login.split_once(':') {
        Some((public, secret)) => (public, Some(secret.to_owned())),
        None => (login.as_str(), None),
    };
    let (path, project) = url.path.rsplit_once('/')?;
    let is_http = ["http", "https"].contains(&url.scheme.as_str());
    let is_complete = is_http && !public.is_empty() && !project.is_empty();
    is_complete.then(|| Dsn {
        origin: url.origin(),
        path: path.to_owned(),
        project: project.to_owned(),
        public: public.to_owned(),
        secret,
    })
}

/// Returns the fields that errors and transactions have.
fn item(notification: &Notification<'_>, id: &str) -> Value {
    let event = notification.event;
    let mut item = json!({
        "event_id": id, "platform": "other", "timestamp": event.timestamp,
        "transaction": event.involved_object.summary(),
    });
    if !event.message.is_empty() {
        item["message"] = event.message.as_str().into();
    }
    if !notification.settings.channel.is_empty() {
        item["environment"] = notification.settings.channel.as_str().into();
    }
    item
}

fn error(notification: &Notification<'_>, id: &str) -> Value {
    let event = notification.event;
    let mut error = item(notification, id);
    error["level"] = "error".into();
    error["server_name"] = event.reporting_controller.as_str().into();
    error["contexts"] = json!({"metadata": event.metadata});
    error
}

fn transaction(notification: &Notification<'_>, id: &str, span: &str, trace: &str) -> Value {
    let event = notification.event;
    let object = &event.involved_object;
    let mut tags: BTreeMap<&str, &str> = BTreeMap::from([
        ("flux_involved_object_kind", object.kind.as_str()),
        ("flux_involved_object_namespace", &object.namespace),
        ("flux_involved_object_name", &object.name),
        ("flux_reporting_controller", &event.reporting_controller),
        ("flux_reporting_instance", &event.reporting_instance),
        ("flux_reason", &event.reason),
    ]);
    let metadata = event.metadata.iter();
    tags.extend(metadata.map(|(key, value)| (key.as_str(), value.as_str())));
    let mut transaction = item(notification, id);
    transaction["type"] = "transaction".into();
    transaction["level"] = "info".into();
    transaction["start_timestamp"] = event.timestamp.as_str().into();
    transaction["contexts"] = json!({"trace": {"op": "event", "span_id": span, "trace_id": trace}});
    transaction["spans"] = json!([{
        "trace_id": trace, "span_id": span, "op": "event", "start_timestamp": event.timestamp,
        "timestamp": event.timestamp, "origin": "manual", "tags": tags,
    }]);
    transaction["tags"] = json!(tags);
    transaction
}
