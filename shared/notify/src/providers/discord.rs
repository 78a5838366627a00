//! `discord`: a webhook that accepts messages in Slack's format.

use super::Provider;
use crate::Failure;
use crate::notification::Notification;
use async_trait::async_trait;

pub(super) struct Discord;

#[async_trait]
impl Provider for Discord {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let event = notification.event;
        let username = event.author(&notification.login.username);
        let body = event.slack(username, "", ["good", "danger"]);
        let address = notification.address()?;
        if address.ends_with("/slack") {
            return notification.post_json(address, &body).await;
        }
        let mut url = notification.url()?;
        url.path = driftless_go::path::clean(&format!("{}/slack", url.path));
        notification.post_json(&url.without_login(), &body).await
    }
}
