//! NATS and HTTP of notifications against servers of this test.

use super::*;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

const SEED: &[u8] = b"SUADAMJSGM2DKNRXHA4TAMJSGM2DKNRXHA4TAMJSGM2DKNRXHA4TAMMLDU";
/// The key of `SEED` and its signature of the nonce, by nats.go
/// (`tests/corpus/notifications/nats.json`).
const PUBLIC: &str = "UB54GB4VDDWRDWQDGYEFX5UWFEQP7B73HRGWGCU3LDFWCU3HJ5O5MPWM";
const SIGNATURE: &str =
    "451Q7TmIageFK_OJp2PEztZo44LdDEuM4RgIz5nvvT1ut8Bm6yMyAg-dVVoTh3_YJmoBESt668tvTecGJ5YPDA";

fn transport(allow_local: bool) -> ProviderTransport {
    ProviderTransport {
        clients: Arc::default(),
        connection: Connection {
            allow_local,
            timeout: TIMEOUT,
            ..Connection::default()
        },
    }
}

/// Plays a server of NATS for one connection. Returns its address, and the lines that it reads.
async fn server(info: &'static str, answer: &'static str) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = format!("nats://{}", listener.local_addr().unwrap());
    let lines = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let info = format!("INFO {info}\r\nPING\r\n");
        socket.write_all(info.as_bytes()).await.unwrap();
        converse(socket, answer).await
    });
    (place, lines)
}

/// Reads lines until the end, and answers the first PING.
async fn converse(socket: impl AsyncRead + AsyncWrite + Unpin, answer: &str) -> Vec<String> {
    let mut stream = BufReader::new(socket);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
            return lines;
        }
        let line = line.trim().to_owned();
        let message = line.strip_prefix("PUB ");
        if let Some(size) = message.and_then(|line| line.split(' ').nth(1)) {
            let mut payload = vec![0; size.parse::<usize>().unwrap() + 2];
            stream.read_exact(&mut payload).await.unwrap();
            lines.push(line.clone());
            lines.push(String::from_utf8_lossy(&payload).trim().to_owned());
        } else if line == "PING" {
            let answer = if lines.len() == 1 { answer } else { "PONG" };
            let sent = stream.write_all(format!("{answer}\r\n").as_bytes()).await;
            sent.unwrap();
        } else if line != "PONG" {
            lines.push(line);
        }
    }
}

#[tokio::test]
async fn nats_by_tls() {
    let (authority, acceptor) = crate::self_signed::server("localhost", &[]);
    for is_trusted in [true, false] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let acceptor = acceptor.clone();
        let lines = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            socket
                .write_all(b"INFO {\"tls_required\":true}\r\n")
                .await
                .unwrap();
            match acceptor.accept(socket).await {
                Ok(socket) => converse(socket, "PONG").await,
                Err(_) => Vec::new(),
            }
        });
        let mut transport = transport(true);
        if is_trusted {
            transport.connection.certificate_authority = Some(authority.clone().into_bytes());
        }
        let place = format!("nats://localhost:{port}");
        let sent = transport
            .nats_publish(&place, "a", &NatsLogin::Anonymous, b"x")
            .await;
        assert_eq!(sent.is_ok(), is_trusted, "{sent:?}");
        let lines = lines.await.unwrap();
        assert_eq!(lines.len(), if is_trusted { 3 } else { 0 }, "{lines:?}");
    }
}

