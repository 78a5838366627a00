//! HTTP clients for hosts that tenants name. Local addresses are refused, also in answers of DNS
//! and in redirects, unless the connection allows them; the environment's proxy is not used;
//! answers have a limit of bytes.

use crate::resolver;
use bytes::{Bytes, BytesMut};
use driftless_git::{RefusedRedirect, redirect};
use driftless_kernel::address;
use driftless_kernel::ports::{Connection, ErrorKind, PortError, Result, Secret};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Identity, Response, StatusCode, Url};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const AGENT: &str = concat!("driftless/", env!("CARGO_PKG_VERSION"));
/// The time limit for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The number of redirects that are followed.
const REDIRECTS: usize = 10;
/// The number of cached clients; the least recently used one is evicted first.
const CAPACITY: usize = 32;

/// The greatest buffer that is allocated for an answer before its bytes arrive, in bytes.
const INITIAL_CAPACITY: u64 = 1 << 20;

/// A GET request for a file.
pub(crate) struct FileRequest<'a> {
    /// The URL of the file.
    pub url: Url,
    /// The certificates, the proxy and the limits of the connection.
    pub connection: &'a Connection,
    /// The headers, which are also sent to the targets of redirects.
    pub headers: HeaderMap,
    /// The login for the host of `url`.
    pub login: Login<'a>,
    /// True if the login is also sent to the hosts of redirects.
    pub everywhere: bool,
    /// The URL for messages, without secrets.
    pub place: &'a str,
}

/// The content of the header `Authorization`.
#[derive(Clone, Copy)]
pub(crate) enum Login<'a> {
    Anonymous,
    Basic(&'a str, &'a Secret),
    Bearer(&'a str),
}

impl<'a> Login<'a> {
    /// Returns the login with the user and password of a connection.
    pub fn of(connection: &'a Connection) -> Self {
        match &connection.login {
            Some((user, password)) => Self::Basic(user, password),
            None => Self::Anonymous,
        }
    }
}

/// A cache of HTTP clients by their settings: certificates, proxy, timeout, and which addresses
/// they may reach.
#[derive(Default)]
pub(crate) struct Clients {
    /// The clients, the most recently used first.
    known: Mutex<Vec<(Key, Client)>>,
}

#[derive(Clone, PartialEq, Eq)]
struct Key {
    authority: Option<Vec<u8>>,
    identity: Option<Vec<u8>>,
    proxy: Option<Secret>,
    allow_local: bool,
    timeout: Duration,
}

impl Clients {
    /// Sends a request and follows redirects, with the same checks for each address; redirects from
    /// HTTPS to HTTP are refused.
    ///
    /// # Errors
    /// Fails without an answer in time, for an address that may not be reached, and for
    /// certificates that cannot be used.
    pub async fn ask(&self, ask: FileRequest<'_>) -> Result<Response> {
        let late = || {
            let message = format!("'{}': no answer in time", ask.place);
            PortError::new(ErrorKind::Unavailable, message)
        };
        match tokio::time::timeout(ask.connection.timeout, self.follow(&ask)).await {
            Ok(answer) => answer,
            Err(_) => Err(late()),
        }
    }

    async fn follow(&self, ask: &FileRequest<'_>) -> Result<Response> {
        let mut url = ask.url.clone();
        for _ in 0..=REDIRECTS {
            let client = self.client(&url, ask.connection)?;
            let request = client.get(url.clone()).headers(ask.headers.clone());
            let is_home = url.origin() == ask.url.origin();
            let request = match ask.login {
                Login::Basic(user, password) if is_home || ask.everywhere => {
                    request.basic_auth(user, password.expose_str())
                }
                Login::Bearer(token) if is_home || ask.everywhere => request.bearer_auth(token),
                _ => request,
            };
            let sent = request.send().await;
            let response = sent.map_err(|error| unreachable(&error, ask.place))?;
            match redirect(&url, response.status(), response.headers()) {
                None => return Ok(response),
                Some(Ok(next)) => url = next,
                Some(Err(refused)) => {
                    let reason = match refused {
                        RefusedRedirect::Location => "redirects without a valid Location",
                        RefusedRedirect::Downgrade => {
                            "redirects from https to http, which is not followed"
                        }
                        _ => "redirects to a URL that is neither http nor https",
                    };
                    let message = format!("'{}' {reason}", ask.place);
                    return Err(PortError::new(ErrorKind::Invalid, message));
                }
            }
        }
        let message = format!("'{}' redirects more than {REDIRECTS} times", ask.place);
        Err(PortError::new(ErrorKind::Invalid, message))
    }

