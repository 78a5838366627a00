//! `matrix`: a message for a room, by PUT with a transaction id that is computed from the event.

use super::Provider;
use crate::Failure;
use crate::notification::{Call, Notification};
use async_trait::async_trait;
use http::Method;
use serde_json::json;
use sha1::{Digest, Sha1};
use std::fmt::Write;

pub(super) struct Matrix;

#[async_trait]
impl Provider for Matrix {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let event = notification.event;
        let address = notification.address()?;
        let transaction = hex::encode(Sha1::digest(notification.event_json()?));
        let room = &notification.settings.channel;
        let path = format!("_matrix/client/r0/rooms/{room}/send/m.room.message/{transaction}");
        let mark = if event.is_error() { "🚨" } else { "💫" };
        let title = event.involved_object.title();
        let mut text = format!("{mark} {title}\n{}\n", event.message);
        for (key, value) in &event.metadata {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "- {key}: {value}");
        }
        let body = json!({"body": text, "msgtype": "m.text"});
        let call = Call::new(Method::PUT, format!("{address}/{path}"))
            .body("application/json", notification.json(&body)?)
            .bearer(&notification.login.token);
        notification.deliver(call, "send the message").await
    }
}
