use super::*;
use driftless_flux::FINALIZER;
use serde_json::json;

fn object(change: impl FnOnce(&mut Value)) -> (ObjectRef, Object) {
    let mut value = json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": "apps", "namespace": "team", "generation": 2},
        "spec": {"interval": "10m", "sourceRef": {"kind": "GitRepository", "name": "fleet"}},
        "status": {"lastAttemptedRevision": "main@sha1:a", "conditions": [{"type": "Ready", "status": "True"}]}});
    change(&mut value);
    let object = Object::new(value).unwrap();
    (ObjectRef::of(&object).unwrap(), object)
}

fn after(seconds: u64, change: impl FnOnce(&mut Value)) -> bool {
    cause(seconds, 0, change).is_some()
}

/// Returns the cause for which an object is due at a time after the timer queued it; the source got
/// its artifact at another time after that.
fn cause(seconds: u64, since: u64, change: impl FnOnce(&mut Value)) -> Option<Cause> {
    let (id, object) = object(change);
    let source = ObjectRef::new(FluxKind::GitRepository, "team", "fleet");
    let known = Entry {
        at: 1000.0,
        queued: 1000.0,
        generation: 2,
        requested: String::new(),
        uid: String::new(),
    };
    let artifact = Artifact {
        revision: "main@sha1:a".to_owned(),
        digest: "sha256:1".to_owned(),
        url: "s3://a".to_owned(),
        since: Duration::from_secs(1000 + since),
        is_external: false,
    };
    let artifacts = [(source, artifact)].into();
    due(
        &id,
        &object,
        Some(&known),
        &artifacts,
        Duration::from_secs(1000 + seconds),
    )
}

/// While a source's consumers are processed, they are not queued again; and if they are, unchanged
/// files are not built again.
#[test]
fn consumers_of_a_source_are_not_queued_again_at_once() {
    let behind = |o: &mut Value| o["status"]["lastAttemptedRevision"] = "main@sha1:0".into();
    assert_eq!(cause(300, 290, behind), None);
    assert_eq!(cause(340, 290, behind), Some(Cause::Source));
    assert_eq!(cause(600, 0, |_| {}), Some(Cause::Timer));
}

/// A user who approves a held prune does not wait for the interval.
#[test]
fn an_approved_prune_is_due_at_once() {
    let held = |approved: &'static str| {
        move |o: &mut Value| {
            o["status"]["conditions"][0] = json!({"type": "Ready", "status": "False", "reason": "PruneHeld", "observedGeneration": 2});
            o["metadata"]["annotations"] = json!({"driftless.dev/prune-approved": approved});
        }
    };
    assert_eq!(cause(1, 0, held("main@sha1:a")), Some(Cause::Changed));
    assert_eq!(cause(1, 0, held("main@sha1:0")), None);
    let passed = |o: &mut Value| {
        held("main@sha1:a")(o);
        o["status"]["conditions"][0] =
            json!({"type": "Ready", "status": "True", "reason": "ReconciliationSucceeded"});
    };
    assert_eq!(cause(1, 0, passed), None);
}

#[test]
fn an_observed_generation_is_not_due() {
    let changed = |o: &mut Value| o["metadata"]["generation"] = 3.into();
    assert_eq!(cause(0, 0, changed), Some(Cause::Changed));
    let seen = |o: &mut Value| {
        changed(o);
        o["status"]["conditions"][0]["observedGeneration"] = 3.into();
    };
    assert_eq!(cause(0, 0, seen), None);
    assert_eq!(cause(600, 0, seen), Some(Cause::Timer));
    let asked = |o: &mut Value| {
        seen(o);
        o["metadata"]["annotations"] = json!({REQUESTED_AT: "now"});
    };
    assert_eq!(cause(0, 0, asked), Some(Cause::Changed));
    let made_anew = |o: &mut Value| o["metadata"]["uid"] = "other".into();
    assert_eq!(
        cause(0, 0, made_anew),
        None,
        "the entry is of a time without uids"
    );
}

/// An edit is due although the object has a message that is hours away, also if the timer sees the
/// object for the first time, or has queued it before a step that read the earlier version.
#[test]
fn an_edit_is_due_until_a_step_has_observed_it() {
    let edited = |o: &mut Value| {
        o["status"]["conditions"][0] =
            json!({"type": "Ready", "status": "False", "observedGeneration": 1});
    };
    assert!(!after(49, edited));
    assert_eq!(cause(50, 0, edited), Some(Cause::Changed));
    let (id, object) = object(edited);
    let first = due(&id, &object, None, &BTreeMap::new(), Duration::ZERO);
    assert_eq!(first, Some(Cause::Changed));
    assert!(!depends_on_record(&object, first.as_ref()));
    let suspended = |o: &mut Value| {
        edited(o);
        o["spec"]["suspend"] = true.into();
    };
    assert!(!after(50, suspended));
}

