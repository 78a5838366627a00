//! `datadog`: an event of Datadog.

use super::Provider;
use crate::Failure;
use crate::notification::{Call, Notification};
use async_trait::async_trait;
use serde_json::json;

pub(super) struct Datadog;

#[async_trait]
impl Provider for Datadog {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let event = notification.event;
        let object = &event.involved_object;
        let key = &notification.login.token;
        let key = notification.required(key, "the API key ('token' of the Secret)")?;
        let (kind, name, namespace) = (&object.kind, &object.name, &object.namespace);
        let mut tags = vec![
            format!("flux_reporting_controller:{}", event.reporting_controller),
            format!("flux_reason:{}", event.reason),
            format!("kube_kind:{kind}"),
            format!("kube_name:{name}"),
            format!("kube_namespace:{namespace}"),
        ];
        let metadata = event.metadata.iter();
        tags.extend(metadata.map(|(key, value)| format!("{key}:{value}")));
        let tags: Vec<String> = tags.iter().map(|tag| tag.to_lowercase()).collect();
        let body = json!({
            "title": format!("Events from the {kind} {name}/{namespace}"), "text": event.message,
            "tags": tags, "source_type_name": "fluxcd", "date_happened": notification.seconds()?,
            "alert_type": if event.is_error() { "error" } else { "info" },
        });
        let call = Call::post(format!("{}/api/v1/events", notification.url()?.origin()))
            .body("application/json", notification.json(&body)?)
            .header("accept", "application/json")
            .header("dd-api-key", key);
        notification.deliver(call, "send the event").await
    }
}
