//! Deliveries of Bitbucket Server and Data Center (Atlassian Documentation, "Event payload").

use super::bitbucket::{SECRET, is_server};
use super::signature::is_prefixed_sha256;
use super::{Address, Delivery, Event, Refusal, Sender, read};
use serde::Deserialize;

/// The sender for servers with Bitbucket.
pub struct BitbucketServer;

/// The used part of an event about changed references.
#[derive(Debug, Deserialize)]
struct RefsChanged {
    repository: Repository,
    changes: Vec<Change>,
}

#[derive(Debug, Deserialize)]
struct Change {
    #[serde(rename = "ref")]
    reference: Reference,
}

#[derive(Debug, Deserialize)]
struct Reference {
    id: String,
}

/// A repository. Not every version of the server sends its links.
#[derive(Debug, Deserialize)]
struct Repository {
    slug: String,
    project: Project,
    #[serde(default)]
    links: Links,
}

#[derive(Debug, Deserialize)]
struct Project {
    key: String,
}

#[derive(Debug, Default, Deserialize)]
struct Links {
    #[serde(default)]
    clone: Vec<Link>,
}

#[derive(Debug, Deserialize)]
struct Link {
    href: String,
}

impl Sender for BitbucketServer {
    fn host(&self) -> &'static str {
        "Bitbucket Server"
    }

    fn is_sender(&self, delivery: &Delivery<'_>) -> bool {
        is_server(delivery)
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
            "diagnostics:ping" => Ok(Event::Ping),
            "repo:refs_changed" => push(delivery.body),
            other => Ok(Event::unused(other, "repo:refs_changed")),
        }
    }
}

fn push(body: &[u8]) -> Result<Event, Refusal> {
    let pushed: RefsChanged = read("repo:refs_changed", body)?;
    let Repository {
        slug,
        project,
        links,
    } = pushed.repository;
    let links = links
        .clone
        .iter()
        .filter_map(|link| Address::of(&link.href));
    let mut addresses: Vec<Address> = links.take(4).collect();
    if addresses.is_empty() {
        // The path is the end of the addresses over HTTPS (`/scm/KEY/SLUG`) and over SSH.
        addresses.push(Address::Path(format!("{}/{slug}", project.key)));
    }
    let changes = pushed.changes.into_iter();
    Ok(Event::Push {
        addresses,
        references: changes.map(|change| change.reference.id).collect(),
    })
}