#[test]
fn a_pending_message_postpones_the_timer() {
    let now = Duration::from_secs(1000);
    let record = |chain: Value| -> Record {
        serde_json::from_value(json!({"lease": {"nonce": "n", "until": 0}, "chain": chain}))
            .unwrap()
    };
    let (on_its_way, late) = (
        record(json!({"token": "t", "due": 1_000_000})),
        record(json!({"token": "t", "due": 900_000})),
    );
    let (_, failed) = object(|o| o["status"]["conditions"][0]["status"] = "False".into());
    let known = Entry::queued(&failed, now);
    let timer = Some(Cause::Timer);
    assert!(depends_on_record(&failed, None) && depends_on_record(&failed, timer.as_ref()));
    assert_eq!(
        settled(timer.clone(), &failed, Some(&known), &on_its_way, now),
        None
    );
    assert_eq!(
        settled(timer.clone(), &failed, Some(&known), &late, now),
        timer
    );
    assert_eq!(settled(None, &failed, Some(&known), &late, now), timer);
    let rest = record(Value::Null);
    assert_eq!(settled(None, &failed, Some(&known), &rest, now), None);
    // A step reconciled the object before the timer saw it.
    let (_, seen) = object(|o| o["status"]["conditions"][0]["observedGeneration"] = 2.into());
    assert_eq!(settled(timer.clone(), &seen, None, &rest, now), None);
    assert_eq!(
        settled(timer.clone(), &seen, Some(&known), &rest, now),
        timer
    );
    assert!(!depends_on_record(&seen, None), "an idle object");
}

#[test]
fn a_new_child_is_due_after_fifty_seconds() {
    let made = |label: &'static str| {
        move |o: &mut Value| {
            o["metadata"]["labels"] = json!({label: "apps"});
            o["metadata"]["creationTimestamp"] = "1970-01-01T00:16:40Z".into();
        }
    };
    let due_after = |seconds: u64, label: &'static str| {
        let (id, object) = object(made(label));
        let now = Duration::from_secs(1000 + seconds);
        due(&id, &object, None, &BTreeMap::new(), now)
    };
    for label in [
        "kustomize.toolkit.fluxcd.io/name",
        "helm.toolkit.fluxcd.io/name",
    ] {
        assert_eq!(due_after(49, label), None);
        assert_eq!(due_after(50, label), Some(Cause::Timer));
    }
    assert_eq!(due_after(0, "app"), Some(Cause::Timer));
}

#[test]
fn objects_are_due_at_their_interval_and_after_changes() {
    assert!(!after(599, |_| {}) && after(600, |_| {}));
    assert!(after(0, |o| o["metadata"]["generation"] = 3.into()));
    assert!(after(0, |o| o["metadata"]["annotations"] =
        json!({REQUESTED_AT: "now"})));
    assert!(!after(900, |o| o["spec"]["suspend"] = true.into()));
    let failed = |o: &mut Value| o["status"]["conditions"][0]["status"] = "False".into();
    assert!(!after(599, failed) && after(600, failed));
    let retry = |o: &mut Value| {
        o["status"]["conditions"][0]["status"] = "False".into();
        o["spec"]["retryInterval"] = "1m".into();
    };
    assert!(!after(59, retry) && after(60, retry));
    let waiting = |o: &mut Value| {
        o["status"]["conditions"][0] =
            json!({"type": "Ready", "status": "False", "reason": "DependencyNotReady"});
    };
    assert!(!after(49, waiting) && after(50, waiting));
    let behind = |o: &mut Value| o["status"]["lastAttemptedRevision"] = "main@sha1:0".into();
    assert!(!after(49, behind) && after(50, behind));
    assert!(after(600, |o| o["spec"]["interval"] = "nonsense".into()));
}

#[test]
fn a_new_object_is_due_at_once() {
    let (id, object) = object(|_| {});
    assert_eq!(
        due(&id, &object, None, &BTreeMap::new(), Duration::ZERO),
        Some(Cause::Timer)
    );
}

