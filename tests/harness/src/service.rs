//! A service that gets notifications: it keeps the requests, and answers as a test wants. It also
//! plays a proxy for plain HTTP, and the hosts of clouds.

use crate::runtime::Listening;
use crate::tls::Identity;
use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::HeaderMap;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub use crate::tls::ClientCertificate;

/// The longest body.
const LIMIT: usize = 1 << 20;

/// A service on a loopback port.
pub struct Service {
    listening: Listening,
    scheme: &'static str,
    state: Arc<State>,
}

/// A request that the service got.
#[derive(Clone, Debug)]
pub struct Received {
    /// The method and the target: the path, or the URL where a client takes the service for a
    /// proxy.
    pub line: String,
    /// The headers of the request.
    headers: HeaderMap,
    /// The body of the request.
    pub body: String,
}

impl Received {
    /// Returns a header; empty if the request does not have it.
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }
}

#[derive(Default)]
struct State {
    received: Mutex<Vec<Received>>,
    answer: Mutex<(StatusCode, Duration, String)>,
    answers: Mutex<BTreeMap<String, String>>,
}

impl State {
    async fn handle(&self, request: Request) -> (StatusCode, String) {
        let (mut status, delay, mut text) = self.answer.lock().expect("the answer").clone();
        tokio::time::sleep(delay).await;
        let (head, body) = request.into_parts();
        let body = to_bytes(body, LIMIT).await.expect("a body");
        let received = Received {
            line: format!("{} {}", head.method, head.uri),
            headers: head.headers,
            body: String::from_utf8(body.to_vec()).expect("UTF-8"),
        };
        let answers = self.answers.lock().expect("the answers");
        let special = answers.iter();
        let mut special = special.filter(|(place, _)| received.line.contains(&***place));
        if let Some((_, special)) = special.next() {
            (status, text) = (StatusCode::OK, special.clone());
        }
        self.received.lock().expect("the requests").push(received);
        (status, text)
    }
}

impl Service {
    /// Starts a service that accepts each message.
    pub fn start() -> Self {
        Self::listen(None)
    }

    /// Starts a service behind TLS, with a certificate of a private authority. It accepts only the
    /// client with this certificate.
    pub fn with_tls() -> (Self, ClientCertificate) {
        let (identity, client) = Identity::mutual();
        (Self::listen(Some(identity)), client)
    }

    fn listen(identity: Option<Identity>) -> Self {
        let state = Arc::<State>::default();
        let shared = state.clone();
        let app = Router::new().fallback(move |request: Request| {
            let state = shared.clone();
            async move { state.handle(request).await }
        });
        let scheme = match identity {
            Some(_) => "https",
            None => "http",
        };
        Self {
            listening: Listening::start(app, identity),
            scheme,
            state,
        }
    }

    /// Returns the URL of the service without a path.
    pub fn origin(&self) -> String {
        format!("{}://{}", self.scheme, self.listening.address())
    }

    /// Returns the URL of the service.
    pub fn url(&self) -> String {
        format!("{}/hook", self.origin())
    }

    /// Sets the answer to every message from now on, and the delay before it.
    pub fn answer(&self, status: u16, delay: Duration, text: &str) {
        let status = StatusCode::from_u16(status).expect("a status");
        *self.state.answer.lock().expect("the answer") = (status, delay, text.to_owned());
    }

    /// Sets the answer to requests whose method and target contain `place`.
    pub fn answer_at(&self, place: &str, text: &str) {
        let mut answers = self.state.answers.lock().expect("the answers");
        answers.insert(place.to_owned(), text.to_owned());
    }

    /// Removes and returns the requests until now, oldest first.
    pub fn take_requests(&self) -> Vec<Received> {
        std::mem::take(&mut *self.state.received.lock().expect("the requests"))
    }

    /// Removes and returns the messages until now, oldest first.
    pub fn take(&self) -> Vec<Value> {
        let requests = self.take_requests().into_iter();
        let message = |request: Received| serde_json::from_str(&request.body).expect("JSON");
        requests.map(message).collect()
    }
}
