//! Webhooks of Git hosts. A delivery is verified before it is read, and only queues the sources
//! that follow the repository.
//!
//! Each kind of host is a `Sender` in its own module.

mod github;
mod receivers;
mod signature;

pub use receivers::{check_path, is_receiver_path};

use crate::ports::{Cause, ErrorKind, PortError, Ports, Request};
use crate::source::index;
use std::time::Duration;

/// The name of the secret of GitHub's webhooks in the secret manager.
pub const SECRET: &str = "github/webhook";

/// The kinds of hosts whose deliveries are supported.
const SENDERS: [&dyn Sender; 1] = [&github::GitHub];
/// The headers that identify the deliveries of other hosts, to name the host in the response.
const OTHER_HOST_HEADERS: [(&str, &str); 3] = [
    ("x-gitlab-event", "GitLab"),
    ("x-event-key", "Bitbucket"),
    ("x-gitea-event", "Gitea"),
];

/// A kind of Git host that delivers webhooks.
trait Sender: Sync {
    /// Returns whether the headers of a delivery are those of a signed one of such a host. This
    /// proves nothing yet.
    fn is_sender(&self, delivery: &Delivery<'_>) -> bool;
    /// Returns the name of the webhook's secret in the secret manager.
    fn secret(&self) -> &'static str;
    /// Returns whether the delivery is signed with the secret. An empty secret verifies nothing.
    fn verify(&self, secret: &[u8], delivery: &Delivery<'_>) -> bool;
    /// Reads the event of a verified delivery.
    ///
    /// # Errors
    /// [`Refusal::Malformed`].
    fn read(&self, delivery: &Delivery<'_>) -> Result<Event, Refusal>;
}

/// The event of a delivery.
enum Event {
    /// A test of the webhook.
    Ping,
    /// A reference of a repository has changed.
    Push {
        /// The repository's address, `https://HOST/...`.
        url: String,
        /// The whole name, such as `refs/heads/main`.
        reference: String,
    },
    /// An event that is ignored, with the reason.
    Other(String),
}

/// The limits and messages of one way in which deliveries arrive.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryLimits {
    /// The maximum bytes of a body.
    pub max_body: usize,
    /// The place where an operator sets the webhook's secret, for the message about a wrong
    /// signature.
    pub secret: &'static str,
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
    /// 401: there is no SHA-256 signature, or a wrong one; with the place where the secret is set.
    #[error(
        "the signature is missing or wrong: set the same secret in GitHub's webhook and in {0}"
    )]
    Unauthorized(&'static str),
    /// 401: the delivery is of a host whose webhooks are not supported, with its name.
    #[error(
        "deliveries of {0} are not supported, only GitHub's: remove the webhook; the timer finds the pushes"
    )]
    OtherHost(&'static str),
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
    /// 503: GitHub shows the failure, and the timer catches up.
    #[error("not queued: {0}")]
    Unavailable(#[from] PortError),
}

impl Refusal {
    /// Returns the HTTP status of the response.
    pub fn status(&self) -> u16 {
        match self {
            Self::TooLarge(_) => 413,
            Self::Unauthorized(_) | Self::OtherHost(_) => 401,
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
/// [`Refusal::OtherHost`] or [`Refusal::Unauthorized`].
pub fn check_headers(entrance: &DeliveryLimits, delivery: &Delivery<'_>) -> Result<(), Refusal> {
    sender(entrance, delivery).map(drop)
}

/// Returns the kind of host that sent a delivery.
fn sender(
    entrance: &DeliveryLimits,
    delivery: &Delivery<'_>,
) -> Result<&'static dyn Sender, Refusal> {
    if let Some(sender) = SENDERS
        .into_iter()
        .find(|sender| sender.is_sender(delivery))
    {
        return Ok(sender);
    }
    let mut others = OTHER_HOST_HEADERS.into_iter();
    let other = others.find(|(header, _)| (delivery.header)(header).is_some());
    Err(match other {
        Some((_, host)) => Refusal::OtherHost(host),
        None => Refusal::Unauthorized(entrance.secret),
    })
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
    let sender = sender(entrance, &delivery)?;
    let name = sender.secret();
    let secret = ports.secrets.secret(name).await?.ok_or_else(|| {
        let message = format!("the secret manager has no '{name}'");
        PortError::new(ErrorKind::NotFound, message)
    })?;
    if !sender.verify(secret.expose(), &delivery) {
        return Err(Refusal::Unauthorized(entrance.secret));
    }
    match sender.read(&delivery)? {
        Event::Ping => Ok(DeliveryResult::Pong),
        Event::Push { url, reference } => push(ports, &url, &reference).await,
        Event::Other(message) => Ok(DeliveryResult::Ignored(message)),
    }
}

async fn push(ports: &Ports, url: &str, reference: &str) -> Result<DeliveryResult, Refusal> {
    let Some(repository) = index::repository(url) else {
        let message = "the repository's address is not valid".to_owned();
        return Err(Refusal::Malformed("push".to_owned(), message));
    };
    let followers = index::followers(ports, &repository, reference).await?;
    if followers.is_empty() {
        let message = format!("no source follows {reference} of {repository}");
        return Ok(DeliveryResult::Ignored(message));
    }
    let requests: Vec<Request> = followers
        .into_iter()
        .map(|(hub, object)| Request::new(&hub, object, Cause::Push))
        .collect();
    let now = requests.iter().cloned().map(|one| (one, Duration::ZERO));
    ports.queue.send(now.collect()).await?;
    Ok(DeliveryResult::Queued(requests))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flux::GitReference;
    use crate::flux::{FluxKind, ObjectRef};
    use crate::ports::Secret;
    use crate::testing::{self, MemoryBlobs, MemoryQueue, MemorySecrets};
    use futures::FutureExt as _;
    use std::sync::Arc;

    const SECRET: &[u8] = b"It's a Secret to Everybody";
    const ENTRANCE: DeliveryLimits = DeliveryLimits {
        max_body: 1 << 20,
        secret: "the vault",
    };

    /// A delivery of GitHub.
    struct SampleDelivery<'a> {
        event: &'a str,
        body: &'a str,
        signature: &'a str,
    }

    fn delivery<'a>(event: &'a str, body: &'a str, signature: &'a str) -> SampleDelivery<'a> {
        SampleDelivery {
            event,
            body,
            signature,
        }
    }

    fn sign(body: &str) -> String {
        github::sign(SECRET, body.as_bytes())
    }

    const PUSH: &str = r#"{"ref": "refs/heads/main", "after": "a", "repository":
        {"full_name": "Acme/fleet", "html_url": "https://github.com/Acme/fleet"}}"#;

    #[test]
    fn a_push_queues_its_followers_and_nothing_else_does() {
        let (blobs, queue) = (
            Arc::new(MemoryBlobs::default()),
            Arc::new(MemoryQueue::default()),
        );
        let mut ports = testing::ports(blobs, queue.clone(), Arc::default());
        let receive = |ports: &Ports, one: SampleDelivery<'_>| {
            let header = |name: &str| match name {
                "x-github-event" => Some(one.event),
                "x-hub-signature-256" => Some(one.signature),
                _ => None,
            };
            let delivery = Delivery {
                header: &header,
                body: one.body.as_bytes(),
            };
            let received = receive(ports, &ENTRANCE, delivery);
            received.now_or_never().expect("nothing waits")
        };
        let signed = sign(PUSH);

        // No secret: fail closed.
        assert!(matches!(
            receive(&ports, delivery("push", PUSH, &signed)),
            Err(Refusal::Unavailable(_))
        ));
        ports.secrets = Arc::new(MemorySecrets(
            [(super::SECRET.to_owned(), Secret::new(SECRET))].into(),
        ));
        assert!(matches!(
            receive(&ports, delivery("push", PUSH, &signed)),
            Ok(DeliveryResult::Ignored(_))
        ));

        let object = ObjectRef::new(FluxKind::GitRepository, "flux-system", "fleet");
        for (branch, name) in [("main", "fleet"), ("dev", "fleet-dev")] {
            let reference = GitReference {
                branch: branch.into(),
                ..Default::default()
            };
            let object = ObjectRef {
                name: name.into(),
                ..object.clone()
            };
            let note = index::note(
                &ports,
                "staging",
                &object,
                "https://github.com/acme/fleet.git",
                &reference,
            );
            note.now_or_never().unwrap().unwrap();
        }
        let request = Request::new("staging", object, Cause::Push);
        assert_eq!(
            receive(&ports, delivery("push", PUSH, &signed)).unwrap(),
            DeliveryResult::Queued(vec![request.clone()])
        );
        assert_eq!(queue.take(), [(request, Duration::ZERO)]);

        let strange = Delivery {
            header: &|_| None,
            body: PUSH.as_bytes(),
        };
        let strange = super::receive(&ports, &ENTRANCE, strange);
        let refusal = strange.now_or_never().unwrap().unwrap_err();
        assert_eq!(refusal.status(), 401, "an unknown host");
        for (header, host) in OTHER_HOST_HEADERS {
            let headers = |name: &str| (name == header).then_some("Push Hook");
            let other = Delivery {
                header: &headers,
                body: PUSH.as_bytes(),
            };
            let refusal = check_headers(&ENTRANCE, &other).unwrap_err();
            assert_eq!(refusal.status(), 401);
            let message = format!("deliveries of {host} are not supported");
            assert!(refusal.to_string().contains(&message), "{refusal}");
        }
        let refusal = receive(&ports, delivery("push", PUSH, "sha256=00")).unwrap_err();
        assert_eq!(refusal.status(), 401);
        assert!(refusal.to_string().ends_with("in the vault"), "{refusal}");
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(matches!(
            receive(&ports, delivery("push", &deep, &sign(&deep))),
            Err(Refusal::Malformed(..))
        ));
        assert_eq!(
            receive(&ports, delivery("ping", "{}", &sign("{}"))).unwrap(),
            DeliveryResult::Pong
        );
        let large = "x".repeat(ENTRANCE.max_body + 1);
        assert_eq!(
            receive(&ports, delivery("push", &large, ""))
                .unwrap_err()
                .status(),
            413
        );
        assert!(queue.take().is_empty());

        queue.set_broken(true);
        let refusal = receive(&ports, delivery("push", PUSH, &signed)).unwrap_err();
        assert_eq!(refusal.status(), 503, "no 2xx before the queue has it");
    }
}
