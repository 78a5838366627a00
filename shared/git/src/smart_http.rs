//! Git's smart HTTP: <https://git-scm.com/docs/http-protocol>.

use crate::error::{BoxError, Error, Limit, Result, protocol, quoted};
use crate::limits::Deadline;
use crate::packets::{Body, Packets};
use crate::redirect::{RefusedRedirect, redirect};
use crate::remote::{Auth, Remote};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use url::Url;

const AGENT: &str = concat!("git/driftless-", env!("CARGO_PKG_VERSION"));
/// The number of redirects of the first request that are followed.
const REDIRECTS: usize = 10;
const QUERY: &str = "service=git-upload-pack";

/// A repository that is read over HTTP.
pub(crate) struct SmartHttp {
    remote: Remote,
    /// The URL after the redirects of the first request, without `/info/refs`.
    base: Url,
    deadline: Deadline,
}

impl SmartHttp {
    /// Requests the advertisement. As in git, redirects are followed only here: from HTTP to HTTPS
    /// but never back, and the login is not sent to another server.
    pub async fn open(remote: &Remote, deadline: Deadline) -> Result<(Self, Packets)> {
        let mut url = remote.url.url().clone();
        let refusal = match (&remote.auth, url.scheme()) {
            (Auth::Ssh(_), _) => "a login over SSH cannot be sent over HTTP",
            (_, "http") if remote.plain_login => "",
            (Auth::Basic { .. }, "http") => "basic auth cannot be sent over HTTP",
            (Auth::Bearer(_), "http") => "bearer token cannot be sent over HTTP",
            _ => "",
        };
        if !refusal.is_empty() {
            return Err(Error::Login(refusal.to_owned()));
        }
        url.set_path(&format!("{}/info/refs", url.path().trim_end_matches('/')));
        url.set_query(Some(QUERY));
        for _ in 0..=REDIRECTS {
            let mut http = Self {
                remote: remote.clone(),
                base: url.clone(),
                deadline,
            };
            let response = http.send(Method::GET, url.clone(), Bytes::new()).await?;
            if let Some(next) = target(&url, &response) {
                url = next?;
                continue;
            }
            let answer = http.accept(response, "application/x-git-upload-pack-advertisement")?;
            let Some(path) = url.path().strip_suffix("/info/refs") else {
                return protocol("redirect to a URL that does not end in /info/refs");
            };
            http.base.set_path(path);
            http.base.set_query(None);
            let packets = http.packets(answer, Limit::References(remote.limits.references));
            return Ok((http, packets));
        }
        protocol(format!("more than {REDIRECTS} redirects"))
    }

    /// Sends a command and returns the packets of its answer.
    pub async fn command(&self, body: Vec<u8>, limit: Limit) -> Result<Packets> {
        let mut url = self.base.clone();
        url.set_path(&format!("{}/git-upload-pack", url.path()));
        let response = self.send(Method::POST, url, body.into()).await?;
        let answer = self.accept(response, "application/x-git-upload-pack-result")?;
        Ok(self.packets(answer, limit))
    }

    fn packets(&self, body: Body, limit: Limit) -> Packets {
        Packets::new(body, &self.remote.url.place(), limit, self.deadline)
    }

    async fn send(&self, method: Method, url: Url, body: Bytes) -> Result<Response<Body>> {
        let is_home = url.origin() == self.remote.url.url().origin();
        let mut request = Request::builder()
            .uri(url.as_str())
            .header(USER_AGENT, AGENT)
            .header("Git-Protocol", "version=2");
        request = match method {
            Method::POST => request
                .header(CONTENT_TYPE, "application/x-git-upload-pack-request")
                .header(ACCEPT, "application/x-git-upload-pack-result"),
            _ => request
                .header(CACHE_CONTROL, "no-cache")
                .header(ACCEPT, "*/*"),
        };
        if let Some(login) = self.login()?
            && is_home
        {
            request = request.header(AUTHORIZATION, login);
        }
        let request = request.method(method).body(body);
        let request = request.map_err(|_| Error::Url("is not a valid URL".to_owned()))?;
        let sent = self
            .deadline
            .wait(self.remote.network.request(request))
            .await?;
        sent.map_err(|source| self.unreachable(source))
    }

    fn login(&self) -> Result<Option<HeaderValue>> {
        let text = match &self.remote.auth {
            Auth::None | Auth::Ssh(_) => return Ok(None),
            Auth::Basic { user, password } => {
                let pair = [user.as_bytes(), b":", password.expose()].concat();
                format!("Basic {}", STANDARD.encode(pair)).into_bytes()
            }
            Auth::Bearer(token) => [b"Bearer ", token.expose().trim_ascii()].concat(),
        };
        let value = HeaderValue::from_bytes(&text).map(|mut value| {
            value.set_sensitive(true);
            value
        });
        let value = value.map_err(|_| Error::Login("the token has a control character".to_owned()));
        value.map(Some)
    }

    fn accept(&self, response: Response<Body>, expected: &str) -> Result<Body> {
        let (place, status) = (self.remote.url.place(), response.status());
        match status {
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let refusal = match self.remote.auth {
                    Auth::None | Auth::Ssh(_) => "requires a login",
                    _ => "refuses the login",
                };
                let message = format!("the server {refusal}: '{place}' answered {status}");
                return Err(Error::Unauthorised(message));
            }
            StatusCode::NOT_FOUND | StatusCode::GONE => {
                let message = format!("the repository does not exist: '{place}' answered {status}");
                return Err(Error::NotFound(message));
            }
            status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                let source = format!("the server answered {status}");
                return Err(self.unreachable(source.into()));
            }
            status => return protocol(format!("'{place}' answered {status}")),
        }
        let given = response.headers().get(CONTENT_TYPE);
        let given = given.map(HeaderValue::as_bytes).unwrap_or_default();
        let kind = given.split(|byte| *byte == b';').next().unwrap_or_default();
        match kind.trim_ascii().eq_ignore_ascii_case(expected.as_bytes()) {
            true => Ok(response.into_body()),
            false => protocol(format!(
                "'{place}' is not a Git repository: its Content-Type is '{}' and not {expected}",
                quoted(given)
            )),
        }
    }

    fn unreachable(&self, source: BoxError) -> Error {
        let place = self.remote.url.place();
        Error::Unreachable { place, source }
    }
}

/// Returns the target of a redirect; `None` if the answer is not a redirect.
fn target(from: &Url, response: &Response<Body>) -> Option<Result<Url>> {
    Some(
        match redirect(from, response.status(), response.headers())? {
            Ok(next) if !next.username().is_empty() || next.password().is_some() => {
                protocol("redirect to a URL with a login")
            }
            Ok(next) if next.query() != Some(QUERY) => {
                protocol("redirect to a URL that is not a repository")
            }
            Ok(next) => Ok(next),
            Err(RefusedRedirect::Location) => protocol("redirect without a valid Location"),
            Err(_) => protocol("redirect from https to another scheme, which is not followed"),
        },
    )
}
