//! Sends requests to GitHub's API through octocrab.

use bytes::Bytes;
use driftless_kernel::ports::{ErrorKind, PortError, Result};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, header};
use http_body_util::{BodyExt, Limited};
use octocrab::Octocrab;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const READ_TIMEOUT: Duration = Duration::from_secs(20);
/// The time limit of one request, including a download.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The limit of a JSON answer in bytes: GitHub truncates the listing of a tree at 7 MB.
const JSON_LIMIT: usize = 32 << 20;
const REDIRECTS: usize = 5;
const GITHUB: &str = "GitHub";
/// The wait after a secondary rate limit without `Retry-After`, according to GitHub's
/// documentation.
const SECONDARY_WAIT: Duration = Duration::from_secs(60);
const MAX_WAIT: Duration = Duration::from_secs(2 * 3600);
/// The part of the message that marks an invalid or expired login.
pub const NOT_VALID: &str = "these credentials are not valid";
/// The number of logins whose rate limits are remembered.
const REMEMBERED_LOGINS: usize = 1000;

/// A client of one API: its URL, its connections, and the ends of its rate limits by login.
pub struct Api {
    /// The name of the host in messages.
    host: &'static str,
    base: String,
    client: OnceLock<Octocrab>,
    limited: Mutex<HashMap<u64, Instant>>,
}

/// An answer whose body was read.
pub struct ApiResponse {
    /// The HTTP status code.
    pub status: u16,
    /// The HTTP headers.
    pub headers: HeaderMap,
    /// The complete body.
    pub body: Bytes,
}

/// A request to GitHub's REST API, before its headers of version and trace are added.
pub struct ApiRequest {
    /// The HTTP method.
    pub method: Method,
    /// The path and query below the API's URL, or the complete URL of a page.
    pub path: String,
    /// The `Authorization` header, if there is a login.
    pub login: Option<HeaderValue>,
    /// The headers in addition to the login and the media type.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The JSON body.
    pub body: Option<serde_json::Value>,
    /// The limit of the answer in bytes.
    pub limit: usize,
}

impl ApiRequest {
    /// Creates a GET request for JSON.
    pub fn get(path: &str, login: Option<HeaderValue>) -> Self {
        Self {
            method: Method::GET,
            path: path.to_owned(),
            login,
            headers: Vec::new(),
            body: None,
            limit: JSON_LIMIT,
        }
    }
}

impl Api {
    /// Creates a client of the API at a URL, without connecting.
    ///
    /// # Errors
    /// Fails if the URL is not http or https.
    pub fn new(base: &str) -> Result<Self> {
        Self::of(GITHUB, base)
    }

    /// Creates a client of the API of another kind of host with JSON over HTTP.
    ///
    /// # Errors
    /// Fails if the URL is not http or https.
    pub fn of(host: &'static str, base: &str) -> Result<Self> {
        let uri = base
            .parse::<Uri>()
            .ok()
            .filter(|uri| matches!(uri.scheme_str(), Some("https" | "http")));
        if uri.is_none_or(|uri| uri.authority().is_none() || uri.query().is_some()) {
            return Err(PortError::new(
                ErrorKind::Invalid,
                format!("'{base}' is not a URL of {host}'s API"),
            ));
        }
        Ok(Self {
            host,
            base: base.to_owned(),
            client: OnceLock::new(),
            limited: Mutex::default(),
        })
    }

    /// Returns the URL of the API without a trailing `/`.
    pub fn base(&self) -> &str {
        &self.base
    }

