//! `driftless serve` in tests: its workers, timer and state directory, with a hub in this process,
//! a fleet in a directory and a chart repository in memory. Time is virtual, so waiting takes no
//! time.

use async_trait::async_trait;
use bytes::Bytes;
use driftless_adapters::aws::S3Buckets;
use driftless_adapters::git::DirectoryGit;
use driftless_adapters::local::{DirectoryBlobs, LocalQueue};
use driftless_fleet::embedded::{State, World};
use driftless_fleet::{Fleet, HubPlan};
use driftless_helm::{LoadLimits, Package};
use driftless_kernel::hub::Settings;
use driftless_kernel::ports::{
    Cause, Charts, Clock, Cluster, Connection, DownloadOutcome, Layer, Manifest, Ports, Queue,
    Referrer, Request, Result as PortResult, Validator,
};
use driftless_manifest::{EntryKind, FileTree, Gvk, Reader, TreePath};
use driftless_server::{BackgroundTasks, RegisterError, TaskOptions, register};
use driftless_source::index;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

const HUB: &str = "hub";
const FLEET: &str = "https://github.com/acme/fleet";
const CHARTS: &str = "https://charts.example.com";
/// The timeout of every wait, in virtual time.
const TIMEOUT: Duration = Duration::from_secs(1800);

/// The files of the fleet, two of which contain a version.
const FILES: [(&str, &str); 5] = [
    (
        "hub/kustomization.yaml",
        "resources: [apps.yaml, charts.yaml]\n",
    ),
    (
        "hub/apps.yaml",
        "
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: apps, namespace: flux-system}
spec:
  interval: 5m
  retryInterval: 20s
  path: ./apps
  prune: true
  sourceRef: {kind: GitRepository, name: flux-system}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: more, namespace: flux-system}
spec:
  dependsOn: [{name: apps}]
  interval: 5m
  retryInterval: 20s
  path: ./more
  prune: true
  sourceRef: {kind: GitRepository, name: flux-system}
",
    ),
    (
        "hub/charts.yaml",
        "
apiVersion: source.toolkit.fluxcd.io/v1
kind: HelmRepository
metadata: {name: charts, namespace: flux-system}
spec: {interval: 5m, url: https://charts.example.com}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: web, namespace: flux-system}
spec:
  interval: 5m
  chart: {spec: {chart: web, version: 1.x, sourceRef: {kind: HelmRepository, name: charts}}}
  values: {version: VERSION}
",
    ),
    (
        "apps/config.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: app, namespace: default}, data: {version: VERSION}}\n",
    ),
    (
        "more/config.yaml",
        "{apiVersion: v1, kind: ConfigMap, metadata: {name: more, namespace: default}}\n",
    ),
];

/// The clock of tokio, which advances when all tasks are idle.
struct TokioClock {
    start: Instant,
    nonces: AtomicU64,
}

