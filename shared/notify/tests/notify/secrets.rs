//! No failure has a byte of a Secret, also if a server repeats what it received.

use crate::recorder::Recorder;
use async_trait::async_trait;
use driftless_notify::{
    Event, InvolvedObject, NatsLogin, Settings, Severity, Transport, TransportError, kinds, send,
};
use serde_json::json;
use std::collections::BTreeMap;

const MARKER: &str = "m4rkerS3cret";
/// `MARKER` at the three offsets of base64.
const ENCODED: [&str; 3] = ["bTRya2VyUzNjcmV0", "00cmtlclMzY3Jld", "tNHJrZXJTM2NyZX"];

/// A server that answers with the request that it received.
struct Echo(u16);

#[async_trait]
impl Transport for Echo {
    async fn http(
        &self,
        request: http::Request<Vec<u8>>,
    ) -> Result<http::Response<Vec<u8>>, TransportError> {
        let headers = request.headers().iter();
        let headers = headers.map(|(_, value)| String::from_utf8_lossy(value.as_bytes()));
        let headers: Vec<_> = headers.collect();
        let body = String::from_utf8_lossy(request.body());
        let body = format!("refused: {} {} {body}", request.uri(), headers.join(" "));
        let error = json!({"ok": false, "error": body}).to_string();
        let response = http::Response::builder().status(self.0);
        Ok(response.body(error.into_bytes()).unwrap())
    }

    async fn sign_rs256(&self, key: &[u8], _message: &[u8]) -> Result<Vec<u8>, TransportError> {
        Ok(key.to_vec())
    }

    async fn nats_publish(
        &self,
        _server: &str,
        _subject: &str,
        login: &NatsLogin,
        _payload: &[u8],
    ) -> Result<(), TransportError> {
        Err(TransportError {
            message: format!("refused: {login:?}"),
            is_retryable: false,
        })
    }
}

fn event() -> Event {
    Event {
        involved_object: InvolvedObject {
            kind: "Kustomization".to_owned(),
            namespace: "apps".to_owned(),
            name: "site".to_owned(),
            ..InvolvedObject::default()
        },
        severity: Severity::Error,
        timestamp: "2026-03-04T05:06:07Z".to_owned(),
        message: "failed".to_owned(),
        reason: "BuildFailed".to_owned(),
        metadata: BTreeMap::from([
            (
                "revision".to_owned(),
                format!("main@sha1:{}", "0a".repeat(20)),
            ),
            ("change_request".to_owned(), "7".to_owned()),
        ]),
        reporting_controller: "kustomize-controller".to_owned(),
        reporting_instance: String::new(),
    }
}

/// Returns settings whose Secret has the marker in each value that the type reads.
fn settings(kind: &str, address: &str, secret: &[(&str, String)]) -> Settings {
    let secret = secret.iter();
    let secret = secret.map(|(key, value)| ((*key).to_owned(), value.clone().into_bytes()));
    Settings {
        kind: kind.to_owned(),
        address: address.to_owned(),
        channel: "team/alerts".to_owned(),
        commit_status: "status".to_owned(),
        provider_uid: "uid".to_owned(),
        provider_namespace: "apps".to_owned(),
        provider_name: "alerts".to_owned(),
        secret: secret.collect(),
        identity: Some(format!("ya29.{MARKER}")),
        ..Settings::default()
    }
}

#[tokio::test]
async fn failures_have_no_secrets() {
    let addresses = [
        format!("https://hooks.example.com/{MARKER}/x?key={MARKER}"),
        format!("https://{MARKER}@host.example.com/one/two"),
        format!("https://user:{MARKER}@dev.example.com/a/b/_git/c"),
        format!("https://host.example.com/scm/one/two.git?x={MARKER}"),
        format!(
            "Endpoint=sb://a.servicebus.windows.net/;SharedAccessKeyName=k;SharedAccessKey={MARKER};EntityPath=hub"
        ),
        format!("not a url {MARKER}"),
        format!("nats://{MARKER}@nats.example.com"),
    ];
    let account = json!({"type": "service_account", "client_email": "a@b", "private_key": MARKER});
    let secrets: [&[(&str, String)]; 8] = [
        &[("token", MARKER.to_owned())],
        &[("token", format!("user:{MARKER}"))],
        &[
            ("username", "user".to_owned()),
            ("password", MARKER.to_owned()),
        ],
        &[
            (
                "headers",
                format!("Authorization: Bearer {MARKER}\nX-A: {MARKER}"),
            ),
            ("token", format!("{MARKER}\n")),
        ],
        &[("headers", format!("[{MARKER}"))],
        &[("token", account.to_string())],
        &[
            ("githubAppID", "1".to_owned()),
            ("githubAppInstallationID", "2".to_owned()),
            ("githubAppPrivateKey", MARKER.to_owned()),
        ],
        &[("creds", MARKER.to_owned()), ("nkey", MARKER.to_owned())],
    ];
    let mut failures = 0;
    for kind in kinds() {
        for address in &addresses {
            for secret in secrets {
                for status in [200, 302, 400, 401, 404, 429, 500] {
                    let mut settings = settings(kind, address, secret);
                    if status == 404 {
                        settings.identity = None;
                    }
                    let result = send(&settings, &event(), &Echo(status), 1_772_600_800).await;
                    let Err(failure) = result else { continue };
                    failures += 1;
                    let message = &failure.message;
                    let leaks = ENCODED.iter().chain([&MARKER]);
                    for leak in leaks {
                        assert!(
                            !message.contains(leak),
                            "{kind} {address} {status}: {message}"
                        );
                    }
                    assert!(
                        message.starts_with(&format!("Provider 'apps/alerts' ({kind}): ")),
                        "{message}"
                    );
                }
            }
        }
    }
    assert!(failures > 1000, "{failures}");
}

#[tokio::test]
async fn answers_are_quoted_without_secrets() {
    let answers = json!([{"status": 400, "body": "{\"message\": \"channel\n is archived\"}"}]);
    let settings = settings("slack", "https://hooks.example.com/T0/abcdef", &[]);
    let failure = send(&settings, &event(), &Recorder::new(&answers), 0)
        .await
        .unwrap_err();
    let expected = "send the message: the server answered 400 Bad Request: {\"message\": \"channel is archived\"}";
    assert!(failure.message.ends_with(expected), "{}", failure.message);
    assert!(!failure.is_retryable);
    let answers = json!([{"status": 404, "body": "see https://docs.github.com/one/two"}]);
    let token = [("token", "ghp_abc1".to_owned())];
    let settings = self::settings("github", "https://github.com/one/two", &token);
    let failure = send(&settings, &event(), &Recorder::new(&answers), 0)
        .await
        .unwrap_err();
    assert!(
        failure
            .message
            .ends_with("see https://docs.github.com/one/two"),
        "{}",
        failure.message
    );
}

#[test]
fn debug_has_no_secrets() {
    let settings = settings(
        "slack",
        &format!("https://x/{MARKER}"),
        &[("token", MARKER.to_owned())],
    );
    assert!(!format!("{settings:?}").contains(MARKER));
    let login = NatsLogin::Nkey(MARKER.as_bytes().to_vec());
    assert_eq!(format!("{login:?}"), "Nkey");
}

#[tokio::test]
async fn unknown_types_are_refused() {
    let settings = settings("pigeon", "https://x.example.com", &[]);
    let failure = send(&settings, &event(), &Echo(200), 0).await.unwrap_err();
    assert!(
        failure.message.contains("spec.type is not a known type"),
        "{}",
        failure.message
    );
}
