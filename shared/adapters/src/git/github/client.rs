//! Requests to GitHub's API through octocrab.

use bytes::Bytes;
use driftless_core::ports::{ErrorKind, PortError, Result};
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
/// How long one request may take, a download included.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of a JSON answer: GitHub cuts a tree's listing at 7 MB.
const JSON_LIMIT: usize = 32 << 20;
const REDIRECTS: usize = 5;
/// How long to stay away from a secondary limit that does not say, as GitHub's documentation asks.
const SECONDARY_WAIT: Duration = Duration::from_secs(60);
const LONGEST_WAIT: Duration = Duration::from_secs(2 * 3600);
/// Part of the message when a login is not valid (any more).
pub const NOT_VALID: &str = "these credentials are not valid";
/// Logins whose limits are remembered.
const REMEMBERED: usize = 1000;

/// One API: its address, its connections, and until when it asked to be left alone.
pub struct Api {
    base: String,
    client: OnceLock<Octocrab>,
    limited: Mutex<HashMap<u64, Instant>>,
}

/// A whole answer.
pub struct ApiResponse {
    /// The code.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// What to ask.
pub struct ApiRequest {
    /// The method.
    pub method: Method,
    /// The path below the API's address, with its query; or a whole URL of a page.
    pub path: String,
    /// The `Authorization` header.
    pub login: Option<HeaderValue>,
    /// More headers.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// JSON to send.
    pub body: Option<serde_json::Value>,
    /// Bytes that the answer may have.
    pub limit: usize,
}

impl ApiRequest {
    /// A GET of JSON.
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
    /// An API at an address; connections come with the first request.
    ///
    /// # Errors
    /// No http or https URL.
    pub fn new(base: &str) -> Result<Self> {
        let uri = base
            .parse::<Uri>()
            .ok()
            .filter(|uri| matches!(uri.scheme_str(), Some("https" | "http")));
        if uri.is_none_or(|uri| uri.authority().is_none() || uri.query().is_some()) {
            return Err(PortError::new(
                ErrorKind::Invalid,
                format!("'{base}' is not a URL of GitHub's API"),
            ));
        }
        Ok(Self {
            base: base.to_owned(),
            client: OnceLock::new(),
            limited: Mutex::default(),
        })
    }

