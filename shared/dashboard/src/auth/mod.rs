//! Who asks: the user of this machine, or one who has logged in.
//!
//! A login leaves one cookie with the name, the rights by their groups and the end of the session,
//! signed with a key of the installation. Nothing is stored on the server. Forms have a token that
//! is derived from the session.

mod cookie;
mod oauth;
mod provider;
mod session;
mod tokens;

pub use cookie::{Key, ShortKey};
pub use provider::{Kind, Provider, Web, WebError};
pub use session::{Auth, Login, SESSION_COOKIE, Session, log_out, session};

use crate::http::{Request, Response};

/// Returns the paths of the login, `None` for another path.
pub async fn login(
    auth: &Auth,
    key: &Key,
    web: &dyn Web,
    request: &Request,
    now: u64,
    random: &[u8; 32],
) -> Option<Response> {
    let Auth::Login(login) = auth else {
        return None;
    };
    match request.path.as_str() {
        "/login" => Some(oauth::begin(login, key, web, request, now, random).await),
        "/callback" => Some(oauth::end(login, key, web, request, now).await),
        _ => None,
    }
}
