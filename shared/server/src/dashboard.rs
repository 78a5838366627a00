//! The dashboard on this machine: its pages, and the events that report changes to them.

use crate::body::{BodyError, BodyMemory};
use crate::connections::{self, Caller, ConnectionLimits};
use crate::local;
use async_trait::async_trait;
use axum::Extension;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use driftless_dashboard::access::User;
use driftless_dashboard::auth::{Auth, Key, Web, WebError};
use driftless_dashboard::router::{MAX_BODY, seen};
use driftless_dashboard::{Data as _, Live, PortsData, Request, Site, handle};
use driftless_kernel::ports::Ports;
use futures::stream;
use serde_json::Value;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// The time for which a reading of the hubs is shown again, and the interval at which open pages
/// look for changes.
const FRESH: Duration = Duration::from_secs(1);
/// The number of intervals without a change after which a comment keeps a stream open.
const QUIET: u32 = 15;

/// The dashboard of a process.
pub(crate) struct Dashboard {
    ports: Ports,
    data: PortsData,
    key: Key,
    stop: watch::Sender<bool>,
}

const NO_LOGINS: &str = "the dashboard of this machine has no logins";

/// No logins on this machine.
struct NoLogins;

#[async_trait]
impl Web for NoLogins {
    async fn get(&self, _: &str, _: Option<&str>) -> Result<Value, WebError> {
        Err(WebError::new(NO_LOGINS))
    }

    async fn post(&self, _: &str, _: &[(&str, &str)]) -> Result<Value, WebError> {
        Err(WebError::new(NO_LOGINS))
    }
}

impl Dashboard {
    /// Creates the dashboard of the hubs that are registered in the bucket of these ports.
    pub(crate) fn new(ports: Ports) -> Arc<Self> {
        Arc::new(Self {
            key: Key::from(random(&ports)),
            data: PortsData::new(ports.clone(), FRESH),
            ports,
            stop: watch::Sender::new(false),
        })
    }

    /// Reads the hubs in the background, so that the first page does not wait for it.
    pub(crate) fn warm_up(self: &Arc<Self>) {
        let dashboard = self.clone();
        tokio::spawn(async move {
            if let Err(error) = dashboard.data.snapshot().await {
                tracing::debug!("the dashboard cannot read the hubs: {error}");
            }
        });
    }

    /// Ends the streams of open pages, which would otherwise never end.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Answers a request.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        room: &BodyMemory,
        caller: &Caller,
        mut parts: Parts,
        body: Body,
    ) -> Response {
        allow_own_pages(&mut parts);
        if let Some(reason) = local::foreign_reason(&caller.address, &parts) {
            let text = format!(
                "the dashboard is only for requests from the machine that driftless runs on: {reason}\n"
            );
            return (StatusCode::FORBIDDEN, text).into_response();
        }
        let read = match room.read(body, MAX_BODY).await {
            Ok(read) => read,
            Err(BodyError::TooLarge) => return StatusCode::PAYLOAD_TOO_LARGE.into_response(),
            Err(BodyError::Slow) => return StatusCode::REQUEST_TIMEOUT.into_response(),
            Err(BodyError::NoRoom) => return StatusCode::SERVICE_UNAVAILABLE.into_response(),
            Err(BodyError::Broken) => return StatusCode::BAD_REQUEST.into_response(),
        };
        caller.request_complete();
        if parts.uri.path() == "/events" && parts.method == Method::GET {
            return self.events();
        }
        let request = request(&parts, read.bytes);
        let site = Site {
            auth: &Auth::Local,
            key: &self.key,
            web: &NoLogins,
            live: Live::Events,
            now: u64::try_from(self.ports.clock.now().as_millis()).unwrap_or(u64::MAX),
            random: random(&self.ports),
        };
        let answer = handle(&request, &self.data, &site).await;
        let mut response = Response::new(Body::from(answer.body));
        *response.status_mut() =
            StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        for (name, value) in answer.headers {
            if let Ok(value) = value.parse() {
                response.headers_mut().append(name, value);
            }
        }
        response
    }

    /// Answers with a stream of the fingerprints of what pages show.
    fn events(self: &Arc<Self>) -> Response {
        let start = Watched {
            dashboard: self.clone(),
            stop: self.stop.subscribe(),
            last: String::new(),
        };
        let events = stream::unfold(start, |mut watched| async move {
            let text = watched.next().await?;
            Some((Ok::<_, Infallible>(Bytes::from(text)), watched))
        });
        let headers = [
            (header::CONTENT_TYPE, "text/event-stream"),
            (header::CACHE_CONTROL, "no-store"),
        ];
        (headers, Body::from_stream(events)).into_response()
    }
}

/// The events of one open page.
struct Watched {
    dashboard: Arc<Dashboard>,
    stop: watch::Receiver<bool>,
    last: String,
}

