//! A fleet whose steps write every kind of record.

use async_trait::async_trait;
use bytes::Bytes;
use driftless_harness::github::Change;
use driftless_harness::service::Service;
use driftless_kernel::functions;
use driftless_kernel::ports::{
    Charts, Connection, DownloadOutcome, ErrorKind, Layer, Manifest, PortError, Referrer, Result,
    Validator,
};
use driftless_source::archive;
use driftless_tests::embedded::Embedded;
use driftless_tests::objects::{apps, deployment};
use driftless_tests::site::*;
use driftless_tests::{charts, site};
use plan::record::{self, Lease};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

pub const FLEET: &str = "acme/recovery";
pub const SPACE: &str = "flux-system";
const HUB: [HubSpec<'static>; 1] = one_hub(FLEET);
pub const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/web";
pub const EXTRA: &str = "/api/v1/namespaces/default/configmaps/extra";
pub const RELEASED: &str = "/api/v1/namespaces/default/configmaps/released";
const RELEASE: &str = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/flux-system/helmreleases/web";
/// Longer than each interval of the fleet.
pub const INTERVAL: Duration = Duration::from_secs(11 * 60);
/// The host of a chart.
const CHARTS: &str = "https://charts.example.com";
/// A host that names a wait.
const LIMITED: &str = "https://limited.example.com";
/// A pull request whose plan is a comment.
pub const PLANNED: &str = "github.com/acme/recovery";
pub const PULL_REQUEST: u64 = 7;
pub const COMMENT: u64 = 42;
pub const RECEIVER_TOKEN: &str = "token-of-the-receiver";

/// The hosts of charts.
pub struct Hosts {
    files: BTreeMap<String, Bytes>,
    /// The number of files that were sent.
    downloads: AtomicUsize,
    /// True if the second host refuses requests, and names a wait.
    limits: AtomicBool,
    asked: AtomicUsize,
}

impl Hosts {
    fn new() -> Self {
        let archive = archive::pack(&charts::web("1.0.0")).expect("an archive");
        let index = json!({"apiVersion": "v1", "entries": {"web": [
            {"apiVersion": "v2", "name": "web", "version": "1.0.0", "urls": ["web-1.0.0.tgz"]}]}});
        let files = [
            ("index.yaml", Bytes::from(index.to_string())),
            ("web-1.0.0.tgz", Bytes::from(archive)),
        ];
        let files = files.map(|(name, bytes)| (format!("{CHARTS}/{name}"), bytes));
        Self {
            files: files.into(),
            downloads: AtomicUsize::new(0),
            limits: AtomicBool::new(true),
            asked: AtomicUsize::new(0),
        }
    }
}

fn unsupported<T>() -> Result<T> {
    Err(PortError::new(ErrorKind::NotFound, "no registry"))
}

#[async_trait]
impl Charts for Hosts {
    async fn get(
        &self,
        url: &str,
        _: &Connection,
        known: &Validator,
        _: u64,
    ) -> Result<DownloadOutcome> {
        if url.starts_with(LIMITED) {
            self.asked.fetch_add(1, Ordering::Relaxed);
            if self.limits.load(Ordering::Relaxed) {
                return Err(PortError {
                    retry_after: Some(Duration::from_secs(1800)),
                    ..PortError::new(ErrorKind::RateLimited, "too many requests")
                });
            }
        }
        let Some(bytes) = self.files.get(url).cloned() else {
            return unsupported();
        };
        let validator = Validator {
            etag: Some(format!("\"{}\"", bytes.len())),
            ..Validator::default()
        };
        if *known == validator {
            return Ok(DownloadOutcome::Unchanged);
        }
        self.downloads.fetch_add(1, Ordering::Relaxed);
        Ok(DownloadOutcome::Body { bytes, validator })
    }

    async fn tags(&self, _: &str, _: &Connection) -> Result<Vec<String>> {
        unsupported()
    }

    async fn manifest(&self, _: &str, _: &str, _: &Connection) -> Result<Manifest> {
        unsupported()
    }

    async fn referrers(&self, _: &str, _: &str, _: &Connection) -> Result<Vec<Referrer>> {
        unsupported()
    }

    async fn layer(&self, _: &str, _: &Layer, _: &Connection, _: u64) -> Result<Bytes> {
        unsupported()
    }
}

/// A hub with one object of each kind that has records, at rest.
pub struct Fleet {
    pub world: Embedded,
    hosts: Arc<Hosts>,
    /// The service that accepts events.
    pub works: Service,
    /// The service that refuses them.
    pub fails: Service,
}

fn config_map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: default}}\n")
}

