//! A bucket as a source: its objects are applied, and installed as a chart. The same scenario runs
//! with a bucket in this process and with S3.

use crate::embedded::Embedded;
use crate::site::*;
use async_trait::async_trait;
use driftless_harness::aws::Aws;
use driftless_harness::github::Change;
use driftless_kernel::ports::{
    Bucket, BucketAddress, BucketEntry, BucketLogin, BucketObject, Buckets, Result as PortResult,
};
use driftless_memory::MemoryBuckets;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// The name of the fleet repository.
pub const FLEET: &str = "acme/fleet";
/// The namespace of the sources.
pub const SPACE: &str = "flux-system";
/// The name of the bucket.
pub const BUCKET: &str = "acme-fleet";

/// Write access to the bucket.
pub trait Store {
    /// Writes an object.
    fn put(&self, key: &str, content: &str);
    /// Deletes an object.
    fn delete(&self, key: &str);
}

impl Store for MemoryBuckets {
    fn put(&self, key: &str, content: &str) {
        MemoryBuckets::put(self, BUCKET, key, content.to_owned());
    }

    fn delete(&self, key: &str) {
        MemoryBuckets::delete(self, BUCKET, key);
    }
}

impl Store for Aws {
    fn put(&self, key: &str, content: &str) {
        self.put_object(BUCKET, key, content.as_bytes());
    }

    fn delete(&self, key: &str) {
        self.must("s3", "delete_object", json!({"Bucket": BUCKET, "Key": key}));
    }
}

/// Buckets that record the requests.
#[derive(Clone)]
struct RecordingBuckets {
    inner: Arc<dyn Buckets>,
    requests: Arc<Mutex<Vec<String>>>,
    logins: Arc<Mutex<Vec<BucketLogin>>>,
}

struct RecordingBucket {
    inner: Arc<dyn Bucket>,
    requests: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl Buckets for RecordingBuckets {
    async fn open(&self, address: &BucketAddress) -> PortResult<Arc<dyn Bucket>> {
        self.logins.lock().unwrap().push(address.login.clone());
        Ok(Arc::new(RecordingBucket {
            inner: self.inner.open(address).await?,
            requests: self.requests.clone(),
        }))
    }
}

#[async_trait]
impl Bucket for RecordingBucket {
    async fn list(&self, prefix: &str, most: usize) -> PortResult<Vec<BucketEntry>> {
        self.requests.lock().unwrap().push(format!("list {prefix}"));
        self.inner.list(prefix, most).await
    }

    async fn get(&self, key: &str, limit: u64) -> PortResult<Option<BucketObject>> {
        self.requests.lock().unwrap().push(format!("get {key}"));
        self.inner.get(key, limit).await
    }
}

/// A hub in this process, and write access to its bucket.
pub struct World<'s> {
    site: Embedded,
    /// Write access to the bucket.
    pub store: &'s dyn Store,
    requests: Arc<Mutex<Vec<String>>>,
    logins: Arc<Mutex<Vec<BucketLogin>>>,
    endpoint: String,
}

impl<'s> World<'s> {
    /// Starts a hub whose source is the bucket behind an endpoint.
    pub fn start(store: &'s dyn Store, buckets: Arc<dyn Buckets>, endpoint: &str) -> Self {
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let logins = Arc::<Mutex<Vec<BucketLogin>>>::default();
        let recording = RecordingBuckets {
            inner: buckets,
            requests: requests.clone(),
            logins: logins.clone(),
        };
        let site = Embedded::start(&one_hub(FLEET), &[]).with_buckets(Arc::new(recording));
        site.allow_local("hub");
        let keys = json!({"accesskey": "test", "secretkey": "test"});
        site.cluster("hub").secret(SPACE, "keys", &keys);
        Self {
            site,
            store,
            requests,
            logins,
            endpoint: endpoint.to_owned(),
        }
    }

    /// Returns the hub's API server.
    pub fn hub(&self) -> &dyn Node {
        self.site.cluster("hub")
    }

    /// Returns a Bucket of this name with a changed spec.
    pub fn source(&self, name: &str, change: impl FnOnce(&mut Value)) -> Value {
        let mut source = json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "Bucket",
            "metadata": {"name": name, "namespace": SPACE},
            "spec": {"interval": "5m", "endpoint": self.endpoint, "insecure": true, "bucketName": BUCKET,
                "secretRef": {"name": "keys"}}});
        change(&mut source["spec"]);
        source
    }

    /// Commits objects to the fleet, and reconciles until nothing is due.
    pub fn push(&self, objects: &[Value]) {
        let files = objects.iter().map(|object| {
            let (kind, name) = (&object["kind"], &object["metadata"]["name"]);
            let path = format!("clusters/hub/{}-{}.yaml", text(kind), text(name));
            Change::write(&path, object.to_string())
        });
        let changes: Vec<Change> = files.collect();
        self.site.commit(FLEET, &changes);
        self.reconcile("GitRepository", "flux-system");
    }

    /// Queues an object and runs all due steps.
    pub fn reconcile(&self, kind: &str, name: &str) {
        self.site.request("hub", kind, SPACE, name);
        self.site.settle();
    }

    /// Returns the status of an object.
    pub fn status(&self, kind: &str, name: &str) -> Value {
        self.hub().get(&path(kind, SPACE, name))["status"].clone()
    }

    /// Returns the revision of a Bucket's artifact.
    pub fn revision(&self, name: &str) -> String {
        text(&self.status("Bucket", name)["artifact"]["revision"]).to_owned()
    }

    #[track_caller]
    /// Panics unless the Ready condition has this status and reason, `STATUS REASON`.
    pub fn expect(&self, kind: &str, name: &str, expected: &str) {
        let (status, reason, message) = ready(self.hub(), kind, SPACE, name);
        assert_eq!(
            format!("{status} {reason}"),
            expected,
            "{kind}/{name}: {message}"
        );
    }

    /// Returns the data of a ConfigMap in `apps`, or null.
    pub fn data(&self, name: &str) -> Value {
        let path = format!("/api/v1/namespaces/apps/configmaps/{name}");
        self.hub()
            .find(&path)
            .map_or(Value::Null, |found| found["data"].clone())
    }

    /// Returns the logins that the bucket was opened with since the last call.
    pub fn take_logins(&self) -> Vec<BucketLogin> {
        std::mem::take(&mut self.logins.lock().unwrap())
    }

    /// Returns the requests to the bucket since the last call.
    pub fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

