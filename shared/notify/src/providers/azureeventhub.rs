//! `azureeventhub`: the event in Flux's JSON, sent to an Event Hub by the REST API.

use super::Provider;
use crate::Failure;
use crate::notification::{Call, Notification};
use crate::url::{form_value, segment};
use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The domain of namespaces without one.
const DOMAIN: &str = ".servicebus.windows.net";
/// The time for which a signature is valid, in seconds.
const VALIDITY: i64 = 300;

pub(super) struct AzureEventHub;

/// An Event Hub and the login at it.
struct Hub {
    host: String,
    name: String,
    authorization: String,
}

#[async_trait]
impl Provider for AzureEventHub {
    async fn send(&self, notification: &Notification<'_>) -> Result<(), Failure> {
        let settings = notification.settings;
        let address = notification.required(&settings.address, "the address of the Event Hub")?;
        let hub = match address.contains("SharedAccessKey") {
            true => by_connection_string(notification, address)?,
            false => by_token(notification, address)?,
        };
        let url = format!("https://{}/{}/messages", hub.host, segment(&hub.name));
        let call = Call::post(url)
            .body("application/json", notification.event_json()?)
            .header("authorization", hub.authorization);
        notification.deliver(call, "send the event").await
    }
}

/// Returns the hub of a name, in the namespace of the channel, with the token of an identity.
fn by_token(notification: &Notification<'_>, name: &str) -> Result<Hub, Failure> {
    let settings = notification.settings;
    let namespace = notification.required(&settings.channel, "spec.channel, the namespace,")?;
    let token = match notification.login.token.as_str() {
        "" => settings.identity.as_deref().unwrap_or_default(),
        token => token,
    };
    let token = notification.required(
        token,
        "the token ('token' of the Secret, or that of the workload's identity)",
    )?;
    let host = match namespace.contains(".servicebus.") {
        true => namespace.to_owned(),
        false => format!("{namespace}{DOMAIN}"),
    };
    Ok(Hub {
        host: checked_host(notification, &host)?,
        name: name.to_owned(),
        authorization: format!("Bearer {token}"),
    })
}

/// Returns the hub of a connection string, with a signature by its key.
fn by_connection_string(notification: &Notification<'_>, text: &str) -> Result<Hub, Failure> {
    if !notification.login.token.is_empty() {
        let reason = "the Secret has 'token' and a connection string: remove one of them";
        return Err(notification.refusal(reason));
    }
    let field = |wanted: &str| {
        let fields = text.split(';').filter_map(|field| field.split_once('='));
        let value = fields
            .filter(|(name, _)| name.trim().eq_ignore_ascii_case(wanted))
            .map(|(_, value)| value.trim())
            .next();
        value.filter(|value| !value.is_empty()).ok_or_else(|| {
            notification.refusal(format!("the connection string has no field '{wanted}'"))
        })
    };
    let endpoint = field("Endpoint")?;
    let host = endpoint.strip_prefix("sb://").unwrap_or(endpoint);
    let host = checked_host(notification, host.trim_end_matches('/'))?;
    let name = field("EntityPath")?.to_owned();
    let (key_name, key) = (field("SharedAccessKeyName")?, field("SharedAccessKey")?);
    let resource = form_value(&format!("https://{host}/{name}"));
    let expiry = notification.now.saturating_add(VALIDITY);
    let mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key.as_bytes());
    let mut mac = mac.map_err(|_| notification.refusal("the key cannot be used"))?;
    mac.update(format!("{resource}\n{expiry}").as_bytes());
    let signature = form_value(&STANDARD.encode(mac.finalize().into_bytes()));
    let key_name = form_value(key_name);
    Ok(Hub {
        host,
        name,
        authorization: format!(
            "SharedAccessSignature sr={resource}&sig={signature}&se={expiry}&skn={key_name}"
        ),
    })
}

fn checked_host(notification: &Notification<'_>, host: &str) -> Result<String, Failure> {
    let is_host = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
    match !host.is_empty() && host.chars().all(is_host) {
        true => Ok(host.to_owned()),
        false => Err(notification.refusal("the namespace of the Event Hub is not a host name")),
    }
}
