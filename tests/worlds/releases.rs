//! A hub and other clusters in this process, what steps the queue asks for, and hands that play kubelet.

use crate::recorded::{Note, Recorded};
use async_trait::async_trait;
use driftless_adapters::cluster::{KubeCluster, KubeClusters};
use driftless_adapters::embedded::{self, Embedded};
use driftless_apiserver::{Body, Request as Asked, User};
use driftless_core::bootstrap;
use driftless_core::flux::{FluxKind, ObjectRef};
use driftless_core::hub::{self, Settings};
use driftless_core::ports::{
    Access, Cause, Clock as _, Cluster, Clusters, Impersonation, Login, Ports, Precondition,
    Request, Result, Secret,
};
use driftless_core::schedule::{self, Begin};
use driftless_core::source::artifact;
use driftless_core::testing::{self, MemoryBlobs, MemoryQueue, MemorySecrets, TestClock};
use driftless_core::{step, sweep};
use driftless_helm::record::{RecordLimits, Release};
use driftless_manifest::{FileTree, Object};
use http::{HeaderMap, Method, Uri};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::runtime::Runtime;

/// The hub's name.
pub const HUB: &str = "hub";
const WAIT_BUDGET: Duration = Duration::from_secs(5);

/// Everything that a release needs.
pub struct World {
    runtime: Runtime,
    /// What the core works with.
    pub ports: Ports,
    /// The virtual time.
    pub clock: Arc<TestClock>,
    queue: Arc<MemoryQueue>,
    waiting: Mutex<Vec<(Duration, Request)>>,
    servers: BTreeMap<String, Arc<Server>>,
    /// How Jobs and Pods end, by name; others do not.
    pub ends: Mutex<BTreeMap<String, bool>>,
}

/// One API server with a log.
pub struct Server {
    url: String,
    embedded: Embedded,
    log: Mutex<Vec<String>>,
    dark: AtomicBool,
    meanwhile: Mutex<Option<Meanwhile>>,
    /// The tokens that were made for it and came with a login.
    pub logins: Mutex<BTreeSet<String>>,
}

/// What somebody else does while a step works.
pub struct Meanwhile {
    /// Behind the first request that starts so: `VERB path`.
    pub after: &'static str,
    /// A merge patch of this object.
    pub path: String,
    /// The merge patch that they send.
    pub patch: Value,
}

impl World {
    /// A hub with Flux's definitions and the namespace `apps`, and other clusters.
    pub fn start(others: &[&str]) -> Self {
        Self::with(others, Settings::default())
    }

