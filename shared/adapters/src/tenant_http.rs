//! HTTP clients for hosts that tenants name: no address of the machine itself, where a name is looked up or a redirect leads,
//! unless the connection allows it; no proxy of the environment; no more bytes than were asked for.

use crate::resolver;
use bytes::{Bytes, BytesMut};
use driftless_core::address;
use driftless_core::ports::{Connection, ErrorKind, PortError, Result, Secret};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{HeaderMap, LOCATION, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Identity, Response, StatusCode, Url};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const AGENT: &str = concat!("driftless/", env!("CARGO_PKG_VERSION"));
/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Redirects that are followed.
const REDIRECTS: usize = 10;
/// Clients that are kept; the one unused for longest goes first.
const KEPT: usize = 32;

/// What is allocated for an answer before its bytes are there, whatever length it announces.
const FIRST: u64 = 1 << 20;

/// A question to a host.
pub(crate) struct FileRequest<'a> {
    /// The address.
    pub url: Url,
    /// How to talk to it.
    pub how: &'a Connection,
    /// What goes along, wherever a redirect leads.
    pub headers: HeaderMap,
    /// The login: for the host of `url`.
    pub login: Login<'a>,
    /// Give the login to the hosts of redirects, too.
    pub everywhere: bool,
    /// The place in messages.
    pub place: &'a str,
}

/// What goes into `Authorization`.
#[derive(Clone, Copy)]
pub(crate) enum Login<'a> {
    Nobody,
    Basic(&'a str, &'a Secret),
    Bearer(&'a str),
}

impl<'a> Login<'a> {
    /// User and password of a connection.
    pub fn of(how: &'a Connection) -> Self {
        match &how.login {
            Some((user, password)) => Self::Basic(user, password),
            None => Self::Nobody,
        }
    }
}

/// Clients by what is particular about them: certificates, and which addresses they may reach.
#[derive(Default)]
pub(crate) struct Clients {
    /// The most recently used first.
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
    /// Asks, and follows redirects: each address goes through the same gate, none leads out of TLS.
    ///
    /// # Errors
    /// No answer in time; an address that may not be reached; certificates that cannot be used.
    pub async fn ask(&self, ask: FileRequest<'_>) -> Result<Response> {
        let late = || {
            let what = format!("'{}': no answer in time", ask.place);
            PortError::new(ErrorKind::Unavailable, what)
        };
        match tokio::time::timeout(ask.how.timeout, self.follow(&ask)).await {
            Ok(answer) => answer,
            Err(_) => Err(late()),
        }
    }

    async fn follow(&self, ask: &FileRequest<'_>) -> Result<Response> {
        let mut url = ask.url.clone();
        for _ in 0..=REDIRECTS {
            let client = self.client(&url, ask.how)?;
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
            match target(&url, &response) {
                None => return Ok(response),
                Some(Ok(next)) => url = next,
                Some(Err(what)) => {
                    let what = format!("'{}' {what}", ask.place);
                    return Err(PortError::new(ErrorKind::Invalid, what));
                }
            }
        }
        let what = format!("'{}' redirects more than {REDIRECTS} times", ask.place);
        Err(PortError::new(ErrorKind::Invalid, what))
    }