impl Fleet {
    /// Starts the hub, and waits until it is at rest. All of it is the same each time, but the
    /// ports of the services.
    pub fn start() -> Self {
        let hosts = Arc::new(Hosts::new());
        let mut world = Embedded::start(&HUB, &[]);
        world.ports.charts = hosts.clone();
        world.allow_local("hub");
        let fleet = Self {
            world: world.with_settings_in_secret("hub"),
            hosts,
            works: Service::start(),
            fails: Service::start(),
        };
        fleet.fails.answer(500, Duration::ZERO, "not now");
        fleet.commit();
        fleet.create_others();
        let hub = fleet.world.cluster("hub");
        for (kind, name) in [
            ("Kustomization", "apps"),
            ("HelmRelease", "web"),
            ("HelmChart", "downloaded"),
            ("Receiver", "receiver"),
        ] {
            let (status, _, message) = ready(hub, kind, SPACE, name);
            assert_eq!(status, "True", "{kind}: {message}");
        }
        fleet.world.sweep_after(INTERVAL);
        fleet.world.settle();
        fleet.world.push(
            FLEET,
            &[Change::write("apps/late.yaml", config_map("late"))],
        );
        fleet.world.settle();
        fleet.write_others();
        fleet
    }

    /// Writes the records that functions other than reconcile and drift write.
    fn write_others(&self) {
        let ports = &self.world.ports;
        let registered = functions::register(ports.blobs.as_ref(), "reconcile", None);
        self.world.block_on(registered).expect("the bucket");
        self.world.block_on(async {
            let taken = record::take(ports, PLANNED, PULL_REQUEST, "head").await;
            let Ok(Lease::Held(mut held)) = taken else {
                panic!("the lease of the pull request")
            };
            held.set_comment(COMMENT).await.expect("the bucket");
            held.end().await.expect("the bucket");
        });
    }

    fn commit(&self) {
        let release = "apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: web, namespace: flux-system}
spec:
  interval: 10m
  targetNamespace: default
  chart: {spec: {chart: ./charts/web, sourceRef: {kind: GitRepository, name: flux-system}}}
";
        let waiting = "apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: waiting, namespace: flux-system}
spec:
  interval: 10m
  prune: true
  path: ./apps
  sourceRef: {kind: GitRepository, name: flux-system}
  dependsOn: [{name: absent}]
";
        let chart = "apiVersion: v2\nname: web\nversion: 1.0.0\n";
        self.world.commit(
            FLEET,
            &[
                apps(""),
                deployment("web:1"),
                Change::write("apps/extra.yaml", config_map("extra")),
                Change::write("clusters/hub/web.yaml", release),
                Change::write("clusters/hub/waiting.yaml", waiting),
                Change::write("charts/web/Chart.yaml", chart),
                Change::write("charts/web/templates/map.yaml", config_map("released")),
            ],
        );
        self.world.sweep();
        self.world.settle();
    }