impl Watched {
    /// Waits for the next event; `None` at the end of the process.
    async fn next(&mut self) -> Option<String> {
        let user = User::local();
        for _ in 0..QUIET {
            if !self.last.is_empty() {
                tokio::select! {
                    _ = self.stop.wait_for(|stop| *stop) => return None,
                    () = tokio::time::sleep(FRESH) => {}
                }
            }
            match seen(&self.dashboard.data, &user).await {
                Ok(snapshot) => {
                    let version = snapshot.fingerprint();
                    if version != self.last {
                        self.last.clone_from(&version);
                        return Some(format!("event: version\ndata: {version}\n\n"));
                    }
                }
                Err(error) => {
                    tracing::debug!("the dashboard cannot read the hubs: {error}");
                    "unknown".clone_into(&mut self.last);
                }
            }
        }
        Some(": quiet\n\n".to_owned())
    }
}

/// Returns random bytes.
fn random(ports: &Ports) -> [u8; 32] {
    let mut bytes = [0; 32];
    let (first, second) = bytes.split_at_mut(16);
    first.copy_from_slice(&ports.clock.nonce());
    second.copy_from_slice(&ports.clock.nonce());
    bytes
}

/// Removes the headers that browsers send with forms of the dashboard's own pages, and with links
/// to it from other pages: a link only reads, and the other page does not see the answer.
fn allow_own_pages(parts: &mut Parts) {
    let headers = &parts.headers;
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let own = text(header::HOST).map(|host| format!("http://{host}"));
    let is_own = own.is_some() && text(header::ORIGIN) == own.as_deref();
    let is = |name: &str, wanted: &str| headers.get(name).is_some_and(|value| value == wanted);
    let is_link = parts.method == Method::GET
        && is("sec-fetch-mode", "navigate")
        && is("sec-fetch-dest", "document");
    if is_own {
        parts.headers.remove(header::ORIGIN);
    }
    if is_link {
        parts.headers.remove("sec-fetch-site");
    }
}

fn request(parts: &Parts, body: Vec<u8>) -> Request {
    let mut headers = BTreeMap::new();
    for (name, value) in &parts.headers {
        if let Ok(value) = value.to_str() {
            let name = name.as_str().to_owned();
            headers.entry(name).or_insert_with(|| value.to_owned());
        }
    }
    Request {
        method: match parts.method {
            Method::GET | Method::HEAD => Some(driftless_dashboard::Method::Get),
            Method::POST => Some(driftless_dashboard::Method::Post),
            _ => None,
        },
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers,
        body,
    }
}

/// The state of a server that has only the dashboard.
struct Alone {
    dashboard: Arc<Dashboard>,
    room: BodyMemory,
}

/// Serves only the dashboard of the hubs of these ports, until the future is dropped.
pub async fn serve_dashboard(listener: TcpListener, ports: Ports) {
    let state = Alone {
        dashboard: Dashboard::new(ports),
        room: BodyMemory::default(),
    };
    let router = Router::new().fallback(alone).with_state(Arc::new(state));
    let (limits, never) = (ConnectionLimits::default(), std::future::pending());
    connections::serve(listener, router, Arc::new(|_| {}), limits, never).await;
}

async fn alone(
    State(site): State<Arc<Alone>>,
    Extension(caller): Extension<Caller>,
    request: axum::extract::Request,
) -> Response {
    let (parts, body) = request.into_parts();
    site.dashboard
        .answer(&site.room, &caller, parts, body)
        .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request as HttpRequest;

    fn reason(method: &str, headers: &[(&str, &str)]) -> Option<String> {
        let mut request = HttpRequest::builder().method(method).uri("/objects");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut parts = request.body(()).unwrap().into_parts().0;
        allow_own_pages(&mut parts);
        local::foreign_reason(&"127.0.0.1:5000".parse().unwrap(), &parts)
    }

    #[test]
    fn own_forms_and_links_are_allowed_and_other_pages_and_names_are_not() {
        let host = ("host", "127.0.0.1:9292");
        let link = [
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        assert_eq!(
            reason("POST", &[host, ("origin", "http://127.0.0.1:9292")]),
            None
        );
        let cross = ("sec-fetch-site", "cross-site");
        assert_eq!(reason("GET", &[host, cross, link[0], link[1]]), None);
        for (method, headers) in [
            ("POST", vec![host, ("origin", "http://evil.example")]),
            ("POST", vec![host, ("origin", "http://127.0.0.1:9293")]),
            ("POST", vec![host, cross, link[0], link[1]]),
            ("GET", vec![host, cross]),
            // A name that an attacker makes resolve to this machine.
            ("GET", vec![("host", "evil.example"), link[0], link[1]]),
            (
                "POST",
                vec![("host", "evil.example"), ("origin", "http://evil.example")],
            ),
        ] {
            assert!(reason(method, &headers).is_some(), "{method} {headers:?}");
        }
    }
}
