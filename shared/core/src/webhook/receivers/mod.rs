//! Webhooks of Flux's Receivers: a delivery at the path of a Receiver requests the reconciliation
//! of the objects that the Receiver lists.
//!
//! The path proves nothing. The Receiver and its token are read again from their hub, the path is
//! computed again, and then the type of the Receiver decides what the sender must prove.

mod gcr;
mod oidc;
mod resources;
mod token;
mod types;

use super::{Delivery, DeliveryLimits, DeliveryResult, Refusal};
use crate::receiver::{self, paths};
use driftless_flux::{FluxObject as _, ObjectRef, READY, Receiver, WEBHOOK_PATH};
use driftless_kernel::concurrent;
use driftless_kernel::hub::{self, Hub};
use driftless_kernel::ports::{ErrorKind, PortError, Ports, Request, Secret, in_time};
use futures::FutureExt as _;
use std::time::Duration;

/// The time of a delivery: the function has ten seconds, and must still answer.
const LIMIT: Duration = Duration::from_secs(8);
/// Receivers of one path that are handled concurrently.
const CONCURRENCY: usize = 8;

/// Returns whether a path is one of Receivers.
pub fn is_receiver_path(path: &str) -> bool {
    path.starts_with(WEBHOOK_PATH)
}

/// Checks that a path is noted for a Receiver, before the body of a delivery is read.
///
/// # Errors
/// [`Refusal::UnknownPath`] or [`Refusal::Unavailable`].
pub async fn check_path(ports: &Ports, path: &str) -> Result<(), Refusal> {
    match paths::find(ports, path).await?.is_empty() {
        true => Err(Refusal::UnknownPath),
        false => Ok(()),
    }
}

/// Handles a delivery at the path of a Receiver. Several hubs may have a Receiver with this path:
/// each one gets the delivery.
///
/// # Errors
/// See [`Refusal`]. Objects of another Receiver, or other objects of the same one, may be requested
/// nevertheless.
pub async fn receive(
    ports: &Ports,
    entrance: &DeliveryLimits,
    path: &str,
    delivery: Delivery<'_>,
) -> Result<DeliveryResult, Refusal> {
    if delivery.body.len() > entrance.max_body {
        return Err(Refusal::TooLarge(entrance.max_body));
    }
    let work = receive_all(ports, path, delivery).boxed();
    let done = in_time(ports.clock.as_ref(), LIMIT, work).await;
    done.unwrap_or_else(|| {
        let message = format!(
            "a Receiver's hub did not answer within {} s",
            LIMIT.as_secs()
        );
        Err(PortError::new(ErrorKind::Unavailable, message).into())
    })
}

async fn receive_all(
    ports: &Ports,
    path: &str,
    delivery: Delivery<'_>,
) -> Result<DeliveryResult, Refusal> {
    let found = paths::find(ports, path).await?;
    let handled = found.iter().map(|(hub, id)| {
        async move {
            let result = handle(ports, hub, id, path, delivery).await;
            if let Err(refusal) = &result {
                tracing::warn!(hub, receiver = %id, "delivery refused: {refusal}");
            }
            result
        }
        .boxed()
    });
    let results = concurrent::run(CONCURRENCY, handled.collect()).await;
    let (mut requested, mut is_accepted, mut worst) = (0, false, None::<Refusal>);
    for result in results {
        match result {
            Ok(count) => {
                requested += count;
                is_accepted = true;
            }
            Err(refusal)
                if worst
                    .as_ref()
                    .is_none_or(|worst| rank(worst) < rank(&refusal)) =>
            {
                worst = Some(refusal);
            }
            Err(_) => {}
        }
    }
    match worst {
        // The sender tries again for a hub that failed; the others get a duplicate, which is
        // harmless. A refusal by only some of the Receivers is not reported.
        Some(refusal) if !is_accepted || refusal.status() >= 500 => Err(refusal),
        None if !is_accepted => Err(Refusal::UnknownPath),
        _ => Ok(DeliveryResult::Requested(requested)),
    }
}

