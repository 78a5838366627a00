//! `lark`: a card for a webhook of Lark.

use super::Provider;
use crate::Failure;
use crate::notification::Notification;
use async_trait::async_trait;
use serde_json::json;
use std::fmt::Write;

pub(super) struct Lark;

#[async_trait]
impl Provider for Lark {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let event = notification.event;
        let (mark, color) = match event.is_error() {
            true => ("🚨", "red"),
            false => ("💫", "turquoise"),
        };
        let mut text = format!("**{}**\n\n", event.message);
        for (key, value) in &event.metadata {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{key}: {value}");
        }
        let title = format!("{mark} {}", event.involved_object.title());
        let body = json!({
            "msg_type": "interactive",
            "card": {
                "config": {"wide_screen_mode": true},
                "header": {"title": {"tag": "plain_text", "content": title}, "template": color},
                "elements": [{"tag": "div", "text": {"tag": "lark_md", "content": text}}],
            },
        });
        notification.post_json(notification.address()?, &body).await
    }
}
