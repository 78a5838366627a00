//! A hub and other clusters in this process, a worker that runs the queued steps, and a fake
//! kubelet.

use crate::recorded::{Recorded, Recorder};
use async_trait::async_trait;
use driftless_adapters::cluster::{KubeCluster, KubeClusters};
use driftless_adapters::embedded::{self, Embedded};
use driftless_apiserver::{Body, Request as ApiRequest, User};
use driftless_core::bootstrap;
use driftless_core::{step, sweep};
use driftless_flux::{FluxKind, ObjectRef};
use driftless_helm::record::{RecordLimits, Release};
use driftless_kernel::hub::{self, Settings};
use driftless_kernel::ports::{
    Access, Cause, Clock as _, Cluster, Clusters, Impersonation, Login, Ports, Precondition,
    Request, Result, Secret,
};
use driftless_kernel::schedule::{self, MessageDecision};
use driftless_manifest::{FileTree, Object};
use driftless_memory::{MemoryBlobs, MemoryQueue, MemorySecrets, TestClock};
use driftless_source::artifact;
use http::{HeaderMap, Method, Uri};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::runtime::Runtime;

/// The name of the hub.
pub const HUB: &str = "hub";
const WAIT_BUDGET: Duration = Duration::from_secs(5);

/// A hub with a release: ports, clusters and a queue.
pub struct World {
    runtime: Runtime,
    /// The ports of the core.
    pub ports: Ports,
    /// The virtual time.
    pub clock: Arc<TestClock>,
    queue: Arc<MemoryQueue>,
    waiting: Mutex<Vec<(Duration, Request)>>,
    servers: BTreeMap<String, Arc<Server>>,
    /// The results of Jobs and Pods by name: true if the workload succeeds. Others never end.
    pub ends: Mutex<BTreeMap<String, bool>>,
}

/// One API server with a log.
pub struct Server {
    url: String,
    embedded: Embedded,
    log: Mutex<Vec<String>>,
    dark: AtomicBool,
    concurrent_write: Mutex<Option<ConcurrentWrite>>,
    /// The issued tokens that logged in to this server.
    pub logins: Mutex<BTreeSet<String>>,
}

/// A write of another client while a step runs.
pub struct ConcurrentWrite {
    /// The write is sent after the first request that starts with this: `VERB path`.
    pub after: &'static str,
    /// The path of the object to patch.
    pub path: String,
    /// The merge patch.
    pub patch: Value,
}

impl World {
    /// Starts a hub with Flux's definitions and the namespace `apps`, and other clusters.
    pub fn start(others: &[&str]) -> Self {
        Self::with(others, Settings::default())
    }

