//! The login: the authorization code flow with PKCE (RFC 7636), `state` and `nonce`, at an OpenID
//! Connect provider or at GitHub.

use super::cookie::{self, Key};
use super::provider::{Kind, Web, WebError};
use super::session::{Login, local_path, start};
use super::tokens::{self, Claims, TokenError};
use crate::http::{Request, Response};
use crate::query::field;
use crate::views;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::fmt::Display;

/// The name of the cookie between the beginning of a login and its end.
const COOKIE: &str = "__Host-driftless-login";
/// The time for a login, in milliseconds.
const TIME: u64 = 10 * 60 * 1000;
/// The most pages of GitHub's teams that are read.
const MAX_PAGES: usize = 10;
/// The teams of a page.
const PER_PAGE: usize = 100;

/// The state of a login that the browser keeps.
#[derive(Serialize, Deserialize)]
struct Pending {
    state: String,
    nonce: String,
    verifier: String,
    /// The path to return to.
    to: String,
    /// The end, in milliseconds since 1970.
    end: u64,
}

/// The addresses of an OpenID Connect provider.
#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
}

/// The reason that a login does not succeed, for the log.
#[derive(Debug, thiserror::Error)]
enum LoginError {
    #[error(transparent)]
    Web(#[from] WebError),
    #[error("{url}: {error}")]
    Discovery {
        url: String,
        error: serde_json::Error,
    },
    #[error("{url}: names another issuer than {issuer}")]
    OtherIssuer { url: String, issuer: String },
    #[error("the service refused the code: {0}")]
    Refused(String),
    #[error("the answer of the service has no {0}")]
    NoField(&'static str),
    #[error(transparent)]
    Token(#[from] TokenError),
}

async fn discover(web: &dyn Web, issuer: &str) -> Result<Discovery, LoginError> {
    let base = issuer.trim_end_matches('/');
    let url = format!("{base}/.well-known/openid-configuration");
    let document = web.get(&url, None).await?;
    let found = match serde_json::from_value::<Discovery>(document) {
        Ok(found) => found,
        Err(error) => return Err(LoginError::Discovery { url, error }),
    };
    match found.issuer == issuer {
        true => Ok(found),
        false => Err(LoginError::OtherIssuer {
            url,
            issuer: issuer.to_owned(),
        }),
    }
}

/// Answers `/login`: sends the browser to the service.
pub async fn begin(
    login: &Login,
    key: &Key,
    web: &dyn Web,
    request: &Request,
    now: u64,
    random: &[u8; 32],
) -> Response {
    let (address, scope) = match &login.provider.kind {
        Kind::Oidc { issuer } => match discover(web, issuer).await {
            Ok(found) => (found.authorization_endpoint, "openid email profile"),
            Err(error) => return failed(502, error),
        },
        Kind::GitHub { web, .. } => (format!("{web}/login/oauth/authorize"), "read:org"),
    };
    // Values that look random, each for one purpose.
    let seed = hex::encode(random);
    let pending = Pending {
        state: key.token("state", &seed),
        nonce: key.token("nonce", &seed),
        verifier: key.token("verifier", &seed),
        to: local_path(&field(&request.query, "to")).to_owned(),
        end: now.saturating_add(TIME),
    };
    let Ok(mut url) = url::Url::parse(&address) else {
        return failed(502, "the address of the login is not a URL");
    };
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(pending.verifier.as_bytes()));
    url.query_pairs_mut()
        .append_pair("response_type", "code")
        .append_pair("client_id", &login.provider.client_id)
        .append_pair("redirect_uri", &format!("{}/callback", login.origin))
        .append_pair("scope", scope)
        .append_pair("state", &pending.state)
        .append_pair("nonce", &pending.nonce)
        .append_pair("code_challenge", &challenge)
        .append_pair("code_challenge_method", "S256");
    let value = key.seal("login", &pending);
    Response::redirect(url.as_str()).with("set-cookie", &cookie::set(COOKIE, &value, TIME / 1000))
}

/// Answers `/callback`: checks the answer of the service, and starts a session.
pub async fn end(login: &Login, key: &Key, web: &dyn Web, request: &Request, now: u64) -> Response {
    let pending = request
        .cookie(COOKIE)
        .and_then(|value| key.open::<Pending>("login", value))
        .filter(|pending| pending.end > now);
    let Some(pending) = pending else {
        return failed(
            400,
            "the login took too long, or was begun in another browser",
        );
    };
    let state = field(&request.query, "state");
    if !key.is_token(&state, &pending.state) {
        return failed(400, "the answer is not that of this login");
    }
    let code = field(&request.query, "code");
    if code.is_empty() {
        return failed(403, "the service did not confirm the login");
    }
    let known = match &login.provider.kind {
        Kind::Oidc { issuer } => oidc(login, web, issuer, &code, &pending, now).await,
        Kind::GitHub { web: pages, api } => github(login, web, (pages, api), &code, &pending).await,
    };
    match known {
        Ok((name, groups)) => {
            let groups: Vec<String> = groups
                .into_iter()
                .filter(|group| login.rules.iter().any(|rule| rule.groups.contains(group)))
                .collect();
            let id = key.token("session", &pending.state);
            tracing::info!(user = name, "logged in to the dashboard");
            start(key, &name, groups, &id, now, &pending.to)
                .with("set-cookie", &cookie::set(COOKIE, "", 0))
        }
        Err(error) => failed(403, error),
    }
}

/// Exchanges the code for tokens.
async fn exchange(
    login: &Login,
    web: &dyn Web,
    url: &str,
    code: &str,
    pending: &Pending,
) -> Result<Value, LoginError> {
    let secret = login.provider.client_secret.expose_str();
    let address = format!("{}/callback", login.origin);
    let form = [
        ("grant_type", "authorization_code"),
        ("code", code),
        ("redirect_uri", address.as_str()),
        ("client_id", login.provider.client_id.as_str()),
        ("client_secret", secret.unwrap_or_default()),
        ("code_verifier", pending.verifier.as_str()),
    ];
    let answer = web.post(url, &form).await?;
    match answer["error"].as_str() {
        Some(error) => Err(LoginError::Refused(error.to_owned())),
        None => Ok(answer),
    }
}

fn text<'v>(value: &'v Value, field: &'static str) -> Result<&'v str, LoginError> {
    let text = value[field].as_str().filter(|text| !text.is_empty());
    text.ok_or(LoginError::NoField(field))
}

async fn oidc(
    login: &Login,
    web: &dyn Web,
    issuer: &str,
    code: &str,
    pending: &Pending,
    now: u64,
) -> Result<(String, Vec<String>), LoginError> {
    let service = discover(web, issuer).await?;
    let answer = exchange(login, web, &service.token_endpoint, code, pending).await?;
    let keys = web.get(&service.jwks_uri, None).await?;
    let claims = tokens::verify(
        text(&answer, "id_token")?,
        &keys,
        &Claims {
            issuer,
            audience: &login.provider.client_id,
            nonce: &pending.nonce,
            now: now / 1000,
        },
    )?;
    // Only an address that the service has verified names a person; others can be chosen.
    let email = claims["email"]
        .as_str()
        .filter(|_| claims["email_verified"] == true);
    let name = match email {
        Some(email) => email.to_owned(),
        None => text(&claims, "sub")?.to_owned(),
    };
    let groups = claims["groups"].as_array().into_iter().flatten();
    let groups = groups.filter_map(|group| group.as_str().map(str::to_owned));
    Ok((name, groups.collect()))
}

async fn github(
    login: &Login,
    web: &dyn Web,
    (pages, api): (&str, &str),
    code: &str,
    pending: &Pending,
) -> Result<(String, Vec<String>), LoginError> {
    let url = format!("{pages}/login/oauth/access_token");
    let answer = exchange(login, web, &url, code, pending).await?;
    let token = text(&answer, "access_token")?;
    let user = web.get(&format!("{api}/user"), Some(token)).await?;
    let name = text(&user, "login")?.to_owned();
    let mut groups = Vec::new();
    for page in 1..=MAX_PAGES {
        let url = format!("{api}/user/teams?per_page={PER_PAGE}&page={page}");
        let teams = web.get(&url, Some(token)).await?;
        let teams = teams.as_array().cloned().unwrap_or_default();
        for team in &teams {
            let organisation = text(&team["organization"], "login")?;
            groups.push(format!("{organisation}/{}", text(team, "slug")?));
        }
        if teams.len() < PER_PAGE {
            break;
        }
    }
    Ok((name, groups))
}

fn failed(status: u16, reason: impl Display) -> Response {
    tracing::warn!(status, "login refused: {reason}");
    let text = "The login did not succeed. Its log has the reason.";
    let link = Some(("/login", "Log in again"));
    let page = views::message("Not logged in", text, link);
    Response::html(status, views::bare("Not logged in", &page))
        .with("set-cookie", &cookie::set(COOKIE, "", 0))
}
