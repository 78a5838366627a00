//! A service that gets notifications: it keeps the bodies, and answers as a test wants.

use crate::runtime::Listening;
use axum::Router;
use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::StatusCode;
use serde_json::Value;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The longest body.
const LIMIT: usize = 1 << 20;

/// A service on a loopback port.
pub struct Service {
    listening: Listening,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    bodies: Mutex<Vec<Value>>,
    answer: Mutex<(StatusCode, Duration, String)>,
}

impl Service {
    /// Starts a service that accepts each message.
    pub fn start() -> Self {
        let state = Arc::<State>::default();
        let shared = state.clone();
        let app = Router::new().fallback(move |request: Request| {
            let state = shared.clone();
            async move {
                let (status, delay, text) = state.answer.lock().expect("the answer").clone();
                tokio::time::sleep(delay).await;
                let body = to_bytes(request.into_body(), LIMIT).await.expect("a body");
                let body = serde_json::from_slice(&body).expect("JSON");
                state.bodies.lock().expect("the bodies").push(body);
                (status, text)
            }
        });
        Self {
            listening: Listening::start(app, None),
            state,
        }
    }

    /// Returns the URL of the service.
    pub fn url(&self) -> String {
        format!("http://{}/hook", self.listening.address())
    }

    /// Sets the answer to every message from now on, and the delay before it.
    pub fn answer(&self, status: u16, delay: Duration, text: &str) {
        let status = StatusCode::from_u16(status).expect("a status");
        *self.state.answer.lock().expect("the answer") = (status, delay, text.to_owned());
    }

    /// Removes and returns the messages until now, oldest first.
    pub fn take(&self) -> Vec<Value> {
        std::mem::take(&mut *self.state.bodies.lock().expect("the bodies"))
    }
}
