//! Handles a delivery of a Git host: queues a request for each source that follows the pushed
//! reference.

use driftless_adapters::embedded_metrics::{MetricsLine, Unit, count, millis};
use driftless_adapters::trace;
use driftless_core::webhook::{self, Delivery, DeliveryLimits, DeliveryResult, Refusal};
use driftless_kernel::ports::Ports;
use lambda_http::{Body, Error, Request, Response};
use serde_json::{Value, json};
use std::time::Duration;

/// The entrance by a function URL: Lambda passes on events of at most 6 MB, and answers larger ones
/// itself.
const DELIVERY_LIMITS: DeliveryLimits = DeliveryLimits {
    max_body: 6 << 20,
    secret: |name| format!("the secret manager under '{name}'"),
};

/// Converts an HTTP event to a delivery, and its result to an HTTP response.
///
/// # Errors
/// Fails if the response cannot be built.
pub async fn handle(ports: &Ports, request: Request) -> Result<Response<Body>, Error> {
    let header = |name: &str| header(&request, name);
    let (id, event) = (webhook::id(&header), webhook::event(&header));
    let start = ports.clock.now();
    let work = async {
        let answered = answer(ports, &request).await;
        tracing::Span::current().record("status", answered.status);
        answered
    };
    let Answer {
        status,
        body,
        queued,
    } = trace::delivery(id, event, work).await;
    let now = ports.clock.now();
    metrics(status, queued, now.saturating_sub(start)).write(now);
    // Strangers can send deliveries that are refused: their spans wait for the next one.
    if status < 400 {
        trace::flush(trace::EXPORT_LIMIT).await;
    }
    let response = Response::builder()
        .status(status)
        .header("content-type", "application/json");
    Ok(response.body(Body::from(body.to_string()))?)
}

/// Returns the value of a header; `None` if it is absent, or not ASCII.
fn header<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    let value = request.headers().get(name)?;
    value.to_str().ok()
}

/// The answer to a delivery.
struct Answer {
    status: u16,
    body: Value,
    /// The number of requests that were queued.
    queued: usize,
}

/// Handles a delivery, and logs its answer.
async fn answer(ports: &Ports, request: &Request) -> Answer {
    let header = |name: &str| header(request, name);
    let path = request.uri().path();
    let delivery = Delivery {
        header: &header,
        body: request.body(),
    };
    let answered = webhook::receive_at(ports, &DELIVERY_LIMITS, path, delivery).await;
    let queued = match &answered {
        Ok(DeliveryResult::Queued(requests)) => requests.len(),
        Ok(DeliveryResult::Planned(_)) => 1,
        _ => 0,
    };
    let (status, body) = match answered {
        Ok(answer) if queued > 0 => (202, render(&answer)),
        Ok(answer) => (200, render(&answer)),
        Err(refusal) => (refusal.status(), json!({"error": explain(&refusal)})),
    };
    let (id, event) = (webhook::id(&header), webhook::event(&header));
    // The path of a Receiver is a secret of its tenant.
    let receiver = webhook::is_receiver_path(path);
    tracing::info!(delivery = id, event, receiver, status, answer = %body, "delivery");
    Answer {
        status,
        body,
        queued,
    }
}

/// Returns the metrics of a delivery that was answered after this time.
fn metrics(status: u16, queued: usize, took: Duration) -> MetricsLine {
    let result = match status {
        202 => "queued",
        200 => "ignored",
        400..500 => "refused",
        _ => "failed",
    };
    MetricsLine::new("webhook")
        .with("result", result)
        .metrics(&["function", "result"], &[("Deliveries", Unit::Count, 1.0)])
        .metrics(
            &["function"],
            &[
                ("DeliveryDuration", Unit::Milliseconds, millis(took)),
                ("RequestsQueued", Unit::Count, count(queued as u64)),
            ],
        )
}

/// Renders the result for people who read their host's list of deliveries.
fn render(answer: &DeliveryResult) -> Value {
    match answer {
        DeliveryResult::Pong => json!({"pong": true}),
        DeliveryResult::Requested(count) => json!({"requested": count}),
        DeliveryResult::Ignored(reason) => json!({"queued": [], "ignored": reason}),
        DeliveryResult::Queued(requests) => {
            let queued = requests
                .iter()
                .map(|one| format!("{}: {}", one.hub, one.object))
                .collect::<Vec<_>>();
            json!({"queued": queued})
        }
        DeliveryResult::Planned(request) => {
            json!({"planned": request.number, "hubs": request.hubs})
        }
    }
}

