//! The HTTP routes: the webhook, those of Receivers, and metrics for all clients; objects and the
//! sweep for this machine only.

use crate::body::{BodyError, BodyMemory, discard};
use crate::connections::Caller;
use crate::dashboard::Dashboard;
use crate::hub_error::HubError;
use crate::local;
use crate::metrics::CONTENT_TYPE;
use crate::options::ServerOptions;
use crate::tasks::ServerState;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use driftless_adapters::trace;
use driftless_core::sweep::Report;
use driftless_core::webhook::{self, Delivery, DeliveryLimits, DeliveryResult, Refusal};
use driftless_fleet::ready::revision;
use driftless_flux::{Conditions, FluxKind, is_suspended};
use driftless_kernel::hub;
use driftless_manifest::Object;
use futures::TryFutureExt as _;
use serde_json::{Value, json};
use std::fmt::Display;
use std::sync::Arc;

/// The maximum size of a delivery in bytes: GitHub's limit of a payload is 25 MB.
const MAX_DELIVERY: usize = 25 << 20;

/// The state of the routes for all clients.
struct Site {
    state: Arc<ServerState>,
    limits: DeliveryLimits,
    room: BodyMemory,
}

type SiteState = State<Arc<Site>>;

/// The state of the routes for this machine.
struct OwnSite {
    site: Arc<Site>,
    hub: String,
    dashboard: Arc<Dashboard>,
}

type OwnSiteState = State<Arc<OwnSite>>;

/// Returns the routes. Requests must carry a [`Caller`].
pub(crate) fn router(
    state: Arc<ServerState>,
    options: &ServerOptions,
    dashboard: Arc<Dashboard>,
) -> Router {
    let site = Site::new(state, options.secret_place);
    let own = Router::new()
        .route("/api/objects", get(objects))
        .route("/sweep", post(sweep))
        .fallback(pages)
        .with_state(Arc::new(OwnSite {
            site: site.clone(),
            hub: options.hub.clone(),
            dashboard,
        }));
    public_routes(site).merge(own)
}

/// Returns the routes of a worker. Any client may use them. `is_connected` returns whether it can
/// receive messages. Requests must carry a [`Caller`].
pub(crate) fn worker_router(
    state: Arc<ServerState>,
    secret_place: fn(&str) -> String,
    is_connected: Arc<dyn Fn() -> bool + Send + Sync>,
) -> Router {
    let ready = move || {
        let is_connected = is_connected();
        async move {
            match is_connected {
                true => (StatusCode::OK, "ok\n"),
                false => (
                    StatusCode::SERVICE_UNAVAILABLE,
                    "no server of NATS is connected\n",
                ),
            }
        }
    };
    public_routes(Site::new(state, secret_place))
        .route("/readyz", get(ready))
        .fallback(async || {
            let error = "driftless worker has no such path: it serves POST /webhook, POST /hook/..., \
                         GET /healthz, GET /readyz and GET /metrics; the dashboard is one of driftless serve";
            (StatusCode::NOT_FOUND, Json(json!({"error": error})))
        })
}

/// Returns the routes for all clients.
fn public_routes(site: Arc<Site>) -> Router {
    Router::new()
        .route("/webhook", post(webhook))
        .route("/hook/{digest}", post(webhook))
        .route("/healthz", get(async || "ok\n"))
        .route("/metrics", get(metrics))
        .with_state(site)
}

impl Site {
    fn new(state: Arc<ServerState>, secret: fn(&str) -> String) -> Arc<Self> {
        Arc::new(Self {
            state,
            limits: DeliveryLimits {
                max_body: MAX_DELIVERY,
                secret,
            },
            room: BodyMemory::default(),
        })
    }
}

impl Site {
    /// Counts an answer in the metrics.
    fn counted(&self, path: &'static str, answer: Response) -> Response {
        self.state.metrics.request(path, answer.status().as_u16());
        answer
    }
}

