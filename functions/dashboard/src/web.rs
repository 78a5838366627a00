//! Requests to the service that knows the users.

use async_trait::async_trait;
use driftless_dashboard::auth::{Web, WebError};
use reqwest::{Client, RequestBuilder, redirect};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The most bytes of an answer.
const MAX_ANSWER: usize = 1 << 20;
/// The time for which public documents are used again: the addresses and the keys of an issuer.
/// Anyone may begin logins, which must not cause a request each.
const TTL: Duration = Duration::from_secs(300);

/// A client with limits.
pub struct Service {
    client: Client,
    public: Mutex<BTreeMap<String, (Instant, Value)>>,
}

/// The client cannot be created.
#[derive(Debug, thiserror::Error)]
#[error("the client of the login: {0}")]
pub struct ClientError(#[from] reqwest::Error);

impl Service {
    /// Creates a client.
    ///
    /// # Errors
    /// The client cannot be created.
    pub fn new() -> Result<Self, ClientError> {
        // Fails if another part of the process has installed it already.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let client = Client::builder()
            .timeout(TIMEOUT)
            .redirect(redirect::Policy::none())
            .user_agent("driftless")
            .build();
        Ok(Self {
            client: client?,
            public: Mutex::default(),
        })
    }
}

/// Returns the JSON document of an answer. An error names the address without its query.
async fn document(url: &str, request: RequestBuilder) -> Result<Value, WebError> {
    let name = url.split('?').next().unwrap_or_default();
    let failed = |error: reqwest::Error| WebError::new(format!("{name}: {}", error.without_url()));
    let request = request.header("accept", "application/json");
    let mut answer = request.send().await.map_err(failed)?;
    let status = answer.status();
    let mut bytes = Vec::new();
    while let Some(part) = answer.chunk().await.map_err(failed)? {
        bytes.extend_from_slice(&part);
        if bytes.len() > MAX_ANSWER {
            return Err(WebError::new(format!(
                "{name}: the answer is larger than {MAX_ANSWER} bytes"
            )));
        }
    }
    if !status.is_success() {
        return Err(WebError::new(format!("{name}: answered {status}")));
    }
    // The error of the parser may repeat a part of a token.
    serde_json::from_slice(&bytes)
        .map_err(|_| WebError::new(format!("{name}: the answer is not JSON")))
}

#[async_trait]
impl Web for Service {
    async fn get(&self, url: &str, bearer: Option<&str>) -> Result<Value, WebError> {
        let request = self.client.get(url);
        if let Some(token) = bearer {
            return document(url, request.bearer_auth(token)).await;
        }
        let lock = || self.public.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, known)) = lock().get(url)
            && at.elapsed() < TTL
        {
            return Ok(known.clone());
        }
        let found = document(url, request).await?;
        lock().insert(url.to_owned(), (Instant::now(), found.clone()));
        Ok(found)
    }

    async fn post(&self, url: &str, form: &[(&str, &str)]) -> Result<Value, WebError> {
        let mut encoded = String::new();
        for (name, value) in form {
            let (name, value) = (encode(name), encode(value));
            encoded.push_str(&format!("{name}={value}&"));
        }
        let request = self
            .client
            .post(url)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(encoded.trim_end_matches('&').to_owned());
        document(url, request).await
    }
}

/// Encodes a name or value of a form.
fn encode(text: &str) -> String {
    driftless_dashboard::http::encode(text)
}
