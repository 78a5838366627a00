//! Creates a client from an [`Access`], without files, environment variables and proxy settings.

use crate::resolver;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use driftless_kernel::ports::{Access, ErrorKind, Login, PortError, Result, Token};
use http::{HeaderValue, Uri, header};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::middleware::AuthLayer;
use kube::client::{Body, ConfigExt};
use kube::config::AuthInfo;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use std::time::Duration;
use tower::ServiceBuilder;
use tower_http::decompression::Decompression;

/// The time limit for connecting. It is short, so that an unreachable cluster delays nothing else.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The time limit of a whole request.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The seconds after which the API server ends a request of a watch; the next one continues.
pub const WATCH_SECONDS: u32 = 290;

/// The silence of a connection after which the server is asked whether it is there.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// The time limit for the answer.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// The HTTP versions that a client offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// One request at a time on a connection: for watches, which may be more than the streams that
    /// a server allows on one connection (100 by default in Kubernetes 1.36).
    Http1,
    /// HTTP/2 if the server offers it: all requests on one connection.
    Http2,
}

/// The value of the header `User-Agent`.
pub(crate) const AGENT: &str = concat!("driftless/", env!("CARGO_PKG_VERSION"));

/// Creates a client for an API server.
///
/// # Errors
/// Fails if the server's URL is not https, or if certificates or keys are not valid.
pub fn client(access: &Access) -> Result<kube::Client> {
    of_config(&config(access)?, access, Protocol::Http2)
}

/// Creates a client for watches: an answer may be silent for as long as a watch may last.
///
/// # Errors
/// Those of [`client`].
pub fn watch_client(access: &Access) -> Result<kube::Client> {
    let mut config = config(access)?;
    let seconds = u64::from(WATCH_SECONDS) + 10;
    config.read_timeout = Some(Duration::from_secs(seconds));
    of_config(&config, access, Protocol::Http1)
}

fn of_config(config: &kube::Config, access: &Access, protocol: Protocol) -> Result<kube::Client> {
    // kube's message may quote the input, which holds keys.
    assemble(config, None, access.allow_local, protocol)
        .map_err(|_| refusal(access, "the certificates or keys cannot be used for TLS"))
}

/// Returns the error for an access that cannot be used.
pub fn refusal(access: &Access, reason: &str) -> PortError {
    let message = format!("cluster {}: {reason}", access.server);
    PortError::new(ErrorKind::Invalid, message)
}

/// Converts an access to kube's configuration.
///
/// # Errors
/// Fails if the server's URL is not https, or if the login or the certificates are not valid.
pub fn config(access: &Access) -> Result<kube::Config> {
    let refuse = |reason: &str| refusal(access, reason);
    let url: Uri = access
        .server
        .parse()
        .map_err(|_| refuse("the server's address is not a URL"))?;
    if url.scheme_str() != Some("https") {
        return Err(refuse("the server's address is not https"));
    }
    let mut config = kube::Config::new(url);
    if let Some(pem) = &access.certificate_authority {
        config.root_cert =
            Some(certificates(pem).ok_or_else(|| refuse("the certificate authority is not PEM"))?);
    }
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = Some(REQUEST_TIMEOUT);
    config.write_timeout = Some(REQUEST_TIMEOUT);
    config.reset_reader_on_write = true;
    config.accept_invalid_certs = access.insecure_skip_tls_verify;
    config.tls_server_name = access.tls_server_name.clone();
    config.default_retry = false;
    config
        .headers
        .push((header::USER_AGENT, HeaderValue::from_static(AGENT)));
    match &access.login {
        Login::Anonymous => {}
        Login::Token(token) | Login::Issued(Token { secret: token, .. }) => {
            let token = token
                .expose_str()
                .map(str::trim)
                .filter(|token| !token.is_empty());
            let token = token.ok_or_else(|| refuse("the bearer token is empty or not UTF-8"))?;
            config.headers.push((
                header::AUTHORIZATION,
                sensitive(format!("Bearer {token}")).ok_or_else(|| {
                    refuse("the bearer token has characters that are not valid in a header")
                })?,
            ));
        }
        Login::Basic { username, password } => {
            let mut pair = format!("{username}:").into_bytes();
            pair.extend_from_slice(password.expose());
            let value = sensitive(format!("Basic {}", STANDARD.encode(pair)));
            config.headers.push((
                header::AUTHORIZATION,
                value.ok_or_else(|| refuse("the username and password cannot be used"))?,
            ));
        }
        Login::Certificate { certificate, key } => {
            config.auth_info = AuthInfo {
                client_certificate_data: Some(STANDARD.encode(certificate)),
                client_key_data: Some(STANDARD.encode(key.expose()).into()),
                ..AuthInfo::default()
            };
        }
    }
    Ok(config)
}

