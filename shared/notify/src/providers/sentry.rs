//! `sentry`: an error event, or a transaction for an event without an error, by the DSN.

use super::Provider;
use crate::Failure;
use crate::notification::Notification;
use async_trait::async_trait;

pub(super) struct Sentry;

#[async_trait]
impl Provider for Sentry {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        Err(notification.refusal("not yet"))
    }
}
