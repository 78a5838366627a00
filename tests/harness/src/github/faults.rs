//! The ways in which GitHub fails.

use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// One way to fail.
#[derive(Clone, Debug)]
pub enum Fault {
    /// 403 or 429 with `Retry-After` in seconds, as the rate limits answer.
    Limited {
        /// 403 (primary limit) or 429 (secondary limit).
        status: u16,
        /// The value of `Retry-After`, in seconds.
        retry_after: u64,
    },
    /// A server error with GitHub's short JSON body.
    Error(u16),
    /// 200 with the HTML page of an outage or of a captive proxy.
    Html,
    /// 404, as for a repository that the caller may not see.
    NotFound,
    /// The true answer, cut off in the middle.
    Truncated,
    /// The true answer, late.
    Slow(Duration),
    /// No answer: the work is done and the connection is closed.
    Lost,
}

#[derive(Default)]
pub(crate) struct Faults(Vec<(String, Fault, usize)>);

impl Faults {
    pub(super) fn add(&mut self, endpoint: &str, fault: Fault, times: usize) {
        self.0.push((endpoint.to_owned(), fault, times));
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Takes the first added fault that applies to this request.
    pub(super) fn take(&mut self, endpoint: &str) -> Option<Fault> {
        let at = self
            .0
            .iter()
            .position(|(name, _, times)| *times > 0 && (name == "*" || name == endpoint))?;
        self.0[at].2 -= 1;
        Some(self.0[at].1.clone())
    }
}

impl Fault {
    /// Returns the answer of a fault that replaces the work, or `None`.
    pub(super) fn instead(&self) -> Option<Response> {
        match self {
            Fault::Limited {
                status,
                retry_after,
            } => Some(limited(*status, *retry_after)),
            Fault::Error(status) => Some(message(*status, "Server Error")),
            Fault::NotFound => Some(message(404, "Not Found")),
            Fault::Html => {
                let page = "<!DOCTYPE html><title>Unicorn!</title><p>We are having a problem.</p>";
                let kind = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
                Some((kind, page).into_response())
            }
            Fault::Truncated | Fault::Slow(_) | Fault::Lost => None,
        }
    }

    /// Applies the fault to the true answer.
    pub(super) async fn distort(self, response: Response) -> Response {
        match self {
            Fault::Slow(time) => {
                tokio::time::sleep(time).await;
                response
            }
            Fault::Truncated => cut(response, 2).await,
            Fault::Lost => cut(response, usize::MAX).await,
            _ => response,
        }
    }
}

/// Returns GitHub's error response.
pub(super) fn message(status: u16, text: &str) -> Response {
    let code = StatusCode::from_u16(status).expect("an HTTP status");
    let body = json!({
        "message": text,
        "documentation_url": "https://docs.github.com/rest",
        "status": status.to_string(),
    });
    (code, axum::Json(body)).into_response()
}

fn limited(status: u16, retry_after: u64) -> Response {
    let mut response = message(status, "API rate limit exceeded for installation ID 1.");
    let headers = response.headers_mut();
    headers.insert("retry-after", HeaderValue::from(retry_after));
    headers.insert("x-ratelimit-remaining", HeaderValue::from(0));
    response
}

/// Keeps one part in `parts` of the body and then breaks the connection.
async fn cut(response: Response, parts: usize) -> Response {
    let (head, body) = response.into_parts();
    let whole = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let kept = whole.slice(..whole.len() / parts);
    let broken = || std::io::Error::other("cut by the test");
    let stream = futures::stream::iter([Ok::<Bytes, std::io::Error>(kept), Err(broken())]);
    Response::from_parts(head, Body::from_stream(stream))
}
