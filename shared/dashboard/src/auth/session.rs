//! Sessions: who a request is from.

use super::cookie::{self, Key};
use super::provider::Provider;
use crate::access::{Rule, User};
use crate::http::{Request, Response};
use serde::{Deserialize, Serialize};

/// The time for which a session is valid, in milliseconds.
const SESSION: u64 = 8 * 60 * 60 * 1000;
/// The name of the cookie of a session. Browsers accept the prefix only from HTTPS, for the whole
/// origin, and not from a subdomain.
pub const SESSION_COOKIE: &str = "__Host-driftless";

/// The way in which users are known.
pub enum Auth {
    /// Every request is from the user of this machine; the caller has checked that.
    Local,
    /// Users log in.
    Login(Login),
}

/// The configuration of logins.
pub struct Login {
    /// The service that knows the users.
    pub provider: Provider,
    /// The origin of the dashboard, such as `https://gitops.example.com`.
    pub origin: String,
    /// The rules of access.
    pub rules: Vec<Rule>,
}

/// A user and the token of the user's forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The user who asks.
    pub user: User,
    /// The token of the user's forms.
    pub csrf: String,
}

/// The content of the cookie of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Ticket {
    name: String,
    groups: Vec<String>,
    /// The end, in milliseconds since 1970.
    end: u64,
    /// Distinguishes the sessions of one user.
    id: String,
}

/// Returns the session of a request; `None` if the user must log in.
pub fn session(auth: &Auth, key: &Key, request: &Request, now: u64) -> Option<Session> {
    match auth {
        Auth::Local => Some(Session {
            user: User::local(),
            csrf: key.token("csrf", "local"),
        }),
        Auth::Login(login) => {
            let cookie = request.cookie(SESSION_COOKIE)?;
            let ticket: Ticket = key.open("session", cookie)?;
            (ticket.end > now).then(|| Session {
                // The rules decide at each request, so that a removed right is gone at once.
                user: User::by_rules(&ticket.name, &ticket.groups, &login.rules),
                csrf: key.token("csrf", &ticket.id),
            })
        }
    }
}

/// Answers a login with the cookie of a new session.
pub fn start(key: &Key, name: &str, groups: Vec<String>, id: &str, now: u64, to: &str) -> Response {
    let ticket = Ticket {
        name: name.to_owned(),
        groups,
        end: now.saturating_add(SESSION),
        id: id.to_owned(),
    };
    let value = key.seal("session", &ticket);
    Response::redirect(to).with(
        "set-cookie",
        &cookie::set(SESSION_COOKIE, &value, SESSION / 1000),
    )
}

/// Answers with the end of the session.
pub fn log_out() -> Response {
    Response::redirect("/").with("set-cookie", &cookie::set(SESSION_COOKIE, "", 0))
}

/// Returns a path of the dashboard that a login leads back to; the first page for any other
/// address.
pub fn local_path(path: &str) -> &str {
    let is_local = path.starts_with('/')
        && !path.starts_with("//")
        && !path.contains(['\\', '\r', '\n', '\t'])
        && !path.starts_with("/login")
        && !path.starts_with("/callback");
    if is_local { path } else { "/" }
}
