//! The HTTP server of the host: routes requests to files, faults and the registry.

use super::{Call, Fault, State, Validators, registry};
use crate::runtime::Listening;
use crate::tls::Identity;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, Response, StatusCode, header};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::stream;
use sha2::{Digest, Sha256};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

/// The largest body of a request, in bytes.
const LIMIT: usize = 64 << 20;
/// `Last-Modified` of every file.
const CHANGED: &str = "Sat, 21 Nov 2026 12:00:00 GMT";

/// Starts the server.
pub(super) fn start(state: Arc<Mutex<State>>, identity: Option<Identity>) -> Listening {
    let app = Router::new().fallback(move |request: Request| {
        let state = Arc::clone(&state);
        async move { respond(&state, request).await }
    });
    Listening::start(app, identity)
}

/// A request with its whole body.
pub(super) struct Incoming {
    pub method: String,
    pub path: String,
    pub query: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    /// The `Host` header, as the client wrote it.
    pub host: String,
}

impl Incoming {
    pub fn header(&self, name: header::HeaderName) -> &str {
        let value = self.headers.get(name);
        value
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }
}

async fn respond(state: &Mutex<State>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let incoming = Incoming {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        host: parts
            .headers
            .get(header::HOST)
            .and_then(|host| host.to_str().ok())
            .unwrap_or_default()
            .to_owned(),
        headers: parts.headers,
        body: to_bytes(body, LIMIT).await.unwrap_or_default().to_vec(),
    };
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    let answer = match state.faults.get(&incoming.path).cloned() {
        Some(fault) => faulty(fault),
        None if incoming.path == "/token" || incoming.path.starts_with("/v2/") => {
            registry::answer(&mut state, &incoming)
        }
        None => file(&state, &incoming),
    };
    state.calls.push(Call {
        method: incoming.method.clone(),
        path: parts.uri.to_string(),
        authorization: incoming.header(header::AUTHORIZATION).to_owned(),
        status: answer.status().as_u16(),
    });
    answer
}

pub(super) fn plain(status: u16) -> Response<Body> {
    with(status, &[], Body::empty())
}

pub(super) fn with(status: u16, headers: &[(&str, &str)], body: Body) -> Response<Body> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(body).expect("an answer")
}

/// Returns whether a request has the required login.
pub(super) fn is_let_in(state: &State, incoming: &Incoming) -> bool {
    let Some((user, password)) = &state.login else {
        return true;
    };
    let pair = STANDARD.encode(format!("{user}:{password}"));
    incoming.header(header::AUTHORIZATION) == format!("Basic {pair}")
}

fn faulty(fault: Fault) -> Response<Body> {
    match fault {
        Fault::Status(status) => plain(status),
        Fault::Redirect(place) => with(302, &[("location", &place)], Body::empty()),
        Fault::Bytes(bytes) => with(200, &[], Body::from(bytes)),
        Fault::Endless => {
            let chunk = || Ok::<_, Infallible>(vec![b' '; 1 << 20]);
            let endless = stream::unfold((), move |()| async move { Some((chunk(), ())) });
            with(200, &[], Body::from_stream(endless))
        }
    }
}

fn file(state: &State, incoming: &Incoming) -> Response<Body> {
    if !is_let_in(state, incoming) {
        return with(
            401,
            &[("www-authenticate", "Basic realm=\"charts\"")],
            Body::empty(),
        );
    }
    let Some(bytes) = state.files.get(&incoming.path) else {
        return plain(404);
    };
    let etag = format!("\"{}\"", hex::encode(&Sha256::digest(bytes)[..8]));
    let unchanged = match state.validators {
        None => false,
        Some(Validators::Etag) => incoming.header(header::IF_NONE_MATCH) == etag,
        Some(Validators::LastModified) => incoming.header(header::IF_MODIFIED_SINCE) == CHANGED,
    };
    if unchanged {
        return plain(StatusCode::NOT_MODIFIED.as_u16());
    }
    let headers: &[(&str, &str)] = match state.validators {
        None => &[],
        Some(Validators::Etag) => &[("etag", &etag)],
        Some(Validators::LastModified) => &[("last-modified", CHANGED)],
    };
    with(200, headers, Body::from(bytes.clone()))
}