/// Returns a JSON string, empty if the value is not one.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns a ConfigMap of the namespace `apps`.
pub fn config(name: &str, color: &str) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "apps"},
        "data": {"color": color}})
    .to_string()
}

/// Returns the Kustomization of the bucket.
pub fn kustomization() -> Value {
    json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": "apps", "namespace": SPACE},
        "spec": {"interval": "10m", "path": "./apps", "prune": true, "sourceRef": {"kind": "Bucket", "name": "fleet"}}})
}

fn release() -> Value {
    json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": {"name": "web", "namespace": SPACE},
        "spec": {"interval": "10m", "targetNamespace": "apps", "releaseName": "web",
            "chart": {"spec": {"chart": "charts/web", "reconcileStrategy": "Revision", "valuesFiles": ["charts/web/production.yaml"],
                "sourceRef": {"kind": "Bucket", "name": "fleet"}}}}})
}

fn plain_chart() -> Value {
    json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmChart",
        "metadata": {"name": "plain", "namespace": SPACE},
        "spec": {"interval": "10m", "chart": "./charts/web", "sourceRef": {"kind": "Bucket", "name": "fleet"}}})
}

/// Runs the scenario: the bucket's objects are a Kustomization's files and a release's chart, a
/// change is applied, and unchanged objects are not read again.
pub fn scenario(world: &World<'_>) {
    world.hub().namespace("apps");
    let store = world.store;
    store.put("apps/one.yaml", &config("one", "green"));
    store.put("apps/two.yaml", &config("two", "green"));
    store.put("apps/notes.md", "no object of ours");
    store.put(
        "charts/web/Chart.yaml",
        "apiVersion: v2\nname: web\nversion: 0.1.0\n",
    );
    store.put("charts/web/values.yaml", "color: green\n");
    store.put("charts/web/production.yaml", "color: blue\n");
    store.put(
        "charts/web/templates/a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: chart}\ndata: {color: \"{{ .Values.color }}\"}\n",
    );
    let fleet = world.source("fleet", |spec| spec["ignore"] = "*.md".into());
    world.push(&[fleet, kustomization(), release(), plain_chart()]);

    world.expect("Bucket", "fleet", "True Succeeded");
    let first = world.revision("fleet");
    let (_, _, message) = ready(world.hub(), "Bucket", SPACE, "fleet");
    assert_eq!(message, format!("stored artifact: revision '{first}'"));
    world.expect("Kustomization", "apps", "True ReconciliationSucceeded");
    assert_eq!(world.data("one"), json!({"color": "green"}));
    world.expect("HelmRelease", "web", "True InstallSucceeded");
    assert_eq!(world.data("chart"), json!({"color": "blue"}));
    let chart = world.status("HelmChart", "flux-system-web");
    let hash = first.strip_prefix("sha256:").expect("a digest");
    let version = format!("0.1.0+{}.1", &hash[..12]);
    assert_eq!(text(&chart["artifact"]["revision"]), version);
    assert_eq!(text(&chart["observedSourceArtifactRevision"]), first);
    let plain = world.status("HelmChart", "plain")["artifact"].clone();
    assert_eq!(text(&plain["revision"]), "0.1.0");
    let mut requests = world.take_requests();
    requests.sort();
    let mut expected = vec!["list ".to_owned()];
    for key in ["apps/one.yaml", "apps/two.yaml"] {
        expected.push(format!("get {key}"));
    }
    for file in [
        "Chart.yaml",
        "production.yaml",
        "templates/a.yaml",
        "values.yaml",
    ] {
        expected.push(format!("get charts/web/{file}"));
    }
    expected.sort();
    assert_eq!(requests, expected);

    // Nothing changed: one list, and no write.
    let writes = world.hub().writes();
    world.reconcile("Bucket", "fleet");
    assert_eq!(world.take_requests(), ["list "]);
    assert_eq!(world.hub().writes(), writes);
    // A change of an ignored object has no effect.
    store.put("apps/notes.md", "other notes");
    world.reconcile("Bucket", "fleet");
    assert_eq!(world.take_requests(), ["list "]);
    assert_eq!(world.revision("fleet"), first);

    // A change is applied, and a deleted object is pruned.
    store.put("apps/one.yaml", &config("one", "red"));
    store.delete("apps/two.yaml");
    store.put("charts/web/production.yaml", "color: red\n");
    world.reconcile("Bucket", "fleet");
    assert_ne!(world.revision("fleet"), first);
    let mut requests = world.take_requests();
    requests.sort();
    assert_eq!(
        requests,
        [
            "get apps/one.yaml",
            "get charts/web/production.yaml",
            "list "
        ]
    );
    // A chart with the same version is not built again, unless the revision is part of the version.
    assert_eq!(world.status("HelmChart", "plain")["artifact"], plain);
    assert_eq!(world.data("one"), json!({"color": "red"}));
    assert_eq!(world.data("two"), Value::Null);
    world.expect("HelmRelease", "web", "True UpgradeSucceeded");
    assert_eq!(world.data("chart"), json!({"color": "red"}));
}
