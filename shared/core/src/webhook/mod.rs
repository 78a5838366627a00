//! Webhooks of Git hosts. A delivery is verified before it is read, and only queues the sources
//! that follow the repository.
//!
//! Each kind of host is a `Sender` in its own module. The webhooks of Flux's Receivers have their
//! own paths (`receivers`).

mod azure_devops;
mod bitbucket;
mod bitbucket_server;
mod gitea;
mod github;
mod gitlab;
mod plans;
mod pushed;
mod receivers;
mod signature;
#[cfg(test)]
mod tests;

pub use receivers::{check_path, is_receiver_path};

use driftless_flux::{ObjectRef, shorten};
use driftless_kernel::concurrent;
use driftless_kernel::ports::{
    Cause, ErrorKind, PlanRequest, PortError, Ports, PushedCommit, Request,
};
use driftless_source::index;
use futures::FutureExt as _;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::time::Duration;
use tracing::Span;

/// The name of the secret of GitHub's webhooks in the secret manager.
pub const SECRET: &str = "github/webhook";
/// The names of the secrets of the other hosts' webhooks in the secret manager.
pub const OTHER_SECRETS: [&str; 4] = [
    "gitlab/webhook",
    "gitea/webhook",
    "bitbucket/webhook",
    "azuredevops/webhook",
];

/// The kinds of hosts whose deliveries are supported. The first one whose headers a delivery has is
/// its sender: Gitea and Forgejo also send GitHub's headers, and Azure DevOps only a login.
const SENDERS: [&dyn Sender; 6] = [
    &gitea::Gitea,
    &gitlab::GitLab,
    &bitbucket_server::BitbucketServer,
    &bitbucket::Bitbucket,
    &github::GitHub,
    &azure_devops::AzureDevOps,
];
/// The most references of a delivery that are read; the timer finds the others.
const MAX_REFERENCES: usize = 50;
/// The most bytes of a field of the delivery's span.
const MAX_FIELD: usize = 300;
/// Reads of the index that run concurrently.
const CONCURRENCY: usize = 16;

/// A kind of Git host that delivers webhooks.
trait Sender: Sync {
    /// Returns the name of the host, for messages.
    fn host(&self) -> &'static str;
    /// Returns whether the headers of a delivery are those of such a host. This proves nothing yet.
    fn is_sender(&self, delivery: &Delivery<'_>) -> bool;
    /// Returns the header with the signature, token or login of a delivery.
    fn proof<'a>(&self, delivery: &Delivery<'a>) -> Option<&'a str>;
    /// Returns the name of the webhook's secret in the secret manager.
    fn secret(&self) -> &'static str;
    /// Returns whether the proof is of a sender that knows the secret. An empty secret verifies
    /// nothing.
    fn verify(&self, secret: &[u8], proof: &str, body: &[u8]) -> bool;
    /// Reads the event of a verified delivery.
    ///
    /// # Errors
    /// [`Refusal::Malformed`].
    fn read(&self, delivery: &Delivery<'_>) -> Result<Event, Refusal>;
}

/// The event of a delivery.
#[derive(Debug, PartialEq, Eq)]
enum Event {
    /// A test of the webhook.
    Ping,
    /// References of a repository have changed.
    Push {
        /// The addresses of the repository: followers may have any of them.
        addresses: Vec<Address>,
        /// The whole names, such as `refs/heads/main`.
        references: Vec<String>,
    },
    /// A pull request is new, has new commits, or has another base.
    PullRequest(PlanRequest),
    /// An event that is ignored, with the reason.
    Other(String),
}

impl Event {
    /// Returns an event that is ignored; `expected` names those that are used.
    fn unused(event: &str, expected: &str) -> Self {
        let event = driftless_flux::shorten(event, 100);
        Self::Other(format!(
            "events of type '{event}' are not used: expected {expected}"
        ))
    }
}

/// The address of a repository in a delivery.
#[derive(Debug, PartialEq, Eq)]
enum Address {
    /// An address with a scheme: `https://HOST/...`, `ssh://git@HOST/...`.
    Url(String),
    /// The end of the path, if the host does not name itself.
    Path(String),
}

impl Address {
    /// Returns the address of a URL, or of `USER@HOST:PATH`; `None` for an empty string.
    fn of(text: &str) -> Option<Self> {
        if text.is_empty() {
            return None;
        }
        Some(Self::Url(
            match (text.contains("://"), text.split_once(':')) {
                (false, Some((host, path))) => format!("ssh://{host}/{path}"),
                _ => text.to_owned(),
            },
        ))
    }
}

/// Reads a payload; `event` names it in the error.
fn read<'b, T: Deserialize<'b>>(event: &str, body: &'b [u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| {
        // Report the position only: the message of serde may quote the payload.
        let place = format!("line {}, column {}", error.line(), error.column());
        Refusal::Malformed(event.to_owned(), place)
    })
}

