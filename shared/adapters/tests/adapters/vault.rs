//! Tests of the requests to HashiCorp Vault, and of its refusals.

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use driftless_adapters::key_services::HttpKeyServices;
use driftless_kernel::ports::{ErrorKind, KeyRequest, KeyServices, Result, Secret, VaultKey};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The method, path, token and body of each request.
type Requests = Arc<Mutex<Vec<(String, String, Value)>>>;

/// Starts a server that gives the same answer to every request.
async fn server(status: u16, body: &str) -> (VaultKey, Requests) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let (requests, body) = (Requests::default(), body.to_owned());
    let seen = requests.clone();
    let away = format!("{address}/elsewhere");
    let app = Router::new().fallback(move |request: Request| {
        let (seen, body, away) = (seen.clone(), body.clone(), away.clone());
        async move {
            let (head, content) = request.into_parts();
            let content = axum::body::to_bytes(content, 1 << 20).await.unwrap();
            let token = head.headers.get("x-vault-token");
            let token = token.map_or("", |token| token.to_str().unwrap());
            seen.lock().unwrap().push((
                format!("{} {}", head.method, head.uri),
                token.to_owned(),
                serde_json::from_slice(&content).unwrap(),
            ));
            let response = Response::builder().status(status).header("location", away);
            response.body(axum::body::Body::from(body)).unwrap()
        }
    });
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let key = VaultKey {
        address,
        engine: "sops/transit".to_owned(),
        name: "first".to_owned(),
    };
    (key, requests)
}

async fn decrypt(key: &VaultKey, token: &str, allow_local: bool) -> Result<Secret> {
    let request = KeyRequest::Vault {
        key: key.clone(),
        token: Secret::new(token.to_owned()),
        allow_local,
    };
    let services = HttpKeyServices::default();
    services
        .decrypt(&request, "vault:v1:abc", Duration::ZERO)
        .await
}

#[tokio::test]
async fn a_data_key_is_decrypted_by_one_request() {
    let answer = json!({"data": {"plaintext": "a2V5"}}).to_string();
    let (key, requests) = server(200, &answer).await;
    // The entry of a Secret often ends in a line break.
    let data_key = decrypt(&key, "canary\n", true).await.unwrap();
    assert_eq!(data_key.expose(), b"key");
    let expected = (
        "POST /v1/sops/transit/decrypt/first".to_owned(),
        "canary".to_owned(),
        json!({"ciphertext": "vault:v1:abc"}),
    );
    assert_eq!(*requests.lock().unwrap(), [expected]);
}

#[tokio::test]
async fn refusals_name_the_address_and_no_content() {
    let large = format!("{{\"data\": \"{}\"}}", "canary".repeat(1 << 16));
    for (status, body, kind) in [
        (403, "canary", ErrorKind::Denied),
        (400, "canary", ErrorKind::Invalid),
        (404, "canary", ErrorKind::NotFound),
        (429, "canary", ErrorKind::RateLimited),
        (503, "canary", ErrorKind::Unavailable),
        // The token would follow a redirect to another server.
        (307, "canary", ErrorKind::Unavailable),
        (200, "canary", ErrorKind::Invalid),
        (
            200,
            r#"{"data": {"plaintext": "canary!"}}"#,
            ErrorKind::Invalid,
        ),
        (200, &large, ErrorKind::Invalid),
    ] {
        let (key, requests) = server(status, body).await;
        let error = decrypt(&key, "canary", true).await.unwrap_err();
        assert_eq!(error.kind, kind, "{status}: {}", error.message);
        assert!(error.message.contains(&key.address), "{}", error.message);
        assert!(!error.message.contains("canary"), "{}", error.message);
        assert_eq!(requests.lock().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn addresses_of_the_installation_are_not_asked() {
    let (mut key, requests) = server(200, "{}").await;
    let error = decrypt(&key, "canary", false).await.unwrap_err();
    assert!(
        error.message.contains("is not an https URL"),
        "{}",
        error.message
    );
    key.address = key.address.replace("http://", "https://");
    let error = decrypt(&key, "canary", false).await.unwrap_err();
    assert!(error.message.contains("loopback"), "{}", error.message);
    let error = decrypt(&key, "two\nlines", true).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(requests.lock().unwrap().is_empty());
}
