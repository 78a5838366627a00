//! Logins to GitHub: the installation's App or token, and those of Secrets.

use super::Session;
use super::client::{Api, ApiRequest, ApiResponse, NOT_VALID};
use driftless_flux::parse_rfc3339;
use driftless_kernel::ports::{
    ErrorKind, GitAuth, GitServer, PortError, Result, Secret, SecretStore,
};
use http::{HeaderValue, Method};
use octocrab::auth::{EncodingKey, create_jwt};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The time before its expiry from which a token is no longer used.
const MARGIN: Duration = Duration::from_secs(5 * 60);
/// The number of cached tokens.
const CAPACITY: usize = 1000;

/// The installation's credentials, and the cached tokens of Apps.
pub struct Logins {
    keys: Arc<dyn SecretStore>,
    tokens: Mutex<HashMap<String, Token>>,
}

#[derive(Clone)]
struct Token {
    header: HeaderValue,
    until: Instant,
}

/// The credentials of a GitHub App.
struct App {
    id: u64,
    installation: Option<u64>,
    key: Secret,
}

impl Logins {
    pub fn new(keys: Arc<dyn SecretStore>) -> Self {
        Self {
            keys,
            tokens: Mutex::default(),
        }
    }

    fn cached(&self, key: &str) -> Option<HeaderValue> {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens
            .get(key)
            .filter(|token| token.until > Instant::now())
            .map(|token| token.header.clone())
    }

    fn cache(&self, key: String, token: Token) {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if tokens.len() >= CAPACITY {
            tokens.clear();
        }
        tokens.insert(key, token);
    }

    fn drop_token(&self, header: &HeaderValue) {
        self.tokens
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|_, token| token.header != header);
    }

    /// Returns the installation's login for a host: its App, its token, or nothing.
    async fn installation_login(&self, host: &str) -> Result<InstallationLogin> {
        let directory = if host == "github.com" {
            "github".to_owned()
        } else {
            format!("github/{}", host.replace(':', "_"))
        };
        let name = format!("{directory}/app");
        if let Some(secret) = self.keys.secret(&name).await? {
            return Ok(InstallationLogin::App(parse_app(&secret).ok_or_else(|| {
                let message = format!("the secret '{name}' is not JSON with appId, privateKey and an optional installationId");
                PortError::new(ErrorKind::Invalid, message)
            })?));
        }
        Ok(
            match self.keys.secret(&format!("{directory}/token")).await? {
                Some(token) => InstallationLogin::Token(token),
                None => InstallationLogin::Nothing,
            },
        )
    }
}

enum InstallationLogin {
    App(App),
    Token(Secret),
    Nothing,
}

fn parse_app(secret: &Secret) -> Option<App> {
    let json: Value = serde_json::from_slice(secret.expose()).ok()?;
    let number = |field: &str| {
        json.get(field)
            .and_then(|v| v.as_u64().or_else(|| v.as_str()?.trim().parse().ok()))
    };
    let key = json.get("privateKey")?.as_str()?.to_owned();
    Some(App {
        id: number("appId")?,
        installation: number("installationId"),
        key: Secret::new(key),
    })
}

