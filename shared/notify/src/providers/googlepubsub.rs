//! `googlepubsub`: the event in Flux's JSON, published to a topic by the REST API.

use super::Provider;
use crate::Failure;
use crate::notification::{Call, Notification};
use crate::tokens::google_account;
use crate::url::segment;
use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

pub(super) struct GooglePubSub;

#[async_trait]
impl Provider for GooglePubSub {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let settings = notification.settings;
        let project = notification.required(&settings.address, "the address, a project id,")?;
        let topic = notification.required(&settings.channel, "spec.channel, a topic id,")?;
        let token = match &settings.identity {
            Some(token) => token.clone(),
            None if notification.login.token.is_empty() => {
                let reason = "the Secret has no 'token', and the workload has no identity";
                return Err(notification.refusal(reason));
            }
            None => google_account(notification).await?,
        };
        let mut message = json!({"data": STANDARD.encode(notification.event_json()?)});
        if !notification.headers.is_empty() {
            message["attributes"] = json!(notification.headers);
        }
        let body = json!({"messages": [message]});
        let (project, topic) = (segment(project), segment(topic));
        let path = format!("projects/{project}/topics/{topic}:publish");
        let call = Call::post(format!("https://pubsub.googleapis.com/v1/{path}"))
            .body("application/json", notification.json(&body)?)
            .bearer(&token);
        notification.deliver(call, "publish the event").await
    }
}
