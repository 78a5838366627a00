//! The state that each release has written: `tests/corpus/state/VERSION` has the bucket of the
//! fleet of this module, and a message of each kind. The files of a release are never changed, and
//! every later version reads them.
//!
//! `DRIFTLESS_WRITE=1 cargo test -p driftless-tests --test e2e old_state` writes those of the next
//! release.

use super::fleet::{COMMENT, Fleet, PLANNED, PULL_REQUEST, RECEIVER_TOKEN, SPACE};
use bytes::Bytes;
use driftless_flux::{FluxKind, ObjectRef};
use driftless_harness::github::sign;
use driftless_kernel::context::events::pending;
use driftless_kernel::ports::{
    Cause, Origin, PlanRequest, PushedCommit, Request, SweepRequest, TraceIds, TraceParent,
};
use driftless_kernel::{document, functions, hub, journal, schedule};
use driftless_tests::site::*;
use plan::record::{self, Lease};
use regex::Regex;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

type Bucket = BTreeMap<String, Bytes>;

/// The directory of all tests.
fn tests() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The directory of the releases.
fn releases() -> PathBuf {
    tests().join("corpus/state")
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Returns the directory of the next release: that of the version of the workspace, until the
/// changelog has it.
fn next_release() -> PathBuf {
    let changelog = read(&tests().join("../CHANGELOG.md"));
    let version = env!("CARGO_PKG_VERSION");
    match changelog.contains(&format!("\n## {version} ")) {
        true => releases().join("unreleased"),
        false => releases().join(version),
    }
}

/// Returns the directory whose state the present code writes.
fn newest_release() -> PathBuf {
    match next_release() {
        next if next.exists() => next,
        _ => releases().join(env!("CARGO_PKG_VERSION")),
    }
}

/// Writes a bucket as JSON: documents as texts, other blobs in hexadecimal digits.
fn encode(bucket: &Bucket) -> Value {
    let blobs = bucket.iter().map(|(key, bytes)| {
        let blob = match std::str::from_utf8(bytes) {
            Ok(text) => json!({"text": text}),
            Err(_) => json!({"hex": hex::encode(bytes)}),
        };
        (key.clone(), blob)
    });
    Value::Object(blobs.collect())
}

fn decode(bucket: &Value) -> Bucket {
    let blobs = bucket.as_object().expect("a bucket").iter();
    let decoded = blobs.map(|(key, blob)| {
        let bytes = match blob["text"].as_str() {
            Some(text) => text.as_bytes().to_vec(),
            None => hex::decode(blob["hex"].as_str().expect("digits")).expect("digits"),
        };
        (key.clone(), bytes.into())
    });
    decoded.collect()
}

/// Returns a message of each kind, with each field and each cause.
fn messages() -> Vec<(&'static str, String)> {
    let object = |name: &str| ObjectRef::new(FluxKind::Kustomization, SPACE, name);
    let causes = [
        Cause::Push,
        Cause::Timer,
        Cause::Drift,
        Cause::Source,
        Cause::Dependency,
        Cause::Changed,
        Cause::Requeue,
    ];
    // A new cause is a new line above, and a message that older versions do not read.
    for cause in &causes {
        match cause {
            Cause::Push | Cause::Timer | Cause::Drift | Cause::Source | Cause::Dependency => {}
            Cause::Changed | Cause::Requeue => {}
        }
    }
    let requests = causes.map(|cause| Request::new("hub", object("apps"), cause));
    let full = Request {
        token: Some("00000000000000660000000000000000".to_owned()),
        isolated: true,
        received: Some(1_700_000_000_000),
        commit: Some(PushedCommit {
            sha: "8aebefdb430dc4f1d6621918be9f94429c4bca56".to_owned(),
            author: "Ada Example <ada@example.com>".to_owned(),
            delivery: "72d3162e".to_owned(),
        }),
        consumers: vec![object("apps"), object("waiting")],
        origin: Some(Origin::new(
            TraceParent::new(TraceIds {
                trace: [7; 16],
                span: [9; 8],
                is_sampled: true,
            }),
            Some("72d3162e"),
        )),
        ..Request::new(
            "hub",
            ObjectRef::new(FluxKind::GitRepository, SPACE, SPACE),
            Cause::Push,
        )
    };
    let sweep = SweepRequest {
        sweep: "hub".to_owned(),
    };
    let plan = PlanRequest {
        repository: "github.com/acme/recovery".to_owned(),
        number: 7,
        base_ref: "main".to_owned(),
        base_sha: "8aebefdb430dc4f1d6621918be9f94429c4bca56".to_owned(),
        head_sha: "9aebefdb430dc4f1d6621918be9f94429c4bca57".to_owned(),
        is_fork: true,
        hubs: vec!["hub".to_owned()],
    };
    let requests = requests.into_iter().chain([full]);
    let mut all: Vec<_> = requests
        .map(|request| ("Request", document::encode(&request).expect("JSON")))
        .collect();
    all.push(("SweepRequest", document::encode(&sweep).expect("JSON")));
    all.push(("PlanRequest", document::encode(&plan).expect("JSON")));
    all
}

/// Writes the state of the present version.
fn write() {
    let directory = next_release();
    fs::create_dir_all(&directory).expect("a directory");
    let bucket = serde_json::to_string_pretty(&encode(&Fleet::start().world.bucket()));
    fs::write(directory.join("bucket.json"), bucket.expect("JSON") + "\n")
        .expect("write the bucket");
    let messages = messages().into_iter();
    let messages: Vec<Value> = messages
        .map(|(kind, body)| json!({"kind": kind, "body": body}))
        .collect();
    let messages = serde_json::to_string_pretty(&messages).expect("JSON");
    fs::write(directory.join("messages.json"), messages + "\n").expect("write the messages");
}

/// Returns the paths of a document with the type of each value. Elements of a list have one path.
fn shape(place: &str, value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => fields
            .iter()
            .for_each(|(name, value)| shape(&format!("{place}/{name}"), value, into)),
        Value::Array(items) => items
            .iter()
            .for_each(|item| shape(&format!("{place}[]"), item, into)),
        Value::String(_) => {
            into.insert(format!("{place}: text"));
        }
        Value::Number(_) => {
            into.insert(format!("{place}: number"));
        }
        Value::Bool(_) => {
            into.insert(format!("{place}: Boolean"));
        }
        Value::Null => {
            into.insert(format!("{place}: null"));
        }
    }
}