    /// Starts a hub with these settings, and other clusters.
    pub fn with(others: &[&str], settings: Settings) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let (clock, queue) = (Arc::<TestClock>::default(), Arc::<MemoryQueue>::default());
        clock.advance(Duration::from_secs(1_772_366_400));
        let server = |name: &&str| {
            let server = Server {
                url: format!("https://{name}.internal:443"),
                embedded: Embedded::new(clock.clone()),
                log: Mutex::default(),
                dark: AtomicBool::new(false),
                concurrent_write: Mutex::default(),
                logins: Mutex::default(),
            };
            ((*name).to_owned(), Arc::new(server))
        };
        let names = [HUB].iter().chain(others);
        let servers: BTreeMap<String, Arc<Server>> = names.map(server).collect();
        let mut ports =
            driftless_memory::ports(Arc::<MemoryBlobs>::default(), queue.clone(), clock.clone());
        let keys = [(format!("hubs/{HUB}"), servers[HUB].kubeconfig())];
        ports.secrets = Arc::new(MemorySecrets(keys.into()));
        let known = |server: &Arc<Server>| (server.clone(), OnceLock::new());
        ports.clusters = Arc::new(InProcessClusters(
            servers.values().map(known).collect(),
            KubeClusters::new(),
        ));
        let world = Self {
            runtime,
            ports,
            clock,
            queue,
            waiting: Mutex::default(),
            servers,
            ends: Mutex::default(),
        };
        world.runtime.block_on(async {
            let settings = Settings {
                name: HUB.to_owned(),
                ..settings
            };
            hub::register(&world.ports, &settings)
                .await
                .expect("register");
            let hub = hub::connect(&world.ports, HUB).await.expect("connect");
            let clock = world.ports.clock.as_ref();
            let installed = bootstrap::install(hub.cluster.as_ref(), clock).await;
            installed.expect("install");
        });
        for server in world.servers.values() {
            server.namespace("apps");
        }
        world
    }

    /// Starts a hub with the Secret `apps/tenant`, the kubeconfig of a real cluster.
    pub fn with_real_cluster(cluster: &driftless_harness::cluster::Cluster) -> Self {
        let settings = Settings {
            allow_local_clusters: true,
            ..Settings::default()
        };
        let world = Self::with(&[], settings);
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "tenant"},
            "stringData": {"value": cluster.kubeconfig()}});
        let secrets = "/api/v1/namespaces/apps/secrets";
        world.hub().must("POST", secrets, JSON, Some(&secret));
        world
    }

    /// Returns an API server by its name.
    pub fn server(&self, name: &str) -> &Server {
        &self.servers[name]
    }

    /// Returns the hub's API server.
    pub fn hub(&self) -> &Server {
        self.server(HUB)
    }

    /// Stores a chart in the bucket, and creates or updates the HelmChart `web` on the hub with
    /// that artifact.
    pub fn chart(&self, tree: &FileTree, version: &str) {
        let stored = self
            .runtime
            .block_on(artifact::store(&self.ports, tree.clone(), version))
            .expect("stored");
        // Write the record as the steps of the HelmChart do: they do not run here.
        let record = json!({"memory": {"stored": stored.digest}}).to_string();
        let key = format!("objects/{HUB}/helmcharts/apps/web.json");
        let put = self
            .ports
            .blobs
            .put(&key, record.into(), Precondition::None);
        self.runtime.block_on(put).expect("write the record");
        let path = "/apis/source.toolkit.fluxcd.io/v1/namespaces/apps/helmcharts";
        if self.hub().find(&format!("{path}/web")).is_none() {
            let chart = json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmChart",
                "metadata": {"name": "web"}, "spec": {"chart": "web", "interval": "10m",
                    "sourceRef": {"kind": "HelmRepository", "name": "charts"}}});
            self.hub().must("POST", path, JSON, Some(&chart));
        }
        let status = json!({"status": {"observedGeneration": 1, "artifact": stored,
            "conditions": [{"type": "Ready", "status": "True", "reason": "ChartPullSucceeded", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        let path = format!("{path}/web/status");
        self.hub().must("PATCH", &path, MERGE, Some(&status));
    }

    /// Creates the HelmRelease `apps/web`, or changes its spec.
    pub fn release(&self, spec: Value) {
        let mut spec = spec;
        spec["interval"] = json!("10m");
        if spec.get("chart").is_none() {
            spec["chartRef"] = json!({"kind": "HelmChart", "name": "web"});
        }
        let object = json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "metadata": {"name": "web", "namespace": "apps"}, "spec": spec});
        let path = format!("{RELEASES}/web");
        let Some(live) = self.hub().find(&path) else {
            self.hub().must("POST", RELEASES, JSON, Some(&object));
            return;
        };
        let mut object = object;
        object["metadata"] = live["metadata"].clone();
        self.hub().must("PUT", &path, JSON, Some(&object));
    }

    /// Queues the release and runs steps for `time`.
    pub fn reconcile(&self, time: Duration) {
        self.request(FluxKind::HelmRelease, "web", Cause::Changed);
        self.work(time);
    }

    /// Queues an object of the namespace `apps`.
    pub fn request(&self, kind: FluxKind, name: &str, cause: Cause) {
        let request = Request::new(HUB, ObjectRef::new(kind, "apps", name), cause);
        let now = self.clock.now();
        self.waiting.lock().expect("the queue").push((now, request));
    }

    /// Runs the steps that are due within `time`. The virtual time moves from one request to the
    /// next.
    pub fn work(&self, time: Duration) {
        let end = self.clock.now() + time;
        loop {
            let sent = self.queue.take();
            let now = self.clock.now();
            let next = {
                let mut waiting = self.waiting.lock().expect("the queue");
                waiting.extend(
                    sent.into_iter()
                        .map(|(request, after)| (now + after, request)),
                );
                waiting.sort_by_key(|(at, _)| *at);
                let next = waiting.first().filter(|(at, _)| *at <= end).cloned();
                if let Some((at, request)) = &next {
                    waiting.retain(|(other, one)| other > at || one != request);
                }
                next
            };
            let Some((at, request)) = next else {
                self.clock.advance(end.saturating_sub(self.clock.now()));
                return;
            };
            self.clock.advance(at.saturating_sub(now));
            let ran = step::run(&self.ports, &request, WAIT_BUDGET);
            self.runtime.block_on(ran).expect("a step");
            self.end_workloads();
        }
    }

    /// Runs a sweep. Returns what it queued, as `Cause Kind/namespace/name`.
    pub fn sweep(&self) -> Vec<String> {
        let swept = self.runtime.block_on(sweep::sweep(&self.ports));
        let reports = swept.expect("a sweep");
        assert!(reports.iter().all(|report| report.failure.is_none()));
        let queued = reports.iter().flat_map(|report| &report.queued);
        queued
            .map(|one| format!("{:?} {}", one.cause, one.object))
            .collect()
    }

    /// Sets the status of the Jobs and Pods in [`World::ends`].
    fn end_workloads(&self) {
        let ends = self.ends.lock().expect("the ends").clone();
        for server in self.servers.values() {
            for (name, succeeds) in &ends {
                let (kind, phase) = if *succeeds {
                    ("Complete", "Succeeded")
                } else {
                    ("Failed", "Failed")
                };
                let job = json!({"status": {"conditions": [{"type": kind, "status": "True", "reason": "BackoffLimitExceeded"}]}});
                let pod = json!({"status": {"phase": phase}});
                for (path, status) in [
                    ("/apis/batch/v1/namespaces/apps/jobs", job),
                    ("/api/v1/namespaces/apps/pods", pod),
                ] {
                    let path = format!("{path}/{name}/status");
                    let _ = server.send("PATCH", &path, MERGE, Some(&status));
                }
            }
        }
    }

    /// Takes the lease of the release, as a worker that runs a step.
    pub fn take_lease(&self) {
        let object = ObjectRef::new(FluxKind::HelmRelease, "apps", "web");
        let request = Request::new(HUB, object, Cause::Changed);
        let held = self
            .runtime
            .block_on(schedule::begin(&self.ports, &request));
        assert!(
            matches!(held, Ok(MessageDecision::Run(_))),
            "the lease is not free"
        );
    }

    /// Deletes the release's record and clears the queue.
    pub fn delete_record(&self) {
        let key = format!("objects/{HUB}/helmreleases/apps/web.json");
        let deleted = self.ports.blobs.delete(&key);
        self.runtime.block_on(deleted).expect("delete the record");
        self.waiting.lock().expect("the queue").clear();
        self.queue.take();
    }

    /// Returns the message of the newest event with a reason.
    pub fn event(&self, reason: &str) -> Option<String> {
        let found = self.full_event(reason)?;
        Some(found["message"].as_str()?.to_owned())
    }

    /// Returns the newest event with a reason.
    pub fn full_event(&self, reason: &str) -> Option<Value> {
        let list = self.hub().get("/api/v1/namespaces/apps/events");
        let all = list["items"].as_array().cloned().unwrap_or_default();
        let fitting = all.into_iter().filter(|event| event["reason"] == reason);
        fitting.max_by_key(|event| event["lastTimestamp"].as_str().map(str::to_owned))
    }

    /// Returns the status of the HelmRelease.
    pub fn status(&self) -> Value {
        self.hub().get(&format!("{RELEASES}/web"))["status"].clone()
    }

    /// Returns `STATUS REASON` of a condition, empty if it is missing.
    pub fn condition(&self, kind: &str) -> String {
        let (status, reason, _) = self.full_condition(kind);
        format!("{status} {reason}").trim().to_owned()
    }

    /// Panics with the message of `Ready` unless it has this `STATUS REASON`.
    #[track_caller]
    pub fn expect_ready(&self, expected: &str) {
        assert_eq!(
            self.condition("Ready"),
            expected,
            "{}",
            self.message("Ready")
        );
    }

    /// Returns the message of a condition.
    pub fn message(&self, kind: &str) -> String {
        self.full_condition(kind).2
    }

    fn full_condition(&self, kind: &str) -> (String, String, String) {
        let status = self.status();
        let all = status["conditions"].as_array().cloned().unwrap_or_default();
        let found = all
            .into_iter()
            .find(|one| one["type"] == kind)
            .unwrap_or_default();
        let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
        (text("status"), text("reason"), text("message"))
    }

    /// Returns the history of the status, such as `v2 deployed upgrade, v1 superseded`.
    pub fn history(&self) -> String {
        let status = self.status();
        let one = |entry: &Value| {
            let text = |field: &str| entry[field].as_str().unwrap_or_default();
            format!(
                "v{} {} {}",
                entry["version"],
                text("status"),
                text("action")
            )
            .trim()
            .to_owned()
        };
        let all = status["history"].as_array().cloned().unwrap_or_default();
        all.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    /// Returns the release records in a cluster, such as `v1 superseded, v2 deployed`.
    pub fn records(&self, server: &str) -> String {
        let path = "/api/v1/namespaces/apps/secrets?labelSelector=owner%3Dhelm";
        let list = self.server(server).get(path);
        let mut records: Vec<Release> = Vec::new();
        for item in list["items"].as_array().cloned().unwrap_or_default() {
            let mut item = item;
            item["apiVersion"] = json!("v1");
            item["kind"] = json!("Secret");
            assert_eq!(item["type"], "helm.sh/release.v1");
            let record = Release::from_secret(
                &Object::new(item.clone()).expect("a Secret"),
                &RecordLimits::default(),
            );
            let record = record.expect("a record");
            assert_eq!(
                item["metadata"]["labels"]["status"],
                record.info.status.as_str()
            );
            records.push(record);
        }
        records.sort_by_key(|record| record.version);
        let all: Vec<String> = records
            .iter()
            .map(|record| format!("v{} {}", record.version, record.info.status))
            .collect();
        all.join(", ")
    }
}

impl World {
    /// Panics unless `Ready`, the history of the status and the records on the hub are these.
    #[track_caller]
    pub fn expect(&self, ready: &str, history: &str, records: &str) {
        let message = self.message("Ready");
        assert_eq!(self.condition("Ready"), ready, "{message}");
        assert_eq!(self.history(), history, "{message}");
        assert_eq!(self.records("hub"), records, "{message}");
    }

    /// Makes Jobs and Pods of this name succeed or fail from now on.
    pub fn end(&self, name: &str, succeeds: bool) {
        let mut ends = self.ends.lock().expect("the ends");
        ends.insert(name.to_owned(), succeeds);
    }
}

/// The media type of an object.
pub const JSON: &str = "application/json";
/// The media type of a merge patch.
pub const MERGE: &str = "application/merge-patch+json";
/// The path of the HelmReleases of `apps`.
pub const RELEASES: &str = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/apps/helmreleases";

impl Server {
    /// Returns a kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> Secret {
        let token = self.embedded.token(User::admin("test"));
        Secret::new(embedded::kubeconfig(&self.url, None, &token))
    }

    /// Creates a namespace.
    pub fn namespace(&self, name: &str) {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.must("POST", "/api/v1/namespaces", JSON, Some(&object));
    }

    /// Sends a request as an administrator.
    pub fn send(
        &self,
        method: &str,
        path: &str,
        media: &str,
        body: Option<&Value>,
    ) -> Result<Value, (u16, String)> {
        let request = ApiRequest::new(method, path, User::admin("test"));
        let body = body.map(Value::to_string).unwrap_or_default();
        let answer = self.embedded.handle(&request.with_body(media, body));
        let Body::Json(value, _) = answer.body else {
            panic!("{method} {path}: the answer is not JSON")
        };
        match answer.status {
            200..300 => Ok(value),
            code => Err((
                code,
                value["message"].as_str().unwrap_or_default().to_owned(),
            )),
        }
    }

    #[track_caller]
    /// Sends a request as an administrator; panics if it is refused.
    pub fn must(&self, method: &str, path: &str, media: &str, body: Option<&Value>) -> Value {
        let sent = self.send(method, path, media, body);
        sent.unwrap_or_else(|refused| panic!("{method} {path}: {refused:?}"))
    }

    #[track_caller]
    /// Returns an object; panics if it does not exist.
    pub fn get(&self, path: &str) -> Value {
        self.must("GET", path, JSON, None)
    }

    /// Returns an object, or `None` if the request fails.
    pub fn find(&self, path: &str) -> Option<Value> {
        self.send("GET", path, JSON, None).ok()
    }

    /// Returns a ConfigMap of `apps`.
    pub fn config(&self, name: &str) -> Option<Value> {
        self.find(&format!("/api/v1/namespaces/apps/configmaps/{name}"))
    }

    /// Returns every request since the last call, as `VERB path`.
    pub fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().expect("the log"))
    }

    /// Sends a write of another client while the next step runs.
    pub fn write_concurrently(&self, write: ConcurrentWrite) {
        *self.concurrent_write.lock().expect("the concurrent write") = Some(write);
    }

    /// Makes the server unreachable, or reachable again.
    pub fn set_dark(&self, dark: bool) {
        self.dark.store(dark, Ordering::Relaxed);
    }
}