    /// The address, without a `/` at the end.
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
                    "the client for GitHub's API cannot be set up",
                )
            })?;
        Ok(self.client.get_or_init(|| built))
    }

    /// Asks, following redirects; the login goes to the API's own host alone. Any code but an error is an answer.
    ///
    /// # Errors
    /// No answer, an error's code, or a limit that still holds (nothing is sent then).
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
            let what = format!("{} {}", ask.method, shown(&to));
            let answer = self.once(&ask, &to, at_home, &what).await?;
            match answer.status {
                200..=299 | 304 => return Ok(answer),
                301 | 302 | 307 | 308 if ask.method == Method::GET => {
                    to = follow(&base, &to, &answer, &what)?
                }
                _ => {
                    let error = answer.to_error(&what);
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
        what: &str,
    ) -> Result<ApiResponse> {
        let mut request = Request::builder().method(&ask.method).uri(to);
        for (name, value) in &ask.headers {
            request = request.header(name, value);
        }
        if at_home {
            if !ask.headers.iter().any(|(name, _)| name == header::ACCEPT) {
                request = request.header(header::ACCEPT, "application/vnd.github+json");
            }
            request = request.header("x-github-api-version", "2022-11-28");
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
                    format!("{what}: no request can be made of this"),
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
        let (head, body) = answer.map_err(|why: String| {
            let kind = if why.contains("length limit") {
                ErrorKind::Invalid
            } else {
                ErrorKind::Unavailable
            };
            PortError::new(kind, format!("{what}: {why}"))
        })?;
        Ok(ApiResponse {
            status: head.status.as_u16(),
            headers: head.headers,
            body,
        })
    }

    fn uri(&self, text: &str) -> Result<Uri> {
        text.parse().map_err(|_| {
            PortError::new(
                ErrorKind::Invalid,
                "an address of GitHub's API is not a valid URL",
            )
        })
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
                    "{} asked to be left alone for {} s more",
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
        if limited.len() >= REMEMBERED {
            limited.retain(|_, until| *until > now);
        }
        limited.insert(key, now + wait);
    }
}

impl ApiResponse {
    /// The JSON of the answer.
    ///
    /// # Errors
    /// `Unreadable` when it is none, or not of this shape: a page of a proxy, a body cut off.
    pub fn json<T: DeserializeOwned>(&self, what: &str) -> Result<T> {
        serde_json::from_slice(&self.body).map_err(|error| {
            let at = format!("line {}, column {}", error.line(), error.column());
            PortError::new(
                ErrorKind::Unreadable,
                format!("{what}: the answer is not the JSON that was asked for ({at})"),
            )
        })
    }

    /// The address of the next page of a list.
    pub fn next_page(&self) -> Option<String> {
        let links = self.headers.get(header::LINK)?.to_str().ok()?;
        let next = links
            .split(',')
            .find(|link| link.contains("rel=\"next\""))?;
        Some(next.trim().strip_prefix('<')?.split_once('>')?.0.to_owned())
    }

    /// The validator for the next conditional request.
    pub fn etag(&self) -> Option<String> {
        Some(self.headers.get(header::ETAG)?.to_str().ok()?.to_owned())
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.headers.get(name)?.to_str().ok()?.trim().parse().ok()
    }

    fn to_error(&self, what: &str) -> PortError {
        // GitHub's own words are short and of a fixed set; of anything else nothing is repeated.
        let said = serde_json::from_slice::<serde_json::Value>(&self.body)
            .ok()
            .and_then(|body| {
                Some(
                    body.get("message")?
                        .as_str()?
                        .chars()
                        .take(200)
                        .collect::<String>(),
                )
            })
            .unwrap_or_default();
        let (kind, retry_after, hint) = match self.status {
            403 | 429 => match self.limit(&said) {
                Some(wait) => (
                    ErrorKind::RateLimited,
                    Some(wait),
                    "the rate limit is used up",
                ),
                None => (ErrorKind::Denied, None, "these credentials are not enough"),
            },
            401 => (ErrorKind::Denied, None, NOT_VALID),
            404 => (
                ErrorKind::NotFound,
                None,
                "it does not exist, or these credentials may not see it",
            ),
            409 => (ErrorKind::Conflict, None, "GitHub says there is a conflict"),
            400..=499 => (
                ErrorKind::Invalid,
                None,
                "GitHub does not take this request",
            ),
            500..=599 => (
                ErrorKind::Unavailable,
                self.number("retry-after").map(Duration::from_secs),
                "GitHub has a problem",
            ),
            _ => (ErrorKind::Unreadable, None, "unexpected response"),
        };
        let said = if said.is_empty() {
            said
        } else {
            format!(": {said}")
        };
        PortError {
            kind,
            message: format!("{what}: {}, {hint}{said}", self.status),
            retry_after,
            reason: String::new(),
        }
    }

    /// How long to stay away, if this is about a limit at all.
    fn limit(&self, said: &str) -> Option<Duration> {
        if let Some(seconds) = self.number("retry-after") {
            return Some(Duration::from_secs(seconds).min(LONGEST_WAIT));
        }
        if self.number("x-ratelimit-remaining") == Some(0) {
            let now = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs();
            let reset = self.number("x-ratelimit-reset").unwrap_or_default();
            // A little more, for clocks that differ; never less than a minute when the answer makes no sense.
            let wait = reset
                .checked_sub(now)
                .map_or(SECONDARY_WAIT, |wait| Duration::from_secs(wait + 1));
            return Some(wait.min(LONGEST_WAIT));
        }
        (self.status == 429 || said.to_lowercase().contains("rate limit")).then_some(SECONDARY_WAIT)
    }
}

/// Where a redirect leads. Away from https only when the operator set up an API without it.
fn follow(base: &Uri, from: &Uri, answer: &ApiResponse, what: &str) -> Result<Uri> {
    let bad = || {
        PortError::new(
            ErrorKind::Unreadable,
            format!("{what}: the redirect leads to no address that can be followed"),
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

/// An address for messages: a download's query can hold a token.
fn shown(uri: &Uri) -> String {
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