/// Returns the shapes of the documents of a bucket, by prefix and kind.
fn shapes(bucket: &Bucket) -> BTreeSet<String> {
    let mut shapes = BTreeSet::new();
    for (key, bytes) in bucket {
        let mut parts = key.split('/');
        let prefix = parts.next().unwrap_or_default();
        let place = match prefix {
            "objects" | "journal" | "notifications" => {
                format!("{prefix}/{}", parts.nth(1).unwrap_or_default())
            }
            _ => prefix.to_owned(),
        };
        match serde_json::from_slice::<Value>(bytes) {
            Ok(document) => shape(&place, &document, &mut shapes),
            Err(_) if bytes.is_empty() => {
                shapes.insert(format!("{place}: empty"));
            }
            Err(_) => {
                shapes.insert(format!("{place}: {:?}", bytes.get(..8)));
            }
        }
    }
    shapes
}

/// Returns the prefixes of all keys, from the template's lifecycle rules and the state that has
/// none.
fn prefixes() -> BTreeSet<String> {
    let template = read(&tests().join("../infra/template.yaml"));
    let rule = Regex::new(r"(?m)^ +Prefix: ([a-z]+)/$").expect("an expression");
    let found = rule.captures_iter(&template);
    let found = found.map(|one| one[1].to_owned());
    let mut found: BTreeSet<String> = found
        .chain(["hubs", "index", "receivers"].map(str::to_owned))
        .collect();
    // The probe of `driftless doctor` is deleted at once and is never read.
    assert!(found.remove("doctor"), "{found:?}");
    found
}