    /// Creates the objects whose addresses are those of this process, or which need no repository.
    fn create_others(&self) {
        let source = "source.toolkit.fluxcd.io/v1";
        let notification = "notification.toolkit.fluxcd.io";
        let hub = self.world.cluster("hub");
        for (name, url) in [("charts", CHARTS), ("limited", LIMITED)] {
            let spec = json!({"interval": "10m", "url": url});
            self.create(source, "HelmRepository", name, spec);
        }
        let chart = json!({"interval": "10m", "chart": "web", "version": "1.0.0",
            "sourceRef": {"kind": "HelmRepository", "name": "charts"}});
        self.create(source, "HelmChart", "downloaded", chart);
        hub.secret(SPACE, "receiver", &json!({"token": RECEIVER_TOKEN}));
        let receiver = json!({"type": "generic-hmac", "secretRef": {"name": "receiver"},
            "resources": [{"kind": "GitRepository", "name": SPACE}]});
        self.create(
            &format!("{notification}/v1"),
            "Receiver",
            "receiver",
            receiver,
        );
        for (name, service) in [("works", &self.works), ("fails", &self.fails)] {
            hub.secret(SPACE, name, &json!({"address": service.url()}));
            let provider = json!({"type": "generic", "secretRef": {"name": name}});
            let version = format!("{notification}/v1beta3");
            self.create(&version, "Provider", name, provider);
            let alert = json!({"providerRef": {"name": name},
                "eventSources": [{"kind": "Kustomization", "name": "*"}]});
            self.create(&version, "Alert", name, alert);
        }
    }

    fn create(&self, version: &str, kind: &str, name: &str, spec: Value) {
        let object = json!({"apiVersion": version, "kind": kind,
            "metadata": {"name": name, "namespace": SPACE}, "spec": spec});
        let hub = self.world.cluster("hub");
        hub.create(&site::path(kind, SPACE, ""), &object);
        self.world.request("hub", kind, SPACE, name);
        self.world.settle();
    }

    /// Forgets what the process knows, as a new one.
    pub fn restart(&mut self) {
        let ports = &mut self.world.ports;
        ports.files = Arc::default();
        ports.read = Arc::default();
        ports.watches = Arc::default();
        ports.throttle = Arc::default();
    }

    /// Returns the versions of everything that the fleet has applied, and the revision of the
    /// release.
    pub fn applied(&self) -> Vec<Value> {
        let hub = self.world.cluster("hub");
        let version = |path: &str| hub.get(path)["metadata"]["resourceVersion"].clone();
        let history = hub.get(RELEASE)["status"]["history"].clone();
        let mut all: Vec<Value> = [DEPLOYMENT, EXTRA, RELEASED].map(version).into();
        all.push(history);
        all
    }

    /// Returns the number of downloads of repositories and charts.
    pub fn downloads(&self) -> usize {
        self.world.downloads(FLEET) + self.hosts.downloads.load(Ordering::Relaxed)
    }

    /// Lets the limited host answer, and returns whether a step of its source asks it.
    pub fn asks_limited_host(&self) -> bool {
        self.hosts.limits.store(false, Ordering::Relaxed);
        let before = self.hosts.asked.load(Ordering::Relaxed);
        self.world
            .request("hub", "HelmRepository", SPACE, "limited");
        self.world.pump();
        self.hosts.asked.load(Ordering::Relaxed) > before
    }

    /// Runs sweeps until each interval has passed two times.
    pub fn rest(&self) {
        for _ in 0..4 {
            self.world.sweep_after(INTERVAL / 2);
            self.world.settle();
        }
    }

    /// Pushes a change, and a deletion, and checks that both arrive and that nothing else changes.
    pub fn a_push_arrives(&self) {
        let hub = self.world.cluster("hub");
        let released = hub.get(RELEASED);
        let push = [deployment("web:2"), Change::remove("apps/extra.yaml")];
        assert_eq!(self.world.push(FLEET, &push)[0].status, Some(202));
        self.world.settle();
        let (status, _, message) = ready(hub, "Kustomization", SPACE, "apps");
        assert_eq!(status, "True", "{message}");
        let image = "/spec/template/spec/containers/0/image";
        assert_eq!(hub.get(DEPLOYMENT).pointer(image), Some(&json!("web:2")));
        assert_eq!(hub.find(EXTRA), None, "the deleted object is pruned");
        assert_eq!(hub.get(RELEASED), released);
    }
}
