//! The commands that inspect a hub, compared with the real `flux` on one hub: the same objects, the
//! same command lines.

mod diff;
mod hub;

use driftless_harness::command::{Done, driftless, words};
use driftless_harness::tools;
use driftless_manifest::yaml;
use hub::Hub;
use serde_json::{Map, Value};
use std::panic::resume_unwind;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const COMMANDS: &str = include_str!("commands.txt");
/// The number of command lines that run at the same time.
const AT_ONCE: usize = 4;
/// The number of runs of a command line whose ages may change between the two tools.
const RUNS: usize = 3;

/// The expected result of a command line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    Same,
    SameObjects,
    Failure,
}

fn cases() -> Vec<(Expected, &'static str)> {
    let lines = COMMANDS.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let case = |line: &'static str| match line.split_once(": ") {
        Some(("same", line)) => (Expected::SameObjects, line),
        Some(("fail", line)) => (Expected::Failure, line),
        _ => (Expected::Same, line),
    };
    lines.map(case).collect()
}

/// Runs Flux's command line and driftless with the same words.
fn both(hub: &Hub, line: &str) -> (Done, Done) {
    let home = tempfile::tempdir().expect("a home");
    let mut theirs = Command::new(tools::FLUX.path());
    theirs.env_clear().env("HOME", home.path()).env("TZ", "UTC");
    let run = |mut command: Command| {
        let command = command
            .args(words(line))
            .env("KUBECONFIG", hub.kubeconfig());
        Done::of(command)
    };
    (run(theirs), run(driftless(home.path())))
}

/// Returns the documents with durations in one form, and without the zero values that Go's types
/// add or leave out.
fn objects(text: &str) -> Vec<Value> {
    let limits = yaml::Limits::default();
    let documents = yaml::documents(text.as_bytes(), "stdout", yaml::Dialect::V2, &limits);
    let documents = documents.unwrap_or_else(|error| panic!("{error}: {text}"));
    documents.into_iter().map(normal).collect()
}

fn normal(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let is_zero = |value: &Value| match value {
                Value::Null | Value::Bool(false) => true,
                Value::String(text) => text.is_empty(),
                Value::Object(map) => map.is_empty(),
                _ => false,
            };
            let fields = map.into_iter().map(|(key, value)| (key, normal(value)));
            let fields = fields.filter(|(_, value)| !is_zero(value));
            Value::Object(fields.collect::<Map<String, Value>>())
        }
        Value::Array(items) => items.into_iter().map(normal).collect(),
        Value::String(text) => match driftless_flux::parse_duration(&text) {
            Ok(time) => driftless_flux::duration_text(time).into(),
            Err(_) => text.into(),
        },
        other => other,
    }
}

fn is_right((theirs, ours): &(Done, Done), expected: Expected) -> bool {
    match expected {
        // Flux prints some results to stderr.
        Expected::Same => {
            let theirs_all = format!("{}{}", theirs.out, theirs.err);
            theirs.code == 0 && ours.code == 0 && theirs_all == format!("{}{}", ours.out, ours.err)
        }
        Expected::SameObjects => {
            theirs.code == 0
                && ours.code == 0
                && !ours.out.is_empty()
                && objects(&theirs.out) == objects(&ours.out)
        }
        Expected::Failure => {
            theirs.code != 0
                && ours.code != 0
                && ours.out.is_empty()
                && (ours.err.contains("Next: ") || ours.code == 2)
        }
    }
}

/// Runs a command line until both tools have the expected result; returns the last outputs if they
/// never have.
fn mismatch(hub: &Hub, line: &str, expected: Expected) -> Option<String> {
    let mut last = None;
    for _ in 0..RUNS {
        let done = both(hub, line);
        if is_right(&done, expected) {
            return None;
        }
        last = Some(done);
        std::thread::sleep(Duration::from_millis(100));
    }
    let (theirs, ours) = last?;
    Some(format!(
        "{line}\nflux {}:\n{}{}\ndriftless {}:\n{}{}",
        theirs.code, theirs.out, theirs.err, ours.code, ours.out, ours.err
    ))
}

#[test]
fn terminal_as_flux() {
    let hub = Hub::start();
    let cases = cases();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut failed = Vec::new();
        while let Some((expected, line)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            failed.extend(mismatch(&hub, line, *expected));
        }
        failed
    };
    // Build the tools once, before the threads start.
    tools::FLUX.path();
    driftless_harness::command::programs();
    let failed: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        let done = workers
            .into_iter()
            .map(|one| one.join().unwrap_or_else(|e| resume_unwind(e)));
        done.flatten().collect()
    });
    assert!(
        failed.is_empty(),
        "{} of {} command lines differ:\n\n{}",
        failed.len(),
        cases.len(),
        failed.join("\n\n")
    );
    println!("{} command lines have the result of flux", cases.len());
    delete_as_flux(&hub);
}

/// A deletion by both tools leaves the same objects.
fn delete_as_flux(hub: &Hub) {
    for line in [
        "delete kustomization broken -n team-a --silent",
        "delete source oci podinfo -n team-a -s",
        "delete alert failures -n team-a -s",
    ] {
        let before = hub.objects();
        let home = tempfile::tempdir().expect("a home");
        let run = |mut command: Command| {
            Done::of(
                command
                    .args(words(line))
                    .env("KUBECONFIG", hub.kubeconfig()),
            )
        };
        let mut theirs = Command::new(tools::FLUX.path());
        theirs.env_clear().env("HOME", home.path());
        let theirs = run(theirs);
        assert_eq!(theirs.code, 0, "{line}: {}", theirs.err);
        let after = hub.objects();
        assert_eq!(after.len() + 1, before.len(), "{line}");
        hub.fill();
        assert_eq!(hub.objects(), before, "{line}");
        let ours = run(driftless(home.path()));
        assert_eq!(ours.code, 0, "{line}: {}", ours.err);
        assert_eq!(hub.objects(), after, "{line}");
        assert_eq!(theirs.err, ours.err, "{line}");
        hub.fill();
    }
}
