//! The journal: what it records of a step, its bounds, and the pushes that follow from it.

use bytes::Bytes;
use driftless_flux::{FluxKind, ObjectRef};
use driftless_kernel::journal::{
    End, Entry, FieldChange, Journal, Recorder, StepResult, append, delete, key, pushes, read,
    read_all, read_once,
};
use driftless_kernel::ports::{Blobs as _, Cause, Precondition};
use driftless_manifest::Object;
use driftless_memory::MemoryBlobs;
use driftless_plans::apply::plan::Action;
use futures::FutureExt as _;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// More than a journal may have.
const TOO_LARGE: usize = 49 << 10;

fn object(kind: &str, spec: Value) -> Object {
    let mut object = json!({"apiVersion": "v1", "kind": kind,
        "metadata": {"name": "web", "namespace": "apps", "resourceVersion": "1"}});
    let fields = spec.as_object().unwrap().clone();
    object.as_object_mut().unwrap().extend(fields);
    Object::new(object).unwrap()
}

fn end(ended: u64, revision: &str, result: StepResult) -> End<'_> {
    End {
        started: Duration::from_millis(ended - 5),
        ended: Duration::from_millis(ended),
        cause: Cause::Source,
        revision,
        result,
        ready: ("Reason", "message"),
    }
}

fn entry(ended: u64, revision: &str, result: StepResult) -> Entry {
    Recorder::default().entry(end(ended, revision, result))
}

/// Returns the fields of an entry about one configured object.
fn recorded(before: &Object, after: &Object, withhold: bool) -> Vec<String> {
    let recorder = Recorder::default();
    if withhold {
        recorder.withhold_values();
    }
    recorder.change(&after.id(), Action::Configured, Some(before), Some(after));
    let entry = recorder.entry(end(10, "r", StepResult::Ready));
    let text = |field: &FieldChange| match (&field.from, &field.to) {
        (None, None) => field.path.clone(),
        (from, to) => format!("{}: {from:?} {to:?}", field.path),
    };
    entry.changes[0].fields.iter().map(text).collect()
}

#[test]
fn fields_have_paths_and_only_harmless_values() {
    let version = |image: &str, replicas: u64, password: &str| {
        object(
            "Deployment",
            json!({"spec": {"replicas": replicas, "template": {"spec": {"containers": [
                {"name": "side", "image": "side:1"},
                {"name": "web", "image": image, "env": [{"name": "PASSWORD", "value": password}]}]}}},
                "status": {"replicas": replicas}}),
        )
    };
    let (before, after) = (version("web:1", 2, "old"), version("web:2", 3, "new"));
    let container = "spec.template.spec.containers[name=web]";
    assert_eq!(
        recorded(&before, &after, false),
        [
            "spec.replicas: Some(\"2\") Some(\"3\")".to_owned(),
            format!("{container}.env[name=PASSWORD].value"),
            format!("{container}.image: Some(\"web:1\") Some(\"web:2\")"),
        ]
    );
    let paths = recorded(&before, &after, true);
    assert!(paths.iter().all(|path| !path.contains("Some")), "{paths:?}");
}

#[test]
fn no_value_of_a_secret_is_recorded() {
    let version = |value: Value| object("Secret", json!({"data": {"pin": value, "tls.key": "a"}}));
    let fields = recorded(&version(json!(1234)), &version(json!(5678)), false);
    assert_eq!(fields, ["data.pin"]);
    let fields = recorded(&version(json!("b25l")), &object("Secret", json!({})), false);
    assert_eq!(fields, ["data"]);
}

#[test]
fn an_entry_after_one_without_values_has_no_earlier_values() {
    let ports = driftless_memory::ports(Arc::default(), Arc::default(), Arc::default());
    let apps = ObjectRef::new(FluxKind::Kustomization, "team", "apps");
    let version = |port: u64| object("Service", json!({"spec": {"port": port}}));
    let step = |from: u64, to: u64, withhold: bool, result: StepResult| {
        let recorder = Recorder::default();
        if withhold {
            recorder.withhold_values();
        }
        let (before, after) = (version(from), version(to));
        recorder.change(&after.id(), Action::Configured, Some(&before), Some(&after));
        recorder.entry(end(10, "r", result))
    };
    let run = async {
        for entry in [
            step(1, 2, true, StepResult::Ready),
            step(2, 3, false, StepResult::Failed),
            step(2, 3, false, StepResult::Ready),
            step(3, 4, false, StepResult::Ready),
        ] {
            append(&ports, "eu", &apps, entry).await;
        }
        let journal = read(ports.blobs.as_ref(), "eu", &apps).await.unwrap();
        let fields = journal.entries.iter().map(|entry| {
            let field = &entry.changes[0].fields[0];
            (field.from.clone(), field.to.clone())
        });
        let text = |value: &str| Some(value.to_owned());
        assert_eq!(
            fields.collect::<Vec<_>>(),
            [
                (text("3"), text("4")),
                (None, text("3")),
                (None, text("3")),
                (None, None)
            ]
        );
    };
    run.now_or_never().unwrap();
}

