//! Creates a client from an [`Access`], without files, environment variables and proxy settings.

use crate::resolver;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use driftless_kernel::ports::{Access, ErrorKind, Login, PortError, Result, Token};
use http::{HeaderValue, Uri, header};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioExecutor;
use kube::client::middleware::AuthLayer;
use kube::client::{Body, ConfigExt};
use kube::config::AuthInfo;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use std::time::Duration;
use tower::ServiceBuilder;
use tower_http::decompression::Decompression;

/// The time limit for connecting. It is short, so that an unreachable cluster delays nothing else.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The time limit of a whole request.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The seconds after which the API server ends a request of a watch; the next one continues.
pub const WATCH_SECONDS: u32 = 290;

/// The value of the header `User-Agent`.
pub(crate) const AGENT: &str = concat!("driftless/", env!("CARGO_PKG_VERSION"));

/// Creates a client for an API server.
///
/// # Errors
/// Fails if the server's URL is not https, or if certificates or keys are not valid.
pub fn client(access: &Access) -> Result<kube::Client> {
    of_config(&config(access)?, access)
}

/// Creates a client for watches: an answer may be silent for as long as a watch may last.
///
/// # Errors
/// Those of [`client`].
pub fn watch_client(access: &Access) -> Result<kube::Client> {
    let mut config = config(access)?;
    let seconds = u64::from(WATCH_SECONDS) + 10;
    config.read_timeout = Some(Duration::from_secs(seconds));
    of_config(&config, access)
}

fn of_config(config: &kube::Config, access: &Access) -> Result<kube::Client> {
    // kube's message may quote the input, which holds keys.
    assemble(config, None, access.allow_local)
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
    let mut connector =
        TimeoutConnector::new(config.rustls_https_connector_with_connector(sockets)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(auth)
        .layer(config.extra_headers_layer()?)
        .map_err(tower::BoxError::from)
        .service(Client::builder(TokioExecutor::new()).build(connector));
    Ok(client_of(service))
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
