//! The types that Flux sends by gRPC and AMQP: the message is the event of `generic`, the request
//! that of the REST API.

use crate::corpus::{event, files, settings};
use crate::recorder::{Recorded, Recorder};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use driftless_notify::{Event, Settings, send};
use serde_json::{Value, json};

/// Returns the events of `generic` and the bodies that Flux sent for them.
fn events() -> Vec<(Event, String)> {
    let files = files();
    let generic = files.iter().find(|file| file["type"] == "generic").unwrap();
    let cases = generic["cases"].as_array().unwrap().iter();
    let cases = cases.filter(|case| case.get("error").is_none());
    cases
        .map(|case| {
            let body = case["requests"][0]["body"].as_str().unwrap();
            (event(&case["event"]), body.to_owned())
        })
        .collect()
}

async fn sent(settings: &Settings, event: &Event, answers: Value) -> Vec<Recorded> {
    let recorder = Recorder::new(&answers);
    send(settings, event, &recorder, 1_772_600_800)
        .await
        .unwrap();
    recorder.requests.into_inner().unwrap()
}

#[tokio::test]
async fn google_pub_sub() {
    let case =
        json!({"address": "project-1", "channel": "flux", "secret": {"headers": "team: a\n"}});
    let settings = Settings {
        identity: Some("ya29.x".to_owned()),
        ..settings("googlepubsub", &case)
    };
    for (event, body) in events() {
        let requests = sent(&settings, &event, json!([])).await;
        let [request] = requests.as_slice() else {
            panic!("{requests:?}")
        };
        let url = "https://pubsub.googleapis.com/v1/projects/project-1/topics/flux:publish";
        assert_eq!(
            (request.method.as_str(), request.url.as_str()),
            ("POST", url)
        );
        assert_eq!(request.headers["authorization"], "Bearer ya29.x");
        let message: Value = serde_json::from_slice(&request.body).unwrap();
        let expected = json!({"data": STANDARD.encode(&body), "attributes": {"team": "a"}});
        assert_eq!(message, json!({"messages": [expected]}));
    }
}

#[tokio::test]
async fn google_pub_sub_with_a_key() {
    let key = json!({
        "type": "service_account", "client_email": "flux@p.iam.gserviceaccount.com",
        "private_key": "KEY", "token_uri": "https://elsewhere.example.com",
    });
    let case = json!({"address": "p", "channel": "t", "secret": {"token": key.to_string()}});
    let answers = json!([{"status": 200, "body": r#"{"access_token": "ya29.y"}"#}, {"status": 200, "body": "{}"}]);
    let (event, _) = events().remove(0);
    let requests = sent(&settings("googlepubsub", &case), &event, answers).await;
    let [token, message] = requests.as_slice() else {
        panic!("{requests:?}")
    };
    assert_eq!(token.url, "https://oauth2.googleapis.com/token");
    let body = String::from_utf8(token.body.clone()).unwrap();
    let claims = body.split('.').nth(1).unwrap();
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    let expected = json!({
        "iss": "flux@p.iam.gserviceaccount.com", "aud": "https://oauth2.googleapis.com/token",
        "scope": "https://www.googleapis.com/auth/pubsub", "iat": 1_772_600_800, "exp": 1_772_604_400,
    });
    assert_eq!(claims, expected);
    assert_eq!(message.headers["authorization"], "Bearer ya29.y");
}

#[tokio::test]
async fn azure_event_hubs() {
    let token = json!({"address": "hub", "channel": "space", "secret": {"token": "eyJ"}});
    let string = "Endpoint=sb://space.servicebus.windows.net/;SharedAccessKeyName=send;SharedAccessKey=key=;EntityPath=hub";
    let string = json!({"secret": {"address": string}});
    // The signature was computed by openssl: HMAC-SHA-256 of the resource, a line break and the
    // expiry.
    let signature = "SharedAccessSignature sr=https%3A%2F%2Fspace.servicebus.windows.net%2Fhub&sig=r1ek5jAhahrpbPFFBx7%2B3oWUCq2qkfMUXlYx7XF4Gjo%3D&se=1772601100&skn=send";
    for (case, authorization) in [(token, "Bearer eyJ"), (string, signature)] {
        for (event, body) in events() {
            let requests = sent(&settings("azureeventhub", &case), &event, json!([])).await;
            let [request] = requests.as_slice() else {
                panic!("{requests:?}")
            };
            assert_eq!(
                request.url,
                "https://space.servicebus.windows.net/hub/messages"
            );
            assert_eq!(request.headers["authorization"], authorization);
            assert_eq!(String::from_utf8_lossy(&request.body), body);
        }
    }
}

#[tokio::test]
async fn azure_event_hubs_refuse_incomplete_settings() {
    let (event, _) = events().remove(0);
    for case in [
        json!({"address": "hub", "channel": "space"}),
        json!({"address": "hub", "secret": {"token": "x"}}),
        json!({"address": "Endpoint=sb://a/;SharedAccessKey=x"}),
        json!({"address": "SharedAccessKey=x;SharedAccessKeyName=y;Endpoint=sb://a/b?c;EntityPath=h"}),
        json!({"address": "hub", "channel": "a/b", "secret": {"token": "x"}}),
    ] {
        let recorder = Recorder::default();
        let result = send(&settings("azureeventhub", &case), &event, &recorder, 0).await;
        assert!(result.is_err(), "{case}");
        assert!(recorder.requests.lock().unwrap().is_empty());
    }
}

#[tokio::test]
async fn headers_of_the_connection_are_left_out() {
    let (event, _) = events().remove(0);
    let headers = "Host: internal\nContent-Length: 3\nTransfer-Encoding: chunked\nX-Team: a\n";
    let case = json!({"address": "https://hooks.example.com/x", "secret": {"headers": headers}});
    let requests = sent(&settings("generic", &case), &event, json!([])).await;
    let names: Vec<&str> = requests[0].headers.keys().map(String::as_str).collect();
    assert_eq!(names, ["content-type", "gotk-component", "x-team"]);
}
