//! Identities that are exchanged for short-lived logins, as in github.com/fluxcd/pkg/auth 0.54: a
//! token of a service account of the hub authenticates to a cloud, which returns credentials of the
//! account's cloud identity. They are used for clusters (`target`) and registries (`source`).

mod account;
pub mod aws;
pub mod azure;
pub mod google;

pub use account::is_account_name;
pub use account::{Account, Exchange, find};

use crate::failure::Failure;
use driftless_flux::reason;

/// Returns Flux's message prefix for a failed exchange of an account's token.
pub fn token_error_prefix(account: &Account) -> String {
    let account = account.qualified_name();
    format!("failed to create provider access token for service account '{account}'")
}

/// Returns the escaped start of an annotation, for messages.
fn quoted(text: &str) -> String {
    const SHOWN: usize = 200;
    text.chars()
        .take(SHOWN)
        .collect::<String>()
        .escape_debug()
        .to_string()
}

/// Returns the failure for an account whose annotations are missing or not valid.
fn fail(account: &Account, problem: impl std::fmt::Display) -> Failure {
    let message = format!(
        "failed to get provider identity from service account '{}' annotations: {problem}",
        account.qualified_name()
    );
    Failure::retry(reason::FAILED, message)
}
