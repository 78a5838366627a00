//! Tests with failures of Entra ID, of registries, and of Google's services.

use super::aws_logins::Asked;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::response::Response;
use driftless_adapters::clouds::{AzureLogins, CloudHosts, GoogleLogins};
use driftless_kernel::ports::{
    AcrRegistry, AksCluster, Azure, EntraIdentity, EntraProof, ErrorKind, GkeCluster, Google,
    GoogleIdentity, Secret, Token,
};
use std::time::Duration;

pub const NOW: Duration = Duration::from_secs(1_700_000_000);

/// Starts a server that replaces every host and gives the same answer to every request.
async fn hosts(status: u16, body: &str) -> CloudHosts {
    hosts_that(status, body).await.0
}

/// Starts such a server; it also records the path, the login and the body of each request.
pub async fn hosts_that(status: u16, body: &str) -> (CloudHosts, Asked) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (away, body) = (format!("{url}/canary"), body.to_owned());
    let asked = Asked::default();
    let noted = asked.clone();
    let app = Router::new().fallback(move |request: Request| {
        let (away, body, noted) = (away.clone(), body.clone(), noted.clone());
        async move {
            let (head, content) = request.into_parts();
            let content = to_bytes(content, 1 << 20).await.unwrap();
            let login = head.headers.get("authorization");
            let login = login.map_or("", |login| login.to_str().unwrap());
            let path = head.uri.to_string();
            let line = [path.as_str(), login, std::str::from_utf8(&content).unwrap()];
            let parts: Vec<&str> = line.into_iter().filter(|part| !part.is_empty()).collect();
            noted.lock().unwrap().push(parts.join(" "));
            let response = Response::builder().status(status);
            let response = response.header("location", away);
            response.body(Body::from(body)).unwrap()
        }
    });
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let hosts = CloudHosts {
        stand_in: Some(url),
        ..CloudHosts::default()
    };
    (hosts, asked)
}

fn token() -> Token {
    Token {
        secret: Secret::new("canary"),
        expires: NOW + Duration::from_secs(3600),
    }
}

fn entra() -> EntraIdentity {
    EntraIdentity {
        tenant: "acme.example".to_owned(),
        client: "client".to_owned(),
        proof: EntraProof::Token(token()),
    }
}

fn principal() -> GoogleIdentity {
    GoogleIdentity {
        provider: "//iam.googleapis.com/projects/1".to_owned(),
        account: None,
        token: token(),
    }
}

#[tokio::test]
async fn refusals_are_reported_without_their_text() {
    let large = format!("{{\"canary\": \"{}\"}}", "a".repeat(1 << 20));
    for (status, body, kind, part) in [
        (
            401,
            r#"{"error": "invalid_client", "error_description": "canary", "error_codes": [700213]}"#,
            ErrorKind::Denied,
            "(invalid_client, AADSTS700213)",
        ),
        (
            400,
            r#"{"error": "invalid_grant", "error_description": "canary"}"#,
            ErrorKind::Denied,
            "(invalid_grant)",
        ),
        (
            403,
            r#"{"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "canary"}}"#,
            ErrorKind::Denied,
            "(PERMISSION_DENIED)",
        ),
        (429, "canary", ErrorKind::RateLimited, "answered 429"),
        (503, "canary", ErrorKind::Unavailable, "answered 503"),
        (302, "canary", ErrorKind::Unavailable, "answered 302"),
        (200, "canary", ErrorKind::Unreadable, "unexpected content"),
        (
            200,
            r#"{"access_token": "canary"}"#,
            ErrorKind::Unreadable,
            "unexpected content",
        ),
        (200, &large, ErrorKind::Invalid, "1048576 bytes"),
    ] {
        let hosts = hosts(status, body).await;
        let azure = AzureLogins::new(hosts.clone());
        let google = GoogleLogins::new(hosts);
        let azures = azure.token(&entra(), NOW).await.unwrap_err();
        let googles = google.token(&principal(), NOW).await.unwrap_err();
        for error in [azures, googles] {
            assert_eq!(error.kind, kind, "{error}");
            assert!(error.message.contains(part), "{error}");
            assert!(!error.message.contains("canary"), "{error}");
        }
    }
}

/// Well-formed answers with impossible values.
#[tokio::test]
async fn impossible_answers_are_errors() {
    let endless = r#"{"access_token": "canary", "expires_in": 18446744073709551615,
        "refresh_token": "a.b.c", "properties": {"aadProfile": null}, "endpoint": "", "kubeconfigs": []}"#;
    let hosts = hosts(200, endless).await;
    let azure = AzureLogins::new(hosts.clone());
    azure.token(&entra(), NOW).await.unwrap();
    let registry = AcrRegistry::parse("acme.azurecr.io").unwrap();
    let error = azure.registry(&registry, &entra(), NOW).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unreadable, "{error}");
    let cluster = AksCluster {
        subscription: "s".to_owned(),
        group: "g".to_owned(),
        name: "n".to_owned(),
    };
    let error = azure.describe(&cluster, &entra(), NOW).await.unwrap_err();
    assert!(
        error.message.contains("Entra ID integration enabled"),
        "{error}"
    );
    let google = GoogleLogins::new(hosts);
    let cluster = GkeCluster {
        name: "projects/a/locations/b/clusters/c".to_owned(),
    };
    let who = principal();
    let error = google.describe(&cluster, &who, NOW).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
}
