//! What the watches of `serve` see, without a sweep: edits of Flux objects, of what they refer to,
//! and of what was applied.

use super::site::{Serving, Site};
use driftless_kernel::ports::{
    ApplyRequest, Cluster, Delete, ErrorKind, Patch, PatchRequest, PortError, Resource,
};
use driftless_manifest::{Gvk, Object};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const HOUR: Duration = Duration::from_secs(3600);
const APPS: &str = "Kustomization/flux-system/apps";
const FLUX: &str = "kustomize.toolkit.fluxcd.io/v1";

async fn resource(cluster: &dyn Cluster, version: &str, kind: &str) -> Resource {
    let found = cluster.resource(&Gvk::new(version, kind)).await.unwrap();
    found.unwrap()
}

/// A user of the hub, who is not the installation.
struct User {
    cluster: Arc<dyn Cluster>,
    maps: Resource,
    kustomizations: Resource,
}

impl User {
    async fn of(serving: &Serving<'_>) -> Self {
        let cluster = serving.cluster().await;
        Self {
            maps: resource(cluster.as_ref(), "v1", "ConfigMap").await,
            kustomizations: resource(cluster.as_ref(), FLUX, "Kustomization").await,
            cluster,
        }
    }

    async fn patch(&self, resource: &Resource, namespace: &str, name: &str, patch: Value) {
        let request = PatchRequest {
            resource,
            namespace,
            name,
            subresource: None,
            patch: &Patch::Merge(patch),
            manager: "kubectl-edit",
        };
        self.cluster.patch(&request).await.unwrap();
    }

    async fn edit(&self, version: &str) {
        let patch = json!({"data": {"version": version}});
        self.patch(&self.maps, "default", "app", patch).await;
    }

    async fn version(&self) -> Option<String> {
        let map = self.cluster.get(&self.maps, "default", "app").await;
        let map = map.unwrap()?;
        Some(map.pointer("/data/version")?.as_str()?.to_owned())
    }

    /// Waits until the applied ConfigMap has its version again. Returns the time.
    async fn is_put_back(&self) -> Duration {
        let start = Instant::now();
        while self.version().await.as_deref() != Some("one") {
            assert!(start.elapsed() < HOUR, "not put back");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        start.elapsed()
    }
}

/// Serves a site that is ready and at rest.
async fn at_rest(site: &Site, interval: Duration, drift: bool) -> Serving<'_> {
    let Ok(serving) = site.serve_with(interval, drift).await else {
        unreachable!("serve does not start")
    };
    serving.converges("one", "at the start").await;
    serving.rest().await;
    serving.take_sent();
    serving
}

