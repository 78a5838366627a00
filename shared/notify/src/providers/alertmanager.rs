//! `alertmanager`: one firing alert of Prometheus' Alertmanager.

use super::Provider;
use crate::Failure;
use crate::notification::{Call, Notification};
use async_trait::async_trait;
use serde_json::{Map, Value, json};

pub(super) struct Alertmanager;

#[async_trait]
impl Provider for Alertmanager {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let event = notification.event;
        let object = &event.involved_object;
        let mut annotations = json!({"message": event.message});
        if let Some(summary) = event.metadata.get("summary") {
            annotations["summary"] = summary.as_str().into();
        }
        let metadata = event.metadata.iter().filter(|(key, _)| *key != "summary");
        let metadata = metadata.map(|(key, value)| (key.clone(), Value::from(value.as_str())));
        let mut labels: Map<String, Value> = metadata.collect();
        let name = format!("Flux{}{}", object.kind, title_case(&event.reason));
        for (label, value) in [
            ("alertname", name.as_str()),
            ("severity", event.severity.name()),
            ("reason", &event.reason),
            ("kind", &object.kind),
            ("name", &object.name),
            ("namespace", &object.namespace),
            ("reportingcontroller", &event.reporting_controller),
        ] {
            labels.insert(label.to_owned(), value.into());
        }
        let alerts = json!([{
            "status": "firing", "labels": labels, "annotations": annotations,
            "startsAt": event.timestamp, "endsAt": "0001-01-01T00:00:00Z",
        }]);
        let address = notification.address()?;
        let mut call = Call::post(address).body("application/json", notification.json(&alerts)?);
        let login = &notification.login;
        if !login.username.is_empty() && !login.password.is_empty() {
            call = call.header("authorization", login.basic());
        } else if !login.token.is_empty() {
            call = call.bearer(&login.token);
        }
        notification.deliver(call, "send the alert").await
    }
}

/// Returns each word with its first letter as a capital and the others small.
fn title_case(text: &str) -> String {
    let mut title = String::with_capacity(text.len());
    let mut is_in_word = false;
    for c in text.chars() {
        match (c.is_alphanumeric() || c == '_', is_in_word) {
            (true, true) => title.extend(c.to_lowercase()),
            (true, false) => title.extend(c.to_uppercase()),
            (false, _) => title.push(c),
        }
        is_in_word = c.is_alphanumeric() || c == '_';
    }
    title
}