    fn client(&self) -> Result<&Octocrab> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let built = Octocrab::builder()
            .set_connect_timeout(Some(CONNECT_TIMEOUT))
            .set_read_timeout(Some(READ_TIMEOUT))
            .build()
            .map_err(|_| {
                PortError::new(
                    ErrorKind::Unavailable,
                    "the client for GitHub's API cannot be created",
                )
            })?;
        Ok(self.client.get_or_init(|| built))
    }

    /// Sends a request and follows redirects. The login is sent only to the API's own host.
    ///
    /// # Errors
    /// Fails without an answer, for a status that is an error, and, without sending the request,
    /// during a rate limit.
    pub async fn ask(&self, ask: ApiRequest) -> Result<ApiResponse> {
        let key = login_key(ask.login.as_ref());
        self.check_limit(key)?;
        let base = self.uri(&self.base)?;
        let mut to = self.uri(&if ask.path.starts_with('/') {
            format!("{}{}", self.base, ask.path)
        } else {
            ask.path.clone()
        })?;
        for _ in 0..=REDIRECTS {
            let at_home = same_place(&base, &to);
            let operation = format!("{} {}", ask.method, without_query(&to));
            let answer = self.once(&ask, &to, at_home, &operation).await?;
            match answer.status {
                200..=299 | 304 => return Ok(answer),
                301 | 302 | 307 | 308 if ask.method == Method::GET => {
                    to = follow(&base, &to, &answer, &operation)?
                }
                _ => {
                    let error = answer.to_error(self.host, &operation);
                    if let (ErrorKind::RateLimited, Some(wait)) = (error.kind, error.retry_after) {
                        self.note_limit(key, wait);
                    }
                    return Err(error);
                }
            }
        }
        Err(PortError::new(
            ErrorKind::Unreadable,
            format!("GET {}: more than {REDIRECTS} redirects", ask.path),
        ))
    }

    async fn once(
        &self,
        ask: &ApiRequest,
        to: &Uri,
        at_home: bool,
        operation: &str,
    ) -> Result<ApiResponse> {
        let mut request = Request::builder().method(&ask.method).uri(to);
        for (name, value) in &ask.headers {
            request = request.header(name, value);
        }
        if at_home {
            let is_github = self.host == GITHUB;
            if is_github && !ask.headers.iter().any(|(name, _)| name == header::ACCEPT) {
                request = request.header(header::ACCEPT, "application/vnd.github+json");
            }
            if is_github {
                request = request.header("x-github-api-version", "2022-11-28");
            }
            if let Some(login) = &ask.login {
                request = request.header(header::AUTHORIZATION, login);
            }
        }
        let client = self.client()?;
        let request = client
            .build_request(request, ask.body.as_ref())
            .map_err(|_| {
                PortError::new(
                    ErrorKind::Invalid,
                    format!("{operation}: the request is not valid"),
                )
            })?;
        let exchange = async {
            let (head, body) = client
                .send(request)
                .await
                .map_err(|error| cause(&error))?
                .into_parts();
            let body = Limited::new(body, ask.limit)
                .collect()
                .await
                .map_err(|error| cause(error.as_ref()))?;
            Ok((head, body.to_bytes()))
        };
        let answer = tokio::time::timeout(REQUEST_TIMEOUT, exchange)
            .await
            .unwrap_or_else(|_| Err(format!("no answer in {} s", REQUEST_TIMEOUT.as_secs())));
        let (head, body) = answer.map_err(|reason: String| {
            let kind = if reason.contains("length limit") {
                ErrorKind::Invalid
            } else {
                ErrorKind::Unavailable
            };
            PortError::new(kind, format!("{operation}: {reason}"))
        })?;
        Ok(ApiResponse {
            status: head.status.as_u16(),
            headers: head.headers,
            body,
        })
    }

    fn uri(&self, text: &str) -> Result<Uri> {
        text.parse()
            .map_err(|_| PortError::new(ErrorKind::Invalid, "a URL of GitHub's API is not valid"))
    }

    fn check_limit(&self, key: u64) -> Result<()> {
        let limited = self.limited.lock().unwrap_or_else(PoisonError::into_inner);
        let left = limited
            .get(&key)
            .map(|until| until.saturating_duration_since(Instant::now()));
        match left.filter(|left| !left.is_zero()) {
            None => Ok(()),
            Some(left) => Err(PortError {
                kind: ErrorKind::RateLimited,
                message: format!(
                    "{}: the rate limit holds for {} more seconds",
                    self.base,
                    left.as_secs() + 1
                ),
                retry_after: Some(left),
                reason: String::new(),
            }),
        }
    }

    fn note_limit(&self, key: u64, wait: Duration) {
        let mut limited = self.limited.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if limited.len() >= REMEMBERED_LOGINS {
            limited.retain(|_, until| *until > now);
        }
        limited.insert(key, now + wait);
    }
}

impl ApiResponse {
    /// Parses the JSON of the answer.
    ///
    /// # Errors
    /// Fails with `Unreadable` if the body is not JSON of this type, such as a page of a proxy or a
    /// truncated body.
    pub fn json<T: DeserializeOwned>(&self, operation: &str) -> Result<T> {
        serde_json::from_slice(&self.body).map_err(|error| {
            let at = format!("line {}, column {}", error.line(), error.column());
            PortError::new(
                ErrorKind::Unreadable,
                format!("{operation}: the answer is not the expected JSON ({at})"),
            )
        })
    }

    /// Returns the URL of the next page of a list.
    pub fn next_page(&self) -> Option<String> {
        let links = self.headers.get(header::LINK)?.to_str().ok()?;
        let next = links
            .split(',')
            .find(|link| link.contains("rel=\"next\""))?;
        Some(next.trim().strip_prefix('<')?.split_once('>')?.0.to_owned())
    }

