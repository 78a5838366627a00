//! Tokens of service accounts, and requests for them.

use super::Secret;
use std::time::Duration;

/// A bearer token and its expiry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The token itself.
    pub secret: Secret,
    /// The expiry, as the time since 1970.
    pub expires: Duration,
}

/// A request for a token of a service account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRequest {
    /// The service account's namespace.
    pub namespace: String,
    /// The service account's name.
    pub account: String,
    /// The service account's uid: a new account of the same name has another uid.
    pub uid: String,
    /// The audiences that the token is for.
    pub audiences: Vec<String>,
}