fn prefixes_of(bucket: &Bucket) -> BTreeSet<String> {
    let prefix = |key: &String| key.split('/').next().map(str::to_owned);
    bucket.keys().filter_map(prefix).collect()
}

#[test]
fn old_state_is_read() {
    if std::env::var_os("DRIFTLESS_WRITE").is_some() {
        write();
    }
    let directories = fs::read_dir(releases()).expect("releases");
    let directories: Vec<PathBuf> = directories.map(|one| one.expect("one").path()).collect();
    assert!(!directories.is_empty());
    for directory in directories {
        let name = directory.display().to_string();
        let bucket = serde_json::from_str(&read(&directory.join("bucket.json")));
        a_bucket_is_read(&name, &decode(&bucket.expect("JSON")));
        let messages = serde_json::from_str(&read(&directory.join("messages.json")));
        messages_are_read(&name, &messages.expect("JSON"));
    }
}

/// Starts the fleet with a bucket that a release has written for it.
fn a_bucket_is_read(name: &str, old: &Bucket) {
    let mut fleet = Fleet::start();
    let (before, downloads) = (fleet.applied(), fleet.downloads());
    fleet.world.replace_bucket(old.clone());
    fleet.restart();
    each_record_is_used(name, &fleet, old);
    fleet.rest();
    assert_eq!(fleet.applied(), before, "{name}: nothing is applied again");
    assert_eq!(fleet.downloads(), downloads, "{name}: nothing is fetched");
    let damaged = fleet.world.stored("damaged/");
    assert_eq!(damaged, [""; 0], "{name}: all is readable");
    for key in old.keys().filter(|key| key.starts_with("objects/")) {
        let kept = fleet.world.stored(key);
        assert_eq!(kept, [key.as_str()], "{name}: {key} is kept");
    }
    fleet.a_push_arrives();
}

/// Checks that each kind of record has its effect.
fn each_record_is_used(name: &str, fleet: &Fleet, old: &Bucket) {
    let (world, blobs) = (&fleet.world, fleet.world.ports.blobs.as_ref());
    let count = |prefix: &str| old.keys().filter(|key| key.starts_with(prefix)).count();
    assert!(!fleet.asks_limited_host(), "{name}: limits/");
    world.steps();
    world.sweep();
    world.pump();
    let steps = world.steps();
    let rested = format!("Kustomization/{SPACE}/apps");
    assert!(!steps.contains_key(&rested), "{name}: schedule/: {steps:?}");
    world
        .block_on(hub::settings(&world.ports, "hub"))
        .expect("hubs/");
    for kind in FluxKind::ALL {
        let directory = format!("objects/hub/{}/{SPACE}/", kind.plural());
        for key in old.keys().filter_map(|key| key.strip_prefix(&directory)) {
            let id = ObjectRef::new(kind, SPACE, key.trim_end_matches(".json"));
            let record = world.block_on(schedule::read_record(&world.ports, "hub", &id));
            let record = record.expect("the bucket").expect("objects/");
            let memory: Value = record.memory();
            assert!(
                memory.is_object() || !has_memory(kind),
                "{name}: {id}: {memory}"
            );
        }
    }
    let journals = world.block_on(journal::read_once(blobs, "hub"));
    let journals = journals.expect("the bucket").len();
    assert_eq!(journals, count("journal/"), "{name}: journal/");
    assert_eq!(world.audit("hub").len(), count("audit/"), "{name}: audit/");
    let versions = world
        .block_on(functions::versions(blobs))
        .expect("versions");
    assert!(versions.contains_key("reconcile"), "{name}: {versions:?}");
    let pending = |provider: &str| {
        let id = ObjectRef::new(FluxKind::Provider, SPACE, provider);
        let found = pending::list(&world.ports, "hub", &id, 100);
        world.block_on(found).expect("the bucket")
    };
    let waiting = pending("fails");
    assert_eq!(
        waiting.len() + pending("works").len(),
        count("notifications/hub/pending/"),
        "{name}: notifications/"
    );
    // The other service got the same event.
    let works = ObjectRef::new(FluxKind::Provider, SPACE, "works");
    let mut event = waiting[0].clone();
    event.alert = "works".to_owned();
    let sent = pending::was_sent(&world.ports, "hub", &works, &event);
    assert!(
        world.block_on(sent).expect("the bucket"),
        "{name}: notifications/"
    );
    let plan = record::take(&world.ports, PLANNED, PULL_REQUEST, "new");
    let comment = match world.block_on(plan).expect("the bucket") {
        Lease::Held(held) => held.comment(),
        Lease::Busy => None,
    };
    assert_eq!(comment, Some(COMMENT), "{name}: plans/");
    let receiver = world
        .cluster("hub")
        .get(&path("Receiver", SPACE, "receiver"));
    let at = receiver["status"]["webhookPath"].as_str().expect("a path");
    let signature = sign(RECEIVER_TOKEN, b"{}");
    let (status, error) = world.deliver_to(at, &[("x-signature", &signature)], b"{}");
    assert_eq!(status, 200, "{name}: receivers/: {error}");
    world.settle();
}