#[async_trait]
impl Clock for TokioClock {
    fn now(&self) -> Duration {
        Duration::from_secs(1_800_000_000) + self.start.elapsed()
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn timeout(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    fn nonce(&self) -> [u8; 16] {
        let count = self.nonces.fetch_add(1, Ordering::Relaxed);
        u128::from(count).to_be_bytes()
    }
}

/// A queue that records what is sent to it.
#[derive(Clone)]
struct RecordedQueue {
    queue: LocalQueue,
    sent: Arc<Mutex<Vec<Request>>>,
}

#[async_trait]
impl Queue for RecordedQueue {
    async fn send(&self, requests: Vec<(Request, Duration)>) -> PortResult<()> {
        let sent = requests.iter().map(|(request, _)| request.clone());
        self.sent.lock().unwrap().extend(sent);
        self.queue.send(requests).await
    }
}

/// A chart repository with one chart.
struct Repository {
    index: Bytes,
    chart: Bytes,
}

impl Repository {
    fn new() -> Self {
        let mut tree = FileTree::default();
        for (file, text) in [
            (
                "web/Chart.yaml",
                "apiVersion: v2\nname: web\nversion: 1.0.0\n",
            ),
            ("web/values.yaml", "version: none\n"),
            (
                "web/templates/config.yaml",
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {version: {{ .Values.version }}}\n",
            ),
        ] {
            let path = TreePath::new(file).unwrap();
            tree.insert(path, EntryKind::File, Bytes::from(text))
                .unwrap();
        }
        let (reader, directory) = (Reader::new(&tree), TreePath::new("web").unwrap());
        let package = Package::from_tree(&reader, &directory, &LoadLimits::default()).unwrap();
        let chart = Bytes::from(package.pack("web").unwrap());
        let digest = hex::encode(Sha256::digest(&chart));
        let index = format!(
            "apiVersion: v1\nentries:\n  web:\n  - {{apiVersion: v2, name: web, version: 1.0.0, digest: {digest}, urls: [web.tgz]}}\n"
        );
        Self {
            index: index.into(),
            chart,
        }
    }
}

fn unused<T>() -> PortResult<T> {
    unreachable!("no registry is used")
}

#[async_trait]
impl Charts for Repository {
    async fn get(
        &self,
        url: &str,
        _: &Connection,
        known: &Validator,
        _: u64,
    ) -> PortResult<DownloadOutcome> {
        let bytes = match url.strip_prefix(CHARTS) {
            Some("/index.yaml") if !known.is_empty() => return Ok(DownloadOutcome::Unchanged),
            Some("/index.yaml") => self.index.clone(),
            Some("/web.tgz") => self.chart.clone(),
            _ => unreachable!("{url}"),
        };
        let validator = Validator {
            etag: Some("\"1\"".to_owned()),
            ..Validator::default()
        };
        Ok(DownloadOutcome::Body { bytes, validator })
    }

    async fn tags(&self, _: &str, _: &Connection) -> PortResult<Vec<String>> {
        unused()
    }

    async fn manifest(&self, _: &str, _: &str, _: &Connection) -> PortResult<Manifest> {
        unused()
    }

    async fn referrers(&self, _: &str, _: &str, _: &Connection) -> PortResult<Vec<Referrer>> {
        unused()
    }

    async fn layer(&self, _: &str, _: &Layer, _: &Connection, _: u64) -> PortResult<Bytes> {
        unused()
    }
}

/// A cluster, a fleet and a state directory, which may be served or not.
pub struct Site {
    world: World,
    home: tempfile::TempDir,
}

impl Site {
    /// Creates the fleet with this version, and a cluster with Flux's definitions and the root.
    pub async fn new(version: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("fleet");
        write(&directory, version);
        let fleet = Fleet {
            url: FLEET.to_owned(),
            branch: "main".to_owned(),
            artifact: None,
            is_stated: false,
            git: DirectoryGit::new(Duration::ZERO)
                .with(FLEET, None, &directory)
                .unwrap(),
            hubs: vec![HubPlan {
                name: HUB.to_owned(),
                path: "hub".to_owned(),
                more: Vec::new(),
            }],
            rules: Settings::default(),
            sops_keys: None,
            kube_version: None,
            messages: Vec::new(),
        };
        let clock = Arc::new(TokioClock {
            start: Instant::now(),
            nonces: AtomicU64::new(1),
        });
        let (charts, buckets) = (Arc::new(Repository::new()), Arc::new(S3Buckets::new()));
        let queue = Arc::new(LocalQueue::new(1));
        let world = World::start(&fleet, charts, buckets, queue, clock, false).await;
        let Ok(world) = world else {
            unreachable!("the world does not start")
        };
        Self { world, home }
    }

    /// Returns the state directory.
    pub fn state(&self) -> PathBuf {
        self.home.path().join("state")
    }

    /// Starts serving the site.
    pub async fn serve(&self) -> Result<Serving<'_>, RegisterError> {
        self.serve_with(Duration::from_secs(60), true).await
    }

    /// Starts serving the site with this interval of sweeps, and with or without watches of what
    /// was applied.
    pub async fn serve_with(
        &self,
        interval: Duration,
        drift: bool,
    ) -> Result<Serving<'_>, RegisterError> {
        let queue = LocalQueue::new(1000);
        let recorded = RecordedQueue {
            queue: queue.clone(),
            sent: Arc::default(),
        };
        let ports = Ports {
            blobs: Arc::new(DirectoryBlobs::open(&self.state())?),
            queue: Arc::new(recorded.clone()),
            ..self.world.ports.clone()
        };
        let settings = Settings {
            name: HUB.to_owned(),
            ..Settings::default()
        };
        register(&ports, &settings).await?;
        let options = TaskOptions {
            hubs: &[HUB],
            workers: 4,
            sweep_interval: interval,
            drift_watch: drift,
            object_metrics: false,
        };
        let tasks = BackgroundTasks::start(ports.clone(), queue.clone(), &options);
        Ok(Serving {
            site: self,
            ports,
            queue,
            sent: recorded.sent,
            tasks,
        })
    }

