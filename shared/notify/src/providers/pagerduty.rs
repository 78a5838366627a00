//! `pagerduty`: an incident that errors trigger and other events resolve, and a change event.

use super::Provider;
use crate::notification::Notification;
use crate::{Failure, Severity};
use async_trait::async_trait;
use serde_json::json;

pub(super) struct PagerDuty;

#[async_trait]
impl Provider for PagerDuty {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let origin = notification.url()?.origin();
        let event = notification.event;
        if event.is_progressing() {
            return Ok(());
        }
        let key = &notification.settings.channel;
        let object = &event.involved_object;
        let (name, description) = event.name_and_description();
        let summary = format!("{description}: {name}");
        let source = format!("Flux {}", event.reporting_controller);
        let metadata = (!event.metadata.is_empty()).then_some(&event.metadata);
        let details = json!({"message": event.message, "metadata": metadata});
        let mut incident = json!({
            "routing_key": key, "event_action": "resolve", "dedup_key": object.uid,
        });
        if event.is_error() {
            incident["event_action"] = "trigger".into();
            incident["payload"] = json!({
                "summary": summary, "source": source, "severity": "error",
                "timestamp": event.timestamp, "component": object.name, "group": object.kind,
                "custom_details": details,
            });
        }
        let url = format!("{origin}/v2/enqueue");
        notification.post_json(&url, &incident).await?;
        if event.severity != Severity::Info {
            return Ok(());
        }
        let change = json!({
            "routing_key": key,
            "payload": {
                "summary": summary, "source": source, "timestamp": event.timestamp,
                "custom_details": details,
            },
        });
        let url = format!("{origin}/v2/change/enqueue");
        notification.post_json(&url, &change).await
    }
}
