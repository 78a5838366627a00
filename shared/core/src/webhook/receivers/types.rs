//! The types of Receivers: the proof of each kind of sender, as in Flux's notification-controller
//! 1.9.

use super::{Credentials, gcr};
use crate::webhook::signature::{is_prefixed, is_sha1, is_token};
use crate::webhook::{Delivery, Refusal, read};
use driftless_flux::Receiver;
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::Ports;
use serde::Deserialize;
use serde_json::Value;

/// The only refusal of a delivery whose sender could not prove what the type needs: it does not
/// reveal which part was wrong.
const UNVERIFIED: &str = "the signature or token is missing or wrong, or does not fit the body";

fn unverified() -> Refusal {
    Refusal::Invalid(UNVERIFIED.to_owned())
}

/// Checks that a delivery is one of a Receiver's sender, and of an event that the Receiver lists.
/// Returns the body that filters see, if it is another one than that of the delivery.
///
/// # Errors
/// [`Refusal::Invalid`], or [`Refusal::Unavailable`] if a key to check with cannot be read.
pub(super) async fn verify(
    ports: &Ports,
    hub: &Hub,
    receiver: &Receiver,
    credentials: &Credentials,
    delivery: &Delivery<'_>,
) -> Result<Option<Vec<u8>>, Refusal> {
    let header = |name: &str| (delivery.header)(name);
    let (token, body) = (credentials.token.expose(), delivery.body);
    let kind = receiver.spec.kind.as_str();
    let is_verified = match kind {
        // These senders prove only that they know the path.
        "generic" | "quay" | "dockerhub" | "acr" | "cdevents" => true,
        "generic-hmac" => is_prefixed(token, body, header("x-signature")),
        "github" | "bitbucket" => {
            let signature = header("x-hub-signature-256").or_else(|| header("x-hub-signature"));
            has_payload_type(delivery) && is_prefixed(token, body, signature)
        }
        "gitlab" => is_token(token, header("x-gitlab-token")),
        "harbor" => is_token(token, header("authorization")),
        "nexus" => {
            let signature = header("x-nexus-webhook-signature");
            signature.is_some_and(|hex| is_sha1(token, body, hex))
        }
        "gcr" => {
            return gcr::verify(ports, hub, credentials, delivery)
                .await
                .map(Some);
        }
        _ => {
            let message = "the type of the Receiver is not known";
            return Err(Refusal::Invalid(message.to_owned()));
        }
    };
    if !is_verified {
        return Err(unverified());
    }
    check_payload(kind, body)?;
    let event = match kind {
        "github" => header("x-github-event"),
        "gitlab" => header("x-gitlab-event"),
        "bitbucket" => header("x-event-key"),
        "cdevents" => header("ce-type"),
        _ => return Ok(None),
    };
    check_event(receiver, event.unwrap_or_default())?;
    Ok(None)
}

/// Returns whether a delivery has one of the two content types of GitHub's webhooks.
fn has_payload_type(delivery: &Delivery<'_>) -> bool {
    let full = (delivery.header)("content-type").unwrap_or_default();
    let kind = full.split(';').next().unwrap_or_default().trim();
    ["application/json", "application/x-www-form-urlencoded"]
        .iter()
        .any(|known| kind.eq_ignore_ascii_case(known))
}

fn check_event(receiver: &Receiver, event: &str) -> Result<(), Refusal> {
    let listed = receiver.spec.events.as_deref().unwrap_or_default();
    let is_listed = listed.iter().any(|one| one.eq_ignore_ascii_case(event));
    match is_listed || listed.is_empty() {
        true => Ok(()),
        false => Err(Refusal::Invalid(
            "the event is not one of spec.events of the Receiver".to_owned(),
        )),
    }
}

/// The used part of a delivery of Quay.
#[derive(Deserialize)]
#[expect(dead_code, reason = "a delivery of another form is refused")]
struct Quay {
    docker_url: Option<String>,
    updated_tags: Option<Vec<String>>,
}

/// The used part of a delivery of Docker Hub.
#[derive(Deserialize)]
#[expect(dead_code, reason = "a delivery of another form is refused")]
struct DockerHub {
    push_data: Option<DockerPush>,
    repository: Option<DockerRepository>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "a delivery of another form is refused")]
struct DockerPush {
    tag: Option<String>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "a delivery of another form is refused")]
struct DockerRepository {
    repo_url: Option<String>,
}

/// The used part of a delivery of Nexus.
#[derive(Deserialize)]
#[expect(dead_code, reason = "a delivery of another form is refused")]
struct Nexus {
    action: Option<String>,
    #[serde(rename = "repositoryName")]
    repository_name: Option<String>,
}

/// The used part of a delivery of Azure Container Registry.
#[derive(Deserialize)]
#[expect(dead_code, reason = "a delivery of another form is refused")]
struct Acr {
    action: Option<String>,
    target: Option<AcrTarget>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "a delivery of another form is refused")]
struct AcrTarget {
    repository: Option<String>,
    tag: Option<String>,
}

/// Checks the form of the body, for the types whose form Flux checks.
fn check_payload(kind: &str, body: &[u8]) -> Result<(), Refusal> {
    match kind {
        "quay" => check_form::<Quay>("Quay", body),
        "dockerhub" => check_form::<DockerHub>("Docker Hub", body),
        "nexus" => check_form::<Nexus>("Nexus", body),
        "acr" => check_form::<Acr>("ACR", body),
        "cdevents" => cdevent(body),
        _ => Ok(()),
    }
}

fn check_form<'b, T: Deserialize<'b>>(sender: &str, body: &'b [u8]) -> Result<(), Refusal> {
    read::<T>(sender, body).map(drop)
}

/// Checks that a body is a CDEvent: its context and its subject have the required fields.
fn cdevent(body: &[u8]) -> Result<(), Refusal> {
    let event: Value = read("CDEvents", body)?;
    let text = |pointer: &str| {
        let text = event.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default()
    };
    let lacking = [
        "/context/version",
        "/context/id",
        "/context/source",
        "/context/type",
        "/context/timestamp",
        "/subject/id",
    ]
    .into_iter()
    .find(|pointer| text(pointer).is_empty());
    let problem = match lacking {
        Some(pointer) => format!("{} is missing", pointer[1..].replace('/', ".")),
        None if !text("/context/type").starts_with("dev.cdevents.") => {
            "context.type does not begin with dev.cdevents.".to_owned()
        }
        None => return Ok(()),
    };
    Err(Refusal::Malformed("CDEvents".to_owned(), problem))
}
