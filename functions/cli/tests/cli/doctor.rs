//! `driftless doctor --installation` with a stub of S3, SQS and Secrets Manager.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use driftless_harness::command::{Done, run_in};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::runtime::Runtime;

/// The attributes of each existing queue, by the end of its address.
type Queues = Vec<(&'static str, Value)>;

struct Stub {
    queues: Queues,
    /// The names of the secrets that are set.
    secrets: &'static [&'static str],
    /// True if the probe is in the bucket.
    probe: Mutex<bool>,
}

type Answer = (StatusCode, String);

async fn answer(
    State(stub): State<Arc<Stub>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Answer {
    let target = headers.get("x-amz-target");
    let target = target.and_then(|value| value.to_str().ok());
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    let missing = |of: &str| (StatusCode::BAD_REQUEST, json!({"__type": of}).to_string());
    match target {
        Some("AmazonSQS.GetQueueAttributes") => {
            let url = asked["QueueUrl"].as_str().unwrap_or_default();
            let found = stub.queues.iter().find(|(name, _)| url.ends_with(name));
            match found {
                Some((_, attributes)) => (
                    StatusCode::OK,
                    json!({"Attributes": attributes}).to_string(),
                ),
                None => missing("com.amazonaws.sqs#QueueDoesNotExist"),
            }
        }
        Some("AmazonSQS.GetQueueUrl") => {
            let url = format!(
                "http://sqs/{}",
                asked["QueueName"].as_str().unwrap_or_default()
            );
            (StatusCode::OK, json!({"QueueUrl": url}).to_string())
        }
        Some("secretsmanager.GetSecretValue") => match asked["SecretId"].as_str() {
            Some(name) if stub.secrets.contains(&name) => (
                StatusCode::OK,
                json!({"SecretString": "canary"}).to_string(),
            ),
            _ => missing("ResourceNotFoundException"),
        },
        Some(other) => (StatusCode::BAD_REQUEST, other.to_owned()),
        None => stub.bucket(&method, &uri),
    }
}

impl Stub {
    fn bucket(&self, method: &Method, uri: &Uri) -> Answer {
        let mut probe = self.probe.lock().expect("the lock");
        match *method {
            Method::PUT if *probe => (StatusCode::PRECONDITION_FAILED, String::new()),
            Method::PUT => {
                *probe = true;
                (StatusCode::OK, String::new())
            }
            Method::DELETE => {
                *probe = false;
                (StatusCode::NO_CONTENT, String::new())
            }
            _ if uri.path().ends_with("/versions/drift.json") => {
                (StatusCode::OK, json!({"version": "0.0.1"}).to_string())
            }
            _ if uri
                .query()
                .is_some_and(|query| query.contains("list-type=2")) =>
            {
                let query = uri.query().unwrap_or_default();
                let entry = "<Contents><Key>versions/drift.json</Key><Size>1</Size><ETag>1</ETag></Contents>";
                let entries = if query.contains("versions") {
                    entry
                } else {
                    ""
                };
                let list = format!(
                    "<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>"
                );
                (StatusCode::OK, list)
            }
            _ => (StatusCode::NOT_FOUND, String::new()),
        }
    }
}

fn queue(visibility: u64, dead: Option<&str>) -> Value {
    let mut attributes = json!({"ApproximateNumberOfMessages": "3",
        "ApproximateNumberOfMessagesNotVisible": "1", "VisibilityTimeout": visibility.to_string()});
    if let Some(dead) = dead {
        let policy = json!({"deadLetterTargetArn": format!("arn:aws:sqs:r:1:{dead}")});
        attributes["RedrivePolicy"] = policy.to_string().into();
    }
    attributes
}

/// The secrets of an installation that has a login, and no secret of a webhook.
const LOGIN: &[&str] = &["driftless/github/token"];

/// Runs the doctor on an installation with these queues and secrets.
fn doctor(queues: Queues, sweeps: Option<&str>, secrets: &'static [&'static str]) -> Done {
    let runtime = Runtime::new().expect("a runtime");
    let stub = Arc::new(Stub {
        queues,
        secrets,
        probe: Mutex::new(false),
    });
    let listener = runtime
        .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
        .expect("listen");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    let site = Router::new()
        .fallback(async |state, method, uri, headers, body| {
            (
                [("etag", "\"1\"")],
                answer(state, method, uri, headers, body).await,
            )
        })
        .with_state(stub);
    runtime.spawn(async move { axum::serve(listener, site).await });
    let home = tempfile::tempdir().expect("a home");
    let mut environment = vec![
        ("AWS_ENDPOINT_URL", endpoint.as_str()),
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "key"),
        ("DRIFTLESS_BUCKET", "bucket"),
        ("DRIFTLESS_QUEUE_URL", "http://sqs/steps"),
        ("DRIFTLESS_ISOLATED_QUEUE_URL", "http://sqs/isolated"),
    ];
    environment.extend(sweeps.map(|url| ("DRIFTLESS_SWEEP_QUEUE_URL", url)));
    let args = ["doctor", "--installation", "-o", "json"];
    run_in(home.path(), &args, &environment)
}

