//! The audit log: its keys, the records of a span of time, and the digests of differences.

use bytes::Bytes;
use driftless_flux::{FluxKind, ObjectRef, parse_rfc3339};
use driftless_kernel::audit::{PREFIX, Record, read, time, time_of, write};
use driftless_kernel::journal::Recorder;
use driftless_kernel::ports::{Blobs as _, Cause, Precondition, PushedCommit};
use driftless_manifest::Object;
use driftless_memory::{MemoryBlobs, ports};
use driftless_plans::apply::plan::Action;
use futures::executor::block_on;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

fn record(at: Duration, hub: &str, name: &str) -> Record {
    Record {
        time: time(at),
        hub: hub.to_owned(),
        cluster: hub.to_owned(),
        by: ObjectRef::new(FluxKind::Kustomization, "apps", name),
        cause: Cause::Source,
        revision: "main@sha1:1".to_owned(),
        commit: Some(PushedCommit::new("1", "Ada <ada@acme.example>", "d-1")),
        changes: Vec::new(),
    }
}

fn at(text: &str) -> Duration {
    parse_rfc3339(text).unwrap()
}

#[test]
fn records_are_read_by_hub_and_time() {
    let blobs = Arc::new(MemoryBlobs::default());
    let ports = ports(blobs.clone(), Arc::default(), Arc::default());
    let times = [
        "2025-12-31T23:59:59.999Z",
        "2026-01-01T00:00:00Z",
        "2026-01-31T12:00:00.123Z",
        "2026-02-01T00:00:00Z",
    ];
    for (text, name) in times.into_iter().zip(["a", "b", "c", "d"]) {
        block_on(write(&ports, &record(at(text), "eu", name), at(text)));
    }
    // Two records of one object at one time, and one of another hub.
    let last = at(times[3]);
    let mut second = record(last, "eu", "d");
    second.revision = "main@sha1:2".to_owned();
    block_on(write(&ports, &second, last));
    block_on(write(&ports, &record(last, "eu-2", "e"), last));
    let damaged = format!("{PREFIX}eu/2026/02/01/000000.000-damaged.json");
    let put = blobs.put(&damaged, Bytes::from_static(b"{"), Precondition::None);
    block_on(put).unwrap();

    let keys = block_on(blobs.list("audit/eu/2026/01/31/")).unwrap();
    let start = "audit/eu/2026/01/31/120000.123-kustomizations-apps-c-";
    assert!(keys[0].key.starts_with(start), "{keys:?}");
    assert_eq!(time_of(&keys[0].key), Some(at(times[2])));
    for other in [
        "audit/eu/x",
        "journal/eu/2026/01/31/120000.123-a.json",
        "audit/eu/2026/01/31/12-a",
    ] {
        assert_eq!(time_of(other), None, "{other}");
    }

    let names = |hub: &str, since: &str, until: &str| {
        let found = block_on(read(blobs.as_ref(), hub, at(since), at(until))).unwrap();
        let names = found.iter().map(|record| record.by.name.clone());
        names.collect::<Vec<_>>().join(" ")
    };
    // Day by day, and all days.
    assert_eq!(names("eu", times[1], times[2]), "b c");
    assert_eq!(names("eu", times[0], times[3]), "a b c d d");
    assert_eq!(names("eu", "1970-01-01T00:00:00Z", times[3]), "a b c d d");
    assert_eq!(names("eu", times[2], "2026-01-31T12:00:00.122Z"), "");
    assert_eq!(names("eu-2", times[0], times[3]), "e");
    let found = block_on(read(blobs.as_ref(), "eu", at(times[2]), at(times[2]))).unwrap();
    assert_eq!(found, [record(at(times[2]), "eu", "c")]);
}

fn object(kind: &str, fields: Value) -> Object {
    let mut object = json!({"apiVersion": "v1", "kind": kind,
        "metadata": {"name": "web", "namespace": "apps", "uid": "1", "resourceVersion": "1"}});
    let fields = fields.as_object().unwrap().clone();
    object.as_object_mut().unwrap().extend(fields);
    Object::new(object).unwrap()
}

/// Returns the digest of a change from one object to another.
fn digest(before: Option<&Object>, after: &Object, withhold: bool) -> String {
    let recorder = Recorder::default();
    if withhold {
        recorder.withhold_values();
    }
    let action = match before {
        Some(_) => Action::Configured,
        None => Action::Created,
    };
    recorder.change(&after.id(), action, before, Some(after));
    let changes = recorder.take_audited();
    changes[0].digest.clone().unwrap()
}

#[test]
fn a_digest_has_new_values_but_none_of_a_secret() {
    let map = |color: &str| object("ConfigMap", json!({"data": {"color": color}}));
    let (red, green, blue) = (map("red"), map("green"), map("blue"));
    let change = digest(Some(&red), &green, false);
    assert!(
        change.starts_with("sha256:") && change.len() == 71,
        "{change}"
    );
    assert_eq!(change, digest(Some(&red), &green, false));
    assert_ne!(change, digest(Some(&red), &blue, false));
    // The earlier value may be from a Secret.
    assert_eq!(change, digest(Some(&blue), &green, false));
    // Where values may come from a Secret, only the names of fields count.
    assert_eq!(
        digest(Some(&red), &green, true),
        digest(Some(&red), &blue, true)
    );
    assert_ne!(digest(Some(&red), &green, true), change);

    let secret = |data: Value| object("Secret", json!({ "data": data }));
    let one = secret(json!({"password": "aHVudGVyMg=="}));
    let other = secret(json!({"password": "b3RoZXI="}));
    let more = secret(json!({"password": "aHVudGVyMg==", "user": "YQ=="}));
    assert_eq!(digest(None, &one, false), digest(None, &other, false));
    assert_ne!(digest(None, &one, false), digest(None, &more, false));
    assert_eq!(
        digest(Some(&one), &other, false),
        digest(Some(&other), &one, false)
    );
    assert_ne!(
        digest(Some(&one), &other, false),
        digest(Some(&one), &more, false)
    );
    // The digest leaves out what the API server sets.
    let mut stored = green.as_map().clone();
    stored["metadata"]["resourceVersion"] = json!("2");
    let stored = Object::new(Value::Object(stored)).unwrap();
    assert_eq!(change, digest(Some(&red), &stored, false));
}

#[test]
fn every_change_is_audited() {
    let recorder = Recorder::default();
    for number in 0..100 {
        let mut id = object("ConfigMap", json!({})).id();
        id.name = format!("c-{number}");
        recorder.change(&id, Action::Deleted, None, None);
        recorder.change(&id, Action::Unchanged, None, None);
    }
    let changes = recorder.take_audited();
    assert_eq!(changes.len(), 100);
    assert_eq!(changes[99].object(), "ConfigMap/apps/c-99");
    assert_eq!(
        (&*changes[0].action, &changes[0].digest),
        ("deleted", &None)
    );
    assert!(recorder.take_audited().is_empty());
}
