//! `rocket`: a webhook of Rocket.Chat, in Slack's format.

use super::Provider;
use crate::Failure;
use crate::notification::Notification;
use async_trait::async_trait;

pub(super) struct Rocket;

#[async_trait]
impl Provider for Rocket {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let channel = &notification.settings.channel;
        let username = &notification.login.username;
        let colors = ["#0076D7", "#FF0000"];
        let body = notification.event.slack(username, channel, colors);
        notification.post_json(notification.address()?, &body).await
    }
}