/// Returns the state and the finding of each check.
fn checks(done: &Done) -> Vec<(String, String, String)> {
    let report: Value = serde_json::from_str(&done.out).unwrap_or_else(|error| {
        panic!("not JSON ({error}): {}{}", done.out, done.err);
    });
    let text = |check: &Value, field: &str| check[field].as_str().unwrap_or_default().to_owned();
    let checks = report["checks"].as_array().expect("checks").iter();
    checks
        .map(|one| (text(one, "check"), text(one, "state"), text(one, "found")))
        .collect()
}

#[test]
fn all_queues_are_checked() {
    let dead = json!({"ApproximateNumberOfMessages": "2"});
    let whole = || {
        vec![
            ("/steps", queue(720, Some("dead"))),
            ("/sweeps", queue(330, None)),
            ("/dead", dead.clone()),
            ("/isolated", queue(720, Some("dead"))),
        ]
    };
    let state = |done: &Done, check: &str| {
        let checks = checks(done);
        let found = checks.iter().find(|(name, _, _)| name == check);
        found
            .unwrap_or_else(|| panic!("no {check} in {checks:?}"))
            .1
            .clone()
    };
    let good = doctor(whole(), Some("http://sqs/sweeps"), LOGIN);
    assert_eq!(good.code, 0, "{}{}", good.out, good.err);
    for (check, want) in [
        ("bucket", "ok"),
        ("queue", "ok"),
        ("queue: dead letters", "note"),
        ("queue of isolated steps", "ok"),
        ("queue of isolated steps: dead letters", "note"),
        ("queue of sweeps", "ok"),
        ("webhook", "note"),
        ("GitHub", "ok"),
        ("functions", "note"),
        ("hubs", "note"),
    ] {
        assert_eq!(state(&good, check), want, "{check}: {}", good.out);
    }
    assert!(!good.out.contains("canary"), "{}", good.out);
    assert!(
        good.out.contains("drift runs version 0.0.1"),
        "{}",
        good.out
    );

    // A missing queue, a queue that delivers messages two times, a queue that is not configured.
    let gone = doctor(whole(), Some("http://sqs/other"), LOGIN);
    assert_eq!(
        (gone.code, &*state(&gone, "queue of sweeps")),
        (1, "failed")
    );
    assert!(
        gone.out.contains("check DRIFTLESS_SWEEP_QUEUE_URL"),
        "{}",
        gone.out
    );
    let mut short = whole();
    short[1] = ("/sweeps", queue(30, None));
    let short = doctor(short, Some("http://sqs/sweeps"), LOGIN);
    assert_eq!(
        (short.code, &*state(&short, "queue of sweeps")),
        (1, "failed")
    );
    let mut isolated = whole();
    isolated[3] = ("/isolated", queue(720, None));
    let isolated = doctor(isolated, Some("http://sqs/sweeps"), LOGIN);
    assert_eq!(
        (
            isolated.code,
            &*state(&isolated, "queue of isolated steps: dead letters")
        ),
        (1, "failed")
    );
    let mut lost = whole();
    lost[0] = ("/steps", queue(720, None));
    let lost = doctor(lost, None, LOGIN);
    assert_eq!(
        (lost.code, &*state(&lost, "queue: dead letters")),
        (1, "failed")
    );
    assert_eq!(state(&lost, "queue of sweeps"), "note");
}

#[test]
fn the_webhook_secret_of_any_host_is_found() {
    let secrets = &["driftless/gitlab/webhook", "driftless/gitea/webhook"];
    let done = doctor(vec![("/steps", queue(720, None))], None, secrets);
    let webhook = checks(&done)
        .into_iter()
        .find(|(name, _, _)| name == "webhook");
    let (_, state, found) = webhook.expect("a check of the webhook");
    assert_eq!(
        (&*state, &*found),
        ("ok", "the secret is set: gitlab/webhook, gitea/webhook")
    );
    assert!(!done.out.contains("canary"), "{}", done.out);
}