/// Renders a refusal. An internal error is only logged, because the sender may be a stranger.
fn explain(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Unavailable(error) => {
            tracing::error!(%error, "not queued");
            "not queued, try again".to_owned()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use driftless_flux::GitReference;
    use driftless_flux::{FluxKind, ObjectRef};
    use driftless_kernel::ports::{Cause, Secret};
    use driftless_memory::{MemoryBlobs, MemoryQueue, MemorySecrets, TestClock};
    use driftless_source::index;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    const PUSH: &str = include_str!("../../../events/webhook-push.json");
    const PULL_REQUEST: &str = include_str!("../../../events/webhook-pull-request.json");
    const PING: &str = include_str!("../../../events/webhook-ping.json");
    const FOREIGN: &str = include_str!("../../../events/webhook-foreign.json");
    const BAD_SIGNATURE: &str = include_str!("../../../events/webhook-bad-signature.json");
    /// The secret of the samples in `events`: see events/README.md.
    const SECRET: &str = "It's a Secret to Everybody";

    struct World {
        ports: Ports,
        queue: Arc<MemoryQueue>,
    }

    /// Two hubs follow `acme/fleet`: one its `main`, the other its `main` and its `dev`.
    async fn world() -> World {
        let queue = Arc::<MemoryQueue>::default();
        let mut ports = driftless_memory::ports(
            Arc::<MemoryBlobs>::default(),
            queue.clone(),
            Arc::<TestClock>::default(),
        );
        let keys = BTreeMap::from([(webhook::SECRET.to_owned(), Secret::new(SECRET))]);
        ports.secrets = Arc::new(MemorySecrets(keys));
        for (hub, name, branch) in [
            ("staging", "flux-system", "main"),
            ("production", "flux-system", "main"),
            ("production", "preview", "dev"),
        ] {
            let object = ObjectRef::new(FluxKind::GitRepository, "flux-system", name);
            let reference = GitReference {
                branch: branch.into(),
                ..GitReference::default()
            };
            let url = "https://github.com/acme/fleet";
            index::note(&ports, hub, &object, url, &reference)
                .await
                .unwrap();
        }
        World { ports, queue }
    }

    async fn invoke(world: &World, event: &str) -> (u16, Value) {
        let request = lambda_http::request::from_str(event).unwrap();
        let response = handle(&world.ports, request).await.unwrap();
        assert_eq!(response.headers()["content-type"], "application/json");
        let status = response.status().as_u16();
        (status, serde_json::from_slice(response.body()).unwrap())
    }

    #[tokio::test]
    async fn a_push_is_queued_for_every_hub_that_follows_it_and_the_answer_lists_them() {
        let world = world().await;
        let (status, body) = invoke(&world, PUSH).await;
        assert_eq!(status, 202);
        let queued = json!([
            "production: GitRepository/flux-system/flux-system",
            "staging: GitRepository/flux-system/flux-system",
        ]);
        assert_eq!(body, json!({ "queued": queued }));
        let sent = world.queue.take();
        let hubs: Vec<_> = sent.iter().map(|(one, _)| one.hub.as_str()).collect();
        assert_eq!(hubs, ["production", "staging"]);
        for (request, delay) in &sent {
            assert!(delay.is_zero());
            assert_eq!(request.cause, Cause::Push);
            let expected = ObjectRef::new(FluxKind::GitRepository, "flux-system", "flux-system");
            assert_eq!(request.object, expected);
        }
        // GitHub may deliver a push again. That is harmless, because the work is level-triggered.
        assert_eq!(invoke(&world, PUSH).await.0, 202);
        assert_eq!(world.queue.take().len(), 2);
    }

    #[tokio::test]
    async fn only_a_push_to_a_followed_repository_is_queued() {
        let world = world().await;
        assert_eq!(invoke(&world, PING).await, (200, json!({"pong": true})));
        let reason = "no source follows refs/heads/main of github.com/acme/unknown";
        let ignored = json!({"queued": [], "ignored": reason});
        assert_eq!(invoke(&world, FOREIGN).await, (200, ignored));
        assert!(world.queue.take().is_empty());
    }

    #[tokio::test]
    async fn a_pull_request_of_a_root_requests_one_plan_for_its_hubs() {
        let world = world().await;
        let (status, body) = invoke(&world, PULL_REQUEST).await;
        assert_eq!(status, 200);
        let reason = body["ignored"].as_str().unwrap();
        assert!(
            reason.starts_with("this installation makes no plans"),
            "{reason}"
        );
        world.queue.accept_plans();
        let answer = json!({"planned": 12, "hubs": ["production", "staging"]});
        assert_eq!(invoke(&world, PULL_REQUEST).await, (202, answer));
        let request = world.queue.take_plans().remove(0);
        assert_eq!(request.repository, "https://github.com/acme/fleet");
        assert_eq!(
            (request.base_ref.as_str(), request.is_fork),
            ("main", false)
        );
        let sample = include_str!("../../../events/plan-sqs.json");
        let sample: Value = serde_json::from_str(sample).unwrap();
        let message = sample["Records"][0]["body"].as_str().unwrap();
        assert_eq!(serde_json::to_string(&request).unwrap(), message);
        assert!(world.queue.take().is_empty(), "no step is requested");
        let tampered = PULL_REQUEST.replace("scale-the-shop", "scale-the-shed");
        assert_eq!(invoke(&world, &tampered).await.0, 401);
        world.queue.set_broken(true);
        assert_eq!(invoke(&world, PULL_REQUEST).await.0, 503);
    }

    #[tokio::test]
    async fn deliveries_without_a_valid_signature_are_refused() {
        let mut world = world().await;
        let tampered = PUSH.replace("refs/heads/main", "refs/heads/dev");
        let unsigned = PUSH.replace("x-hub-signature-256", "x-hub-signature");
        for event in [BAD_SIGNATURE, &tampered, &unsigned] {
            let (status, body) = invoke(&world, event).await;
            assert_eq!(status, 401);
            let error = body["error"].as_str().unwrap();
            assert!(error.starts_with("the signature is missing or wrong"));
            assert!(!error.contains(SECRET));
        }
        world.ports.secrets = Arc::new(MemorySecrets::default());
        let (status, body) = invoke(&world, PUSH).await;
        assert_eq!(
            (status, &body["error"]),
            (503, &json!("not queued, try again"))
        );
        assert!(world.queue.take().is_empty());
    }

    #[tokio::test]
    async fn a_broken_queue_is_an_error() {
        let world = world().await;
        world.queue.set_broken(true);
        let answer = (503, json!({"error": "not queued, try again"}));
        assert_eq!(invoke(&world, PUSH).await, answer);
    }

    /// A push of each other host reaches its followers over HTTPS and over SSH.
    #[tokio::test]
    async fn pushes_of_other_hosts_are_queued() {
        let mut world = world().await;
        let keys = webhook::OTHER_SECRETS.map(|name| (name.to_owned(), Secret::new(SECRET)));
        world.ports.secrets = Arc::new(MemorySecrets(keys.into()));
        for (event, urls) in [
            (
                include_str!("../../../events/webhook-gitlab-push.json"),
                [
                    "https://gitlab.acme.example/acme/fleet",
                    "ssh://git@gitlab.acme.example/acme/fleet",
                ],
            ),
            (
                include_str!("../../../events/webhook-gitea-push.json"),
                [
                    "https://gitea.acme.example/acme/fleet.git",
                    "ssh://git@gitea.acme.example/acme/fleet",
                ],
            ),
            (
                include_str!("../../../events/webhook-forgejo-push.json"),
                [
                    "https://gitea.acme.example/acme/fleet.git",
                    "ssh://git@gitea.acme.example/acme/fleet",
                ],
            ),
            (
                include_str!("../../../events/webhook-bitbucket-push.json"),
                [
                    "https://bitbucket.org/acme/fleet",
                    "ssh://git@bitbucket.org/acme/fleet.git",
                ],
            ),
            (
                include_str!("../../../events/webhook-bitbucket-server-push.json"),
                [
                    "https://bitbucket.acme.example/scm/acme/fleet",
                    "ssh://git@bitbucket.acme.example:7999/acme/fleet",
                ],
            ),
            (
                include_str!("../../../events/webhook-azuredevops-push.json"),
                [
                    "https://dev.azure.com/acme/platform/_git/fleet",
                    "ssh://git@ssh.dev.azure.com/v3/acme/platform/fleet",
                ],
            ),
        ] {
            for (name, url) in ["https", "ssh"].into_iter().zip(urls) {
                let object = ObjectRef::new(FluxKind::GitRepository, "apps", name);
                let reference = GitReference {
                    branch: "main".into(),
                    ..GitReference::default()
                };
                let note = index::note(&world.ports, "staging", &object, url, &reference);
                note.await.unwrap();
            }
            let queued = ["https", "ssh"].map(|name| format!("staging: GitRepository/apps/{name}"));
            assert_eq!(
                invoke(&world, event).await,
                (202, json!({ "queued": queued }))
            );
            let tampered = event.replace("refs/heads/main", "refs/heads/maim");
            let tampered = tampered.replace("\"name\\\":\\\"main", "\"name\\\":\\\"maim");
            let (status, _) = invoke(&world, &tampered).await;
            let has_token = event.contains("x-gitlab-token") || event.contains("Basic ");
            assert_eq!(status, if has_token { 200 } else { 401 }, "{urls:?}");
        }
    }

    #[tokio::test]
    async fn a_path_without_a_receiver_is_not_found() {
        let world = world().await;
        for event in [
            include_str!("../../../events/webhook-receiver.json"),
            include_str!("../../../events/webhook-receiver-oidc.json"),
        ] {
            let error = json!({"error": "no Receiver has this path"});
            assert_eq!(invoke(&world, event).await, (404, error));
        }
    }

    /// A function URL passes on the body as Base64 if its content type is not a text type.
    #[tokio::test]
    async fn the_signature_is_over_the_bytes_in_any_encoding() {
        let world = world().await;
        let mut event: Value = serde_json::from_str(PUSH).unwrap();
        let body = event["body"].as_str().unwrap().to_owned();
        event["body"] = STANDARD.encode(body).into();
        event["isBase64Encoded"] = true.into();
        assert_eq!(invoke(&world, &event.to_string()).await.0, 202);
    }
}