    /// A hub with these settings.
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
                meanwhile: Mutex::default(),
                logins: Mutex::default(),
            };
            ((*name).to_owned(), Arc::new(server))
        };
        let names = [HUB].iter().chain(others);
        let servers: BTreeMap<String, Arc<Server>> = names.map(server).collect();
        let mut ports = testing::ports(Arc::<MemoryBlobs>::default(), queue.clone(), clock.clone());
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

    /// A hub whose Secret `apps/tenant` leads to a real cluster.
    pub fn beside(cluster: &driftless_harness::cluster::Cluster) -> Self {
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

    /// An API server by its name.
    pub fn server(&self, name: &str) -> &Server {
        &self.servers[name]
    }

    /// The hub.
    pub fn hub(&self) -> &Server {
        self.server(HUB)
    }

    /// Puts a chart into the bucket, and a HelmChart `web` that says so on the hub.
    pub fn chart(&self, tree: &FileTree, version: &str) {
        let stored = self
            .runtime
            .block_on(artifact::store(&self.ports, tree, version))
            .expect("stored");
        // As the steps of that HelmChart would: they are not run here.
        let record = json!({"memory": {"stored": stored.digest}}).to_string();
        let key = format!("objects/{HUB}/helmcharts/apps/web.json");
        let noted = self
            .ports
            .blobs
            .put(&key, record.into(), Precondition::None);
        self.runtime.block_on(noted).expect("noted");
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

    /// Queues a look at the release and works for a while.
    pub fn look(&self, time: Duration) {
        self.request(FluxKind::HelmRelease, "web", Cause::Changed);
        self.work(time);
    }

    /// Queues an object.
    pub fn request(&self, kind: FluxKind, name: &str, cause: Cause) {
        let request = Request::new(HUB, ObjectRef::new(kind, "apps", name), cause);
        let now = self.clock.now();
        self.waiting.lock().expect("the queue").push((now, request));
    }

    /// Runs what the queue has, for so long. Time moves from one request to the next.
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
            self.play();
        }
    }

    /// Runs the timer and says what it queued, as `Cause Kind/namespace/name`.
    pub fn sweep(&self) -> Vec<String> {
        let swept = self.runtime.block_on(sweep::sweep(&self.ports));
        let reports = swept.expect("a sweep");
        assert!(reports.iter().all(|report| report.failure.is_none()));
        let queued = reports.iter().flat_map(|report| &report.queued);
        queued
            .map(|one| format!("{:?} {}", one.cause, one.object))
            .collect()
    }

    /// Ends Jobs and Pods.
    fn play(&self) {
        let ends = self.ends.lock().expect("the ends").clone();
        for server in self.servers.values() {
            for (name, good) in &ends {
                let (kind, phase) = if *good {
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

    /// Takes the lease of the release, as a worker that is at it.
    pub fn hold(&self) {
        let object = ObjectRef::new(FluxKind::HelmRelease, "apps", "web");
        let request = Request::new(HUB, object, Cause::Changed);
        let held = self
            .runtime
            .block_on(schedule::begin(&self.ports, &request));
        assert!(matches!(held, Ok(Begin::Run(_))), "it is free");
    }

    /// Loses what steps remember.
    pub fn forget(&self) {
        let key = format!("objects/{HUB}/helmreleases/apps/web.json");
        let lost = self.ports.blobs.delete(&key);
        self.runtime.block_on(lost).expect("lost");
        self.waiting.lock().expect("the queue").clear();
        self.queue.take();
    }

    /// The message of the newest event with a reason.
    pub fn event(&self, reason: &str) -> Option<String> {
        let found = self.full_event(reason)?;
        Some(found["message"].as_str()?.to_owned())
    }

    /// The newest event with a reason.
    pub fn full_event(&self, reason: &str) -> Option<Value> {
        let list = self.hub().get("/api/v1/namespaces/apps/events");
        let all = list["items"].as_array().cloned().unwrap_or_default();
        let fitting = all.into_iter().filter(|event| event["reason"] == reason);
        fitting.max_by_key(|event| event["lastTimestamp"].as_str().map(str::to_owned))
    }

    /// The HelmRelease as it is.
    pub fn status(&self) -> Value {
        self.hub().get(&format!("{RELEASES}/web"))["status"].clone()
    }

    /// `status reason` of a condition.
    pub fn condition(&self, kind: &str) -> String {
        let (status, reason, _) = self.full_condition(kind);
        format!("{status} {reason}").trim().to_owned()
    }

    /// Asserts `status reason` of `Ready`; what it says is shown otherwise.
    #[track_caller]
    pub fn expect_ready(&self, expected: &str) {
        assert_eq!(
            self.condition("Ready"),
            expected,
            "{}",
            self.message("Ready")
        );
    }

    /// The message of a condition.
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

    /// `v2 deployed upgrade, v1 superseded`: the history of the status.
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

    /// `v1 superseded, v2 deployed`: the records in a cluster.
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
    /// Compares `Ready`, the history of the status, the records in the cluster.
    #[track_caller]
    pub fn expect(&self, ready: &str, history: &str, records: &str) {
        let message = self.message("Ready");
        assert_eq!(self.condition("Ready"), ready, "{message}");
        assert_eq!(self.history(), history, "{message}");
        assert_eq!(self.records("hub"), records, "{message}");
    }

    /// How a workload of this name ends from now on.
    pub fn end(&self, name: &str, well: bool) {
        let mut ends = self.ends.lock().expect("the ends");
        ends.insert(name.to_owned(), well);
    }
}

/// The media type of an object.
pub const JSON: &str = "application/json";
/// The media type of a merge patch.
pub const MERGE: &str = "application/merge-patch+json";
/// The path of the HelmReleases of `apps`.
pub const RELEASES: &str = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/apps/helmreleases";

impl Server {
    /// A kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> Secret {
        let token = self.embedded.token(User::admin("test"));
        Secret::new(embedded::kubeconfig(&self.url, None, &token))
    }

    /// Makes a namespace.
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
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let answer = self.embedded.handle(&Asked {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers: vec![("content-type".to_owned(), media.to_owned())],
            body: body.map(Value::to_string).unwrap_or_default().into_bytes(),
            user: User::admin("test"),
        });
        let Body::Json(value, _) = answer.body else {
            panic!("{method} {path}: no JSON")
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
    /// Sends a request; panics when it is refused.
    pub fn must(&self, method: &str, path: &str, media: &str, body: Option<&Value>) -> Value {
        let sent = self.send(method, path, media, body);
        sent.unwrap_or_else(|refused| panic!("{method} {path}: {refused:?}"))
    }

    #[track_caller]
    /// An object; panics when it is not there.
    pub fn get(&self, path: &str) -> Value {
        self.must("GET", path, JSON, None)
    }

    /// An object.
    pub fn find(&self, path: &str) -> Option<Value> {
        self.send("GET", path, JSON, None).ok()
    }

    /// A ConfigMap of `apps`.
    pub fn config(&self, name: &str) -> Option<Value> {
        self.find(&format!("/api/v1/namespaces/apps/configmaps/{name}"))
    }

    /// Every request since the last call, as `VERB path`.
    pub fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().expect("the log"))
    }

    /// What others do at the next chance.
    pub fn meanwhile(&self, what: Meanwhile) {
        *self.meanwhile.lock().expect("what is done meanwhile") = Some(what);
    }

    /// Stops answering, or answers again.
    pub fn set_dark(&self, dark: bool) {
        self.dark.store(dark, Ordering::Relaxed);
    }
}

/// The way from kubeconfigs to the servers: those of this process, with one client each, and real ones.
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

impl Note for Server {
    fn server(&self) -> &Embedded {
        &self.embedded
    }

    fn is_dark(&self) -> bool {
        self.dark.load(Ordering::Relaxed)
    }

    fn note(&self, method: &Method, uri: &Uri, headers: &HeaderMap, _: u16) {
        let user = headers.get("impersonate-user");
        let user = user.and_then(|user| user.to_str().ok());
        let user = user.map(|user| format!(" as {user}")).unwrap_or_default();
        let line = format!("{method} {uri}{user}");
        let mut meanwhile = self.meanwhile.lock().expect("what is done meanwhile");
        if let Some(now) = meanwhile.take_if(|what| line.starts_with(what.after)) {
            self.must("PATCH", &now.path, MERGE, Some(&now.patch));
        }
        self.log.lock().expect("the log").push(line);
    }
}
