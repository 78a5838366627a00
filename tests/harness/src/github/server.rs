//! One HTTP listener on the harness's own runtime.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Bytes, to_bytes};
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use percent_encoding::percent_decode_str;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::{Call, Fault, Shared};
use crate::runtime::runtime;
use crate::tls::Identity;

/// A request with its whole body.
pub(super) struct Incoming {
    pub(super) method: String,
    /// The path's segments, percent-decoded.
    pub(super) segments: Vec<String>,
    pub(super) query: Vec<(String, String)>,
    pub(super) headers: axum::http::HeaderMap,
    pub(super) body: Bytes,
    pub(super) uri: String,
}

impl Incoming {
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    pub(super) fn query(&self, name: &str) -> Option<&str> {
        let pair = self.query.iter().find(|(key, _)| key == name)?;
        Some(&pair.1)
    }
}

/// The handler of a listener and the names of its endpoints.
#[derive(Clone, Copy)]
pub(super) struct Service {
    /// The endpoint's short name.
    pub(super) name: fn(&Incoming) -> String,
    pub(super) answer: fn(&Shared, &Incoming) -> Response,
}

pub(super) struct Listener {
    address: SocketAddr,
    socket: Option<std::net::TcpListener>,
    identity: Option<Identity>,
    scheme: &'static str,
    stop: Option<oneshot::Sender<()>>,
}

impl Listener {
    pub(super) fn bind(host: &str) -> Self {
        let socket = std::net::TcpListener::bind((host, 0)).expect("bind a loopback port");
        socket.set_nonblocking(true).expect("a non-blocking socket");
        Self {
            address: socket.local_addr().expect("a local address"),
            socket: Some(socket),
            identity: None,
            scheme: "http",
            stop: None,
        }
    }

    /// Adds TLS. Must be called before [`Listener::serve`].
    pub(super) fn behind(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self.scheme = "https";
        self
    }

    pub(super) fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    pub(super) fn serve(mut self, shared: Arc<Shared>, service: Service) -> Self {
        let (stop, stopped) = oneshot::channel();
        let socket = self.socket.take().expect("served once");
        let identity = self.identity.take();
        let app = Router::new().fallback(move |request: Request| {
            let shared = Arc::clone(&shared);
            respond(shared, request, service)
        });
        runtime().spawn(async move {
            let listener = TcpListener::from_std(socket).expect("a listener");
            let served = async {
                match identity {
                    None => axum::serve(listener, app).await,
                    Some(identity) => axum::serve(identity.listen(listener), app).await,
                }
            };
            tokio::select! {
                served = served => served.expect("serve"),
                _ = stopped => {}
            }
        });
        self.stop = Some(stop);
        self
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }
}

async fn respond(shared: Arc<Shared>, request: Request, service: Service) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, 16 << 20).await else {
        return axum::http::StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let segments = parts.uri.path().split('/').skip(1).map(decode).collect();
    let incoming = Incoming {
        method: parts.method.to_string(),
        segments,
        query: pairs(parts.uri.query().unwrap_or_default()),
        headers: parts.headers,
        body,
        uri: parts.uri.to_string(),
    };
    let endpoint = (service.name)(&incoming);
    let fault = shared.state().faults.take(&endpoint);
    let mut call = Call {
        endpoint,
        method: incoming.method.clone(),
        uri: incoming.uri.clone(),
        authorized: incoming.headers.contains_key("authorization"),
        status: 0,
        body: String::from_utf8_lossy(&incoming.body).into_owned(),
    };
    let response = match fault.as_ref().and_then(Fault::instead) {
        Some(response) => response,
        None => {
            let shared = Arc::clone(&shared);
            // Git runs as a process: not on the runtime's own threads.
            let work = move || (service.answer)(&shared, &incoming);
            let answer = tokio::task::spawn_blocking(work).await;
            answer.expect("the stub panicked")
        }
    };
    call.status = response.status().as_u16();
    shared.state().calls.push(call);
    match fault {
        None => response,
        Some(fault) => fault.distort(response).await,
    }
}

fn pairs(query: &str) -> Vec<(String, String)> {
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (decode(key), decode(&value.replace('+', " "))))
        .collect()
}

fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}