    /// Returns the validator for the next conditional request.
    pub fn etag(&self) -> Option<String> {
        Some(self.headers.get(header::ETAG)?.to_str().ok()?.to_owned())
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.headers.get(name)?.to_str().ok()?.trim().parse().ok()
    }

    fn to_error(&self, host: &str, operation: &str) -> PortError {
        // The hosts' own messages are short. Nothing else of the body is quoted.
        let message = serde_json::from_slice::<serde_json::Value>(&self.body)
            .ok()
            .and_then(|body| {
                let message = body.get("message")?;
                // GitLab's messages about fields are a map.
                let message = match message.as_str() {
                    Some(text) => text.to_owned(),
                    None => message.to_string(),
                };
                Some(message.chars().take(200).collect::<String>())
            })
            .unwrap_or_default();
        let (kind, retry_after, (subject, hint)) = match self.status {
            403 | 429 => match self.limit(&message) {
                Some(wait) => (
                    ErrorKind::RateLimited,
                    Some(wait),
                    ("", "the rate limit is used up"),
                ),
                None => (
                    ErrorKind::Denied,
                    None,
                    ("", "these credentials are not enough"),
                ),
            },
            401 => (ErrorKind::Denied, None, ("", NOT_VALID)),
            404 => (
                ErrorKind::NotFound,
                None,
                (
                    "",
                    "the resource does not exist, or these credentials may not see it",
                ),
            ),
            409 => (ErrorKind::Conflict, None, (host, " reports a conflict")),
            400..=499 => (ErrorKind::Invalid, None, (host, " refused this request")),
            500..=599 => (
                ErrorKind::Unavailable,
                self.number("retry-after").map(Duration::from_secs),
                (host, " has an internal error"),
            ),
            _ => (ErrorKind::Unreadable, None, ("", "unexpected response")),
        };
        let message = if message.is_empty() {
            message
        } else {
            format!(": {message}")
        };
        PortError {
            kind,
            message: format!("{operation}: {}, {subject}{hint}{message}", self.status),
            retry_after,
            reason: String::new(),
        }
    }

    /// Returns the time to wait if the answer is about a rate limit.
    fn limit(&self, message: &str) -> Option<Duration> {
        if let Some(seconds) = self.number("retry-after") {
            return Some(Duration::from_secs(seconds).min(MAX_WAIT));
        }
        if self.number("x-ratelimit-remaining") == Some(0) {
            let now = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs();
            let reset = self.number("x-ratelimit-reset").unwrap_or_default();
            // Add a second for clock skew; wait a minute if the reset time is in the past.
            let wait = reset
                .checked_sub(now)
                .map_or(SECONDARY_WAIT, |wait| Duration::from_secs(wait + 1));
            return Some(wait.min(MAX_WAIT));
        }
        (self.status == 429 || message.to_lowercase().contains("rate limit"))
            .then_some(SECONDARY_WAIT)
    }
}

/// Returns the target of a redirect. A target without https is allowed only if the operator
/// configured an API without https.
fn follow(base: &Uri, from: &Uri, answer: &ApiResponse, operation: &str) -> Result<Uri> {
    let bad = || {
        PortError::new(
            ErrorKind::Unreadable,
            format!("{operation}: the target of the redirect is not valid"),
        )
    };
    let location = answer
        .headers
        .get(header::LOCATION)
        .and_then(|to| to.to_str().ok())
        .ok_or_else(bad)?;
    let to: Uri = if location.starts_with('/') && !location.starts_with("//") {
        let authority = from.authority().ok_or_else(bad)?;
        format!(
            "{}://{authority}{location}",
            from.scheme_str().unwrap_or("https")
        )
        .parse()
        .map_err(|_| bad())?
    } else {
        location.parse().map_err(|_| bad())?
    };
    let plain_allowed = base.scheme_str() == Some("http");
    match to.scheme_str() {
        Some("https") => Ok(to),
        Some("http") if plain_allowed => Ok(to),
        _ => Err(bad()),
    }
}

fn same_place(a: &Uri, b: &Uri) -> bool {
    let port = |uri: &Uri| {
        uri.port_u16()
            .unwrap_or(if uri.scheme_str() == Some("https") {
                443
            } else {
                80
            })
    };
    a.scheme_str() == b.scheme_str() && a.host() == b.host() && port(a) == port(b)
}

/// Renders a URL for messages, without the query: that of a download can contain a token.
fn without_query(uri: &Uri) -> String {
    format!(
        "{}://{}{}",
        uri.scheme_str().unwrap_or_default(),
        uri.authority().map_or("", |a| a.as_str()),
        uri.path()
    )
}

fn login_key(login: Option<&HeaderValue>) -> u64 {
    let mut hasher = DefaultHasher::new();
    login.map(HeaderValue::as_bytes).hash(&mut hasher);
    hasher.finish()
}

fn cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