/// The limits and messages of one way in which deliveries arrive.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryLimits {
    /// The maximum bytes of a body.
    pub max_body: usize,
    /// Returns the place where an operator sets the webhook's secret of a name such as
    /// `github/webhook`, for the message about a wrong signature.
    pub secret: fn(&str) -> String,
}

/// A received delivery.
#[derive(Clone, Copy)]
pub struct Delivery<'a> {
    /// Returns a header's value, by its name in lower case.
    pub header: &'a (dyn Fn(&str) -> Option<&'a str> + Sync),
    /// The raw body, which the signature is over.
    pub body: &'a [u8],
}

/// The result of an accepted delivery; each is answered with 2xx.
#[derive(Debug, PartialEq, Eq)]
pub enum DeliveryResult {
    /// The answer to `ping`.
    Pong,
    /// These requests are in the queue.
    Queued(Vec<Request>),
    /// The plan of a pull request is requested.
    Planned(PlanRequest),
    /// The reconciliation of this number of objects of Receivers is requested.
    Requested(usize),
    /// The delivery was ignored, with the reason.
    Ignored(String),
}

/// The reason why a delivery is refused.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// 413: the body has more than this many bytes.
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    /// 401: the signature, token or login is missing or wrong; with the host and the place where
    /// the secret is set.
    #[error(
        "the signature is missing or wrong: set the same secret in the webhook of {0} and in {1}"
    )]
    Unauthorized(&'static str, String),
    /// 401: no header is of a host whose webhooks are supported.
    #[error(
        "the signature is missing or wrong: the headers are of no known host, expected a webhook of GitHub, GitLab, Gitea, \
         Forgejo, Bitbucket or Azure DevOps with a secret"
    )]
    UnknownHost,
    /// 400: the payload cannot be read, with its kind and the reason.
    #[error("not a {0} payload: {1}")]
    Malformed(String, String),
    /// 400: the delivery is not one that the Receiver accepts, with the reason.
    #[error("the Receiver does not accept the delivery: {0}")]
    Invalid(String),
    /// 404: no Receiver has the path.
    #[error("no Receiver has this path")]
    UnknownPath,
    /// 503: the Receiver is suspended or not ready.
    #[error("{0}: try again later")]
    NotReady(&'static str),
    /// 500: not all objects of the Receiver could be requested; the log has the reasons.
    #[error("not all objects of the Receiver could be requested: the log has the reasons")]
    Failed,
    /// 503: the host shows the failure, and the timer catches up.
    #[error("not queued: {0}")]
    Unavailable(#[from] PortError),
}

impl Refusal {
    /// Returns the HTTP status of the response.
    pub fn status(&self) -> u16 {
        match self {
            Self::TooLarge(_) => 413,
            Self::Unauthorized(..) | Self::UnknownHost => 401,
            Self::Malformed(..) | Self::Invalid(_) => 400,
            Self::UnknownPath => 404,
            Self::Failed => 500,
            Self::NotReady(_) | Self::Unavailable(_) => 503,
        }
    }
}

/// The headers with the id of a delivery, of every kind of host.
const IDS: [&str; 6] = [
    "x-github-delivery",
    "x-gitea-delivery",
    "x-forgejo-delivery",
    "x-gitlab-event-uuid",
    "x-request-uuid",
    "x-request-id",
];
/// The headers with the event of a delivery. Gitea and Forgejo also send GitHub's.
const EVENTS: [&str; 5] = [
    "x-forgejo-event",
    "x-gitea-event",
    "x-gitlab-event",
    "x-event-key",
    "x-github-event",
];

/// Returns the id that the sender gave a delivery, for the log; empty if it gave none.
pub fn id<'a>(header: &dyn Fn(&str) -> Option<&'a str>) -> &'a str {
    let mut ids = IDS.into_iter();
    ids.find_map(header).unwrap_or_default()
}

/// Returns the event in the headers of a delivery, for the log; `None` without one.
pub fn event<'a>(header: &dyn Fn(&str) -> Option<&'a str>) -> Option<&'a str> {
    EVENTS.into_iter().find_map(header)
}

/// Checks that a delivery has the headers of a signed one, before its body is read.
///
/// # Errors
/// [`Refusal::UnknownHost`] or [`Refusal::Unauthorized`].
pub fn check_headers(entrance: &DeliveryLimits, delivery: &Delivery<'_>) -> Result<(), Refusal> {
    sender(entrance, delivery).map(drop)
}

fn unauthorized(entrance: &DeliveryLimits, sender: &dyn Sender) -> Refusal {
    let place = (entrance.secret)(sender.secret());
    Refusal::Unauthorized(sender.host(), place)
}

/// Returns the kind of host that sent a delivery, and its proof.
fn sender<'a>(
    entrance: &DeliveryLimits,
    delivery: &Delivery<'a>,
) -> Result<(&'static dyn Sender, &'a str), Refusal> {
    let mut senders = SENDERS.into_iter();
    let sender = senders.find(|sender| sender.is_sender(delivery));
    let sender = sender.ok_or(Refusal::UnknownHost)?;
    match sender.proof(delivery) {
        Some(proof) => Ok((sender, proof)),
        None => Err(unauthorized(entrance, sender)),
    }
}