/// Connects to the server that a kubeconfig names: one of this process, with one client each, or a
/// real one.
struct InProcessClusters(Vec<(Arc<Server>, OnceLock<KubeCluster>)>, KubeClusters);

#[async_trait]
impl Clusters for InProcessClusters {
    async fn connect(
        &self,
        access: &Access,
        user: Option<&Impersonation>,
    ) -> Result<Arc<dyn Cluster>> {
        let mut known = self.0.iter();
        let Some((server, client)) = known.find(|(server, _)| server.url == access.server) else {
            return self.1.connect(access, user).await;
        };
        if let Login::Issued(token) = &access.login {
            let token = token.secret.expose_str().unwrap_or_default();
            let mut logins = server.logins.lock().expect("the logins");
            logins.insert(token.to_owned());
        }
        let client = match client.get() {
            Some(client) => client,
            None => {
                let recorded = Recorded(server.clone(), User::admin("test"));
                let new = KubeCluster::from_service(recorded, &access.server, None)?;
                client.get_or_init(|| new)
            }
        };
        Ok(Arc::new(client.as_user(user)?))
    }
}

impl Recorder for Server {
    fn server(&self) -> &Embedded {
        &self.embedded
    }

    fn is_dark(&self) -> bool {
        self.dark.load(Ordering::Relaxed)
    }

    fn record(&self, method: &Method, uri: &Uri, headers: &HeaderMap, _: u16) {
        let user = headers.get("impersonate-user");
        let user = user.and_then(|user| user.to_str().ok());
        let user = user.map(|user| format!(" as {user}")).unwrap_or_default();
        let line = format!("{method} {uri}{user}");
        let mut pending = self.concurrent_write.lock().expect("the concurrent write");
        if let Some(write) = pending.take_if(|write| line.starts_with(write.after)) {
            self.must("PATCH", &write.path, MERGE, Some(&write.patch));
        }
        self.log.lock().expect("the log").push(line);
    }
}