    /// A client for an address.
    ///
    /// # Errors
    /// An address that may not be reached, certificates that cannot be used.
    pub fn client(&self, url: &Url, how: &Connection) -> Result<Client> {
        if !how.allow_local && is_local(url) {
            let what = format!(
                "'{}' is loopback or link-local, and leads back into this installation",
                url.host_str().unwrap_or_default()
            );
            return Err(PortError::new(ErrorKind::Invalid, what));
        }
        let key = Key {
            authority: how.certificate_authority.clone(),
            identity: how
                .client_certificate
                .as_ref()
                .map(|(certificate, key)| [certificate.as_slice(), b"\n", key.expose()].concat()),
            proxy: how.proxy.clone(),
            allow_local: how.allow_local,
            timeout: how.timeout,
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = known.iter().position(|(have, _)| *have == key) {
            known[..=at].rotate_right(1);
        } else {
            let client = build(&key)?;
            known.insert(0, (key, client));
            known.truncate(KEPT);
        }
        match known.first() {
            Some((_, client)) => Ok(client.clone()),
            None => Err(PortError::new(ErrorKind::Unavailable, "no HTTP client")),
        }
    }
}

fn build(key: &Key) -> Result<Client> {
    let invalid = |what: &str| PortError::new(ErrorKind::Invalid, what);
    // Without one in the process the library panics. One that is there already serves as well.
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

/// A proxy as the client takes it.
///
/// # Errors
/// No address; one that may not be reached.
fn through(proxy: &Secret, allow_local: bool) -> Result<reqwest::Proxy> {
    let invalid =
        |what: &str| PortError::new(ErrorKind::Invalid, format!("the proxy's address {what}"));
    let address = proxy.expose_str().unwrap_or_default();
    let url = Url::parse(address).map_err(|_| invalid("cannot be used"))?;
    if !allow_local && is_local(&url) {
        return Err(invalid(
            "is loopback or link-local, and leads back into this installation",
        ));
    }
    // With `h` the proxy looks names up, as with Go's client.
    let address = address.replacen("socks5://", "socks5h://", 1);
    reqwest::Proxy::all(address).map_err(|_| invalid("cannot be used"))
}

/// Where an answer redirects to.
fn target(from: &Url, response: &Response) -> Option<Result<Url, &'static str>> {
    use StatusCode as S;
    let redirects = [
        S::MOVED_PERMANENTLY,
        S::FOUND,
        S::SEE_OTHER,
        S::TEMPORARY_REDIRECT,
        S::PERMANENT_REDIRECT,
    ];
    if !redirects.contains(&response.status()) {
        return None;
    }
    let place = response.headers().get(LOCATION);
    let place = place.and_then(|place| place.to_str().ok());
    let Some(next) = place.and_then(|place| from.join(place).ok()) else {
        return Some(Err("redirects without a valid Location"));
    };
    Some(match (from.scheme(), next.scheme()) {
        (_, "https") | ("http", "http") => Ok(next),
        ("https", "http") => Err("redirects from https to http, which is not followed"),
        _ => Err("redirects to what is neither http nor https"),
    })
}

/// Whether the host of an address is written as one of this machine.
fn is_local(url: &Url) -> bool {
    url.host_str().is_none_or(address::is_local_host)
}

/// Looks names up, and passes over addresses of this machine.
struct PublicOnlyResolver;

impl Resolve for PublicOnlyResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = resolver::addresses(name.as_str(), false).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// No answer, or half of one.
pub(crate) fn unreachable(error: &reqwest::Error, place: &str) -> PortError {
    let what = format!("'{place}': {}", reason(error));
    PortError::new(ErrorKind::Unavailable, what)
}

/// The innermost reason of an error, without the address: it may hold a token.
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

/// An answer that is a success.
///
/// # Errors
/// What the host refused, by its status.
pub(crate) fn accepted(response: Response, place: &str) -> Result<Response> {
    match response.status().is_success() {
        true => Ok(response),
        false => Err(refusal(&response, place)),
    }
}

/// What an answer that is no success says by its status.
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

/// The bytes of an answer, at most `limit`.
///
/// # Errors
/// More than that, or it broke off.
pub(crate) async fn body(mut response: Response, limit: u64, place: &str) -> Result<Bytes> {
    let too_long = || {
        let what = format!("'{place}' is larger than {limit} bytes, which is the limit");
        PortError::new(ErrorKind::Invalid, what)
    };
    let announced = response.content_length();
    if announced.is_some_and(|length| length > limit) {
        return Err(too_long());
    }
    let mut bytes = BytesMut::with_capacity(announced.unwrap_or(0).min(FIRST) as usize);
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