/// The reason why a delivery was refused.
enum DeliveryError {
    /// A refusal of the core.
    Delivery(Refusal),
    /// The body arrived too slowly: 408.
    Slow,
    /// The server has too little memory for a body of this size: 503.
    NoRoom,
}

impl From<Refusal> for DeliveryError {
    fn from(refusal: Refusal) -> Self {
        Self::Delivery(refusal)
    }
}

impl From<BodyError> for DeliveryError {
    fn from(unread: BodyError) -> Self {
        match unread {
            BodyError::TooLarge => Refusal::TooLarge(MAX_DELIVERY).into(),
            BodyError::Slow => Self::Slow,
            BodyError::NoRoom => Self::NoRoom,
            BodyError::Broken => {
                let problem = "the body could not be read".to_owned();
                Refusal::Malformed("webhook".to_owned(), problem).into()
            }
        }
    }
}

impl DeliveryError {
    fn status(&self) -> u16 {
        match self {
            Self::Delivery(refusal) => refusal.status(),
            Self::Slow => 408,
            Self::NoRoom => 503,
        }
    }

    /// Returns the reason for the log.
    fn reason(&self) -> String {
        match self {
            Self::Delivery(refusal) => refusal.to_string(),
            Self::Slow => "the body arrived too slowly".to_owned(),
            Self::NoRoom => "too many large bodies are being read, try again".to_owned(),
        }
    }

    /// Returns the reason for the sender, which must not reveal internals.
    fn public_reason(&self) -> String {
        match self {
            Self::Delivery(Refusal::Unavailable(_)) => "not queued, try again".to_owned(),
            other => other.reason(),
        }
    }
}

async fn webhook(
    State(site): SiteState,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    request: Request,
) -> Response {
    let path = request.uri().path().to_owned();
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let answered = async {
        let answer = match receive(&site, &caller, &path, &headers, request.into_body()).await {
            Ok(answer) => response(&answer).into_response(),
            Err(refused) => {
                let status = refused.status();
                tracing::warn!(status, "webhook refused: {}", refused.reason());
                let status =
                    StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                (status, Json(json!({"error": refused.public_reason()}))).into_response()
            }
        };
        tracing::Span::current().record("status", answer.status().as_u16());
        answer
    };
    let answer = trace::delivery(webhook::id(&text), webhook::event(&text), answered).await;
    let counted = match webhook::is_receiver_path(&path) {
        true => "/hook",
        false => "/webhook",
    };
    site.counted(counted, answer)
}

async fn receive(
    site: &Site,
    caller: &Caller,
    path: &str,
    headers: &HeaderMap,
    body: Body,
) -> Result<DeliveryResult, DeliveryError> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let unread = Delivery {
        header: &text,
        body: &[],
    };
    match webhook::is_receiver_path(path) {
        true => webhook::check_path(&site.state.ports, path).await?,
        false => webhook::check_headers(&site.limits, &unread)?,
    }
    let announced = text(header::CONTENT_LENGTH.as_str()).and_then(|length| length.parse().ok());
    if announced.is_some_and(|length: u64| length > MAX_DELIVERY as u64) {
        discard(body, 2 * MAX_DELIVERY).await;
        return Err(BodyError::TooLarge.into());
    }
    let body = site.room.read(body, MAX_DELIVERY).await?;
    caller.request_complete();
    let delivery = Delivery {
        header: &text,
        body: &body.bytes,
    };
    let (ports, limits) = (&site.state.ports, &site.limits);
    Ok(webhook::receive_at(ports, limits, path, delivery).await?)
}

