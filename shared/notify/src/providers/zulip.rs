//! `zulip`: a message in Markdown for a topic of a channel.

use super::Provider;
use crate::Failure;
use crate::notification::{Call, Notification};
use crate::url::form;
use async_trait::async_trait;

pub(super) struct Zulip;

#[async_trait]
impl Provider for Zulip {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let mut url = notification.url()?;
        url.path = "/api/v1/messages".to_owned();
        let parts = notification.settings.channel.split_once('/');
        let parts = parts.filter(|(channel, topic)| !channel.is_empty() && !topic.is_empty());
        let (channel, topic) = parts
            .ok_or_else(|| notification.refusal("spec.channel is not in the form channel/topic"))?;
        let content = notification.event.markdown();
        let body = form(&[
            ("content", &content),
            ("to", channel),
            ("topic", topic),
            ("type", "stream"),
        ]);
        let login = &notification.login;
        let mut call =
            Call::post(url.without_login()).body("application/x-www-form-urlencoded", body);
        if !login.username.is_empty() || !login.password.is_empty() {
            call = call.header("authorization", login.basic());
        }
        notification.deliver(call, "send the message").await
    }
}
