//! Releases that are edited while a step works on them.

use async_trait::async_trait;
use bytes::Bytes;
use driftless_flux::REQUESTED_AT;
use driftless_kernel::ports::{
    BlobEntry, Blobs, ErrorKind, PortError, Precondition, PutOutcome, Result, Version,
};
use driftless_tests::charts;
use driftless_tests::releases::{ConcurrentWrite, MERGE, RELEASES, World};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);
const RECORD: &str = "POST /api/v1/namespaces/apps/secrets";

/// Upgrades a release to a new color, and patches the HelmRelease or its subresource when the
/// record of the upgrade is created.
fn upgrade_with_concurrent_edit(place: &str, patch: Value) -> World {
    let world = World::start(&[]);
    world.chart(&charts::web("1.0.0"), "1.0.0");
    world.release(json!({"interval": "10m", "values": {"color": "red"}}));
    world.reconcile(SOON);
    assert_eq!(world.history(), "v1 deployed install");
    let path = format!("{RELEASES}/web");
    let green = json!({"spec": {"values": {"color": "green"}}});
    world.hub().must("PATCH", &path, MERGE, Some(&green));
    world.hub().write_concurrently(ConcurrentWrite {
        after: RECORD,
        path: format!("{path}{place}"),
        patch,
    });
    world.reconcile(SOON);
    world.reconcile(SOON);
    world
}

#[test]
fn an_annotation_costs_no_second_upgrade() {
    let annotation = json!({"metadata": {"annotations": {REQUESTED_AT: "now"}}});
    let world = upgrade_with_concurrent_edit("", annotation);
    let history = "v2 deployed upgrade, v1 superseded";
    assert_eq!(world.history(), history);
    assert_eq!(world.records("hub"), "v1 superseded, v2 deployed");
    assert_eq!(world.status()["lastHandledReconcileAt"], "now");
}

#[test]
fn an_edit_is_the_next_upgrade() {
    let blue = json!({"spec": {"values": {"color": "blue"}}});
    let world = upgrade_with_concurrent_edit("", blue);
    let history = "v3 deployed upgrade, v2 superseded";
    assert_eq!(world.history(), history);
    assert_eq!(
        world.hub().config("web-config").expect("the ConfigMap")["data"]["color"],
        "blue"
    );
}

#[test]
fn the_status_of_another_worker_stays() {
    let other = json!({"status": {"lastAttemptedConfigDigest": "sha256:other", "failures": 7}});
    let world = upgrade_with_concurrent_edit("/status", other);
    let upgrades = world.records("hub");
    assert_eq!(
        upgrades, "v1 superseded, v2 superseded, v3 deployed",
        "like after a worker that died"
    );
}

/// A bucket that stores that the first record was written, and loses that one answer: the state
/// that a worker leaves that is interrupted there.
struct CutOff(Arc<dyn Blobs>, AtomicBool);

#[async_trait]
impl Blobs for CutOff {
    async fn get(&self, key: &str) -> Result<Option<(Bytes, Version)>> {
        self.0.get(key).await
    }
    async fn put(&self, key: &str, content: Bytes, when: Precondition) -> Result<PutOutcome> {
        let text = String::from_utf8_lossy(&content).into_owned();
        let done = self.0.put(key, content, when).await?;
        if text.contains(r#""written":[1]"#) && !self.1.swap(true, Ordering::Relaxed) {
            return Err(PortError::new(ErrorKind::Unavailable, "no answer"));
        }
        Ok(done)
    }
    async fn delete(&self, key: &str) -> Result<()> {
        self.0.delete(key).await
    }
    async fn delete_version(&self, key: &str, version: &Version) -> Result<bool> {
        self.0.delete_version(key, version).await
    }
    async fn list(&self, prefix: &str) -> Result<Vec<BlobEntry>> {
        self.0.list(prefix).await
    }
    async fn size(&self, key: &str) -> Result<Option<u64>> {
        self.0.size(key).await
    }
    async fn set_aside(&self, key: &str, version: &Version) -> Result<()> {
        self.0.set_aside(key, version).await
    }
    fn url(&self, key: &str) -> String {
        self.0.url(key)
    }
}

#[test]
fn an_install_interrupted_after_its_record_continues() {
    let mut world = World::start(&[]);
    let blobs = Arc::new(CutOff(world.ports.blobs.clone(), AtomicBool::new(false)));
    world.ports.blobs = blobs.clone();
    world.chart(&charts::web("1.0.0"), "1.0.0");
    world.release(json!({"values": {"color": "red"}}));
    world.reconcile(SOON);
    assert!(blobs.1.load(Ordering::Relaxed), "the answer was not lost");
    assert_eq!(world.history(), "v1 deployed install");
    assert_eq!(world.records("hub"), "v1 deployed");
    assert_eq!(world.event("InstallFailed"), None);
}

#[test]
fn a_record_that_another_client_changed_is_not_overwritten() {
    let world = World::start(&[]);
    world.chart(&charts::web("1.0.0"), "1.0.0");
    world.release(json!({"values": {"color": "red"}}));
    world.reconcile(SOON);
    let record = "/api/v1/namespaces/apps/secrets/sh.helm.release.v1.web.v1";
    let before = world.hub().get(record);
    world.release(json!({"values": {"color": "green"}}));
    // Another client changes the old record after the new one is created, before the old one is
    // superseded.
    world.hub().write_concurrently(ConcurrentWrite {
        after: RECORD,
        path: record.to_owned(),
        patch: json!({"metadata": {"labels": {"changed-by": "helm"}}}),
    });
    world.hub().requests();
    world.reconcile(SOON);
    let superseded = format!("PATCH {record}");
    let requests = world.hub().requests();
    let tries = requests.iter().filter(|line| line.starts_with(&superseded));
    assert_eq!(
        tries.count(),
        2,
        "the first request must be refused: {requests:#?}"
    );
    let after = world.hub().get(record);
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(after["metadata"]["labels"]["changed-by"], "helm");
    assert_eq!(world.records("hub"), "v1 superseded, v2 deployed");
    assert_eq!(world.event("UpgradeFailed"), None);
}
