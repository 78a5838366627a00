//! A client of NATS that publishes one message. The protocol is lines of text over TCP or TLS:
//! <https://docs.nats.io/reference/reference-protocols/nats-protocol>.

use super::nkey::{Nkey, credentials};
use super::{lost, refused};
use crate::resolver;
use driftless_kernel::address::is_local_host;
use driftless_kernel::ports::Connection;
use driftless_notify::{NatsLogin, TransportError};
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls_platform_verifier::Verifier;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::Url;

/// The limit of a line of the server, in bytes.
const LINE: u64 = 64 << 10;
/// The number of lines that are read before an answer.
const LINES: usize = 100;
const PORT: u16 = 4222;

/// A connection, with TLS or without.
trait Socket: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Socket for S {}

/// Publishes a message to the first server of a list that can be reached.
///
/// # Errors
/// No server can be reached, or one refuses the login or the message.
pub(super) async fn publish(
    servers: &str,
    subject: &str,
    login: &NatsLogin,
    payload: &[u8],
    connection: &Connection,
) -> Result<(), TransportError> {
    let mut failure = refused("the address names no server of NATS");
    for server in servers.split(',').map(str::trim) {
        let message = Message { subject, payload };
        match publish_to(server, login, message, connection).await {
            Err(error) if error.is_retryable => failure = error,
            done => return done,
        }
    }
    Err(failure)
}

struct Message<'m> {
    subject: &'m str,
    payload: &'m [u8],
}

async fn publish_to(
    server: &str,
    login: &NatsLogin,
    message: Message<'_>,
    connection: &Connection,
) -> Result<(), TransportError> {
    let url = parse(server)?;
    let host = url.host_str().unwrap_or_default().to_owned();
    let socket = connect(&url, &host, connection.allow_local).await?;
    let mut stream: BufStream<Box<dyn Socket>> = BufStream::new(Box::new(socket));
    let info = line(&mut stream, &host).await?;
    let info = info.strip_prefix("INFO ").unwrap_or_default();
    let info: Value = serde_json::from_str(info)
        .map_err(|_| refused(format!("'{host}' is not a server of NATS")))?;
    let is_secure = url.scheme() == "tls" || info["tls_required"] == true;
    if is_secure {
        // The server sends nothing before its handshake: the buffer is empty.
        let socket = stream.into_inner();
        stream = BufStream::new(Box::new(secure(socket, &host, connection).await?));
    }
    let limit = info["max_payload"].as_u64().unwrap_or(u64::MAX);
    if message.payload.len() as u64 > limit {
        let length = message.payload.len();
        return Err(refused(format!(
            "the message has {length} bytes, '{host}' accepts {limit}"
        )));
    }
    let nonce = info["nonce"].as_str().unwrap_or_default();
    let options = options(&url, login, nonce, is_secure)?;
    write(
        &mut stream,
        &host,
        format!("CONNECT {options}\r\nPING\r\n").as_bytes(),
    )
    .await?;
    pong(&mut stream, &host).await?;
    let Message { subject, payload } = message;
    let head = format!("PUB {subject} {}\r\n", payload.len());
    let lines = [head.as_bytes(), payload, b"\r\nPING\r\n"].concat();
    write(&mut stream, &host, &lines).await?;
    pong(&mut stream, &host).await
}

/// Parses the address of a server. The scheme is `nats` if it is left out.
fn parse(server: &str) -> Result<Url, TransportError> {
    let invalid = || refused("the address is not in the form nats://HOST:PORT or tls://HOST:PORT");
    let server = match server.contains("://") {
        true => server.to_owned(),
        false => format!("nats://{server}"),
    };
    let url = Url::parse(&server).map_err(|_| invalid())?;
    match url.scheme() {
        "nats" | "tls" if url.host_str().is_some_and(|host| !host.is_empty()) => Ok(url),
        "ws" | "wss" => Err(refused(
            "NATS over WebSocket is not supported: use nats:// or tls://",
        )),
        _ => Err(invalid()),
    }
}

async fn connect(url: &Url, host: &str, allow_local: bool) -> Result<TcpStream, TransportError> {
    if !allow_local && is_local_host(host) {
        return Err(refused(format!(
            "'{host}' is loopback or link-local, and leads back into this installation"
        )));
    }
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let places = resolver::addresses(name, allow_local).await;
    let mut places = places.map_err(|error| lost(host, &error.to_string()))?;
    for place in &mut places {
        place.set_port(url.port().unwrap_or(PORT));
    }
    let socket = TcpStream::connect(places.as_slice()).await;
    socket.map_err(|error| lost(host, &error.to_string()))
}

/// Starts TLS on a connection.
async fn secure(
    socket: Box<dyn Socket>,
    host: &str,
    connection: &Connection,
) -> Result<impl Socket + use<>, TransportError> {
    let invalid = |reason: &str| refused(format!("TLS of '{host}': {reason}"));
    let config = tls(connection).map_err(invalid)?;
    let name = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned();
    let name = ServerName::try_from(name).map_err(|_| invalid("the name is not valid"))?;
    let socket = TlsConnector::from(Arc::new(config))
        .connect(name, socket)
        .await;
    socket.map_err(|error| lost(host, &error.to_string()))
}

