//! A real API server with Flux's definitions and the objects of a hub.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use driftless_harness::cluster::Cluster;
use driftless_harness::files;
use driftless_harness::kubectl::Kubectl;
use driftless_harness::tools::FLUX_DEFINITIONS;
use driftless_manifest::yaml;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const OBJECTS: &str = include_str!("objects.yaml");
/// The manifest in the record of the release.
const MANIFEST: &str = "---
apiVersion: v1
kind: ConfigMap
metadata: {name: redis-config}
---
apiVersion: v1
kind: Service
metadata: {name: redis}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: 'redis:reader'}
";

/// The hub, ended when it is dropped.
pub struct Hub {
    cluster: Cluster,
    directory: tempfile::TempDir,
}

/// Returns the plural names of the kinds of Flux, and of the others in the file.
fn plural(kind: &str) -> String {
    let lower = kind.to_lowercase();
    match lower.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{lower}s"),
    }
}

fn path(object: &Value) -> String {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let version = text("/apiVersion");
    let root = if version == "v1" { "/api" } else { "/apis" };
    let namespace = match text("/metadata/namespace") {
        "" => String::new(),
        namespace => format!("/namespaces/{namespace}"),
    };
    format!("{root}/{version}{namespace}/{}", plural(text("/kind")))
}

impl Hub {
    /// Starts the server and creates the objects.
    pub fn start() -> Self {
        let cluster = Cluster::start("terminal");
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("config"), cluster.kubeconfig())
            .expect("write the kubeconfig");
        let hub = Self { cluster, directory };
        hub.install();
        hub.fill();
        hub
    }

    /// Returns the file with the kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("config")
    }

    /// Installs Flux's definitions.
    fn install(&self) {
        let crds = FLUX_DEFINITIONS.path();
        let mut text = String::new();
        let files = files::below(&crds).into_iter();
        for (_, file) in files.filter(|(name, _)| name.ends_with(".yaml")) {
            text.push_str("---\n");
            text.push_str(&std::fs::read_to_string(&file).expect("read a definition"));
            text.push('\n');
        }
        Kubectl::new(&self.cluster.kubeconfig()).apply(&text);
        let start = Instant::now();
        let groups = [
            ("source", "v1"),
            ("kustomize", "v1"),
            ("helm", "v2"),
            ("notification", "v1"),
            ("notification", "v1beta3"),
        ];
        for (group, version) in groups {
            let path = format!("/apis/{group}.toolkit.fluxcd.io/{version}");
            while self.cluster.api().find(&path).is_none() {
                assert!(
                    start.elapsed() < Duration::from_secs(60),
                    "{path} is not served"
                );
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }

    /// Creates the objects that do not exist, with their status.
    pub fn fill(&self) {
        let mut documents = documents();
        let namespaces = documents
            .iter()
            .filter(|one| one["kind"] == "Namespace")
            .count();
        documents.insert(namespaces, record());
        for mut object in documents {
            let status = object
                .as_object_mut()
                .and_then(|fields| fields.remove("status"));
            let (path, name) = (
                path(&object),
                object["metadata"]["name"]
                    .as_str()
                    .expect("a name")
                    .to_owned(),
            );
            let own = format!("{path}/{name}");
            if self.cluster.api().find(&own).is_some() {
                continue;
            }
            let made = self.cluster.api().create(&path, &object);
            made.unwrap_or_else(|refused| panic!("{own}: {refused:?}"));
            if let Some(status) = status {
                let done = self
                    .cluster
                    .api()
                    .patch(&format!("{own}/status"), &json!({"status": status}));
                done.unwrap_or_else(|refused| panic!("{own}: {refused:?}"));
            }
        }
    }

    /// Returns the names of the objects that the hub has of those in the file.
    pub fn objects(&self) -> BTreeSet<String> {
        let names = documents().into_iter().map(|object| {
            let name = object["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            format!("{}/{name}", path(&object))
        });
        names
            .filter(|own| self.cluster.api().find(own).is_some())
            .collect()
    }
}

fn documents() -> Vec<Value> {
    let (text, limits) = (OBJECTS.as_bytes(), yaml::Limits::default());
    yaml::documents(text, "objects.yaml", yaml::Dialect::V2, &limits).expect("objects.yaml")
}

/// Returns the Secret with the record of the release, as Helm stores it.
fn record() -> Value {
    let release = json!({"name": "redis", "namespace": "team-a", "version": 2, "manifest": MANIFEST, "config": {},
        "info": {"status": "deployed", "first_deployed": "2026-01-02T03:04:05Z", "last_deployed": "2026-01-02T03:04:05Z", "deleted": "", "description": "done"},
        "chart": {"metadata": {"name": "redis", "version": "1.2.3", "apiVersion": "v2"}, "lock": null, "templates": [], "values": {}, "schema": null, "files": []}});
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed
        .write_all(release.to_string().as_bytes())
        .expect("pack");
    let inner = STANDARD.encode(packed.finish().expect("pack"));
    json!({"apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
        "metadata": {"name": "sh.helm.release.v1.redis.v2", "namespace": "team-a",
            "labels": {"name": "redis", "owner": "helm", "status": "deployed", "version": "2"}},
        "data": {"release": STANDARD.encode(inner)}})
}