/// Handles a delivery at a path: `/hook/DIGEST` is that of a Receiver, any other one is the
/// installation's own. Returns only after the queue has its requests.
///
/// # Errors
/// See [`Refusal`].
pub async fn receive_at(
    ports: &Ports,
    entrance: &DeliveryLimits,
    path: &str,
    delivery: Delivery<'_>,
) -> Result<DeliveryResult, Refusal> {
    match is_receiver_path(path) {
        true => receivers::receive(ports, entrance, path, delivery).await,
        false => receive(ports, entrance, delivery).await,
    }
}

/// Handles a delivery of a Git host at the installation's own path. Returns only after the queue
/// has its requests.
///
/// # Errors
/// See [`Refusal`]; nothing is queued then.
pub async fn receive(
    ports: &Ports,
    entrance: &DeliveryLimits,
    delivery: Delivery<'_>,
) -> Result<DeliveryResult, Refusal> {
    if delivery.body.len() > entrance.max_body {
        return Err(Refusal::TooLarge(entrance.max_body));
    }
    let (sender, proof) = sender(entrance, &delivery)?;
    let name = sender.secret();
    let secret = ports.secrets.secret(name).await?.ok_or_else(|| {
        let host = sender.host();
        let message = format!(
            "the secret manager has no '{name}', expected the secret of the webhook of {host}"
        );
        PortError::new(ErrorKind::NotFound, message)
    })?;
    if !sender.verify(secret.expose(), proof, delivery.body) {
        return Err(unauthorized(entrance, sender));
    }
    let span = Span::current();
    span.record("host", sender.host());
    match sender.read(&delivery)? {
        Event::Ping => Ok(DeliveryResult::Pong),
        Event::Push {
            addresses,
            references,
        } => {
            let commit = pushed::commit(delivery.body, id(delivery.header));
            if let Some(commit) = &commit {
                span.record("commit", &commit.sha);
            }
            push(ports, &addresses, references, commit).await
        }
        Event::PullRequest(event) => plans::request(ports, event).await,
        Event::Other(message) => Ok(DeliveryResult::Ignored(message)),
    }
}

async fn push(
    ports: &Ports,
    addresses: &[Address],
    references: Vec<String>,
    commit: Option<PushedCommit>,
) -> Result<DeliveryResult, Refusal> {
    let named = addresses.iter().filter_map(|address| match address {
        Address::Url(url) => index::repository(url).map(Repository::Of),
        Address::Path(path) => Some(Repository::AtAnyHost(path.to_lowercase())),
    });
    let repositories: BTreeSet<Repository> = named.collect();
    let Some(first) = repositories.first() else {
        let message = "the repository's address is not valid".to_owned();
        return Err(Refusal::Malformed("push".to_owned(), message));
    };
    let all: BTreeSet<String> = references.into_iter().collect();
    let span = Span::current();
    span.record("repository", shorten(first.name(), MAX_FIELD));
    if let Some(reference) = all.first() {
        span.record("ref", shorten(reference, MAX_FIELD));
    }
    if all.len() > MAX_REFERENCES {
        let left = all.len() - MAX_REFERENCES;
        tracing::warn!(
            left,
            "a push of many references: the timer finds those that are left"
        );
    }
    let references: Vec<String> = all.into_iter().take(MAX_REFERENCES).collect();
    let reads = references.iter().flat_map(|reference| {
        let of = |repository| followers(ports, repository, reference).boxed();
        repositories.iter().map(of).collect::<Vec<_>>()
    });
    let mut found = BTreeSet::new();
    for followers in concurrent::run(CONCURRENCY, reads.collect()).await {
        found.extend(followers?);
    }
    if found.is_empty() {
        let references = driftless_flux::shorten(&references.join(", "), 300);
        let message = format!("no source follows {references} of {}", first.name());
        return Ok(DeliveryResult::Ignored(message));
    }
    let received = ports.clock.now();
    let requests: Vec<Request> = found
        .into_iter()
        .map(|(hub, object)| Request {
            commit: commit.clone(),
            ..Request::new(&hub, object, Cause::Push).received_at(received)
        })
        .collect();
    let now = requests.iter().cloned().map(|one| (one, Duration::ZERO));
    ports.queue.send(now.collect()).await?;
    Ok(DeliveryResult::Queued(requests))
}

/// A repository of a push, by its name in the index or by the end of its path.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Repository {
    Of(String),
    AtAnyHost(String),
}

impl Repository {
    fn name(&self) -> &str {
        match self {
            Self::Of(name) | Self::AtAnyHost(name) => name,
        }
    }
}

async fn followers(
    ports: &Ports,
    repository: &Repository,
    reference: &str,
) -> Result<Vec<(String, ObjectRef)>, PortError> {
    match repository {
        Repository::Of(name) => index::followers(ports, name, reference).await,
        Repository::AtAnyHost(path) => index::followers_at_any_host(ports, path, reference).await,
    }
}
