//! `slack`: an incoming webhook, or the method `chat.postMessage` of Slack's API.

use super::Provider;
use crate::Failure;
use crate::notification::{Call, Notification};
use async_trait::async_trait;
use serde_json::Value;

/// The method that answers 200 also to messages that it refuses.
const POST_MESSAGE: &str = "https://slack.com/api/chat.postMessage";

pub(super) struct Slack;

#[async_trait]
impl Provider for Slack {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let event = notification.event;
        let username = event.author(&notification.login.username);
        let channel = &notification.settings.channel;
        let mut body = event.slack(username, channel, ["good", "danger"]);
        let first_line = event.message.split('\n').next().unwrap_or_default();
        let title = event.involved_object.title();
        body["attachments"][0]["fallback"] = format!("{title}: {first_line}").into();
        let address = notification.address()?;
        let call = Call::post(address).body("application/json", notification.json(&body)?);
        let call = match notification.login.token.as_str() {
            "" => call,
            token => call.bearer(token),
        };
        if address != POST_MESSAGE {
            return notification.deliver(call, "send the message").await;
        }
        let response = notification.exchange(call).await?;
        let answer: Option<Value> = serde_json::from_slice(response.body()).ok();
        match answer {
            Some(answer) if answer["ok"] == true => Ok(()),
            Some(answer) if response.status().is_success() => {
                let code = answer["error"].as_str().unwrap_or("no error code");
                let code = notification.settings.excerpt(code.as_bytes());
                Err(notification.refusal(format!("Slack refused the message: {code}")))
            }
            _ => notification
                .accept(response, "send the message")
                .and_then(|_| Err(notification.refusal("the answer of Slack is not JSON"))),
        }
    }
}
