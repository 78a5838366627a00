//! `msteams`: an adaptive card for workflows, a message card for the retired connectors.

use super::Provider;
use crate::notification::Notification;
use crate::{Event, Failure};
use async_trait::async_trait;
use serde_json::{Value, json};

/// The domain of the connectors.
const CONNECTORS: &str = ".webhook.office.com";

pub(super) struct Teams;

#[async_trait]
impl Provider for Teams {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let url = notification.url()?;
        let body = match url.hostname().ends_with(CONNECTORS) {
            true => message_card(notification.event),
            false => adaptive_card(notification.event),
        };
        notification.post_json(notification.address()?, &body).await
    }
}

fn message_card(event: &Event) -> Value {
    let title = event.involved_object.title();
    let facts = event.metadata.iter();
    let facts = facts.map(|(key, value)| json!({"name": key, "value": value}));
    json!({
        "@type": "MessageCard", "@context": "http://schema.org/extensions",
        "themeColor": if event.is_error() { "FF0000" } else { "0076D7" },
        "summary": title,
        "sections": [{
            "activityTitle": event.message, "activitySubtitle": title,
            "facts": facts.collect::<Vec<_>>(),
        }],
    })
}

fn adaptive_card(event: &Event) -> Value {
    let mut message = json!({"type": "TextBlock", "wrap": true});
    if !event.message.is_empty() {
        message["text"] = event.message.as_str().into();
    }
    if event.is_error() {
        message["color"] = "attention".into();
    }
    // The summary comes first.
    let mut metadata: Vec<_> = event.metadata.iter().collect();
    metadata.sort_by_key(|(key, _)| (*key != "summary", *key));
    let facts = metadata.into_iter();
    let facts: Vec<Value> = facts
        .map(|(key, value)| json!({"title": key, "value": value}))
        .collect();
    let mut fact_set = json!({"type": "FactSet"});
    if !facts.is_empty() {
        fact_set["facts"] = facts.into();
    }
    let title = event.involved_object.title();
    json!({
        "type": "message",
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard", "version": "1.4", "msteams": {"width": "Full"},
                "body": [{"type": "Container", "items": [
                    {"type": "TextBlock", "text": title, "size": "large", "weight": "bolder", "wrap": true},
                    message,
                    fact_set,
                ]}],
            },
        }],
    })
}