/// Returns the order of refusals: the answer has the highest.
fn rank(refusal: &Refusal) -> u16 {
    match refusal {
        Refusal::UnknownPath => 0,
        other => other.status(),
    }
}

/// Handles a delivery for one Receiver. Returns the number of objects that are requested.
async fn handle(
    ports: &Ports,
    hub: &str,
    id: &ObjectRef,
    path: &str,
    delivery: Delivery<'_>,
) -> Result<usize, Refusal> {
    let hub = hub::connect(ports, hub).await.map_err(unavailable)?;
    let (receiver, credentials) = read(&hub, id, path).await?;
    if receiver.is_suspended() {
        return Err(Refusal::NotReady("the Receiver is suspended"));
    }
    if !receiver.status.conditions.is_true(READY) {
        return Err(Refusal::NotReady("the Receiver is not ready"));
    }
    let seen = match credentials {
        Some(credentials) => {
            let body = types::verify(ports, &hub, &receiver, &credentials, &delivery).await?;
            Seen { body, claims: None }
        }
        None => Seen {
            body: None,
            claims: Some(oidc::verify(ports, &hub, &receiver, &delivery).await?),
        },
    };
    let filters = resources::Filters::new(&receiver, &delivery, seen)?;
    let (requests, count, problems) = resources::request(ports, &hub, &receiver, filters).await;
    if !requests.is_empty() {
        ports.queue.send(requests).await?;
    }
    match problems.first() {
        None => Ok(count),
        Some(_) => {
            for problem in &problems {
                tracing::error!(hub = hub.settings.name, receiver = %id, "{problem}");
            }
            Err(Refusal::Failed)
        }
    }
}

/// The parts of a verified delivery that filters see.
#[derive(Default)]
struct Seen {
    /// The body, if it is another one than that of the delivery.
    body: Option<Vec<u8>>,
    /// The claims of the token of an OIDC issuer.
    claims: Option<serde_json::Value>,
}

/// The content of a Receiver's Secret.
struct Credentials {
    token: Secret,
    /// The service account of Google that sends (`gcr`).
    email: Option<Secret>,
    /// The audience of Google's tokens (`gcr`).
    audience: Option<Secret>,
}

/// Reads a Receiver and its Secret, which it does not have for OIDC. A Receiver that no longer has
/// this path counts as unknown.
async fn read(
    hub: &Hub,
    id: &ObjectRef,
    path: &str,
) -> Result<(Receiver, Option<Credentials>), Refusal> {
    let object = hub.get(id).await?.ok_or(Refusal::UnknownPath)?;
    if !object.meta("deletionTimestamp").is_empty() {
        return Err(Refusal::UnknownPath);
    }
    let receiver = Receiver::from_object(object).map_err(|_| Refusal::UnknownPath)?;
    if receiver.contradiction().is_some() {
        return Err(Refusal::UnknownPath);
    }
    if receiver.is_oidc() {
        return match receiver.webhook_path(b"") == path {
            true => Ok((receiver, None)),
            false => Err(Refusal::UnknownPath),
        };
    }
    let secret = receiver::secret(hub, &receiver).await;
    let secret = secret.map_err(unavailable)?;
    let token = receiver::token_of(&receiver, &secret).map_err(|_| Refusal::UnknownPath)?;
    if receiver.webhook_path(token.expose()) != path {
        return Err(Refusal::UnknownPath);
    }
    let entry = |key: &str| driftless_kernel::credentials::entry(&secret, key);
    let credentials = Credentials {
        token,
        email: entry("email"),
        audience: entry("audience"),
    };
    Ok((receiver, Some(credentials)))
}

fn unavailable(failure: driftless_kernel::failure::Failure) -> Refusal {
    PortError::new(ErrorKind::Unavailable, failure.message).into()
}

/// The requests of a delivery with their delays.
type Requests = Vec<(Request, Duration)>;