fn response(answer: &DeliveryResult) -> (StatusCode, Json<Value>) {
    let (status, body) = match answer {
        DeliveryResult::Pong => (StatusCode::OK, json!({"queued": [], "note": "pong"})),
        DeliveryResult::Ignored(reason) => (StatusCode::OK, json!({"queued": [], "note": reason})),
        DeliveryResult::Requested(count) => {
            tracing::info!(count, "objects of a Receiver requested");
            (StatusCode::OK, json!({"requested": count}))
        }
        DeliveryResult::Queued(requests) => {
            let names: Vec<String> = requests
                .iter()
                .map(|request| request.object.to_string())
                .collect();
            tracing::info!(objects = names.join(" "), "push queued");
            (StatusCode::ACCEPTED, json!({"queued": names}))
        }
        DeliveryResult::Planned(request) => (
            StatusCode::ACCEPTED,
            json!({"planned": request.number, "hubs": request.hubs}),
        ),
    };
    (status, Json(body))
}

async fn metrics(State(site): SiteState) -> Response {
    let answer = match site.state.rendered_metrics().await {
        Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(error) => {
            tracing::error!("metrics: {error}");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    };
    site.counted("/metrics", answer)
}

async fn objects(
    State(own): OwnSiteState,
    Extension(caller): Extension<Caller>,
    parts: Parts,
) -> Response {
    let answer = answer_local(&caller, &parts, list(&own)).await;
    own.site.counted("/api/objects", answer)
}

async fn list(own: &OwnSite) -> Result<Value, HubError> {
    let hub = hub::connect(&own.site.state.ports, &own.hub).await?;
    let mut all = Vec::new();
    for kind in FluxKind::ALL {
        let mut objects = hub.list(kind).await?;
        objects.sort_by(|a, b| (a.namespace(), a.name()).cmp(&(b.namespace(), b.name())));
        all.extend(objects.iter().map(summary));
    }
    Ok(all.into())
}

/// Returns the fields of an object for `GET /api/objects`.
fn summary(object: &Object) -> Value {
    let conditions = Conditions::of(object);
    let ready = conditions.ready();
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64);
    json!({
        "kind": object.kind(), "namespace": object.namespace(), "name": object.name(),
        "ready": ready.map_or("Unknown", |ready| ready.status.as_str()),
        "reason": ready.map(|ready| &ready.reason), "message": ready.map(|ready| &ready.message),
        "revision": revision(object), "suspended": is_suspended(object),
        "observed": number("/status/observedGeneration").is_some_and(|seen| Some(seen) >= number("/metadata/generation")),
    })
}

async fn pages(
    State(own): OwnSiteState,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let room = &own.site.room;
    let answer = own.dashboard.answer(room, &caller, parts, body).await;
    own.site.counted("/", answer)
}

async fn sweep(
    State(own): OwnSiteState,
    Extension(caller): Extension<Caller>,
    parts: Parts,
) -> Response {
    let swept = own.site.state.sweep().map_ok(|reports| {
        let hubs: Vec<Value> = reports.iter().map(sweep_summary).collect();
        json!({"hubs": hubs})
    });
    let answer = answer_local(&caller, &parts, swept).await;
    own.site.counted("/sweep", answer)
}

/// Returns the answer of a path that is only for requests from this machine.
async fn answer_local<E: Display>(
    caller: &Caller,
    parts: &Parts,
    work: impl Future<Output = Result<Value, E>>,
) -> Response {
    match local::foreign_reason(&caller.address, parts) {
        Some(reason) => forbidden(&reason),
        None => match work.await {
            Ok(document) => Json(document).into_response(),
            Err(error) => unavailable(&error),
        },
    }
}

fn sweep_summary(report: &Report) -> Value {
    let queued = report.queued.iter();
    let queued: Vec<String> = queued.map(|one| one.object.to_string()).collect();
    let error = report.failure.as_ref().map(ToString::to_string);
    json!({"hub": report.hub, "queued": queued, "error": error})
}

fn forbidden(reason: &str) -> Response {
    let error =
        format!("this path is only for requests from the machine that driftless runs on: {reason}");
    (StatusCode::FORBIDDEN, Json(json!({"error": error}))).into_response()
}

fn unavailable(error: &dyn Display) -> Response {
    (
        StatusCode::SERVICE_UNAVAILABLE,
        Json(json!({"error": error.to_string()})),
    )
        .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_has_the_ready_condition() {
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
