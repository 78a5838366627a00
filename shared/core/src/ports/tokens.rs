//! Tokens of service accounts.

use super::Secret;
use std::time::Duration;

/// A bearer token and its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The token.
    pub secret: Secret,
    /// When it ends, since 1970.
    pub expires: Duration,
}

/// Whose token is wanted, and for whom it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenAsk {
    /// The service account's namespace.
    pub namespace: String,
    /// Its name.
    pub account: String,
    /// Its uid: one that was made anew under the same name is another.
    pub uid: String,
    /// Who shall accept the token.
    pub audiences: Vec<String>,
}
