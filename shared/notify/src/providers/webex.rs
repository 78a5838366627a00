//! `webex`: a message in Markdown for a room of Webex.

use super::Provider;
use crate::Failure;
use crate::notification::{Call, Notification};
use async_trait::async_trait;
use serde_json::json;
use std::fmt::Write;

pub(super) struct Webex;

#[async_trait]
impl Provider for Webex {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let event = notification.event;
        let mark = if event.is_error() { "💣" } else { "✅" };
        let title = event.involved_object.title();
        let mut text = format!("{mark} **{title}**\n{}\n", event.message);
        for (key, value) in &event.metadata {
            // Writing to a string cannot fail.
            let _ = writeln!(text, ">**{key}**: {value}");
        }
        let mut body = json!({"markdown": text});
        if !notification.settings.channel.is_empty() {
            body["roomId"] = notification.settings.channel.as_str().into();
        }
        let call = Call::post(notification.address()?)
            .body("application/json", notification.json(&body)?)
            .bearer(&notification.login.token);
        notification.deliver(call, "send the message").await
    }
}
