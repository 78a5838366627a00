//! GitHub's webhooks: verified before they are read, and believed in one thing alone: that it is worth a look.

use crate::ports::{Cause, ErrorKind, PortError, Ports, Request};
use crate::source::index;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Deserialize;
use sha2::Sha256;
use std::time::Duration;

/// Where the secret manager keeps the webhook's secret.
pub const SECRET: &str = "github/webhook";

/// A way in for deliveries.
#[derive(Clone, Copy, Debug)]
pub struct Entrance {
    /// The most bytes of a body.
    pub max_body: usize,
    /// Where this way in is given the webhook's secret, as the person reads it who set another one on GitHub.
    pub secret: &'static str,
}

/// A delivery as it came in.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// `X-GitHub-Event`.
    pub event: &'a str,
    /// `X-Hub-Signature-256`.
    pub signature: Option<&'a str>,
    /// The raw body.
    pub body: &'a [u8],
}

/// What came of a delivery; all of it is answered with 2xx.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// The answer to `ping`.
    Pong,
    /// These requests are in the queue.
    Queued(Vec<Request>),
    /// Nothing here follows it; why.
    Ignored(String),
}

/// Why a delivery is refused.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// 413: more than this many bytes.
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    /// 401: without a signature, with another than SHA-256, or a wrong one; and where the secret is set.
    #[error(
        "the signature is missing or wrong: set the same secret in GitHub's webhook and in {0}"
    )]
    Unauthorized(&'static str),
    /// 400.
    #[error("not a {0} payload: {1}")]
    Malformed(String, String),
    /// 503: GitHub shows the failure, and the timer catches up.
    #[error("not queued: {0}")]
    Unavailable(#[from] PortError),
}

impl Refusal {
    /// The HTTP status.
    pub fn status(&self) -> u16 {
        match self {
            Self::TooLarge(_) => 413,
            Self::Unauthorized(_) => 401,
            Self::Malformed(..) => 400,
            Self::Unavailable(_) => 503,
        }
    }
}

/// The part of a push event that matters: which repository, which reference.
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

/// Takes a delivery in. Returns only after the queue has what follows from it.
///
/// # Errors
/// See [`Refusal`]; nothing is queued then.
pub async fn receive(
    ports: &Ports,
    entrance: &Entrance,
    delivery: Delivery<'_>,
) -> Result<Answer, Refusal> {
    if delivery.body.len() > entrance.max_body {
        return Err(Refusal::TooLarge(entrance.max_body));
    }
    let secret = ports.keys.secret(SECRET).await?.ok_or_else(|| {
        PortError::new(
            ErrorKind::NotFound,
            format!("the secret manager has no '{SECRET}'"),
        )
    })?;
    if !is_signed(secret.expose(), delivery.body, delivery.signature) {
        return Err(Refusal::Unauthorized(entrance.secret));
    }
    match delivery.event {
        "ping" => Ok(Answer::Pong),
        "push" => push(ports, delivery.body).await,
        other => Ok(Answer::Ignored(format!(
            "events of type '{other}' are not used"
        ))),
    }
}

/// Checks `sha256=HEX` over the raw body in constant time. An empty secret verifies nothing.
fn is_signed(secret: &[u8], body: &[u8], signature: Option<&str>) -> bool {
    let given = signature.and_then(|text| text.strip_prefix("sha256="));
    let given = given.and_then(|text| hex::decode(text).ok());
    let mac = Hmac::<Sha256>::new_from_slice(secret).ok();
    let (Some(given), Some(mut mac), false) = (given, mac, secret.is_empty()) else {
        return false;
    };
    mac.update(body);
    mac.verify_slice(&given).is_ok()
}

async fn push(ports: &Ports, body: &[u8]) -> Result<Answer, Refusal> {
    let push: Push = serde_json::from_slice(body).map_err(|error| {
        // serde names positions and types, never values of ours; the payload is GitHub's own.
        Refusal::Malformed(
            "push".to_owned(),
            format!("line {}, column {}", error.line(), error.column()),
        )
    })?;
    let url = match push.repository.html_url.as_str() {
        "" => format!("https://github.com/{}", push.repository.full_name),
        url => url.to_owned(),
    };
    let Some(repository) = index::repository(&url) else {
        return Err(Refusal::Malformed(
            "push".to_owned(),
            "repository.html_url is no address".to_owned(),
        ));
    };
    let followers = index::followers(ports, &repository, &push.reference).await?;
    if followers.is_empty() {
        return Ok(Answer::Ignored(format!(
            "no source follows {} of {repository}",
            push.reference
        )));
    }
    let requests: Vec<Request> = followers
        .into_iter()
        .map(|(hub, object)| Request::new(&hub, object, Cause::Push))
        .collect();
    ports
        .queue
        .send(
            requests
                .iter()
                .map(|request| (request.clone(), Duration::ZERO))
                .collect(),
        )
        .await?;
    Ok(Answer::Queued(requests))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flux::GitReference;
    use crate::flux::{FluxKind, ObjectRef};
    use crate::ports::Secret;
    use crate::testing::{self, MemoryBlobs, MemoryKeys, MemoryQueue};
    use futures::FutureExt as _;
    use std::sync::Arc;

    const SECRET: &[u8] = b"It's a Secret to Everybody";
    /// GitHub's own example for the body `Hello, World!`.
    const SIGNATURE: &str =
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";

    const ENTRANCE: Entrance = Entrance {
        max_body: 1 << 20,
        secret: "the vault",
    };

    #[test]
    fn signatures() {
        let body = b"Hello, World!";
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

    fn delivery<'a>(event: &'a str, body: &'a str, signature: &'a str) -> Delivery<'a> {
        Delivery {
            event,
            signature: Some(signature),
            body: body.as_bytes(),
        }
    }

    fn sign(body: &str) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(SECRET).unwrap();
        mac.update(body.as_bytes());
        format!("sha256={}", hex::encode(mac.finalize().into_bytes()))
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
        let receive = |ports: &Ports, one: Delivery<'_>| {
            let received = receive(ports, &ENTRANCE, one);
            received.now_or_never().expect("nothing waits")
        };
        let signed = sign(PUSH);

        // No secret: fail closed.
        assert!(matches!(
            receive(&ports, delivery("push", PUSH, &signed)),
            Err(Refusal::Unavailable(_))
        ));
        ports.keys = Arc::new(MemoryKeys(
            [(super::SECRET.to_owned(), Secret::new(SECRET))].into(),
        ));
        assert!(matches!(
            receive(&ports, delivery("push", PUSH, &signed)),
            Ok(Answer::Ignored(_))
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
            Answer::Queued(vec![request.clone()])
        );
        assert_eq!(queue.take(), [(request, Duration::ZERO)]);

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
            Answer::Pong
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
