//! Requests tokens of service accounts with the API's TokenRequest.

use super::path;
use super::requests::{Caller, JSON, unreadable};
use driftless_kernel::ports::{
    ErrorKind, PortError, Resource, Result, Secret, Token, TokenRequest,
};
use driftless_manifest::Gvk;
use http::Method;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;

/// The parts of the answer that are used here.
#[derive(Deserialize)]
struct TokenResponse {
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    token: String,
    expiration_timestamp: String,
}

impl Caller<'_> {
    /// Requests a new token.
    ///
    /// # Errors
    /// Fails if the server refuses the request, or if the answer is not valid.
    pub async fn token(&self, request: &TokenRequest) -> Result<Token> {
        let accounts = Resource {
            gvk: Gvk::new("v1", "ServiceAccount"),
            plural: "serviceaccounts".to_owned(),
            namespaced: true,
        };
        let path = path::object(&accounts, &request.namespace, &request.account)? + "/token";
        let body = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"audiences": request.audiences},
        });
        let answer = self
            .write(Method::POST, &path, JSON, &body, &accounts)
            .await?;
        let operation = format!("POST {path} on {}", self.server);
        let response: TokenResponse =
            serde_json::from_slice(&answer.body).map_err(|error| unreadable(&operation, &error))?;
        let end: Option<Timestamp> = response.status.expiration_timestamp.parse().ok();
        let end = end.and_then(|end| u64::try_from(end.as_second()).ok());
        let end = end.ok_or_else(|| {
            let message = format!("{operation}: the token's expiration is not a valid time");
            PortError::new(ErrorKind::Unreadable, message)
        })?;
        Ok(Token {
            secret: Secret::new(response.status.token),
            expires: Duration::from_secs(end),
        })
    }
}