/// Assembles kube's standard client with our resolver of names. `auth` adds the login to each
/// request, if it is not a header of the configuration.
///
/// # Errors
/// Fails if certificates or keys cannot be used. The message may quote them.
pub fn assemble(
    config: &kube::Config,
    auth: Option<AuthLayer>,
    allow_local: bool,
    protocol: Protocol,
) -> kube::Result<kube::Client> {
    // The library panics without a default provider in the process. An already installed provider
    // is kept.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let names = tower::service_fn(move |name: Name| async move {
        let found = resolver::addresses(name.as_str(), allow_local).await;
        found.map(Vec::into_iter)
    });
    let mut sockets = HttpConnector::new_with_resolver(names);
    sockets.enforce_http(false);
    let mut connector = TimeoutConnector::new(https(config, sockets, protocol)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(auth)
        .layer(config.extra_headers_layer()?)
        .map_err(tower::BoxError::from)
        .service(
            Client::builder(TokioExecutor::new())
                .timer(TokioTimer::new())
                .http2_adaptive_window(true)
                .http2_keep_alive_interval(PING_INTERVAL)
                .http2_keep_alive_timeout(PING_TIMEOUT)
                .build(connector),
        );
    Ok(client_of(service))
}

/// Adds TLS to sockets, with the protocol that the server chooses from those that are allowed.
fn https<S>(
    config: &kube::Config,
    sockets: S,
    protocol: Protocol,
) -> kube::Result<HttpsConnector<S>> {
    let mut builder = HttpsConnectorBuilder::new()
        .with_tls_config(config.rustls_client_config()?)
        .https_or_http();
    if let Some(name) = config.tls_server_name.clone() {
        let name = ServerName::try_from(name);
        let name = name.map_err(|error| kube::Error::Service(Box::new(error)))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    Ok(match protocol {
        Protocol::Http1 => builder.enable_http1().wrap_connector(sockets),
        Protocol::Http2 => builder.enable_all_versions().wrap_connector(sockets),
    })
}

/// Returns kube's client of an HTTP service. It asks for compressed answers, as client-go does: API
/// servers compress those above 128 KiB. Limits of answers count the bytes after decompression.
pub fn client_of<S, B>(service: S) -> kube::Client
where
    S: tower::Service<http::Request<Body>, Response = http::Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<tower::BoxError>,
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<tower::BoxError> + Send,
{
    kube::Client::new(Decompression::new(service), "default")
}

fn sensitive(text: String) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Parses the certificates of a PEM bundle; returns `None` if one is not valid or the bundle is
/// empty.
fn certificates(pem: &[u8]) -> Option<Vec<Vec<u8>>> {
    let all: Vec<Vec<u8>> = CertificateDer::pem_slice_iter(pem)
        .map(|certificate| certificate.map(|der| der.as_ref().to_vec()))
        .collect::<Result<_, _>>()
        .ok()?;
    (!all.is_empty()).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::self_signed;
    use tokio::net::TcpListener;

    /// Returns the protocol that a server with HTTP/2 and HTTP/1.1 and a client agree on.
    async fn negotiated(create: fn(&Access) -> Result<kube::Client>) -> Option<Vec<u8>> {
        let (authority, acceptor) = self_signed::server("127.0.0.1", &["h2", "http/1.1"]);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = tokio::spawn(async move {
            let (socket, _) = listener.accept().await.unwrap();
            let stream = acceptor.accept(socket).await.unwrap();
            stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec)
        });
        let access = Access {
            server: format!("https://{address}"),
            certificate_authority: Some(authority.into_bytes()),
            tls_server_name: None,
            insecure_skip_tls_verify: false,
            allow_local: true,
            login: Login::Anonymous,
            namespace: None,
        };
        let request = http::Request::get("/version").body(Body::empty()).unwrap();
        let sent = create(&access).unwrap().send(request).await;
        assert!(sent.is_err(), "the server answers nothing");
        accepted.await.unwrap()
    }

    #[tokio::test]
    async fn requests_use_http2_and_watches_do_not() {
        assert_eq!(negotiated(client).await.as_deref(), Some(&b"h2"[..]));
        // A client without a choice names no protocol.
        assert_eq!(negotiated(watch_client).await, None);
    }
}
