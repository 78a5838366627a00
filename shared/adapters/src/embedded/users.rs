//! Authenticates users by their bearer tokens.

use super::Embedded;
use driftless_apiserver::User;
use std::collections::BTreeMap;

/// The bearer tokens that a server has issued, with their users.
#[derive(Default)]
pub(super) struct Tokens(BTreeMap<String, User>);

impl Tokens {
    pub(super) fn issue(&mut self, user: User, nonce: [u8; 16]) -> String {
        let token = hex::encode(nonce);
        self.0.insert(token.clone(), user);
        token
    }

    pub(super) fn user(&self, token: &str) -> Option<User> {
        self.0.get(token).cloned()
    }
}

/// The source of a request's user.
#[derive(Clone)]
pub(super) enum UserSource {
    /// This user for every request.
    Known(User),
    /// The user of the request's header `Authorization`.
    FromRequest,
}

impl Embedded {
    /// Returns the user of an `Authorization` header with a token of [`Embedded::token`] or of a
    /// service account; `None` if the server does not accept the credentials.
    pub fn user(&self, authorization: Option<&str>) -> Option<User> {
        let Some(authorization) = authorization else {
            return Some(anonymous());
        };
        let (scheme, token) = authorization.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let known = self.tokens().user(token.trim());
        known.or_else(|| self.with(|server, clock| server.authenticate(token.trim(), clock.now)))
    }
}

fn anonymous() -> User {
    User {
        name: "system:anonymous".to_owned(),
        groups: vec!["system:unauthenticated".to_owned()],
        ..User::default()
    }
}
