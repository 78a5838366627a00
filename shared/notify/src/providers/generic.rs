//! `generic` and `generic-hmac`: the event in Flux's JSON.

use super::Provider;
use crate::Failure;
use crate::notification::{Call, Notification};
use async_trait::async_trait;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

pub(super) struct Generic;
pub(super) struct GenericHmac;

#[async_trait]
impl Provider for Generic {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let call = forward(notification, notification.event_json()?)?;
        notification.deliver(call, "send the event").await
    }
}

#[async_trait]
impl Provider for GenericHmac {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let token = &notification.login.token;
        let key = notification.required(token, "the HMAC key ('token' of the Secret)")?;
        let body = notification.event_json()?;
        let mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key.as_bytes());
        let mut mac = mac.map_err(|_| notification.refusal("the HMAC key cannot be used"))?;
        mac.update(body.as_bytes());
        let signature = hex::encode(mac.finalize().into_bytes());
        let call = forward(notification, body)?;
        let call = call.header("x-signature", format!("sha256={signature}"));
        notification.deliver(call, "send the event").await
    }
}

/// Returns the request with the event. The headers of the Secret replace the usual ones.
fn forward(notification: &Notification<'_>, body: String) -> Result<Call, Failure> {
    let controller = notification.event.reporting_controller.as_str();
    let mut call = Call::post(notification.address()?)
        .body("application/json", body)
        .header("gotk-component", controller);
    for (name, value) in &notification.headers {
        call = call.header(name, value);
    }
    Ok(call)
}
