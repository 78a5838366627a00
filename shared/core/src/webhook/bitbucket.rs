//! Deliveries of Bitbucket Cloud (Atlassian Support, "Event payloads").

use super::signature::is_prefixed_sha256;
use super::{Address, Delivery, Event, Refusal, Sender, read};
use serde::Deserialize;

/// The name of the secret of Bitbucket's webhooks, of the cloud and of servers.
pub const SECRET: &str = "bitbucket/webhook";
/// The event keys that only servers send begin with these.
const SERVER: [&str; 4] = ["repo:refs_changed", "diagnostics:", "pr:", "mirror:"];

/// The sender for bitbucket.org.
pub struct Bitbucket;

/// The used part of a push event.
#[derive(Debug, Deserialize)]
struct Delivered {
    push: Push,
    repository: Repository,
}

#[derive(Debug, Deserialize)]
struct Push {
    changes: Vec<Change>,
}

/// The state of a reference after and before the push.
#[derive(Debug, Deserialize)]
struct Change {
    new: Option<Reference>,
    old: Option<Reference>,
}

#[derive(Debug, Deserialize)]
struct Reference {
    #[serde(rename = "type")]
    kind: String,
    name: String,
}

#[derive(Debug, Deserialize)]
struct Repository {
    full_name: String,
}

/// Returns whether the event key of a delivery is one that only servers send.
pub fn is_server(delivery: &Delivery<'_>) -> bool {
    let key = (delivery.header)("x-event-key").unwrap_or_default();
    SERVER.iter().any(|start| key.starts_with(start))
}

impl Sender for Bitbucket {
    fn host(&self) -> &'static str {
        "Bitbucket"
    }

    fn is_sender(&self, delivery: &Delivery<'_>) -> bool {
        (delivery.header)("x-event-key").is_some() && !is_server(delivery)
    }

    fn proof<'a>(&self, delivery: &Delivery<'a>) -> Option<&'a str> {
        (delivery.header)("x-hub-signature")
    }

    fn secret(&self) -> &'static str {
        SECRET
    }

    fn verify(&self, secret: &[u8], proof: &str, body: &[u8]) -> bool {
        is_prefixed_sha256(secret, body, Some(proof))
    }

    fn read(&self, delivery: &Delivery<'_>) -> Result<Event, Refusal> {
        match (delivery.header)("x-event-key").unwrap_or_default() {
            "repo:push" => push(delivery.body),
            other => Ok(Event::unused(other, "repo:push")),
        }
    }
}

fn push(body: &[u8]) -> Result<Event, Refusal> {
    let Delivered { push, repository } = read("repo:push", body)?;
    let changed = push.changes.into_iter();
    let changed = changed.filter_map(|change| change.new.or(change.old));
    let references = changed.map(|Reference { kind, name }| match kind.as_str() {
        "tag" | "annotated_tag" => format!("refs/tags/{name}"),
        _ => format!("refs/heads/{name}"),
    });
    let url = format!("https://bitbucket.org/{}", repository.full_name);
    Ok(Event::Push {
        addresses: vec![Address::Url(url)],
        references: references.collect(),
    })
}