#[test]
fn an_entry_has_a_bounded_size() {
    let recorder = Recorder::default();
    let wide = |value: u64| {
        let fields: serde_json::Map<String, Value> = (0..500)
            .map(|at| (format!("{}{at}", "k".repeat(300)), json!(value)))
            .collect();
        object("ConfigMap", json!({ "data": fields }))
    };
    let (before, after) = (wide(1), wide(2));
    for _ in 0..100 {
        recorder.change(&after.id(), Action::Configured, Some(&before), Some(&after));
    }
    recorder.change(&after.id(), Action::Unchanged, None, None);
    let entry = recorder.entry(end(10, "r", StepResult::Ready));
    assert_eq!(
        (entry.changes.len(), entry.omitted, entry.changed()),
        (60, 40, 100)
    );
    let fields: usize = entry.changes.iter().map(|change| change.fields.len()).sum();
    assert_eq!(fields, 200);
    let bytes = serde_json::to_vec(&entry).unwrap().len();
    assert!(bytes < TOO_LARGE, "{bytes} bytes");
    let ports = driftless_memory::ports(Arc::default(), Arc::default(), Arc::default());
    let apps = ObjectRef::new(FluxKind::Kustomization, "team", "apps");
    let run = async {
        for _ in 0..100 {
            append(&ports, "eu", &apps, entry.clone()).await;
        }
        let journal = read(ports.blobs.as_ref(), "eu", &apps).await.unwrap();
        let bytes = serde_json::to_vec(&journal).unwrap().len();
        assert!(bytes < TOO_LARGE, "{bytes} bytes");
        assert!(!journal.entries.is_empty());
    };
    run.now_or_never().unwrap();
}

#[test]
fn journals_are_appended_read_and_deleted() {
    let blobs = Arc::new(MemoryBlobs::default());
    let ports = driftless_memory::ports(blobs.clone(), Arc::default(), Arc::default());
    let apps = ObjectRef::new(FluxKind::Kustomization, "team/a", "apps");
    let damaged = ObjectRef::new(FluxKind::HelmRelease, "team", "web");
    let run = async {
        for ended in 10..50 {
            append(&ports, "eu", &apps, entry(ended, "r", StepResult::Ready)).await;
        }
        let key = key("eu", &damaged);
        blobs
            .put(&key, Bytes::from("{"), Precondition::None)
            .await
            .unwrap();
        let journal = read(ports.blobs.as_ref(), "eu", &apps).await.unwrap();
        let all = read_all(&ports, "eu").await.unwrap();
        assert_eq!(all.keys().collect::<Vec<_>>(), [&apps]);
        assert_eq!(all[&apps], journal);
        assert_eq!(read_once(blobs.as_ref(), "eu").await.unwrap(), all);
        let ended: Vec<u64> = journal.entries.iter().map(|entry| entry.ended).collect();
        assert_eq!((ended.len(), ended[0], ended[29]), (30, 49, 20));
        // The damaged one is set aside by the next step that changes something.
        append(&ports, "eu", &damaged, entry(9, "r", StepResult::Failed)).await;
        assert_eq!(
            read(ports.blobs.as_ref(), "eu", &damaged)
                .await
                .unwrap()
                .entries
                .len(),
            1
        );
        delete(&ports, "eu", &apps).await;
        assert_eq!(
            read(ports.blobs.as_ref(), "eu", &apps).await.unwrap(),
            Journal::default()
        );
    };
    run.now_or_never().unwrap();
}

#[test]
fn pushes_end_where_their_objects_became_ready() {
    let source = ObjectRef::new(FluxKind::GitRepository, "flux-system", "fleet");
    let apps = ObjectRef::new(FluxKind::Kustomization, "flux-system", "apps");
    let infra = ObjectRef::new(FluxKind::Kustomization, "flux-system", "infra");
    let journal = |entries: Vec<Entry>| Journal { entries };
    let sources = journal(vec![
        entry(200, "b", StepResult::NewRevision),
        entry(100, "a", StepResult::NewRevision),
    ]);
    let landed = journal(vec![
        entry(900, "b", StepResult::Ready),
        entry(250, "b", StepResult::Ready),
        entry(240, "b", StepResult::Progressing),
        entry(130, "a", StepResult::Ready),
    ]);
    let failed = journal(vec![
        entry(260, "b", StepResult::Failed),
        entry(50, "unknown", StepResult::Ready),
    ]);
    let journals = [
        ("eu", &source, &sources),
        ("eu", &apps, &landed),
        ("eu", &infra, &failed),
        ("us", &source, &sources),
    ];
    let found = pushes(journals, 10);
    let revisions: Vec<&str> = found.iter().map(|push| &*push.revision).collect();
    assert_eq!(revisions, ["b", "a"]);
    assert_eq!((found[0].received, found[0].took()), (195, Some(65)));
    assert_eq!(found[0].sources.len(), 2);
    let ends: Vec<(u64, StepResult)> = found[0]
        .landings
        .iter()
        .map(|landing| (landing.ended, landing.result))
        .collect();
    assert_eq!(ends, [(250, StepResult::Ready), (260, StepResult::Failed)]);
    assert_eq!(pushes(journals, 1).len(), 1);
}