#[tokio::test(start_paused = true)]
async fn an_edit_is_queued_at_once() {
    let site = Site::new("one").await;
    let serving = at_rest(&site, HOUR, true).await;
    let user = User::of(&serving).await;
    let patch = json!({"spec": {"interval": "7m"}});
    user.patch(&user.kustomizations, "flux-system", "apps", patch)
        .await;
    let start = Instant::now();
    loop {
        let object = user
            .cluster
            .get(&user.kustomizations, "flux-system", "apps");
        let object = object.await.unwrap().unwrap();
        let [now, seen] = ["/metadata/generation", "/status/observedGeneration"]
            .map(|field| object.pointer(field).and_then(Value::as_i64));
        if now == seen {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(1), "{now:?} {seen:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    serving.rest().await;
    assert_eq!(serving.take_sent()[0], format!("Changed {APPS}"));
    // A request of a user.
    let now = json!({"reconcile.fluxcd.io/requestedAt": "now"});
    let patch = json!({"metadata": {"annotations": now}});
    user.patch(&user.kustomizations, "flux-system", "more", patch)
        .await;
    serving.rest().await;
    let more = "Changed Kustomization/flux-system/more";
    assert_eq!(
        serving.take_sent(),
        [more],
        "no sweep, and no step of others"
    );
    serving.end().await;
}

/// The API server names no manager of a field that is gone.
#[tokio::test(start_paused = true)]
async fn an_edit_that_removes_a_field_is_queued_at_once() {
    let site = Site::new("one").await;
    let serving = at_rest(&site, HOUR, false).await;
    let user = User::of(&serving).await;
    let patch = json!({"spec": {"retryInterval": null}});
    user.patch(&user.kustomizations, "flux-system", "more", patch)
        .await;
    serving.rest().await;
    let more = "Changed Kustomization/flux-system/more";
    assert_eq!(serving.take_sent(), [more]);
    serving.end().await;
}

#[tokio::test(start_paused = true)]
async fn drift_is_put_back_at_once() {
    let site = Site::new("one").await;
    let serving = at_rest(&site, HOUR, true).await;
    let user = User::of(&serving).await;
    user.edit("mine").await;
    assert!(user.is_put_back().await < Duration::from_secs(1));
    serving.rest().await;
    assert_eq!(serving.take_sent(), [format!("Drift {APPS}")]);
    // After the pause between two corrections.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let nothing = Delete::default();
    let deleted = user.cluster.delete(&user.maps, "default", "app", &nothing);
    deleted.await.unwrap();
    assert!(user.is_put_back().await < Duration::from_secs(1));
    serving.rest().await;
    assert_eq!(serving.take_sent(), [format!("Drift {APPS}")]);
    serving.end().await;
}

#[tokio::test(start_paused = true)]
async fn writes_that_are_not_drift_cause_no_step() {
    let site = Site::new("one").await;
    let serving = at_rest(&site, HOUR, true).await;
    let user = User::of(&serving).await;
    // A status, and a field that was not applied.
    let patch = json!({"status": {"lastAppliedRevision": "x"}});
    let request = PatchRequest {
        resource: &user.kustomizations,
        namespace: "flux-system",
        name: "more",
        subresource: Some("status"),
        patch: &Patch::Merge(patch),
        manager: "other",
    };
    user.cluster.patch(&request).await.unwrap();
    let patch = json!({"metadata": {"annotations": {"other": "value"}}});
    user.patch(&user.maps, "default", "app", patch).await;
    serving.rest().await;
    assert!(serving.take_sent().is_empty());
    // What a step applies is its own.
    serving.push("two").await;
    serving.converges("two", "after a push").await;
    serving.rest().await;
    let sent = serving.take_sent();
    let drift = sent.iter().filter(|request| request.starts_with("Drift"));
    assert_eq!(drift.count(), 0, "{sent:?}");
    serving.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_fight_is_bounded() {
    let site = Site::new("one").await;
    let serving = at_rest(&site, HOUR, true).await;
    let user = User::of(&serving).await;
    let start = Instant::now();
    let mut rounds = 0;
    while start.elapsed() < Duration::from_secs(120) {
        user.edit("mine").await;
        user.is_put_back().await;
        rounds += 1;
    }
    assert!((3..8).contains(&rounds), "{rounds} corrections in 2 min");
    serving.end().await;
}

#[tokio::test(start_paused = true)]
async fn without_watches_the_sweep_puts_drift_back() {
    let site = Site::new("one").await;
    let serving = at_rest(&site, Duration::from_secs(60), false).await;
    let user = User::of(&serving).await;
    // Begin after a sweep.
    user.edit("first").await;
    user.is_put_back().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    user.edit("second").await;
    let time = user.is_put_back().await;
    assert!(time > Duration::from_secs(30), "{time:?}");
    serving.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_changed_reference_queues_what_refers_to_it() {
    let site = Site::new("one").await;
    let serving = at_rest(&site, HOUR, true).await;
    let user = User::of(&serving).await;
    let variables = |value: &str| {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "vars", "namespace": "flux-system"}, "data": {"a": value}});
        Object::new(map).unwrap()
    };
    let apply = async |value: &str| {
        let request = ApplyRequest {
            resource: &user.maps,
            object: &variables(value),
            manager: "kubectl",
            force: true,
            dry_run: false,
        };
        user.cluster.apply(&request).await.unwrap();
        serving.rest().await;
        serving.take_sent()
    };
    assert!(apply("1").await.is_empty(), "nothing refers to it");
    let from = json!([{"kind": "ConfigMap", "name": "vars"}]);
    let patch = json!({"spec": {"postBuild": {"substituteFrom": from}}});
    user.patch(&user.kustomizations, "flux-system", "more", patch)
        .await;
    serving.rest().await;
    serving.take_sent();
    let more = "Changed Kustomization/flux-system/more";
    assert_eq!(apply("2").await, [more]);
    assert!(apply("2").await.is_empty(), "the same content");
    serving.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_and_a_deleted_object_are_queued_at_once() {
    let site = Site::new("one").await;
    let serving = at_rest(&site, HOUR, true).await;
    let user = User::of(&serving).await;
    let source = json!({"kind": "GitRepository", "name": "flux-system"});
    let object = json!({"apiVersion": FLUX, "kind": "Kustomization",
        "metadata": {"name": "third", "namespace": "flux-system"},
        "spec": {"interval": "5m", "path": "./more", "prune": false, "sourceRef": source}});
    let object = Object::new(object).unwrap();
    let create = user
        .cluster
        .create(&user.kustomizations, &object, "kubectl-create");
    create.await.unwrap();
    serving.rest().await;
    let third = "Changed Kustomization/flux-system/third";
    assert_eq!(serving.take_sent()[0], third);
    let nothing = Delete::default();
    let delete = user
        .cluster
        .delete(&user.kustomizations, "flux-system", "third", &nothing);
    delete.await.unwrap();
    serving.rest().await;
    assert_eq!(serving.take_sent()[0], third);
    let gone = user
        .cluster
        .get(&user.kustomizations, "flux-system", "third");
    let gone: Result<Option<Object>, PortError> = gone.await;
    match gone {
        Ok(found) => assert!(found.is_none()),
        Err(error) => assert_eq!(error.kind, ErrorKind::NotFound),
    }
    serving.end().await;
}
