//! `grafana`: an annotation in Graphite's format.

use super::Provider;
use crate::Failure;
use crate::notification::{Call, Notification};
use async_trait::async_trait;
use serde_json::json;

pub(super) struct Grafana;

#[async_trait]
impl Provider for Grafana {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let event = notification.event;
        let object = &event.involved_object;
        // Grafana splits tags at colons.
        let plain = |text: &str| text.replace(':', "|");
        let mut tags = vec!["flux".to_owned(), event.reporting_controller.clone()];
        let metadata = event.metadata.iter();
        tags.extend(metadata.map(|(key, value)| format!("{}: {}", plain(key), plain(value))));
        tags.push(format!("kind: {}", object.kind));
        tags.push(format!("name: {}", object.name));
        tags.push(format!("namespace: {}", object.namespace));
        let body = json!({"when": notification.seconds()?, "text": object.title(), "tags": tags});
        let address = notification.address()?;
        let mut call = Call::post(address).body("application/json", notification.json(&body)?);
        let login = &notification.login;
        if !login.token.is_empty() {
            call = call.bearer(&login.token);
        } else if !login.username.is_empty() && !login.password.is_empty() {
            call = call.header("authorization", login.basic());
        }
        notification.deliver(call, "send the annotation").await
    }
}
