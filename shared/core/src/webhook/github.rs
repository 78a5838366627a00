//! GitHub's deliveries (GitHub Docs, "Webhook events and payloads", "Validating webhook
//! deliveries").

use super::signature::is_prefixed_sha256;
use super::{Address, Delivery, Event, Refusal, SECRET, Sender, read};
use serde::Deserialize;

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
    fn host(&self) -> &'static str {
        "GitHub"
    }

    fn is_sender(&self, delivery: &Delivery<'_>) -> bool {
        let headers = ["x-github-event", "x-hub-signature-256"];
        headers
            .into_iter()
            .any(|name| (delivery.header)(name).is_some())
    }

    fn proof<'a>(&self, delivery: &Delivery<'a>) -> Option<&'a str> {
        (delivery.header)("x-hub-signature-256")
    }

    fn secret(&self) -> &'static str {
        SECRET
    }

    fn verify(&self, secret: &[u8], proof: &str, body: &[u8]) -> bool {
        is_prefixed_sha256(secret, body, Some(proof))
    }

    fn read(&self, delivery: &Delivery<'_>) -> Result<Event, Refusal> {
        match (delivery.header)("x-github-event").unwrap_or_default() {
            "ping" => Ok(Event::Ping),
            "push" => push(delivery.body),
            other => Ok(Event::unused(other, "push")),
        }
    }
}

fn push(body: &[u8]) -> Result<Event, Refusal> {
    let push: Push = read("push", body)?;
    let url = match push.repository.html_url.as_str() {
        "" => format!("https://github.com/{}", push.repository.full_name),
        url => url.to_owned(),
    };
    Ok(Event::Push {
        addresses: vec![Address::Url(url)],
        references: vec![push.reference],
    })
}
