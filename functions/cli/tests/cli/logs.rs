//! `logs`: the log of `serve` in a file, and that of an installation at a stub of CloudWatch.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use driftless_harness::command::{Done, driftless, run, run_in};
use driftless_harness::process::PATIENCE;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use tokio::runtime::Runtime;

const LOG: &str = r#"a line of another program
{"timestamp":"2026-01-01T00:00:00Z","level":"INFO","message":"applied 3 objects","hub":"hub","object":"Kustomization/team-a/apps","target":"step"}
{"timestamp":"2026-01-01T00:01:00Z","level":"WARN","message":"build failed","hub":"hub","object":"Kustomization/team-b/apps","target":"step"}
{"timestamp":"2026-01-01T00:02:00Z","level":"ERROR","message":"no bucket","target":"serve"}
2026-01-01T00:03:00Z  INFO stored artifact hub="hub" object=GitRepository/flux-system/fleet
"#;

fn logs(line: &str) -> Done {
    let home = tempfile::tempdir().expect("a home");
    std::fs::write(home.path().join("serve.log"), LOG).expect("write");
    let mut command = driftless(home.path());
    Done::of(command.current_dir(home.path()).args(line.split(' ')))
}

#[test]
fn a_file_is_filtered() {
    let apps = "2026-01-01T00:00:00Z info Kustomization/apps.team-a - applied 3 objects\n";
    let failed = "2026-01-01T00:01:00Z warn Kustomization/apps.team-b - build failed\n";
    let bucket = "2026-01-01T00:02:00Z error - no bucket\n";
    let stored = "2026-01-01T00:03:00Z info GitRepository/fleet.flux-system - stored artifact\n";
    let all = [apps, failed, bucket, stored];
    for (flags, want) in [
        ("-A", &all[..]),
        ("", &[stored]),
        ("-n team-a", &[apps]),
        ("-A --kind kustomization", &[apps, failed]),
        ("-A --name fleet", &[stored]),
        ("-A --level warn", &[failed, bucket]),
        ("-A --since-time 2026-01-01T00:02:00Z", &[bucket, stored]),
        ("-A --since 1h", &[]),
        ("-A --tail 1", &[stored]),
        ("-A --hub other", &[]),
    ] {
        let line = format!("logs --file serve.log {flags}");
        assert_eq!(logs(line.trim()).ok(), want.concat(), "{flags}");
    }
}

#[test]
fn a_pipe_is_read_to_its_end() {
    let home = tempfile::tempdir().expect("a home");
    let mut command = driftless(home.path());
    command.args(["logs", "--file", "-", "-A", "--level", "error"]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("start");
    let mut stdin = child.stdin.take().expect("stdin");
    stdin.write_all(LOG.as_bytes()).expect("write");
    drop(stdin);
    let output = child.wait_with_output().expect("the end");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text, "2026-01-01T00:02:00Z error - no bucket\n");
}

#[test]
fn bad_input_has_a_next_step() {
    for (line, words) in [
        ("logs", &["--file <FILE>"][..]),
        ("logs --file missing", &["missing does not exist", "Next:"]),
        ("logs --file .", &["is a directory", "Next:"]),
        (
            "logs --file serve.log --level loud",
            &["invalid value 'loud'"],
        ),
        ("logs --file serve.log --since 5", &["--since"]),
        (
            "logs --file serve.log --since-time now",
            &["2026-01-31T12:00:00Z"],
        ),
        ("logs --file serve.log --stack a", &["cannot be used with"]),
    ] {
        logs(line).refused(2, words);
    }
}

/// A running `logs --follow`, which is ended on drop.
struct Follower {
    child: Child,
    lines: Receiver<String>,
}

