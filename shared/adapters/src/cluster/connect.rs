//! A client from an [`Access`]: nothing is read from files, the environment or a proxy's settings.

use crate::resolver;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use driftless_core::ports::{Access, ErrorKind, Login, PortError, Result, Token};
use http::{HeaderValue, Uri, header};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioExecutor;
use kube::client::ConfigExt;
use kube::client::middleware::AuthLayer;
use kube::config::AuthInfo;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use std::time::Duration;
use tower::ServiceBuilder;

/// How long a connection may take to come about, so that a dark cluster holds nobody up.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a whole request may take.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// What driftless calls itself.
pub(crate) const AGENT: &str = concat!("driftless/", env!("CARGO_PKG_VERSION"));

/// A client for an API server.
///
/// # Errors
/// A server that is not https, certificates or keys that cannot be read.
pub fn client(access: &Access) -> Result<kube::Client> {
    let config = config(access)?;
    // kube's message may quote the input, which holds keys.
    assemble(&config, None, access.allow_local)
        .map_err(|_| refusal(access, "its certificates or keys cannot be used for TLS"))
}

/// An access that cannot be used.
pub fn refusal(access: &Access, what: &str) -> PortError {
    let message = format!("cluster {}: {what}", access.server);
    PortError::new(ErrorKind::Invalid, message)
}

/// What kube's parts of a client are made from.
///
/// # Errors
/// As [`client`].
pub fn config(access: &Access) -> Result<kube::Config> {
    let refuse = |what: &str| refusal(access, what);
    let url: Uri = access
        .server
        .parse()
        .map_err(|_| refuse("the server's address is not a URL"))?;
    if url.scheme_str() != Some("https") {
        return Err(refuse("only https servers are reached"));
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
            let token = token.ok_or_else(|| refuse("the bearer token is empty or no text"))?;
            config.headers.push((
                header::AUTHORIZATION,
                sensitive(format!("Bearer {token}")).ok_or_else(|| {
                    refuse("the bearer token has characters that no header can carry")
                })?,
            ));
        }
        Login::Basic { username, password } => {
            let mut pair = format!("{username}:").into_bytes();
            pair.extend_from_slice(password.expose());
            let value = sensitive(format!("Basic {}", STANDARD.encode(pair)));
            config.headers.push((
                header::AUTHORIZATION,
                value.ok_or_else(|| refuse("the login is unusable"))?,
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

/// kube's own client, but for how names are looked up. `auth` writes the login into each request, where it is no header of the
/// configuration.
///
/// # Errors
/// Certificates or keys that cannot be used. The message may quote them.
pub fn assemble(
    config: &kube::Config,
    auth: Option<AuthLayer>,
    allow_local: bool,
) -> kube::Result<kube::Client> {
    // Without one in the process the library panics. One that is there already serves as well.
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
    Ok(kube::Client::new(service, "default"))
}

fn sensitive(text: String) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The certificates of a PEM text; `None` when one is broken or there is none.
fn certificates(pem: &[u8]) -> Option<Vec<Vec<u8>>> {
    let all: Vec<Vec<u8>> = CertificateDer::pem_slice_iter(pem)
        .map(|certificate| certificate.map(|der| der.as_ref().to_vec()))
        .collect::<Result<_, _>>()
        .ok()?;
    (!all.is_empty()).then_some(all)
}
