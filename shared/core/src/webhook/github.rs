//! GitHub's deliveries (GitHub Docs, "Webhook events and payloads", "Validating webhook
//! deliveries").

use super::{Delivery, Event, Refusal, SECRET, Sender};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Deserialize;
use sha2::Sha256;

/// The sender for github.com and servers with the same webhooks.
pub struct GitHub;

/// The used part of a push event: the repository and the reference.
#[derive(Debug, Deserialize)]
struct Push {
    #[serde(rename = "ref")]
    reference: String,
    repository: Repository,
}

#[derive(Debug, Deserialize)]
struct Repository {
    full_name: String,
    #[serde(default)]
    html_url: String,
}

impl Sender for GitHub {
    fn is_sender(&self, delivery: &Delivery<'_>) -> bool {
        (delivery.header)("x-hub-signature-256").is_some()
    }

    fn secret(&self) -> &'static str {
        SECRET
    }

    fn verify(&self, secret: &[u8], delivery: &Delivery<'_>) -> bool {
        let signature = (delivery.header)("x-hub-signature-256");
        is_signed(secret, delivery.body, signature)
    }

    fn read(&self, delivery: &Delivery<'_>) -> Result<Event, Refusal> {
        match (delivery.header)("x-github-event").unwrap_or_default() {
            "ping" => Ok(Event::Ping),
            "push" => push(delivery.body),
            other => Ok(Event::Other(format!(
                "events of type '{other}' are not used"
            ))),
        }
    }
}

fn push(body: &[u8]) -> Result<Event, Refusal> {
    let push: Push = serde_json::from_slice(body).map_err(|error| {
        // Report the position only: the message of serde may quote the payload.
        let place = format!("line {}, column {}", error.line(), error.column());
        Refusal::Malformed("push".to_owned(), place)
    })?;
    let url = match push.repository.html_url.as_str() {
        "" => format!("https://github.com/{}", push.repository.full_name),
        url => url.to_owned(),
    };
    Ok(Event::Push {
        url,
        reference: push.reference,
    })
}

/// Checks `sha256=HEX` over the raw body in constant time.
fn is_signed(secret: &[u8], body: &[u8], signature: Option<&str>) -> bool {
    let given = signature.and_then(|text| text.strip_prefix("sha256="));
    let given = given.and_then(|text| hex::decode(text).ok());
    let (Some(given), Some(mut mac), false) = (given, mac(secret), secret.is_empty()) else {
        return false;
    };
    mac.update(body);
    mac.verify_slice(&given).is_ok()
}

fn mac(secret: &[u8]) -> Option<Hmac<Sha256>> {
    Hmac::new_from_slice(secret).ok()
}

/// Returns the signature that GitHub sends.
#[cfg(test)]
pub fn sign(secret: &[u8], body: &[u8]) -> String {
    let mut mac = mac(secret).unwrap();
    mac.update(body);
    format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"It's a Secret to Everybody";
    /// GitHub's own example for the body `Hello, World!`.
    const SIGNATURE: &str =
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

    #[test]
    fn signatures() {
        let body = b"Hello, World!";
        assert_eq!(sign(SECRET, body), SIGNATURE);
        assert!(is_signed(SECRET, body, Some(SIGNATURE)));
        for bad in [
            None,
            Some(""),
            Some("sha256="),
            Some("sha1=757107ea0eb2509fc211221cce984b8a37570b6d"),
            Some("sha256=757107ea"),
            Some(&SIGNATURE.replace("757", "758")),
            Some(&SIGNATURE[7..]),
        ] {
            assert!(!is_signed(SECRET, body, bad), "{bad:?}");
        }
        assert!(!is_signed(SECRET, b"Hello, World?", Some(SIGNATURE)));
        assert!(!is_signed(b"", body, Some(SIGNATURE)));
    }
}
