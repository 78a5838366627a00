//! `ntfy`: a message for a topic of an ntfy server, published as JSON.

use super::Provider;
use crate::Failure;
use crate::notification::{Call, Notification};
use async_trait::async_trait;
use serde_json::json;

/// ntfy's priority "high", and "default".
const PRIORITIES: [u8; 2] = [4, 3];

pub(super) struct Ntfy;

#[async_trait]
impl Provider for Ntfy {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let event = notification.event;
        let mut url = notification.url()?;
        // The server reads JSON at its root alone.
        url.path = "/".to_owned();
        let topic = notification.required(&notification.settings.channel, "spec.channel")?;
        let [high, default] = PRIORITIES;
        let (priority, tag) = match event.is_error() {
            true => (high, "rotating_light"),
            false => (default, "information_source"),
        };
        let body = json!({
            "topic": topic, "title": event.involved_object.title(), "message": event.message,
            "priority": priority, "tags": [tag],
        });
        let mut call = Call::post(url.without_login());
        call = call.body("application/json", notification.json(&body)?);
        let login = &notification.login;
        if !login.token.is_empty() {
            call = call.bearer(&login.token);
        } else if !login.username.is_empty() && !login.password.is_empty() {
            call = call.header("authorization", login.basic());
        }
        notification.deliver(call, "send the message").await
    }
}