impl Session<'_> {
    /// Returns the client of the API of the repository's host.
    pub fn api(&self) -> Result<&Api> {
        self.github.api(self.repository)
    }

    /// Returns the path of an endpoint of the repository.
    pub fn path(&self, rest: &str) -> String {
        format!(
            "/repos/{}/{}/{rest}",
            self.repository.owner, self.repository.name
        )
    }

    /// Sends a request with this session's login. A token that is no longer valid is renewed once.
    ///
    /// # Errors
    /// Fails as [`Api::ask`] does, and without a valid login.
    pub async fn ask(
        &self,
        make: impl Fn(Option<HeaderValue>) -> ApiRequest + Send,
    ) -> Result<ApiResponse> {
        let login = self.login().await?;
        let answer = self.api()?.ask(make(login.header.clone())).await;
        match (&answer, &login) {
            (
                Err(error),
                Login {
                    header: Some(header),
                    renewable: true,
                },
            ) if error.message.contains(NOT_VALID) => {
                self.github.logins.drop_token(header);
                let login = self.login().await?;
                self.api()?.ask(make(login.header)).await
            }
            _ => answer,
        }
    }

    /// Runs a request in Git's own protocol, with the repository's URL and this session's login. If
    /// the server refuses a token that can be renewed, it runs again with a new one.
    ///
    /// # Errors
    /// The login is missing or not valid; those of the request.
    pub async fn over_git<T, F>(&self, request: impl Fn(String, GitAuth) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let url = self.git_url()?;
        let login = self.login().await?;
        let done = request(url.clone(), self.git_auth(&login)).await;
        let is_denied = matches!(&done, Err(error) if error.kind == ErrorKind::Denied);
        match &login.header {
            Some(header) if is_denied && login.renewable => {
                self.github.logins.drop_token(header);
                let login = self.login().await?;
                request(url, self.git_auth(&login)).await
            }
            _ => done,
        }
    }

    /// Returns the URL for Git's own protocol. Only the operator can configure an API without
    /// https.
    fn git_url(&self) -> Result<String> {
        let is_plain = self.api()?.base().starts_with("http://");
        let scheme = if is_plain { "http" } else { "https" };
        Ok(format!("{scheme}://{}", self.repository))
    }

    /// Returns the options of the session with a login for Git's own protocol, for which GitHub
    /// takes tokens as passwords.
    fn git_auth(&self, login: &Login) -> GitAuth {
        let mut server = match self.auth {
            GitAuth::Server(server) => GitServer::clone(server),
            _ => GitServer::default(),
        };
        server.login = match &login.header {
            None => GitAuth::Anonymous,
            Some(header) => {
                let token = header.to_str().unwrap_or_default().to_owned();
                GitAuth::Basic {
                    username: "x-access-token".to_owned(),
                    password: Secret::new(token.trim_start_matches("Bearer ").to_owned()),
                }
            }
        };
        server.ssh = None;
        GitAuth::Server(Box::new(server))
    }

    /// Returns the name that comments of the installation's own login have: `SLUG[bot]` of an App,
    /// or the user of a token.
    ///
    /// # Errors
    /// Fails as [`Api::ask`] does, and without a login.
    pub async fn own_name(&self) -> Result<String> {
        let host = &self.repository.host;
        let own = self.github.logins.installation_login(host).await?;
        let api = self.api()?;
        match own {
            InstallationLogin::App(app) => {
                let answer = api.ask(ApiRequest::get("/app", Some(jwt(&app)?))).await?;
                let app: OwnApp = answer.json("GET /app")?;
                Ok(format!("{}[bot]", app.slug))
            }
            InstallationLogin::Token(token) => {
                let answer = api
                    .ask(ApiRequest::get("/user", Some(bearer(&token)?)))
                    .await?;
                let user: OwnUser = answer.json("GET /user")?;
                Ok(user.login)
            }
            InstallationLogin::Nothing => Err(no_login(host)),
        }
    }

    async fn login(&self) -> Result<Login> {
        let fixed = |header| {
            Ok(Login {
                header: Some(header),
                renewable: false,
            })
        };
        let anonymous = Login {
            header: None,
            renewable: false,
        };
        match self.auth.login() {
            GitAuth::Anonymous | GitAuth::Server(_) => Ok(anonymous),
            GitAuth::Installation => match self
                .github
                .logins
                .installation_login(&self.repository.host)
                .await?
            {
                InstallationLogin::App(app) => self.app(&app).await,
                InstallationLogin::Token(token) => fixed(bearer(&token)?),
                InstallationLogin::Nothing => Ok(anonymous),
            },
            // GitHub accepts no passwords, so the password is a token.
            GitAuth::Basic { password, .. } => fixed(bearer(password)?),
            GitAuth::Bearer(token) => fixed(bearer(token)?),
            GitAuth::App {
                app_id,
                installation_id,
                private_key,
                base_url,
            } => {
                let base = base_url
                    .as_deref()
                    .map(|url| url.trim_end_matches('/'))
                    .filter(|url| !url.is_empty());
                // The object must not choose the host of its requests.
                if base.is_some_and(|url| url != self.api().map_or("", Api::base)) {
                    let message =
                        "the GitHub App's base URL is not the API that is configured for this host";
                    return Err(PortError::new(ErrorKind::Unsupported, message));
                }
                let number = |text: &str, field: &str| {
                    text.trim().parse::<u64>().map_err(|_| {
                        PortError::new(
                            ErrorKind::Invalid,
                            format!("the GitHub App's {field} is not a number"),
                        )
                    })
                };
                let installation = match installation_id.trim() {
                    "" => None,
                    text => Some(number(text, "installation id")?),
                };
                let app = App {
                    id: number(app_id, "id")?,
                    installation,
                    key: private_key.clone(),
                };
                self.app(&app).await
            }
        }
    }

    /// Returns a token of an App's installation, which is cached until shortly before its expiry.
    async fn app(&self, app: &App) -> Result<Login> {
        // The key is a part of the cache key: a tenant with another private key must not get this
        // App's token.
        let key_hash = hex::encode(Sha256::digest(app.key.expose()));
        let place = app
            .installation
            .map_or_else(|| self.repository.to_string(), |id| id.to_string());
        let cache_key = format!("{}\n{}\n{place}\n{key_hash}", self.api()?.base(), app.id);
        if let Some(header) = self.github.logins.cached(&cache_key) {
            return Ok(Login {
                header: Some(header),
                renewable: true,
            });
        }
        let jwt = jwt(app)?;
        let installation = match app.installation {
            Some(id) => id,
            None => {
                let path = self.path("installation");
                let answer = self
                    .api()?
                    .ask(ApiRequest::get(&path, Some(jwt.clone())))
                    .await?;
                answer.json::<Installation>(&format!("GET {path}"))?.id
            }
        };
        let path = format!("/app/installations/{installation}/access_tokens");
        let ask = ApiRequest {
            method: Method::POST,
            body: Some(serde_json::json!({})),
            ..ApiRequest::get(&path, Some(jwt))
        };
        let token: IssuedToken = self.api()?.ask(ask).await?.json(&format!("POST {path}"))?;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let life = parse_rfc3339(&token.expires_at)
            .unwrap_or_default()
            .saturating_sub(now)
            .saturating_sub(MARGIN);
        let header = bearer(&Secret::new(token.token))?;
        self.github.logins.cache(
            cache_key,
            Token {
                header: header.clone(),
                until: Instant::now() + life,
            },
        );
        Ok(Login {
            header: Some(header),
            renewable: true,
        })
    }
}

