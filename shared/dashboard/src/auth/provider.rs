//! The service that knows the users.

use async_trait::async_trait;
use serde_json::Value;

/// The service that knows the users.
#[derive(Clone)]
pub struct Provider {
    /// The kind of the service.
    pub kind: Kind,
    /// The id of the dashboard at the service.
    pub client_id: String,
    /// The secret of the dashboard at the service.
    pub client_secret: driftless_kernel::ports::Secret,
}

/// The kind of a service that knows users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An OpenID Connect provider with this issuer.
    Oidc {
        /// The issuer's address; its discovery document names the rest.
        issuer: String,
    },
    /// GitHub, or a GitHub Enterprise Server.
    GitHub {
        /// The address of its pages, such as `https://github.com`.
        web: String,
        /// The address of its API, such as `https://api.github.com`.
        api: String,
    },
}

/// The reason that a request has no answer. The message names the address without its query, and
/// has no part of a token.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WebError(String);

impl WebError {
    /// Returns an error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// Requests to the service that knows the users. Implementations follow no redirects, and have
/// limits for time and size.
#[async_trait]
pub trait Web: Send + Sync {
    /// Requests a JSON document, with a bearer token if one is given.
    ///
    /// # Errors
    /// The service does not answer, or not with such a document.
    async fn get(&self, url: &str, bearer: Option<&str>) -> Result<Value, WebError>;

    /// Posts a form, and returns the JSON document of the answer.
    ///
    /// # Errors
    /// As [`Web::get`].
    async fn post(&self, url: &str, form: &[(&str, &str)]) -> Result<Value, WebError>;
}