impl Follower {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("start");
        let out = child.stdout.take().expect("stdout");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    /// Waits for the next line.
    fn next(&self) -> String {
        let line = self.lines.recv_timeout(PATIENCE);
        line.expect("another line")
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_followed_file_prints_what_is_appended() {
    let home = tempfile::tempdir().expect("a home");
    let path = home.path().join("serve.log");
    std::fs::write(&path, LOG).expect("write");
    let append = |text: &str| {
        let mut file = File::options().append(true).open(&path).expect("open");
        file.write_all(text.as_bytes()).expect("write");
    };
    let line = |message: &str| {
        let line = json!({"timestamp": "2026-01-01T00:04:00Z", "level": "INFO", "message": message,
            "hub": "hub", "object": "Kustomization/team-a/apps", "target": "step"});
        format!("{line}\n")
    };
    let mut command = driftless(home.path());
    let command = command.current_dir(home.path()).args([
        "logs",
        "--file",
        "serve.log",
        "-n",
        "team-a",
        "--follow",
    ]);
    let follower = Follower::start(command);
    assert!(follower.next().ends_with("- applied 3 objects"));
    append(&line("second"));
    assert!(follower.next().ends_with("- second"));
    // A line that is written in two parts, after one that does not fit.
    let third = line("third");
    let (start, end) = third.split_at(20);
    append(&line("other").replace("team-a", "team-b"));
    append(start);
    append(end);
    assert!(follower.next().ends_with("- third"));
    // The file is rotated: a new one has fewer bytes.
    std::fs::rename(&path, home.path().join("serve.log.1")).expect("rename");
    std::fs::write(&path, line("fourth")).expect("write");
    assert!(follower.next().ends_with("- fourth"));
    append(&line("fifth"));
    assert!(follower.next().ends_with("- fifth"));
}

/// A stub of CloudWatch with two groups; the second page of the first one has the last event.
async fn cloudwatch(
    State(asked): State<Arc<Mutex<Vec<Value>>>>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, String) {
    let target = headers
        .get("x-amz-target")
        .and_then(|value| value.to_str().ok());
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    asked.lock().expect("the lock").push(body.clone());
    let event = |id: &str, time: u64, line: Value| json!({"eventId": id, "timestamp": time, "message": line.to_string(), "logStreamName": "s"});
    let step = |object: &str, message: &str| json!({"level": "INFO", "message": message, "hub": "eu", "object": object, "target": "step"});
    let answer = match target {
        Some("Logs_20140328.DescribeLogGroups") if body["logGroupNamePrefix"] == "fleet-" => {
            json!({"logGroups": [{"logGroupName": "fleet-ReconcileLogs-1"}, {"logGroupName": "fleet-WebhookLogs-1"}]})
        }
        Some("Logs_20140328.DescribeLogGroups") => json!({"logGroups": []}),
        Some("Logs_20140328.FilterLogEvents") => {
            match (body["logGroupName"].as_str(), body["nextToken"].as_str()) {
                (Some("fleet-ReconcileLogs-1"), None) => json!({"nextToken": "2", "events": [
                event("1", 1_767_225_600_000, step("Kustomization/team-a/apps", "applied")),
                {"eventId": "x", "timestamp": 1, "message": "START RequestId: 1"}]}),
                (Some("fleet-ReconcileLogs-1"), Some("2")) => json!({"events": [
                event("3", 1_767_225_602_000, step("HelmRelease/team-a/web", "upgraded"))]}),
                (Some("fleet-WebhookLogs-1"), None) => json!({"events": [
                event("2", 1_767_225_601_000, json!({"level": "WARN", "message": "not signed"}))]}),
                _ => {
                    let missing = json!({"__type": "ResourceNotFoundException", "message": "The specified log group does not exist."});
                    return (StatusCode::BAD_REQUEST, missing.to_string());
                }
            }
        }
        other => panic!("{other:?}"),
    };
    (StatusCode::OK, answer.to_string())
}

/// Serves a stand-in of CloudWatch Logs; returns its address.
fn serve(runtime: &Runtime, app: Router) -> String {
    let listener = runtime
        .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
        .expect("listen");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    runtime.spawn(async move { axum::serve(listener, app).await });
    url
}

/// Returns the variables that lead to a stand-in of AWS.
fn aws(url: &str) -> [(&str, &str); 4] {
    [
        ("AWS_ENDPOINT_URL", url),
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "canary"),
    ]
}

#[test]
fn groups_of_a_stack_are_merged() {
    let runtime = Runtime::new().expect("a runtime");
    let asked = Arc::new(Mutex::new(Vec::new()));
    let app = Router::new().fallback(cloudwatch).with_state(asked.clone());
    let url = serve(&runtime, app);
    let home = tempfile::tempdir().expect("a home");
    let environment = aws(&url);
    let run = |line: &str| {
        let args: Vec<&str> = line.split(' ').collect();
        run_in(home.path(), &args, &environment)
    };
    assert_eq!(
        run("logs --stack fleet -A").ok(),
        "2026-01-01T00:00:00.000Z info Kustomization/apps.team-a - applied\n\
         2026-01-01T00:00:01.000Z warn - not signed\n\
         2026-01-01T00:00:02.000Z info HelmRelease/web.team-a - upgraded\n"
    );
    let one = run("logs --log-group fleet-ReconcileLogs-1 -n team-a --kind HelmRelease").ok();
    assert_eq!(
        one,
        "2026-01-01T00:00:02.000Z info HelmRelease/web.team-a - upgraded\n"
    );
    asked.lock().expect("the lock").clear();
    run("logs --stack fleet -A --since 1h").ok();
    let starts = asked
        .lock()
        .expect("the lock")
        .iter()
        .filter(|body| body["startTime"].is_u64())
        .count();
    assert!(starts >= 2, "{starts}");
    run("logs --stack other -A").refused(1, &["no log group's name begins with 'other-'", "Next:"]);
    run("logs --log-group missing -A").refused(1, &["log group missing", "--stack NAME finds"]);
}

/// A group to which an event is added with each read; the last page is always the same.
async fn growing(State(reads): State<Arc<Mutex<Vec<Value>>>>, body: Bytes) -> (StatusCode, String) {
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    let event = |id: usize| {
        let line = json!({"level": "INFO", "message": format!("event {id}"), "target": "step"});
        json!({"eventId": id.to_string(), "timestamp": 1_767_225_600_000_u64 + id as u64,
            "message": line.to_string(), "logStreamName": "s"})
    };
    let answer = match body["nextToken"].as_str() {
        None => {
            let mut reads = reads.lock().expect("the lock");
            reads.push(body);
            json!({"nextToken": "more", "events": [event(0), event(reads.len() * 2 - 1)]})
        }
        Some(_) => {
            let reads = reads.lock().expect("the lock");
            json!({ "events": [event(reads.len() * 2)] })
        }
    };
    (StatusCode::OK, answer.to_string())
}

#[test]
fn a_followed_group_prints_each_event_once() {
    let runtime = Runtime::new().expect("a runtime");
    let reads = Arc::new(Mutex::new(Vec::new()));
    let app = Router::new().fallback(growing).with_state(reads.clone());
    let url = serve(&runtime, app);
    let home = tempfile::tempdir().expect("a home");
    let mut command = driftless(home.path());
    command.envs(aws(&url));
    command.args(["logs", "--log-group", "g", "-A", "--follow"]);
    command.args(["--since-time", "2026-01-01T00:00:00Z"]);
    let follower = Follower::start(&mut command);
    for id in 0..=6 {
        let line = follower.next();
        assert!(line.ends_with(&format!("- event {id}")), "{line}");
    }
    // The first read begins at the given time, the later ones shortly before the last read.
    let reads = reads.lock().expect("the lock");
    let starts: Vec<i64> = reads
        .iter()
        .filter_map(|body| body["startTime"].as_i64())
        .collect();
    assert_eq!(starts[0], 1_767_225_600_000);
    assert!(starts[1] > starts[0] && starts.is_sorted(), "{starts:?}");
}

#[test]
fn without_credentials_there_is_a_next_step() {
    let done = run(&["logs", "--stack", "fleet", "-A"]);
    done.refused(1, &["logs:DescribeLogGroups", "Next: check AWS_REGION"]);
}
