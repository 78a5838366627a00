//! The HTTP side: GitHub's webhook for the world; metrics, objects and the sweep for the own machine.

use super::work::Shared;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use driftless_core::flux::FluxKind;
use driftless_core::hub;
use driftless_core::webhook::{self, Answer, Delivery, MAX_BODY, Refusal};
use driftless_manifest::Object;
use futures::StreamExt as _;
use http_body_util::LengthLimitError;
use serde_json::{Value, json};
use std::error::Error as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Bodies that are read at one time: an unknown sender can make us hold this many times 25 MiB.
const BODIES: usize = 4;
/// How long a body may take.
const BODY_TIME: Duration = Duration::from_secs(10);

struct Site {
    shared: Arc<Shared>,
    hub: String,
    bodies: Semaphore,
}

type Sited = State<Arc<Site>>;

/// Every path. To be served with [`Router::into_make_service_with_connect_info`].
pub fn router(shared: Arc<Shared>, hub: String) -> Router {
    let site = Arc::new(Site {
        shared,
        hub,
        bodies: Semaphore::new(BODIES),
    });
    Router::new()
        .route("/webhook", post(webhook))
        .route("/healthz", get(async || "ok\n"))
        .route("/metrics", get(metrics))
        .route("/api/objects", get(objects))
        .route("/sweep", post(sweep))
        .with_state(site)
}

impl Site {
    /// Counts an answer.
    fn counted(&self, path: &'static str, answer: Response) -> Response {
        self.shared.metrics.request(path, answer.status().as_u16());
        answer
    }
}

async fn webhook(State(site): Sited, headers: HeaderMap, request: Request) -> Response {
    let answer = match receive(&site, &headers, request.into_body()).await {
        Ok(answer) => answered(&answer).into_response(),
        Err(refusal) => {
            tracing::warn!(status = refusal.status(), "webhook refused: {refusal}");
            let status =
                StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            // A stranger learns nothing of the inside.
            let told = match refusal {
                Refusal::Unavailable(_) => "not queued, try again".to_owned(),
                refusal => refusal.to_string(),
            };
            (status, Json(json!({"error": told}))).into_response()
        }
    };
    site.counted("/webhook", answer)
}

async fn receive(site: &Site, headers: &HeaderMap, body: Body) -> Result<Answer, Refusal> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let signature = text("x-hub-signature-256").ok_or(Refusal::Unauthorized)?;
    let announced =
        text(header::CONTENT_LENGTH.as_str()).and_then(|length| length.parse::<u64>().ok());
    if announced.is_some_and(|length| length > MAX_BODY as u64) {
        discard(body).await;
        return Err(Refusal::TooLarge);
    }
    let malformed = |why: &str| Refusal::Malformed("webhook".to_owned(), why.to_owned());
    let _turn = site
        .bodies
        .acquire()
        .await
        .map_err(|_| malformed("the server is ending"))?;
    let body = tokio::time::timeout(BODY_TIME, axum::body::to_bytes(body, MAX_BODY)).await;
    let body = body
        .map_err(|_| malformed("the body took too long"))?
        .map_err(|error| {
            let too_large = error
                .source()
                .is_some_and(|source| source.is::<LengthLimitError>());
            if too_large {
                Refusal::TooLarge
            } else {
                malformed("the body could not be read")
            }
        })?;
    let event = text("x-github-event").unwrap_or_default();
    webhook::receive(
        &site.shared.ports,
        Delivery {
            event,
            signature: Some(signature),
            body: &body,
        },
    )
    .await
}

/// Reads a body that is refused, within bounds and keeping nothing: a sender that is cut off never sees the answer.
async fn discard(body: Body) {
    let mut frames = body.into_data_stream();
    let mut left = 2 * MAX_BODY;
    let reading = async {
        while let Some(Ok(bytes)) = frames.next().await {
            left = left.saturating_sub(bytes.len());
            if left == 0 {
                break;
            }
        }
    };
    if tokio::time::timeout(BODY_TIME, reading).await.is_err() {
        tracing::debug!("a refused body took too long");
    }
}

fn answered(answer: &Answer) -> (StatusCode, Json<Value>) {
    let (status, body) = match answer {
        Answer::Pong => (StatusCode::OK, json!({"queued": [], "note": "pong"})),
        Answer::Ignored(why) => (StatusCode::OK, json!({"queued": [], "note": why})),
        Answer::Queued(requests) => {
            let names: Vec<String> = requests
                .iter()
                .map(|request| request.object.to_string())
                .collect();
            tracing::info!(objects = names.join(" "), "push queued");
            (StatusCode::ACCEPTED, json!({"queued": names}))
        }
    };
    (status, Json(body))
}

