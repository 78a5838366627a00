//! A bucket as a source: its objects are applied, and installed as a chart. One scenario, with a bucket in this process and
//! with one of S3.

use crate::embedded::Embedded;
use crate::site::*;
use async_trait::async_trait;
use driftless_core::ports::{
    Bucket, BucketAddress, BucketEntry, BucketObject, Buckets, Result as PortResult,
};
use driftless_core::testing::MemoryBuckets;
use driftless_harness::aws::Aws;
use driftless_harness::github::Change;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// The fleet repository.
pub const FLEET: &str = "acme/fleet";
/// The namespace of the sources.
pub const SPACE: &str = "flux-system";
/// The bucket.
pub const BUCKET: &str = "acme-fleet";

/// Who fills the bucket.
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

/// Buckets that note what they are asked.
#[derive(Clone)]
struct Noted {
    inner: Arc<dyn Buckets>,
    asked: Arc<Mutex<Vec<String>>>,
}

struct NotedBucket {
    inner: Arc<dyn Bucket>,
    asked: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl Buckets for Noted {
    async fn open(&self, address: &BucketAddress) -> PortResult<Arc<dyn Bucket>> {
        Ok(Arc::new(NotedBucket {
            inner: self.inner.open(address).await?,
            asked: self.asked.clone(),
        }))
    }
}

#[async_trait]
impl Bucket for NotedBucket {
    async fn list(&self, prefix: &str, most: usize) -> PortResult<Vec<BucketEntry>> {
        self.asked.lock().unwrap().push(format!("list {prefix}"));
        self.inner.list(prefix, most).await
    }

    async fn get(&self, key: &str, limit: u64) -> PortResult<Option<BucketObject>> {
        self.asked.lock().unwrap().push(format!("get {key}"));
        self.inner.get(key, limit).await
    }
}

/// A hub in this process, and who fills its bucket.
pub struct World<'s> {
    site: Embedded,
    /// Who fills the bucket.
    pub store: &'s dyn Store,
    asked: Arc<Mutex<Vec<String>>>,
    endpoint: String,
}

impl<'s> World<'s> {
    /// Starts a hub whose source is the bucket behind an endpoint.
    pub fn start(store: &'s dyn Store, buckets: Arc<dyn Buckets>, endpoint: &str) -> Self {
        let hub = HubSpec {
            name: "hub",
            repository: FLEET,
            branch: "main",
            path: "./clusters/hub",
        };
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let noted = Noted {
            inner: buckets,
            asked: asked.clone(),
        };
        let site = Embedded::start(&[hub], &[]).with_buckets(Arc::new(noted));
        site.allow_local("hub");
        let keys = json!({"accesskey": "test", "secretkey": "test"});
        site.cluster("hub").secret(SPACE, "keys", &keys);
        Self {
            site,
            store,
            asked,
            endpoint: endpoint.to_owned(),
        }
    }

    /// The hub.
    pub fn hub(&self) -> &dyn Node {
        self.site.cluster("hub")
    }

    /// A Bucket of this name, changed.
    pub fn source(&self, name: &str, change: impl FnOnce(&mut Value)) -> Value {
        let mut source = json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "Bucket",
            "metadata": {"name": name, "namespace": SPACE},
            "spec": {"interval": "5m", "endpoint": self.endpoint, "insecure": true, "bucketName": BUCKET,
                "secretRef": {"name": "keys"}}});
        change(&mut source["spec"]);
        source
    }

    /// Commits objects to the fleet, and lets everything settle.
    pub fn push(&self, objects: &[Value]) {
        let files = objects.iter().map(|object| {
            let (kind, name) = (&object["kind"], &object["metadata"]["name"]);
            let path = format!("clusters/hub/{}-{}.yaml", text(kind), text(name));
            Change::write(&path, object.to_string())
        });
        let changes: Vec<Change> = files.collect();
        self.site.commit(FLEET, &changes);
        self.look("GitRepository", "flux-system");
    }

    /// Looks at an object once.
    pub fn look(&self, kind: &str, name: &str) {
        self.site.request("hub", kind, SPACE, name);
        self.site.settle();
    }

    /// The status of an object.
    pub fn status(&self, kind: &str, name: &str) -> Value {
        self.hub().get(&path(kind, SPACE, name))["status"].clone()
    }

    /// The revision of a Bucket's artifact.
    pub fn revision(&self, name: &str) -> String {
        text(&self.status("Bucket", name)["artifact"]["revision"]).to_owned()
    }

    #[track_caller]
    /// Fails unless Ready begins with this status and reason.
    pub fn expect(&self, kind: &str, name: &str, expected: &str) {
        let (status, reason, message) = ready(self.hub(), kind, SPACE, name);
        assert_eq!(
            format!("{status} {reason}"),
            expected,
            "{kind}/{name}: {message}"
        );
    }

    /// The data of a ConfigMap in `apps`.
    pub fn data(&self, name: &str) -> Value {
        let path = format!("/api/v1/namespaces/apps/configmaps/{name}");
        self.hub()
            .find(&path)
            .map_or(Value::Null, |found| found["data"].clone())
    }

    /// What the bucket was asked since the last time.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

/// A string of a value, or nothing.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A ConfigMap.
pub fn config(name: &str, color: &str) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "apps"},
        "data": {"color": color}})
    .to_string()
}

/// The Kustomization of the bucket.
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

/// Objects become a Kustomization's files and a release's chart; a change lands; what did not change is not read again.
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
    let mut asked = world.asked();
    asked.sort();
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
    assert_eq!(asked, expected);

    // Nothing changed: a list, and no write.
    let writes = world.hub().writes();
    world.look("Bucket", "fleet");
    assert_eq!(world.asked(), ["list "]);
    assert_eq!(world.hub().writes(), writes);
    // Neither did what is left out.
    store.put("apps/notes.md", "other notes");
    world.look("Bucket", "fleet");
    assert_eq!(world.asked(), ["list "]);
    assert_eq!(world.revision("fleet"), first);

    // A change lands, and what is gone is pruned.
    store.put("apps/one.yaml", &config("one", "red"));
    store.delete("apps/two.yaml");
    store.put("charts/web/production.yaml", "color: red\n");
    world.look("Bucket", "fleet");
    assert_ne!(world.revision("fleet"), first);
    let mut asked = world.asked();
    asked.sort();
    assert_eq!(
        asked,
        [
            "get apps/one.yaml",
            "get charts/web/production.yaml",
            "list "
        ]
    );
    // The chart whose version did not change stays what it was, but where the revision is part of it.
    assert_eq!(world.status("HelmChart", "plain")["artifact"], plain);
    assert_eq!(world.data("one"), json!({"color": "red"}));
    assert_eq!(world.data("two"), Value::Null);
    world.expect("HelmRelease", "web", "True UpgradeSucceeded");
    assert_eq!(world.data("chart"), json!({"color": "red"}));
}
