//! `driftless doctor --installation` with a stub of S3, SQS and Secrets Manager.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use driftless_harness::command::{Done, run_in};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::runtime::Runtime;

/// The attributes of each existing queue, by the end of its address.
type Queues = Vec<(&'static str, Value)>;

struct Stub {
    queues: Queues,
    /// The secrets, by their names.
    secrets: &'static [(&'static str, &'static str)],
    /// Other objects of the bucket.
    objects: Mutex<BTreeMap<String, Bytes>>,
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
            Some(name) => match stub.secrets.iter().find(|(known, _)| *known == name) {
                Some((_, value)) => (StatusCode::OK, json!({"SecretString": value}).to_string()),
                None => missing("ResourceNotFoundException"),
            },
            None => missing("InvalidParameterException"),
        },
        Some("secretsmanager.ListSecrets") => {
            let prefix = asked["Filters"][0]["Values"][0]
                .as_str()
                .unwrap_or_default();
            let names = stub.secrets.iter().map(|(name, _)| *name);
            let names = names.filter(|name| name.starts_with(prefix));
            let list: Vec<Value> = names.map(|name| json!({"Name": name})).collect();
            (StatusCode::OK, json!({"SecretList": list}).to_string())
        }
        Some(other) => (StatusCode::BAD_REQUEST, other.to_owned()),
        None => stub.bucket(&method, &uri, body),
    }
}

