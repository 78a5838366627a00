//! `googlechat`: a card for a webhook of Google Chat.

use super::Provider;
use crate::Failure;
use crate::notification::Notification;
use async_trait::async_trait;
use serde_json::{Value, json};

pub(super) struct GoogleChat;

#[async_trait]
impl Provider for GoogleChat {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let event = notification.event;
        let text = match event.is_error() {
            true => format!("<font color=\"#ff0000\">{}</font>", event.message),
            false => event.message.clone(),
        };
        let mut sections = vec![section(vec![
            json!({"textParagraph": {"text": text}, "keyValue": null}),
        ])];
        if !event.metadata.is_empty() {
            let pairs = event.metadata.iter();
            let pairs = pairs.map(|(key, value)| {
                let pair = json!({
                    "topLabel": key, "content": value, "contentMultiline": false,
                    "bottomLabel": null, "icon": null,
                });
                json!({"textParagraph": null, "keyValue": pair})
            });
            sections.push(section(pairs.collect()));
        }
        let header = json!({
            "title": event.involved_object.title(), "subtitle": event.reporting_controller,
            "imageUrl": null, "imageStyle": null,
        });
        let body = json!({"cards": [{"header": header, "sections": sections}]});
        notification.post_json(notification.address()?, &body).await
    }
}

fn section(widgets: Vec<Value>) -> Value {
    json!({"header": "", "widgets": widgets})
}
