//! A bucket in this process as a source.

use driftless_core::testing::MemoryBuckets;
use driftless_tests::buckets::*;
use driftless_tests::site::*;
use serde_json::{Value, json};
use std::sync::Arc;

/// Returns a bucket that requires keys.
fn memory() -> MemoryBuckets {
    let buckets = MemoryBuckets::default();
    buckets.create(BUCKET);
    buckets.require(BUCKET, "test", "test");
    buckets
}

#[test]
fn a_bucket_is_a_source_embedded() {
    let buckets = memory();
    let world = World::start(&buckets, Arc::new(buckets.clone()), "s3.acme.example");
    scenario(&world);
}

/// A failure is reported with the words of source-controller; the artifact is kept, and is current
/// again without a download.
#[test]
fn a_bucket_that_fails_keeps_its_artifact_embedded() {
    let buckets = memory();
    let world = World::start(&buckets, Arc::new(buckets.clone()), "s3.acme.example");
    world.hub().namespace("apps");
    world.store.put("apps/one.yaml", &config("one", "green"));
    let wrong = json!({"accesskey": "test"});
    world.hub().secret(SPACE, "half", &wrong);
    let with =
        |name: &str, field: &str, value: Value| world.source(name, |spec| spec[field] = value);
    let mut old = world.source("fleet", |_| {});
    old["apiVersion"] = "source.toolkit.fluxcd.io/v1beta2".into();
    world.push(&[
        old,
        kustomization(),
        with("missing", "bucketName", "nowhere".into()),
        with("half", "secretRef", json!({"name": "half"})),
        with("absent", "secretRef", json!({"name": "absent"})),
        with("stranger", "secretRef", Value::Null),
        with("cloud", "provider", "azure".into()),
        world.source("role", |spec| {
            spec["provider"] = "aws".into();
            spec["secretRef"] = Value::Null;
        }),
    ]);
    world.expect("Bucket", "fleet", "True Succeeded");
    for (name, reason, message) in [
        (
            "missing",
            "BucketOperationFailed",
            "bucket 'nowhere' not found",
        ),
        (
            "half",
            "AuthenticationFailed",
            "invalid 'half' secret data: required fields 'accesskey' and 'secretkey'",
        ),
        (
            "absent",
            "AuthenticationFailed",
            "failed to get secret 'flux-system/absent': secrets \"absent\" not found",
        ),
        (
            "stranger",
            "BucketOperationFailed",
            "failed to confirm existence of 'acme-fleet' bucket: ",
        ),
        (
            "cloud",
            "NotSupported",
            "spec.provider 'azure' is not supported yet",
        ),
        (
            "role",
            "NotSupported",
            "spec.provider 'aws' without spec.secretRef",
        ),
    ] {
        let (status, found, actual) = ready(world.hub(), "Bucket", SPACE, name);
        assert_eq!((&*status, &*found), ("False", reason), "{name}: {actual}");
        assert!(actual.starts_with(message), "{name}: {actual}");
        let conditions = world.status("Bucket", name)["conditions"].clone();
        let failed = conditions.as_array().into_iter().flatten();
        let mut failed = failed.filter(|one| one["type"] == "FetchFailed");
        assert_eq!(failed.next().expect(name)["reason"], reason);
    }

    let revision = world.revision("fleet");
    buckets.require(BUCKET, "others", "only");
    world.take_requests();
    world.reconcile("Bucket", "fleet");
    world.expect("Bucket", "fleet", "False BucketOperationFailed");
    assert_eq!(world.revision("fleet"), revision);
    assert_eq!(world.data("one"), json!({"color": "green"}));
    buckets.require(BUCKET, "test", "test");
    world.reconcile("Bucket", "fleet");
    world.expect("Bucket", "fleet", "True Succeeded");
    assert_eq!(world.revision("fleet"), revision);
    assert!(
        world
            .take_requests()
            .iter()
            .all(|request| request == "list ")
    );
    let status = world.status("Bucket", "fleet");
    let kinds = status["conditions"].as_array().into_iter().flatten();
    let kinds: Vec<&str> = kinds.map(|one| text(&one["type"])).collect();
    assert_eq!(kinds, ["Ready", "ArtifactInStorage"]);
}