impl Stub {
    fn bucket(&self, method: &Method, uri: &Uri, body: Bytes) -> Answer {
        let mut objects = self.objects.lock().expect("the lock");
        let key = uri.path().trim_start_matches("/bucket/").to_owned();
        if *method == Method::PUT && key != "doctor/probe" {
            objects.insert(key, body);
            return (StatusCode::OK, String::new());
        }
        if let (true, Some(found)) = (*method == Method::GET, objects.get(&key)) {
            return (StatusCode::OK, String::from_utf8_lossy(found).into_owned());
        }
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
            _ if uri
                .query()
                .is_some_and(|query| query.contains("list-type=2")) =>
            {
                let query = uri.query().unwrap_or_default();
                let prefix = query
                    .split('&')
                    .find_map(|pair| pair.strip_prefix("prefix="));
                let prefix = prefix.unwrap_or_default().replace("%2F", "/");
                let keys = objects.keys().filter(|key| key.starts_with(&prefix));
                let entry = |key: &String| {
                    format!("<Contents><Key>{key}</Key><Size>1</Size><ETag>1</ETag></Contents>")
                };
                let entries: String = keys.map(entry).collect();
                let list = format!(
                    "<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>"
                );
                (StatusCode::OK, list)
            }
            _ => (
                StatusCode::NOT_FOUND,
                "<Error><Code>NoSuchKey</Code></Error>".to_owned(),
            ),
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
const LOGIN: &[(&str, &str)] = &[("driftless/github/token", "canary")];

/// The keys of an installation whose functions have another version.
const DEPLOYED: &[(&str, &str)] = &[("versions/drift.json", r#"{"version": "0.0.1"}"#)];

/// Runs the doctor on an installation with these queues and secrets.
fn doctor(
    queues: Queues,
    sweeps: Option<&str>,
    secrets: &'static [(&'static str, &'static str)],
) -> Done {
    let mut environment = vec![("DRIFTLESS_ISOLATED_QUEUE_URL", "http://sqs/isolated")];
    environment.extend(sweeps.map(|url| ("DRIFTLESS_SWEEP_QUEUE_URL", url)));
    let args = ["doctor", "--installation", "-o", "json"];
    let (done, _) = installation(queues, secrets, DEPLOYED, &environment, &[&args]);
    done.into_iter().next().expect("a command")
}

/// Runs commands one after the other on an installation with these queues, secrets and objects.
/// Returns their results, and the objects after them.
fn installation(
    queues: Queues,
    secrets: &'static [(&'static str, &'static str)],
    objects: &[(&str, &str)],
    more: &[(&str, &str)],
    commands: &[&[&str]],
) -> (Vec<Done>, BTreeMap<String, Bytes>) {
    let runtime = Runtime::new().expect("a runtime");
    let object = |(key, text): &(&str, &str)| ((*key).to_owned(), Bytes::from((*text).to_owned()));
    let stub = Arc::new(Stub {
        queues,
        secrets,
        objects: Mutex::new(objects.iter().map(object).collect()),
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
        .with_state(stub.clone());
    runtime.spawn(async move { axum::serve(listener, site).await });
    let home = tempfile::tempdir().expect("a home");
    let mut environment = vec![
        ("AWS_ENDPOINT_URL", endpoint.as_str()),
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "key"),
        ("DRIFTLESS_BUCKET", "bucket"),
        ("DRIFTLESS_QUEUE_URL", "http://sqs/steps"),
    ];
    environment.extend(more);
    let run = |args: &&[&str]| run_in(home.path(), args, &environment);
    let done = commands.iter().map(run).collect();
    let objects = stub.objects.lock().expect("the lock").clone();
    (done, objects)
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
    let secrets = &[
        ("driftless/gitlab/webhook", "canary"),
        ("driftless/gitea/webhook", "canary"),
    ];
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

mod orphans {
    use super::*;

    /// The kubeconfig of a hub that does not answer, with the copy of its settings.
    const KUBECONFIG: &str = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:9"}}],
        "users": [{"name": "c", "user": {"token": "canary"}}],
        "extensions": [{"name": "driftless.dev/settings", "extension": {"format": 1, "name": "staging",
            "noCrossNamespaceRefs": true, "defaultServiceAccount": "default"}}]}"#;
    const HUBS: &[(&str, &str)] = &[
        ("driftless/hubs/staging", KUBECONFIG),
        (
            "driftless/hubs/plain",
            r#"{"kind": "Config", "users": ["canary"]}"#,
        ),
    ];

    fn findings_of(done: &Done, check: &str) -> Vec<(String, String)> {
        let checks = checks(done).into_iter();
        checks
            .filter(|(name, _, _)| name == check)
            .map(|(_, state, found)| (state, found))
            .collect()
    }

    fn note(found: &str) -> (String, String) {
        ("note".to_owned(), found.to_owned())
    }

    #[test]
    fn state_of_hubs_that_are_not_registered_is_reported_with_what_removes_it() {
        let objects = &[
            ("hubs/plain.json", r#"{"name": "plain"}"#),
            ("objects/plain/kustomizations/apps/web.json", "{}"),
            ("objects/old/kustomizations/apps/web.json", "{}"),
            ("objects/old/kustomizations/apps/db.json", "{}"),
            ("schedule/old.json", "{}"),
            (
                "waits/old/kustomizations/apps/db/kustomizations/apps/web",
                "",
            ),
            (
                "index/github.com/acme/fleet/refs%2Fheads%2Fmain/old+apps+fleet.json",
                "",
            ),
            (
                "index/github.com/acme/fleet/refs%2Fheads%2Fmain/plain+apps+fleet.json",
                "",
            ),
            (
                "audit/old/2026/01/31/1-kustomizations-apps-web-00.json",
                "{}",
            ),
        ];
        let args = ["doctor", "--installation", "-o", "json"];
        let (done, after) = installation(Vec::new(), HUBS, objects, &[], &[&args]);
        let done = &done[0];
        let of_old =
            |text: &str| note(&format!("{text} of the hub 'old', which is not registered"));
        let expected = [
            of_old("index/ has 1 key"),
            of_old("objects/ has 2 keys"),
            of_old("schedule/ has 1 key"),
            of_old("waits/ has 1 key"),
        ];
        assert_eq!(findings_of(done, "state"), expected, "{}", done.out);
        for next in [
            "aws s3 rm --recursive s3://bucket/index/ --exclude '*' --include '*/old+*'",
            "aws s3 rm --recursive s3://bucket/objects/old/",
            "aws s3 rm s3://bucket/schedule/old.json",
        ] {
            assert!(done.out.contains(next), "{next}: {}", done.out);
        }
        let secret = "the secret manager has hubs/staging, and the hub is not registered";
        assert_eq!(findings_of(done, "kubeconfigs"), [note(secret)]);
        assert!(!done.out.contains("canary"), "{}", done.out);
        assert_eq!(after.len(), objects.len(), "nothing is changed");
    }

    #[test]
    fn hubs_are_restored_with_their_settings_or_not_at_all() {
        let all: &[&str] = &["bootstrap", "restore"];
        let one = &["bootstrap", "restore", "staging"];
        let (done, objects) = installation(Vec::new(), HUBS, &[], &[], &[all, one]);
        let [first, second] = done.as_slice() else {
            panic!("two commands")
        };
        let says = |done: &Done, text: &str| {
            assert!(done.err.contains(text), "{text}: {}{}", done.out, done.err);
        };
        assert_eq!(first.code, 1);
        says(first, "hub staging: is registered again");
        says(
            first,
            "hub plain: the secret 'hubs/plain' has no copy of the hub's settings",
        );
        says(first, "driftless bootstrap --name plain");
        says(first, "1 hub is not registered");
        assert_eq!(second.code, 0, "{}", second.err);
        says(second, "hub staging: is registered, and stays unchanged");
        assert_eq!(objects.keys().collect::<Vec<_>>(), ["hubs/staging.json"]);
        let settings: Value = serde_json::from_slice(&objects["hubs/staging.json"]).expect("JSON");
        assert_eq!(settings["noCrossNamespaceRefs"], true);
        assert_eq!(settings["defaultServiceAccount"], "default");
        for done in &done {
            assert!(!done.err.contains("canary"), "{}", done.err);
        }
        // The other secrets are those of other installations.
        let alone = &[(
            "versions/drift.json",
            r#"{"version": "0.1.0", "hub": "staging"}"#,
        )];
        let other: &[&str] = &["bootstrap", "restore", "plain"];
        let (done, objects) = installation(Vec::new(), HUBS, alone, &[], &[all, other]);
        assert_eq!((done[0].code, done[1].code), (0, 2), "{}", done[0].err);
        says(&done[0], "hub staging: is registered again");
        says(&done[1], "this installation serves hub 'staging' alone");
        assert!(!objects.contains_key("hubs/plain.json"));
        let (none, _) = installation(Vec::new(), &[], &[], &[], &[all]);
        assert_eq!(none[0].code, 1);
        says(&none[0], "the secret manager has no kubeconfig of a hub");
    }
}