    /// Returns the first difference from a ready fleet of this version.
    async fn difference(&self, version: &str) -> Option<String> {
        let Ok(rows) = self.world.snapshot().await else {
            unreachable!("the hub does not answer")
        };
        let lagging = rows.iter().find(|row| row.state != State::Ready);
        if let Some(row) = lagging {
            return Some(format!("{}: {}: {}", row.id, row.reason, row.message));
        }
        // The root, two Kustomizations, two sources, a chart and a release.
        if rows.len() != 7 {
            return Some(format!("{} objects", rows.len()));
        }
        for (namespace, name) in [("default", "app"), ("flux-system", "web")] {
            let found = self.version(namespace, name).await;
            if found.as_deref() != Some(version) {
                return Some(format!("ConfigMap {namespace}/{name} has {found:?}"));
            }
        }
        None
    }

    async fn version(&self, namespace: &str, name: &str) -> Option<String> {
        let Ok(hub) = self.world.hub(HUB).await else {
            unreachable!("the hub does not answer")
        };
        let kind = hub.cluster.resource(&Gvk::new("v1", "ConfigMap")).await;
        let kind = kind.unwrap().unwrap();
        let object = hub.cluster.get(&kind, namespace, name).await.unwrap()?;
        let version = object.pointer("/data/version")?.as_str()?;
        Some(version.to_owned())
    }
}

/// A running `serve`.
pub struct Serving<'a> {
    site: &'a Site,
    /// The ports of its workers.
    pub ports: Ports,
    queue: LocalQueue,
    sent: Arc<Mutex<Vec<Request>>>,
    tasks: BackgroundTasks,
}

impl Serving<'_> {
    /// Writes another version into the fleet, and queues its source as a webhook does.
    pub async fn push(&self, version: &str) {
        write(&self.site.home.path().join("fleet"), version);
        let ports = &self.ports;
        let repository = index::repository(FLEET).unwrap();
        let followers = index::followers(ports, &repository, "refs/heads/main").await;
        let requests = followers
            .unwrap()
            .into_iter()
            .map(|(hub, object)| (Request::new(&hub, object, Cause::Push), Duration::ZERO));
        let requests: Vec<_> = requests.collect();
        assert_eq!(requests.len(), 1, "one source follows the fleet");
        ports.queue.send(requests).await.unwrap();
    }

    /// Returns the requests that were queued since the last call, as `CAUSE KIND/NAMESPACE/NAME`:
    /// without those for objects that have waited for another one, which any step of that one can
    /// find.
    pub fn take_sent(&self) -> Vec<String> {
        let sent = std::mem::take(&mut *self.sent.lock().unwrap()).into_iter();
        let sent = sent.filter(|request| request.cause != Cause::Dependency);
        let text = |request: Request| format!("{:?} {}", request.cause, request.object);
        sent.map(text).collect()
    }

    /// Returns the hub's API server.
    pub async fn cluster(&self) -> Arc<dyn Cluster> {
        let Ok(hub) = self.site.world.hub(HUB).await else {
            unreachable!("the hub does not answer")
        };
        hub.cluster
    }

    /// Waits until nothing is running or due.
    pub async fn rest(&self) {
        tokio::time::sleep(Duration::from_secs(5)).await;
        while !self.queue.is_quiet() {
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
    }

    /// Waits until the whole fleet is ready in this version; `context` describes the failure.
    pub async fn converges(&self, version: &str, context: &str) {
        let end = Instant::now() + TIMEOUT;
        while let Some(difference) = self.site.difference(version).await {
            assert!(Instant::now() < end, "{context}: {difference}");
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
    }

    /// Stops serving, as a signal does.
    pub async fn end(self) {
        self.tasks.stop().await;
    }
}

fn write(directory: &Path, version: &str) {
    for (file, text) in FILES {
        let path = directory.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = text.replace("VERSION", version);
        if fs::read_to_string(&path).is_ok_and(|known| known == text) {
            continue;
        }
        fs::write(path, text).unwrap();
    }
}

/// Returns every file below a directory, sorted.
pub fn files(directory: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    let below = |path: PathBuf| match path.is_dir() {
        true => files(&path),
        false => vec![path],
    };
    entries.into_iter().flat_map(below).collect()
}
