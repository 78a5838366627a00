//! `opsgenie`: an alert of Opsgenie.

use super::Provider;
use crate::Failure;
use crate::notification::{Call, Notification};
use async_trait::async_trait;
use serde_json::json;

pub(super) struct Opsgenie;

#[async_trait]
impl Provider for Opsgenie {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let event = notification.event;
        let address = notification.address()?;
        let key = &notification.login.token;
        let key = notification.required(key, "the API key ('token' of the Secret)")?;
        let mut details = event.metadata.clone();
        details.insert("severity".to_owned(), event.severity.name().to_owned());
        let object = &event.involved_object;
        let body = json!({
            "message": format!("{}/{}", object.kind, object.name), "description": event.message,
            "details": details,
        });
        let call = Call::post(address)
            .body("application/json", notification.json(&body)?)
            .header("authorization", format!("GenieKey {key}"));
        notification.deliver(call, "send the alert").await
    }
}
