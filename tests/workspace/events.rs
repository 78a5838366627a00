//! Checks that the committed events match their names.

use driftless_harness::github::sign;
use driftless_harness::tools;
use serde_json::Value;

const SECRET: &str = "It's a Secret to Everybody";

fn event(name: &str) -> Value {
    let path = tools::workspace().join("events").join(name);
    let text = std::fs::read(&path).unwrap_or_else(|e| panic!("read {}: {e}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{name}: {e}"))
}

#[test]
fn webhook_events_have_the_expected_signatures() {
    let cases = [
        ("webhook-push.json", "push", "acme/fleet", true),
        ("webhook-ping.json", "ping", "acme/fleet", true),
        (
            "webhook-pull-request.json",
            "pull_request",
            "acme/fleet",
            true,
        ),
        ("webhook-foreign.json", "push", "acme/unknown", true),
        ("webhook-bad-signature.json", "push", "acme/fleet", false),
    ];
    for (name, kind, repository, signed) in cases {
        let event = event(name);
        let body = event["body"].as_str().expect("a body");
        let signature = event["headers"]["x-hub-signature-256"].as_str();
        assert_eq!(
            signature == Some(&sign(SECRET, body.as_bytes())),
            signed,
            "{name}"
        );
        assert_eq!(event["headers"]["x-github-event"], kind, "{name}");
        assert_eq!(event["isBase64Encoded"], false, "{name}");
        let payload: Value = serde_json::from_str(body).expect("a JSON body");
        assert_eq!(payload["repository"]["full_name"], repository, "{name}");
    }
}

/// The signature, token or password of each other host has the secret.
#[test]
fn webhook_events_of_other_hosts_have_the_expected_proofs() {
    for (name, (header, value), proof, signed) in [
        (
            "gitlab-push",
            ("x-gitlab-event", "Push Hook"),
            "x-gitlab-token",
            false,
        ),
        (
            "gitea-push",
            ("x-gitea-event", "push"),
            "x-gitea-signature",
            true,
        ),
        (
            "forgejo-push",
            ("x-forgejo-event", "push"),
            "x-forgejo-signature",
            true,
        ),
        (
            "bitbucket-push",
            ("x-event-key", "repo:push"),
            "x-hub-signature",
            true,
        ),
        (
            "bitbucket-server-push",
            ("x-event-key", "repo:refs_changed"),
            "x-hub-signature",
            true,
        ),
        (
            "azuredevops-push",
            ("content-type", "application/json; charset=utf-8"),
            "authorization",
            false,
        ),
        (
            "receiver",
            ("content-type", "application/json"),
            "x-signature",
            true,
        ),
    ] {
        let event = event(&format!("webhook-{name}.json"));
        let body = event["body"].as_str().expect("a body");
        assert_eq!(event["headers"][header], value, "{name}");
        let given = event["headers"][proof].as_str().expect("a proof");
        let signature = sign(SECRET, body.as_bytes());
        let expected = match signed {
            true => given.trim_start_matches("sha256=") == signature.trim_start_matches("sha256="),
            // A password is in Base64, with the user.
            false => {
                given == SECRET || given == "Basic ZHJpZnRsZXNzOkl0J3MgYSBTZWNyZXQgdG8gRXZlcnlib2R5"
            }
        };
        assert!(expected, "{name}: {given}");
        assert_eq!(event["isBase64Encoded"], false, "{name}");
        assert_eq!(
            event["rawPath"], event["requestContext"]["http"]["path"],
            "{name}"
        );
        let length = event["headers"]["content-length"].as_str();
        assert_eq!(length, Some(body.len().to_string().as_str()), "{name}");
        assert!(serde_json::from_str::<Value>(body).is_ok(), "{name}");
    }
}

#[test]
fn timer_and_queue_events_have_the_format_of_aws() {
    let drift = event("drift-schedule.json");
    assert_eq!(drift["detail-type"], "Scheduled Event");
    for name in ["reconcile-sqs.json", "drift-sweep.json", "plan-sqs.json"] {
        let record = &event(name)["Records"][0];
        assert_eq!(record["eventSource"], "aws:sqs", "{name}");
        let body = record["body"].as_str().expect("a body");
        assert!(
            serde_json::from_str::<Value>(body).is_ok(),
            "{name}: a message is JSON: {body}"
        );
    }
}