    /// Returns a client for a URL.
    ///
    /// # Errors
    /// Fails for an address that may not be reached, and for certificates that cannot be used.
    pub fn client(&self, url: &Url, connection: &Connection) -> Result<Client> {
        if !connection.allow_local && is_local(url) {
            let message = format!(
                "'{}' is loopback or link-local, and leads back into this installation",
                url.host_str().unwrap_or_default()
            );
            return Err(PortError::new(ErrorKind::Invalid, message));
        }
        let key = Key {
            authority: connection.certificate_authority.clone(),
            identity: connection
                .client_certificate
                .as_ref()
                .map(|(certificate, key)| [certificate.as_slice(), b"\n", key.expose()].concat()),
            proxy: connection.proxy.clone(),
            allow_local: connection.allow_local,
            timeout: connection.timeout,
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = known.iter().position(|(have, _)| *have == key) {
            known[..=at].rotate_right(1);
        } else {
            let client = build(&key)?;
            known.insert(0, (key, client));
            known.truncate(CAPACITY);
        }
        match known.first() {
            Some((_, client)) => Ok(client.clone()),
            None => Err(PortError::new(ErrorKind::Unavailable, "no HTTP client")),
        }
    }
}

fn build(key: &Key) -> Result<Client> {
    let invalid = |message: &str| PortError::new(ErrorKind::Invalid, message);
    // The library panics without a default provider in the process. An already installed provider
    // is kept.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mut builder = Client::builder()
        .user_agent(AGENT)
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(key.timeout)
        .no_proxy()
        .redirect(Policy::none());
    if !key.allow_local {
        builder = builder.dns_resolver(Arc::new(PublicOnlyResolver));
    }
    if let Some(pem) = &key.authority {
        let certificates = Certificate::from_pem_bundle(pem)
            .map_err(|_| invalid("the certificate authority (ca.crt) is not PEM"))?;
        builder = builder.tls_certs_merge(certificates);
    }
    if let Some(pem) = &key.identity {
        // The library's message may quote the input, which holds a key.
        let identity = Identity::from_pem(pem).map_err(|_| {
            invalid("the client certificate and key (tls.crt, tls.key) are not PEM")
        })?;
        builder = builder.identity(identity);
    }
    if let Some(proxy) = &key.proxy {
        builder = builder.proxy(through(proxy, key.allow_local)?);
    }
    builder
        .build()
        .map_err(|_| invalid("the certificates cannot be used for TLS"))
}

/// Parses the URL of a proxy.
///
/// # Errors
/// Fails if the URL is not valid or may not be reached.
fn through(proxy: &Secret, allow_local: bool) -> Result<reqwest::Proxy> {
    let invalid =
        |reason: &str| PortError::new(ErrorKind::Invalid, format!("the proxy's address {reason}"));
    let address = proxy.expose_str().unwrap_or_default();
    let url = Url::parse(address).map_err(|_| invalid("cannot be used"))?;
    if !allow_local && is_local(&url) {
        return Err(invalid(
            "is loopback or link-local, and leads back into this installation",
        ));
    }
    // With `socks5h` the proxy resolves names, as with Go's client.
    let address = address.replacen("socks5://", "socks5h://", 1);
    reqwest::Proxy::all(address).map_err(|_| invalid("cannot be used"))
}

/// Returns a URL for messages, without its query, which may be a login.
pub(crate) fn place_of(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}

/// Returns whether the host of a URL is a local address or name.
fn is_local(url: &Url) -> bool {
    url.host_str().is_none_or(address::is_local_host)
}

/// A DNS resolver that leaves out local addresses.
struct PublicOnlyResolver;

impl Resolve for PublicOnlyResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = resolver::addresses(name.as_str(), false).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Converts an error of sending a request or of reading an answer.
pub(crate) fn unreachable(error: &reqwest::Error, place: &str) -> PortError {
    let message = format!("'{place}': {}", reason(error));
    PortError::new(ErrorKind::Unavailable, message)
}

/// Returns the innermost cause of an error, without the URL, which may contain a token.
pub(crate) fn reason(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    let mut inner: &dyn std::error::Error = error;
    while let Some(next) = inner.source() {
        inner = next;
    }
    inner.to_string()
}

/// Returns an answer if its status is a success.
///
/// # Errors
/// Fails for any other status.
pub(crate) fn accepted(response: Response, place: &str) -> Result<Response> {
    match response.status().is_success() {
        true => Ok(response),
        false => Err(refusal(&response, place)),
    }
}

/// Converts an answer without success to an error, by its status.
pub(crate) fn refusal(response: &Response, place: &str) -> PortError {
    let status = response.status();
    let kind = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ErrorKind::Denied,
        StatusCode::NOT_FOUND | StatusCode::GONE => ErrorKind::NotFound,
        StatusCode::TOO_MANY_REQUESTS => ErrorKind::RateLimited,
        status if status.is_client_error() => ErrorKind::Invalid,
        _ => ErrorKind::Unavailable,
    };
    let after = response.headers().get(RETRY_AFTER);
    let after = after.and_then(|after| after.to_str().ok()?.parse().ok());
    let mut error = PortError::new(kind, format!("'{place}' answered {status}"));
    error.retry_after = after.map(Duration::from_secs);
    error
}

/// Reads the body of an answer.
///
/// # Errors
/// Fails if the body has more than `limit` bytes or is incomplete.
pub(crate) async fn body(mut response: Response, limit: u64, place: &str) -> Result<Bytes> {
    let too_long = || {
        let message = format!("'{place}' is larger than {limit} bytes, which is the limit");
        PortError::new(ErrorKind::Invalid, message)
    };
    let announced = response.content_length();
    if announced.is_some_and(|length| length > limit) {
        return Err(too_long());
    }
    let mut bytes = BytesMut::with_capacity(announced.unwrap_or(0).min(INITIAL_CAPACITY) as usize);
    loop {
        let chunk = response.chunk().await;
        let chunk = chunk.map_err(|error| unreachable(&error, place))?;
        let Some(chunk) = chunk else {
            return Ok(bytes.freeze());
        };
        if (bytes.len() + chunk.len()) as u64 > limit {
            return Err(too_long());
        }
        bytes.extend_from_slice(&chunk);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine() {
        for host in [
            "127.0.0.1:9001",
            "2130706433",
            "0x7f.1",
            "[::1]",
            "localhost",
        ] {
            let url = Url::parse(&format!("http://{host}/x")).unwrap();
            assert!(is_local(&url), "{host}");
        }
        let url = Url::parse("http://charts.example.com/x").unwrap();
        assert!(!is_local(&url));
    }
}