/// Returns whether the steps of a kind remember something for the next one.
fn has_memory(kind: FluxKind) -> bool {
    matches!(
        kind,
        FluxKind::GitRepository | FluxKind::HelmChart | FluxKind::HelmRelease
    )
}

fn messages_are_read(name: &str, messages: &Value) {
    for message in messages.as_array().expect("messages") {
        let body = message["body"].as_str().expect("a body").as_bytes();
        let problem = match message["kind"].as_str() {
            Some("Request") => document::decode::<Request>(body).err(),
            Some("SweepRequest") => document::decode::<SweepRequest>(body).err(),
            Some("PlanRequest") => document::decode::<PlanRequest>(body).err(),
            kind => panic!("{name}: {kind:?}"),
        };
        assert!(problem.is_none(), "{name}: {message}: {problem:?}");
    }
}

/// A kind of record or message without a file in the corpus would not be covered, and another shape
/// needs the files of another release.
#[test]
fn the_corpus_has_what_is_written() {
    let directory = newest_release();
    let next = "write the state of the next release: DRIFTLESS_WRITE=1 cargo test -p driftless-tests --test e2e old_state";
    let bucket = serde_json::from_str(&read(&directory.join("bucket.json")));
    let known = decode(&bucket.expect("JSON"));
    assert_eq!(prefixes_of(&known), prefixes(), "{next}");
    let written = Fleet::start().world.bucket();
    assert_eq!(shapes(&written), shapes(&known), "{next}");
    let messages_known: Value =
        serde_json::from_str(&read(&directory.join("messages.json"))).expect("JSON");
    let bodies: Vec<&str> = messages_known
        .as_array()
        .expect("messages")
        .iter()
        .filter_map(|message| message["body"].as_str())
        .collect();
    let now = messages();
    let now: Vec<&str> = now.iter().map(|(_, body)| body.as_str()).collect();
    assert_eq!(now, bodies, "{next}");
    for (key, bytes) in &known {
        // The content of artifacts is not driftless's own.
        if bytes.starts_with(b"{") && !key.starts_with("artifacts/") {
            let document: Value = serde_json::from_slice(bytes).expect("JSON");
            assert_eq!(document["format"], document::FORMAT, "{key}");
        }
    }
    // The types that the queue carries.
    let ports = tests().join("../shared/kernel/src");
    let sources = ["ports.rs", "ports/pull_requests.rs"].map(|file| read(&ports.join(file)));
    let declared = Regex::new(
        r"derive\([^)]*Deserialize\)\]\s(?:#\[serde[^\]]*\]\s)?pub struct (\w*Request) ",
    );
    let declared = declared.expect("an expression");
    let declared: BTreeSet<String> = sources
        .iter()
        .flat_map(|source| declared.captures_iter(source))
        .map(|one| one[1].to_owned())
        .collect();
    let kinds = messages().into_iter().map(|(kind, _)| kind.to_owned());
    assert_eq!(kinds.collect::<BTreeSet<_>>(), declared, "{next}");
}