#[test]
fn a_deleted_object_is_due_while_it_has_our_finalizer() {
    let deleted = |o: &mut Value| {
        o["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        o["metadata"]["finalizers"] = json!([FINALIZER]);
    };
    assert!(!after(49, deleted) && after(50, deleted));
    assert!(after(1, |o| {
        deleted(o);
        o["metadata"]["generation"] = 3.into();
    }));
    assert!(!after(5000, |o| o["metadata"]["deletionTimestamp"] =
        "2026-01-01T00:00:00Z".into()));
}

#[test]
fn charts_follow_their_sources() {
    let chart = |o: &mut Value| {
        o["apiVersion"] = "source.toolkit.fluxcd.io/v1".into();
        o["kind"] = "HelmChart".into();
        o["spec"]["chart"] = "app".into();
        o["status"]["observedSourceArtifactRevision"] = "main@sha1:a".into();
    };
    assert!(!after(599, chart) && after(600, chart));
    let behind = |o: &mut Value| {
        chart(o);
        o["status"]["observedSourceArtifactRevision"] = "main@sha1:0".into();
    };
    assert!(!after(49, behind) && after(50, behind));
    let waiting = |o: &mut Value| {
        chart(o);
        o["status"]["conditions"][0] =
            json!({"type": "Ready", "status": "False", "reason": "NoSourceArtifact"});
    };
    assert!(!after(49, waiting) && after(50, waiting));
    let repository = |kind: &'static str| {
        move |o: &mut Value| {
            o["apiVersion"] = "source.toolkit.fluxcd.io/v1beta2".into();
            o["kind"] = "HelmRepository".into();
            o["spec"] = json!({"url": "https://charts.acme.example", "type": kind});
        }
    };
    let bucket = |o: &mut Value| {
        o["apiVersion"] = "source.toolkit.fluxcd.io/v1beta2".into();
        o["kind"] = "Bucket".into();
        o["spec"] = json!({"interval": "2m"});
    };
    assert!(!after(119, bucket) && after(120, bucket));
    assert!(!after(59, repository("default")) && after(60, repository("default")));
    assert!(!after(1_000_000, repository("oci")));
}

#[test]
fn a_full_step_is_due_once_a_day() {
    let hours = |hours: u64| Duration::from_secs(hours * 3600);
    let ready = |uid: &str| {
        let (_, object) = object(|object| {
            object["metadata"]["uid"] = uid.into();
            object["status"]["conditions"][0]["observedGeneration"] = 2.into();
        });
        object
    };
    let start = hours(1000);
    let is_rehearsed = |uid: &str, after: Duration| {
        let object = ready(uid);
        // Rehearsals move the interval, and not the full step.
        let entry = Entry::queued(&object, start).rehearsed(start + after);
        assert_eq!(entry.at(), start + after);
        may_be_noop(&object, Some(&entry), start + after)
    };
    let uids = ["a", "b", "c", "d", "e", "f", "g", "h"];
    assert!(uids.iter().all(|uid| is_rehearsed(uid, hours(20))));
    assert!(!uids.iter().any(|uid| is_rehearsed(uid, hours(24))));
    let early = uids.iter().filter(|uid| !is_rehearsed(uid, hours(22)));
    let early = early.count();
    assert!((1..uids.len()).contains(&early), "not all at once: {early}");
    assert!(!may_be_noop(&ready("a"), None, start), "never queued");
}

#[test]
fn generators_follow_their_sources() {
    let digest = sources_digest([(
        "fleet",
        &ArtifactStatus {
            revision: "main@sha1:a".to_owned(),
            digest: "sha256:1".to_owned(),
            url: "s3://a".to_owned(),
            ..ArtifactStatus::default()
        },
    )]);
    let generator = |o: &mut Value| {
        o["apiVersion"] = "source.extensions.fluxcd.io/v1beta1".into();
        o["kind"] = "ArtifactGenerator".into();
        o["spec"] = json!({"artifacts": [],
            "sources": [{"alias": "fleet", "kind": "GitRepository", "name": "fleet"}]});
        o["status"]["observedSourcesDigest"] = digest.as_str().into();
    };
    assert!(!after(3599, generator) && after(3600, generator));
    let often = |o: &mut Value| {
        generator(o);
        o["metadata"]["annotations"] = json!({"source.extensions.fluxcd.io/reconcileEvery": "5m"});
    };
    assert!(!after(299, often) && after(300, often));
    let suspended = |o: &mut Value| {
        generator(o);
        o["metadata"]["annotations"] = json!({"source.extensions.fluxcd.io/reconcile": "Disabled"});
    };
    assert!(!after(1_000_000, suspended));
    let behind = |o: &mut Value| {
        generator(o);
        o["status"]["observedSourcesDigest"] = "sha256:0".into();
    };
    assert!(!after(49, behind) && after(50, behind));
    assert_eq!(cause(50, 0, behind), Some(Cause::Source));
    // A build that failed is not repeated with the same sources.
    let failed = |o: &mut Value| {
        behind(o);
        o["status"]["conditions"][0] =
            json!({"type": "Ready", "status": "False", "reason": "BuildFailed"});
    };
    assert!(!after(3599, failed) && after(3600, failed));
    assert_eq!(cause(60, 10, failed), Some(Cause::Source));
    let waiting = |o: &mut Value| {
        generator(o);
        o["status"]["conditions"][0] =
            json!({"type": "Ready", "status": "False", "reason": "SourceFetchFailed"});
    };
    assert!(!after(49, waiting) && after(50, waiting));
    let deleted = |o: &mut Value| {
        generator(o);
        o["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        o["metadata"]["finalizers"] = json!(["source.extensions.fluxcd.io/finalizer"]);
    };
    assert!(!after(49, deleted) && after(50, deleted));
}
