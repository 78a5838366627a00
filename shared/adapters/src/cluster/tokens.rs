//! Tokens of service accounts, by the API's TokenRequest.

use super::path;
use super::requests::{Caller, JSON, unreadable};
use driftless_core::ports::{ErrorKind, PortError, Resource, Result, Secret, Token, TokenRequest};
use driftless_manifest::Gvk;
use http::Method;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;

/// The answer, as far as it matters here.
#[derive(Deserialize)]
struct Given {
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    token: String,
    expiration_timestamp: String,
}

impl Caller<'_> {
    /// A new token.
    ///
    /// # Errors
    /// The server refuses it, or answers something else.
    pub async fn token(&self, ask: &TokenRequest) -> Result<Token> {
        let accounts = Resource {
            gvk: Gvk::new("v1", "ServiceAccount"),
            plural: "serviceaccounts".to_owned(),
            namespaced: true,
        };
        let path = path::object(&accounts, &ask.namespace, &ask.account)? + "/token";
        let body = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"audiences": ask.audiences},
        });
        let answer = self
            .write(Method::POST, &path, JSON, &body, &accounts)
            .await?;
        let what = format!("POST {path} on {}", self.server);
        let given: Given =
            serde_json::from_slice(&answer.body).map_err(|error| unreadable(&what, &error))?;
        let end: Option<Timestamp> = given.status.expiration_timestamp.parse().ok();
        let end = end.and_then(|end| u64::try_from(end.as_second()).ok());
        let end = end.ok_or_else(|| {
            let what = format!("{what}: the token's expiration is not a valid time");
            PortError::new(ErrorKind::Unreadable, what)
        })?;
        Ok(Token {
            secret: Secret::new(given.status.token),
            expires: Duration::from_secs(end),
        })
    }
}