async fn metrics(State(site): Sited) -> Response {
    let text = site.shared.metrics.render(site.shared.queue.waiting());
    let kind = [(
        header::CONTENT_TYPE,
        "text/plain; version=0.0.4; charset=utf-8",
    )];
    site.counted("/metrics", (kind, text).into_response())
}

async fn objects(
    State(site): Sited,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
) -> Response {
    let answer = if is_local(&peer, &headers) {
        match list(&site).await {
            Ok(objects) => Json(objects).into_response(),
            Err(why) => unavailable(&why),
        }
    } else {
        forbidden()
    };
    site.counted("/api/objects", answer)
}

async fn list(site: &Site) -> Result<Vec<Value>, String> {
    let hub = hub::connect(&site.shared.ports, &site.hub)
        .await
        .map_err(|failure| failure.to_string())?;
    let mut all = Vec::new();
    for kind in FluxKind::ALL {
        let mut objects = hub.list(kind).await.map_err(|error| error.to_string())?;
        objects.sort_by(|a, b| (a.namespace(), a.name()).cmp(&(b.namespace(), b.name())));
        all.extend(objects.iter().map(summary));
    }
    Ok(all)
}

/// One object in a few words.
fn summary(object: &Object) -> Value {
    let conditions = crate::ready::conditions(object);
    let ready = conditions.get("Ready");
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
    json!({
        "kind": object.kind(), "namespace": object.namespace(), "name": object.name(),
        "ready": ready.map_or("Unknown", |ready| &ready.status),
        "reason": ready.map(|ready| &ready.reason), "message": ready.map(|ready| &ready.message),
        "revision": crate::ready::revision(object), "suspended": crate::ready::suspended(object),
        "observed": number("/status/observedGeneration").is_some_and(|seen| Some(seen) >= number("/metadata/generation")),
    })
}

async fn sweep(
    State(site): Sited,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
) -> Response {
    let answer = if is_local(&peer, &headers) {
        match site.shared.sweep().await {
            Ok(reports) => {
                let reports: Vec<Value> = reports
                    .iter()
                    .map(|report| {
                        let queued: Vec<String> = report.queued.iter().map(|one| one.object.to_string()).collect();
                        json!({"hub": report.hub, "queued": queued, "error": report.failure.as_ref().map(ToString::to_string)})
                    })
                    .collect();
                Json(json!({"hubs": reports})).into_response()
            }
            Err(why) => unavailable(&why),
        }
    } else {
        forbidden()
    };
    site.counted("/sweep", answer)
}

/// Whether a request comes from this machine itself, and not through a proxy on it.
fn is_local(peer: &SocketAddr, headers: &HeaderMap) -> bool {
    let proxied = ["forwarded", "x-forwarded-for", "x-real-ip", "via"]
        .iter()
        .any(|name| headers.contains_key(*name));
    peer.ip().to_canonical().is_loopback() && !proxied
}

fn forbidden() -> Response {
    (
        StatusCode::FORBIDDEN,
        Json(json!({"error": "only from the machine that driftless runs on"})),
    )
        .into_response()
}

fn unavailable(why: &str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"error": why}))).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_is_loopback_without_a_proxy() {
        let none = HeaderMap::new();
        let peer = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert!(is_local(&peer("127.0.0.1:5000"), &none));
        assert!(is_local(&peer("[::1]:5000"), &none));
        assert!(is_local(&peer("[::ffff:127.0.0.1]:5000"), &none));
        assert!(!is_local(&peer("10.0.0.1:5000"), &none));
        let proxied = HeaderMap::from_iter([(header::FORWARDED, "for=10.0.0.1".parse().unwrap())]);
        assert!(!is_local(&peer("127.0.0.1:5000"), &proxied));
    }

    #[test]
    fn summaries() {
        let object = Object::new(
            json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"namespace": "team", "name": "apps", "generation": 2},
            "status": {"observedGeneration": 1, "lastAppliedRevision": "main@sha1:a", "conditions": [
                {"type": "Ready", "status": "False", "reason": "BuildFailed", "message": "no"}]}}),
        );
        let summary = summary(&object.unwrap());
        assert_eq!(summary["ready"], "False");
        assert_eq!(summary["reason"], "BuildFailed");
        assert_eq!(summary["revision"], "main@sha1:a");
        assert_eq!(summary["observed"], false);
    }
}