/// The login of a request; `renewable` is true if a new token can be requested.
struct Login {
    header: Option<HeaderValue>,
    renewable: bool,
}

#[derive(Deserialize)]
struct OwnApp {
    slug: String,
}

#[derive(Deserialize)]
struct OwnUser {
    login: String,
}

#[derive(Deserialize)]
struct Installation {
    id: u64,
}

#[derive(Deserialize)]
struct IssuedToken {
    token: String,
    #[serde(default)]
    expires_at: String,
}

/// Creates an App's own token: issued 60 s in the past and valid for less than ten minutes, as
/// GitHub requires.
fn jwt(app: &App) -> Result<HeaderValue> {
    let bad = || {
        PortError::new(
            ErrorKind::Invalid,
            "the GitHub App's private key is not an RSA key in PEM",
        )
    };
    let key = EncodingKey::from_rsa_pem(app.key.expose()).map_err(|_| bad())?;
    let token = create_jwt(app.id.into(), &key).map_err(|_| bad())?;
    bearer(&Secret::new(token))
}

pub(in crate::git) fn bearer(token: &Secret) -> Result<HeaderValue> {
    let bad = || {
        PortError::new(
            ErrorKind::Invalid,
            "the token for the Git host is empty, or has characters that are not valid in a header",
        )
    };
    let token = token
        .expose_str()
        .map(str::trim)
        .filter(|token| !token.is_empty())
        .ok_or_else(bad)?;
    let mut header = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| bad())?;
    header.set_sensitive(true);
    Ok(header)
}

/// Returns the error of a login that is missing.
fn no_login(host: &str) -> PortError {
    PortError::new(
        ErrorKind::Denied,
        format!("{host}: the installation has no GitHub App and no token for comments"),
    )
}
