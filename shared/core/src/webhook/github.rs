//! GitHub's deliveries (GitHub Docs, "Webhook events and payloads", "Validating webhook
//! deliveries").

use super::signature::is_prefixed_sha256;
use super::{Address, Delivery, Event, Refusal, SECRET, Sender, read};
use driftless_kernel::ports::PlanRequest;
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

impl Repository {
    /// Returns the address of the repository.
    fn url(&self) -> String {
        match self.html_url.as_str() {
            "" => format!("https://github.com/{}", self.full_name),
            url => url.to_owned(),
        }
    }
}

/// The used part of a pull_request event.
#[derive(Debug, Deserialize)]
struct PullRequestPayload {
    action: String,
    number: u64,
    pull_request: Ends,
    repository: Repository,
    #[serde(default)]
    changes: Changes,
}

#[derive(Debug, Deserialize)]
struct Ends {
    head: End,
    base: End,
}

#[derive(Debug, Deserialize)]
struct End {
    #[serde(rename = "ref")]
    branch: String,
    sha: String,
    /// Absent if the repository of the head was deleted.
    repo: Option<Repository>,
}

/// The changes of an `edited` event; `base` is there if the base branch has changed.
#[derive(Debug, Default, Deserialize)]
struct Changes {
    base: Option<serde::de::IgnoredAny>,
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
            "pull_request" => pull_request(delivery.body),
            other => Ok(Event::unused(other, "push or pull_request")),
        }
    }
}

fn push(body: &[u8]) -> Result<Event, Refusal> {
    let push: Push = read("push", body)?;
    Ok(Event::Push {
        addresses: vec![Address::Url(push.repository.url())],
        references: vec![push.reference],
    })
}

/// Reads a pull_request event (GitHub Docs, "Webhook events and payloads"). Only actions that
/// change what would be merged are used.
fn pull_request(body: &[u8]) -> Result<Event, Refusal> {
    let event: PullRequestPayload = read("pull_request", body)?;
    let is_used = match event.action.as_str() {
        "opened" | "synchronize" | "reopened" => true,
        "edited" => event.changes.base.is_some(),
        _ => false,
    };
    if !is_used {
        let action = driftless_flux::shorten(&event.action, 100);
        return Ok(Event::Other(format!(
            "the action '{action}' of a pull request changes no plan: expected opened, synchronize, reopened, or edited with \
             another base branch"
        )));
    }
    let Ends { head, base } = event.pull_request;
    // Without its repository, the head is that of a fork which was deleted.
    let is_fork = head.repo.is_none_or(|repo| {
        !repo
            .full_name
            .eq_ignore_ascii_case(&event.repository.full_name)
    });
    Ok(Event::PullRequest(PlanRequest {
        repository: event.repository.url(),
        number: event.number,
        base_ref: base.branch,
        base_sha: base.sha,
        head_sha: head.sha,
        is_fork,
        hubs: Vec::new(),
    }))
}