/// Returns the configuration of TLS: the public authorities and those of the connection.
fn tls(connection: &Connection) -> Result<ClientConfig, &'static str> {
    let chain = |pem: &[u8]| {
        let certificates = CertificateDer::pem_slice_iter(pem);
        certificates.collect::<Result<Vec<_>, _>>()
    };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let authorities = connection
        .certificate_authority
        .as_deref()
        .unwrap_or_default();
    let authorities =
        chain(authorities).map_err(|_| "the certificate authority (ca.crt) is not PEM")?;
    let verifier = Verifier::new_with_extra_roots(authorities, Arc::clone(&provider))
        .map_err(|_| "the certificate authorities cannot be used")?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| "no version of TLS can be used")?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let Some((certificate, key)) = &connection.client_certificate else {
        return Ok(builder.with_no_client_auth());
    };
    let invalid = "the client certificate and key (tls.crt, tls.key) are not valid";
    let certificate = chain(certificate).map_err(|_| invalid)?;
    let key = PrivateKeyDer::from_pem_slice(key.expose()).map_err(|_| invalid)?;
    let config = builder.with_client_auth_cert(certificate, key);
    config.map_err(|_| invalid)
}

/// Returns the options of a login: CONNECT's JSON.
fn options(
    url: &Url,
    login: &NatsLogin,
    nonce: &str,
    is_secure: bool,
) -> Result<Value, TransportError> {
    let mut options = Map::new();
    let mut set = |name: &str, value: Value| options.insert(name.to_owned(), value);
    set("verbose", false.into());
    set("pedantic", false.into());
    set("tls_required", is_secure.into());
    set("name", "driftless".into());
    set("lang", "rust".into());
    set("version", env!("CARGO_PKG_VERSION").into());
    set("protocol", 1.into());
    set("echo", false.into());
    let decode = |text: &str| {
        let text = percent_encoding::percent_decode_str(text).decode_utf8_lossy();
        Value::from(text.into_owned())
    };
    let mut key = |jwt: Option<String>, key: Nkey| {
        match jwt {
            Some(jwt) => set("jwt", jwt.into()),
            None => set("nkey", key.public().into()),
        };
        set("sig", key.sign(nonce).into());
    };
    match login {
        NatsLogin::Credentials(file) => {
            let (jwt, pair) = credentials(file)?;
            key(Some(jwt), pair);
        }
        NatsLogin::Nkey(seed) => key(None, Nkey::from_seed(seed)?),
        NatsLogin::Password { username, password } => {
            set("user", username.as_str().into());
            set("pass", password.as_str().into());
        }
        NatsLogin::Anonymous => match (url.username(), url.password()) {
            ("", _) => {}
            (token, None) => drop(set("auth_token", decode(token))),
            (user, Some(password)) => {
                set("user", decode(user));
                set("pass", decode(password));
            }
        },
    }
    Ok(json!(options))
}

async fn write(
    stream: &mut (impl AsyncWrite + Unpin),
    host: &str,
    lines: &[u8],
) -> Result<(), TransportError> {
    let written = async {
        stream.write_all(lines).await?;
        stream.flush().await
    };
    let written = written.await;
    written.map_err(|error| lost(host, &error.to_string()))
}

/// Reads a line.
async fn line(
    stream: &mut (impl AsyncBufReadExt + Unpin),
    host: &str,
) -> Result<String, TransportError> {
    let mut line = Vec::new();
    let read = stream.take(LINE).read_until(b'\n', &mut line).await;
    read.map_err(|error| lost(host, &error.to_string()))?;
    match line.last() {
        Some(b'\n') => Ok(String::from_utf8_lossy(line.trim_ascii()).into_owned()),
        Some(_) => Err(refused(format!(
            "'{host}' sent a line of more than {LINE} bytes"
        ))),
        None => Err(lost(host, "the server closed the connection")),
    }
}

/// Waits for the answer to a PING, which follows those to earlier lines.
async fn pong<S>(stream: &mut S, host: &str) -> Result<(), TransportError>
where
    S: AsyncBufReadExt + AsyncWrite + Unpin,
{
    for _ in 0..LINES {
        let line = line(stream, host).await?;
        match line.split(' ').next().unwrap_or_default() {
            "PONG" => return Ok(()),
            "PING" => write(stream, host, b"PONG\r\n").await?,
            "-ERR" => return Err(error(host, &line)),
            _ => {}
        }
    }
    Err(refused(format!(
        "'{host}' sent {LINES} lines without an answer"
    )))
}

/// Returns the failure for an error of a server. The server's words are not quoted.
fn error(host: &str, line: &str) -> TransportError {
    let line = line.to_ascii_lowercase();
    let has = |words: &str| line.contains(words);
    match () {
        () if has("permissions violation") => refused(format!(
            "'{host}' does not let the login publish to the subject"
        )),
        () if has("authorization") || has("authentication") => {
            refused(format!("'{host}' refuses the login"))
        }
        () if has("maximum payload") => refused(format!("'{host}' finds the message too long")),
        () if has("invalid subject") => refused(format!("'{host}' refuses the subject")),
        () => lost(host, "the server answered with an error"),
    }
}
