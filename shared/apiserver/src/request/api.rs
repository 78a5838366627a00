//! The data that requests read and change.

use crate::authentication::impersonation::ModeCache;
use crate::authentication::tokens::Tokens;
use crate::store::state::State;

/// The state of a server, its tokens, and its cache for impersonation.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    pub state: State,
    /// Tokens of service accounts.
    pub tokens: Tokens,
    /// The impersonation mode that last succeeded, by user.
    pub impersonation: ModeCache,
}