#[tokio::test]
async fn nats_gets_the_login_and_the_message() {
    let (place, lines) = server(r#"{"nonce":"bm9uY2U"}"#, "PONG").await;
    let login = NatsLogin::Nkey(SEED.to_vec());
    let sent = transport(true)
        .nats_publish(&place, "flux.a", &login, b"{\"a\":1}")
        .await;
    assert_eq!(sent, Ok(()));
    let lines = lines.await.unwrap();
    let connect: serde_json::Value =
        serde_json::from_str(lines[0].strip_prefix("CONNECT ").unwrap()).unwrap();
    assert_eq!(
        (&connect["nkey"], &connect["sig"]),
        (&PUBLIC.into(), &SIGNATURE.into())
    );
    assert_eq!(lines[1..], ["PUB flux.a 7", "{\"a\":1}"]);
}

#[tokio::test]
async fn nats_refuses_a_login_and_a_long_message() {
    let login = NatsLogin::Password {
        username: "u".to_owned(),
        password: "s3cret".to_owned(),
    };
    let (place, _lines) = server("{}", "-ERR 'Authorization Violation s3cret'").await;
    let sent = transport(true)
        .nats_publish(&place, "a", &login, b"x")
        .await
        .unwrap_err();
    assert!(
        sent.message.ends_with("refuses the login") && !sent.is_retryable,
        "{sent:?}"
    );
    let (place, _lines) = server(r#"{"max_payload":2}"#, "PONG").await;
    let sent = transport(true)
        .nats_publish(&place, "a", &login, b"xyz")
        .await
        .unwrap_err();
    assert!(sent.message.contains("accepts 2"), "{sent:?}");
}

#[tokio::test]
async fn local_addresses_are_refused() {
    for place in [
        "nats://127.0.0.1:1",
        "tls://localhost",
        "nats://[::1]",
        "169.254.169.254",
    ] {
        let sent = transport(false)
            .nats_publish(place, "a", &NatsLogin::Anonymous, b"x")
            .await;
        let error = sent.unwrap_err();
        assert!(
            error.message.contains("leads back") && !error.is_retryable,
            "{error:?}"
        );
    }
    let request = http::Request::post("http://169.254.169.254/s3cret?x=s3cret");
    let sent = transport(false)
        .http(request.body(Vec::new()).unwrap())
        .await;
    let error = sent.unwrap_err();
    assert!(
        !error.is_retryable && !error.message.contains("s3cret"),
        "{error:?}"
    );
}

#[tokio::test]
async fn http_names_only_the_host_of_a_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = listener.local_addr().unwrap();
    drop(listener);
    let request = http::Request::post(format!("http://{place}/s3cret?key=s3cret"));
    let sent = transport(true)
        .http(request.body(Vec::new()).unwrap())
        .await;
    let error = sent.unwrap_err();
    assert!(
        error.is_retryable && !error.message.contains("s3cret"),
        "{error:?}"
    );
}

#[test]
fn seeds_of_other_kinds_are_refused() {
    assert!(nkey::Nkey::from_seed(SEED).is_ok());
    for seed in [
        &b"SUAX"[..],
        b"",
        b"SAADAMJSGM2DKNRXHA4TAMJSGM2DKNRXHA4TAMJSGM2DKNRXHA4TAMMLDU",
        &SEED[1..],
    ] {
        assert!(nkey::Nkey::from_seed(seed).is_err());
    }
    assert!(nkey::credentials(b"-----BEGIN NATS USER JWT-----\nx\n").is_err());
}

#[tokio::test]
async fn keys_of_both_forms_sign() {
    use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
    use aws_lc_rs::rsa::{KeyPair, KeySize};
    use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
    use base64::Engine;
    let pair = KeyPair::generate(KeySize::Rsa2048).unwrap();
    let der: Pkcs8V1Der<'_> = pair.as_der().unwrap();
    let pem = |name: &str, der: &[u8]| {
        let text = base64::engine::general_purpose::STANDARD.encode(der);
        format!("-----BEGIN {name}-----\n{text}\n-----END {name}-----\n")
    };
    // PKCS #8 is a header of 26 bytes for keys of this size, and then PKCS #1.
    let keys = [
        pem("PRIVATE KEY", der.as_ref()),
        pem("RSA PRIVATE KEY", &der.as_ref()[26..]),
    ];
    for key in keys {
        let signature = transport(false)
            .sign_rs256(key.as_bytes(), b"a.b")
            .await
            .unwrap();
        let public =
            UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair.public_key().as_ref());
        public.verify(b"a.b", &signature).unwrap();
    }
    let error = transport(false)
        .sign_rs256(b"s3cret", b"a.b")
        .await
        .unwrap_err();
    assert!(!error.message.contains("s3cret"), "{error:?}");
}
