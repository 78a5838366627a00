//! Identities that are exchanged for short-lived logins, as github.com/fluxcd/pkg/auth 0.54 does it: a token of a service account of the
//! hub says to a cloud who asks, and the cloud gives what the account stands for there. Clusters (`target`) and registries
//! (`source`) are opened so.

mod account;
pub mod aws;
pub mod azure;
pub mod google;

pub(crate) use account::is_account_name;
pub use account::{Account, Exchange, find};

use crate::failure::Failure;
use crate::flux::reason;

/// What a failed exchange of an account's token is told with, in Flux's words.
pub fn not_given(account: &Account) -> String {
    let account = account.shown();
    format!("failed to create provider access token for service account '{account}'")
}

/// An annotation as messages repeat it: its start is enough to find it by.
fn quoted(text: &str) -> String {
    const SHOWN: usize = 200;
    text.chars()
        .take(SHOWN)
        .collect::<String>()
        .escape_debug()
        .to_string()
}

/// Something about an account is wrong, or not there yet.
fn fail(account: &Account, what: impl std::fmt::Display) -> Failure {
    let what = format!(
        "failed to get provider identity from service account '{}' annotations: {what}",
        account.shown()
    );
    Failure::retry(reason::FAILED, what)
}
