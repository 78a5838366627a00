//! Deliveries of Gitea and Forgejo (Gitea Docs, "Webhooks"). They also have GitHub's headers.

use super::signature::is_sha256;
use super::{Address, Delivery, Event, Refusal, Sender, read};
use serde::Deserialize;

/// The sender for servers with Gitea or Forgejo.
pub struct Gitea;

/// The used part of a push event.
#[derive(Debug, Deserialize)]
struct Push {
    #[serde(rename = "ref")]
    reference: String,
    repository: Repository,
}

#[derive(Debug, Deserialize)]
struct Repository {
    clone_url: String,
    #[serde(default)]
    ssh_url: String,
}

fn event<'a>(delivery: &Delivery<'a>) -> Option<&'a str> {
    (delivery.header)("x-forgejo-event").or_else(|| (delivery.header)("x-gitea-event"))
}

impl Sender for Gitea {
    fn host(&self) -> &'static str {
        "Gitea"
    }

    fn is_sender(&self, delivery: &Delivery<'_>) -> bool {
        event(delivery).is_some()
    }

    fn proof<'a>(&self, delivery: &Delivery<'a>) -> Option<&'a str> {
        let forgejo = (delivery.header)("x-forgejo-signature");
        forgejo.or_else(|| (delivery.header)("x-gitea-signature"))
    }

    fn secret(&self) -> &'static str {
        "gitea/webhook"
    }

    fn verify(&self, secret: &[u8], proof: &str, body: &[u8]) -> bool {
        is_sha256(secret, body, proof)
    }

    fn read(&self, delivery: &Delivery<'_>) -> Result<Event, Refusal> {
        match event(delivery).unwrap_or_default() {
            "push" => push(delivery.body),
            other => Ok(Event::unused(other, "push")),
        }
    }
}

fn push(body: &[u8]) -> Result<Event, Refusal> {
    let push: Push = read("push", body)?;
    let urls = [push.repository.clone_url, push.repository.ssh_url];
    Ok(Event::Push {
        addresses: urls.iter().filter_map(|url| Address::of(url)).collect(),
        references: vec![push.reference],
    })
}
