//! `nats`: the event in Flux's JSON, published to a subject.

use super::Provider;
use crate::notification::Notification;
use crate::{Failure, NatsLogin};
use async_trait::async_trait;

pub(super) struct Nats;

#[async_trait]
impl Provider for Nats {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let settings = notification.settings;
        let server = notification.required(&settings.address, "the address of the server")?;
        let subject = notification.required(&settings.channel, "spec.channel, the subject,")?;
        let is_separator = |c: char| c.is_whitespace() || c.is_control();
        if subject.contains(is_separator) {
            return Err(notification.refusal("spec.channel, the subject, has white space"));
        }
        let payload = notification.event_json()?;
        let login = login(notification);
        let transport = notification.transport;
        let sent = transport
            .nats_publish(server, subject, &login, payload.as_bytes())
            .await;
        sent.map_err(|error| settings.unreachable(&error))
    }
}

/// Returns the login: credentials come before an NKey, and this before a password.
fn login(notification: &Notification<'_>) -> NatsLogin {
    let secret = &notification.settings.secret;
    let value = |key: &str| secret.get(key).filter(|value| !value.is_empty()).cloned();
    if let Some(credentials) = value("creds") {
        return NatsLogin::Credentials(credentials);
    }
    if let Some(seed) = value("nkey") {
        return NatsLogin::Nkey(seed);
    }
    let login = &notification.login;
    match login.username.is_empty() || login.password.is_empty() {
        true => NatsLogin::Anonymous,
        false => NatsLogin::Password {
            username: login.username.clone(),
            password: login.password.clone(),
        },
    }
}
