//! The world: all services around the core, and the functions that run it.

use crate::bucket::{Bucket, Content};
use crate::bugs::Bug;
use crate::check::Checker;
use crate::check::KUSTOMIZATIONS;
use crate::clock::SimClock;
use crate::environments::Environments;
use crate::fleet::{APP, FLEET, FLUX};
use crate::gate::Gate;
use crate::git::Host;
use crate::keys::Manager;
use crate::lambda::{self, End, Limits};
use crate::leases::Leases;
use crate::log;
use crate::poller::Poller;
use crate::queue::{Message, Sqs};
use crate::rng::Rng;
use crate::servers::{ApiServer, SimClusters};
use crate::trace::Trace;
use aws_lambda_events::sqs::SqsEvent;
use driftless_adapters::embedded::{self, Embedded};
use driftless_adapters::offline::Offline;
use driftless_apiserver::{Server, User};
use driftless_core::bootstrap::{self, Root};
use driftless_core::webhook::SECRET;
use driftless_flux::FLUX_SYSTEM;
use driftless_kernel::document;
use driftless_kernel::hub::{self, Settings};
use driftless_kernel::ports::{Clock as _, Ports, Secret, SweepRequest};
use driftless_memory::TestClock;
use hmac::{Hmac, KeyInit as _, Mac as _};
use lambda_runtime::LambdaEvent;
use serde_json::{Value, json};
use sha2::Sha256;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;
use tokio::time::Instant;

/// The hub's name.
pub const HUB: &str = "hub";
/// A secret string that no status, event, log line, blob or message may contain.
pub const CANARY: &str = "canary-5e1f7a90c3";
const WEBHOOK_SECRET: &str = "canary-5e1f7a90c3-webhook";

/// `Timeout` of the functions in infra/template.yaml.
const RECONCILE_LIMIT: Duration = Duration::from_secs(120);
const DRIFT_LIMIT: Duration = Duration::from_secs(55);
const WEBHOOK_LIMIT: Duration = Duration::from_secs(10);
/// `ReconcileMemory` of infra/template.yaml.
const RECONCILE_MEMORY: u64 = 1_024 << 20;
/// `IsolatedMemory` of infra/template.yaml.
const ISOLATED_MEMORY: u64 = 3_008 << 20;
/// `SweepMemory` of infra/template.yaml.
const DRIFT_MEMORY: u64 = 1_024 << 20;
/// `MemorySize` of the webhook function in infra/template.yaml.
const WEBHOOK_MEMORY: u64 = 256 << 20;

/// The namespace of the ConfigMap that the commits of [`FLEET`] give to each hub but [`HUB`].
pub const EDGE: &str = "edge";

/// The parameters of a world.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The seed of all random numbers.
    pub seed: u64,
    /// The number of hubs. [`HUB`] has all objects of the fleet, and each other one has the
    /// ConfigMap of [`EDGE`].
    pub hubs: usize,
    /// The number of remote clusters.
    pub remotes: usize,
    /// The number of invocations of the reconcile function that run at the same time.
    pub concurrency: usize,
    /// The longest latency of a call in milliseconds.
    pub slow: u64,
    /// The largest error of the functions' clocks, in milliseconds.
    pub skew: u64,
    /// The number of messages, of 10,000, that are delivered two times.
    pub duplicates: u32,
    /// The number of invocations, of 10,000, after which Lambda ends the environment.
    pub recycled: u32,
    /// The simulated time that has passed before this world.
    pub begin: Duration,
    /// The planted bug, if any.
    pub bug: Option<Bug>,
}

/// The stored state of a world at rest, from which another world can begin.
#[derive(Clone)]
pub struct Snapshot {
    /// The states of the API servers by name.
    pub servers: BTreeMap<String, Server>,
    /// The content of the bucket.
    pub bucket: Content,
}

/// Returns the event with which Lambda passes on messages of a queue.
fn sqs_event(queue: &str, messages: &[Message]) -> Value {
    let record = |one: &Message| {
        json!({"messageId": one.id.to_string(), "receiptHandle": one.receipt(), "body": one.body,
            "attributes": {"ApproximateReceiveCount": one.received().to_string()},
            "eventSource": "aws:sqs", "eventSourceARN": queue, "awsRegion": "eu-west-1"})
    };
    json!({"Records": messages.iter().map(record).collect::<Vec<_>>()})
}

/// The world of one run.
pub struct World {
    /// The trace of the run.
    pub trace: Arc<Trace>,
    /// The gate that all calls pass.
    pub gate: Arc<Gate>,
    /// The checker of the invariants.
    pub checker: Arc<Checker>,
    /// The queues of the installation.
    pub sqs: Arc<Sqs>,
    /// The bucket of the installation.
    pub bucket: Arc<Bucket>,
    /// The host of the Git repositories.
    pub host: Arc<Host>,
    /// The secret manager of the installation.
    pub keys: Arc<Manager>,
    /// The API servers of [`HUB`] and of its remote clusters by name.
    pub servers: BTreeMap<String, Arc<ApiServer>>,
    /// The API servers of the other hubs by name.
    pub other_hubs: BTreeMap<String, Arc<ApiServer>>,
    clusters: Arc<SimClusters>,
    clock: SimClock,
    setup: Setup,
    rng: Mutex<Rng>,
    invocations: AtomicU64,
    poller: Mutex<Poller>,
    leases: Arc<Leases>,
    environments: Environments,
    billed: Mutex<BTreeMap<&'static str, (u64, Duration)>>,
}

fn prepared() -> &'static (Server, Server) {
    static PREPARED: OnceLock<(Server, Server)> = OnceLock::new();
    PREPARED.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime");
        let clock = Arc::<TestClock>::default();
        clock.advance(Duration::from_secs(1_772_362_800));
        let server = |is_hub: bool| {
            let embedded = Embedded::new(clock.clone());
            runtime.block_on(async {
                let cluster = embedded.cluster(User::admin("setup"), "setup");
                let cluster = cluster.expect("a client");
                if is_hub {
                    let root = Root {
                        name: FLUX_SYSTEM.to_owned(),
                        url: format!("https://{FLEET}"),
                        branch: "main".to_owned(),
                        path: "clusters/hub".to_owned(),
                        secret: None,
                    };
                    bootstrap::install(&cluster, clock.as_ref())
                        .await
                        .expect("install");
                    bootstrap::create_root(&cluster, &root)
                        .await
                        .expect("create the root");
                }
            });
            embedded.with(|server, _| server.clone())
        };
        (server(true), server(false))
    })
}

impl World {
    /// Returns a world that begins with `from`, or with new servers. Call [`World::warm_up`] before
    /// entering the runtime.
    pub async fn new(setup: Setup, from: Option<&Snapshot>, trace_all: bool) -> Arc<Self> {
        let rng = |stream| Rng::new(setup.seed, stream);
        let trace = Arc::new(Trace::new(trace_all));
        log::send_to(&trace);
        let gate = Arc::new(Gate::new(rng(1), setup.slow, trace.clone()));
        let clock = SimClock::new(rng(if from.is_some() { 20 } else { 2 }), setup.begin);
        let checker = Arc::<Checker>::default();
        let names = (0..setup.remotes).map(|at| format!("remote-{at}"));
        let names: Vec<String> = [HUB.to_owned()].into_iter().chain(names).collect();
        let server = |name: &str, content: &Server| {
            let clock = Arc::new(clock.clone());
            let (gate, checker) = (gate.clone(), checker.clone());
            let server = ApiServer::new(name, content, clock, gate, checker, setup.bug);
            (name.to_owned(), Arc::new(server))
        };
        let (hub, remote) = prepared();
        let servers = names.iter().map(|name| {
            let base = if name == HUB { hub } else { remote };
            server(name, from.map_or(base, |from| &from.servers[name]))
        });
        let servers: BTreeMap<_, _> = servers.collect();
        let other_hubs = (1..setup.hubs).map(|at| server(&format!("hub-{at}"), hub));
        let other_hubs: BTreeMap<_, _> = other_hubs.collect();
        checker.set_servers(&servers);
        let content = from.map(|from| from.bucket.clone()).unwrap_or_default();
        let keys = Arc::new(Manager::new(gate.clone()));
        let leases = Arc::new(Leases::new(trace.clone()));
        let bucket = Bucket::new(
            gate.clone(),
            content,
            leases.clone(),
            clock.clone(),
            setup.bug,
        );
        let environments = Environments::new(rng(5), setup.skew, setup.recycled);
        let sqs = Sqs::new(gate.clone(), rng(3), setup.duplicates, CANARY, setup.bug);
        let world_rng = rng(4);
        let world = Arc::new(Self {
            sqs: Arc::new(sqs),
            bucket: Arc::new(bucket),
            host: Arc::new(Host::new(gate.clone(), setup.bug)),
            clusters: Arc::new(SimClusters {
                servers: servers
                    .clone()
                    .into_iter()
                    .chain(other_hubs.clone())
                    .collect(),
                bug: setup.bug,
            }),
            rng: Mutex::new(world_rng),
            trace,
            gate,
            checker,
            keys,
            servers,
            other_hubs,
            clock,
            poller: Mutex::new(Poller::new(setup.concurrency)),
            setup,
            invocations: AtomicU64::new(0),
            leases,
            environments,
            billed: Mutex::default(),
        });
        world.set_keys(0);
        if from.is_none() {
            world.fill().await;
        }
        world
    }

    /// Creates the servers that all worlds of the process begin with.
    pub fn warm_up() {
        prepared();
    }

    async fn fill(&self) {
        for server in self.servers.values() {
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "apps"}});
            server.create("/api/v1/namespaces", &namespace);
        }
        let hub = self.hub();
        for (name, server) in self.servers.iter().filter(|(name, _)| *name != HUB) {
            let kubeconfig = embedded::kubeconfig(&server.url, None, CANARY);
            let secret = json!({"apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": format!("{name}-kubeconfig")}, "stringData": {"value": kubeconfig}});
            assert!(
                hub.create(&format!("/api/v1/namespaces/{FLUX}/secrets"), &secret),
                "the Secret was not created"
            );
        }
        for (name, server) in &self.other_hubs {
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": EDGE}});
            server.create("/api/v1/namespaces", &namespace);
            let root = json!({"spec": {"path": format!("./{EDGE}")}});
            let path = format!("{KUSTOMIZATIONS}/{FLUX}");
            assert!(server.merge(&path, &root), "{name} has no root");
        }
        for name in [HUB]
            .into_iter()
            .chain(self.other_hubs.keys().map(String::as_str))
        {
            let settings = Settings {
                name: name.to_owned(),
                ..Settings::default()
            };
            hub::register(&self.ports(0), &settings)
                .await
                .expect("the hub is registered");
        }
    }

    /// Sets the secrets; `turn` makes the token of each rotation different.
    pub fn set_keys(&self, turn: u64) {
        let token = format!("{CANARY}-{turn}");
        for (name, server) in [(HUB, self.hub())].into_iter().chain(
            self.other_hubs
                .iter()
                .map(|(name, server)| (name.as_str(), server)),
        ) {
            let kubeconfig = embedded::kubeconfig(&server.url, None, &token);
            self.keys
                .set(&format!("hubs/{name}"), Secret::new(kubeconfig));
        }
        self.keys.set(SECRET, Secret::new(WEBHOOK_SECRET));
    }

    /// Returns the hub's API server.
    pub fn hub(&self) -> &Arc<ApiServer> {
        &self.servers[HUB]
    }

    /// Returns the stored state of the world.
    pub fn snapshot(&self) -> Snapshot {
        let servers = self.servers.iter();
        Snapshot {
            servers: servers
                .map(|(name, server)| (name.clone(), server.content()))
                .collect(),
            bucket: self.bucket.content(),
        }
    }

    /// Returns the ports of an invocation with cold caches and this error of its clock.
    fn ports(&self, skew: i64) -> Ports {
        Ports {
            git: self.host.clone(),
            charts: Arc::new(Offline),
            buckets: Arc::new(Offline),
            blobs: self.bucket.clone(),
            queue: self.sqs.clone(),
            secrets: self.keys.clone(),
            clusters: self.clusters.clone(),
            clouds: Offline::clouds(),
            notifiers: Arc::new(Offline),
            clock: Arc::new(self.clock.skewed(skew)),
            compute: Arc::new(driftless_kernel::ports::Inline),
            files: Arc::default(),
            read: Arc::default(),
            watches: Arc::default(),
            throttle: Arc::default(),
        }
    }

    fn poller(&self) -> MutexGuard<'_, Poller> {
        self.poller.lock().expect("the poller")
    }

    fn number(&self) -> u64 {
        self.invocations.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes messages and runs their steps, as Lambda's poller does.
    pub async fn poll(self: Arc<Self>) {
        loop {
            let free_at = self.poller().free_at();
            let is_free = free_at.is_some_and(|at| at <= Instant::now());
            let batch = if is_free {
                self.sqs.receive()
            } else {
                Vec::new()
            };
            if !batch.is_empty() {
                self.poller().begin();
                tokio::spawn(self.clone().reconcile(batch));
                continue;
            }
            // Without a free invocation, the end of one rings the bell.
            let next = self
                .sqs
                .next()
                .zip(free_at)
                .map(|(next, free)| next.max(free));
            let later = Instant::now() + Duration::from_secs(3600);
            tokio::select! {
                biased;
                () = self.sqs.bell.notified() => {}
                () = tokio::time::sleep_until(next.unwrap_or(later)) => {}
            }
        }
    }

    /// Runs an invocation of a function in an environment of the service.
    async fn invoke<T, F: Future<Output = T>>(
        &self,
        id: u64,
        function: &'static str,
        depth: u32,
        limits: Limits,
        code: impl FnOnce(Ports, lambda_runtime::Context) -> F,
    ) -> End<T> {
        let environment = self.environments.begin(function);
        let ports = environment.ports(self.ports(environment.skew));
        let deadline = (self.clock.now() + limits.time).as_millis();
        let mut context = lambda_runtime::Context::default();
        context.deadline = u64::try_from(deadline).expect("a time in milliseconds");
        let begin = Instant::now();
        let end = lambda::invoke(id, function, depth, limits, code(ports, context)).await;
        {
            let mut billed = self.billed.lock().expect("the bill");
            let (count, time) = billed.entry(function).or_default();
            *count += 1;
            *time += begin.elapsed();
        }
        if let End::Done(_) = end {
            self.environments.end(function, environment);
        }
        end
    }

    /// Runs the reconcile function for a batch of messages.
    async fn reconcile(self: Arc<Self>, batch: Vec<Message>) {
        let id = self.number();
        let depth = batch.iter().map(|one| one.depth).max().unwrap_or_default();
        let bodies: Vec<String> = batch.iter().map(|one| one.body.clone()).collect();
        self.trace.line(&format!(
            "reconcile{id} begins, depth {depth}: {}",
            bodies.join(" ")
        ));
        let event = sqs_event("arn:aws:sqs:eu-west-1:1:driftless", &batch);
        let event = serde_json::from_value::<SqsEvent>(event).expect("an event of SQS");
        let code = |ports: Ports, context| async move {
            reconcile::handle(&ports, LambdaEvent::new(event, context)).await
        };
        let is_isolated = batch.iter().any(Message::is_isolated);
        let limits = Limits {
            time: RECONCILE_LIMIT,
            memory: if is_isolated {
                ISOLATED_MEMORY
            } else {
                RECONCILE_MEMORY
            },
        };
        let end = self.invoke(id, "reconcile", depth, limits, code).await;
        self.poller().end(matches!(end, End::Done(Ok(_))));
        let result = match end {
            End::Done(Ok(response)) => {
                let failed = response.batch_item_failures.into_iter();
                let failed: BTreeSet<String> = failed.map(|one| one.item_identifier).collect();
                let is_done = |one: &&Message| !failed.contains(&one.id.to_string());
                let done: Vec<u64> = batch.iter().filter(is_done).map(|one| one.id).collect();
                done.iter().for_each(|id| self.sqs.delete(*id));
                if self.setup.bug == Some(Bug::EndlessLoop) {
                    self.sqs.resend(&batch);
                }
                format!("ends, {} of {} done", done.len(), batch.len())
            }
            End::Done(Err(error)) => {
                let message = format!("the reconcile function fails: {error}");
                self.trace.violation('L', &message);
                message
            }
            End::Killed => "is killed".to_owned(),
            End::TimedOut => "times out".to_owned(),
        };
        self.trace.line(&format!("reconcile{id} {result}"));
        self.sqs.bell.notify_one();
    }

    /// Runs the timer: a sweep each minute.
    pub async fn tick(self: Arc<Self>) {
        let offset = self.rng.lock().expect("the generator").between(0, 59_999);
        tokio::time::sleep(Duration::from_millis(offset)).await;
        loop {
            tokio::spawn(self.clone().drift());
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
    }

    async fn drift(self: Arc<Self>) {
        let event = json!({"source": "aws.scheduler", "detail-type": "Scheduled Event"});
        self.run_drift("the timer", event).await;
        let mut sweeps = self.sqs.take_sweeps();
        if let Some(bug @ (Bug::SweepsInOneBatch | Bug::SendsAtTheEnd)) = self.setup.bug {
            sweeps.sort();
            if bug == Bug::SweepsInOneBatch {
                sweeps.reverse();
            }
            let (hubs, after): (Vec<_>, Vec<_>) = sweeps.into_iter().unzip();
            let after = after.into_iter().max().unwrap_or_default();
            tokio::spawn(self.sweep(hubs, after));
            return;
        }
        for (hub, after) in sweeps {
            tokio::spawn(self.clone().sweep(vec![hub], after));
        }
    }

    /// Runs an invocation for messages of the sweep queue.
    async fn sweep(self: Arc<Self>, hubs: Vec<String>, after: Duration) {
        tokio::time::sleep(after).await;
        let message = |hub: &String| {
            let body = document::encode(&SweepRequest { sweep: hub.clone() });
            Message::of_sweep(body.expect("a request is JSON"))
        };
        let messages: Vec<Message> = hubs.iter().map(message).collect();
        let event = sqs_event("arn:aws:sqs:eu-west-1:1:driftless-sweeps", &messages);
        self.run_drift(&hubs.join(", "), event).await;
    }

    async fn run_drift(&self, cause: &str, event: Value) {
        let id = self.number();
        self.trace.line(&format!("drift{id} begins: {cause}"));
        let code = |ports: Ports, context| async move {
            drift::handle(&ports, LambdaEvent::new(event, context)).await
        };
        let limits = Limits {
            time: DRIFT_LIMIT,
            memory: DRIFT_MEMORY,
        };
        let result = match self.invoke(id, "drift", 0, limits, code).await {
            End::Done(Ok(answer)) => {
                self.sqs.release(id);
                format!("ends: {answer}")
            }
            End::Done(Err(error)) => format!("fails: {error}"),
            End::Killed => "is killed".to_owned(),
            End::TimedOut => "times out".to_owned(),
        };
        if result.contains(CANARY) {
            self.trace
                .violation('S', "the answer of the drift function contains the canary");
        }
        self.trace.line(&format!("drift{id} {result}"));
    }

    /// Delivers the webhook of a push.
    pub async fn deliver(self: Arc<Self>, repository: &'static str) {
        let id = self.number();
        self.trace
            .line(&format!("webhook{id} begins: {repository}"));
        let name = repository.trim_start_matches("github.com/");
        let body = json!({"ref": "refs/heads/main", "after": "",
            "repository": {"full_name": name, "html_url": format!("https://{repository}")}});
        let body = body.to_string();
        let mut mac =
            Hmac::<Sha256>::new_from_slice(WEBHOOK_SECRET.as_bytes()).expect("a key of any length");
        mac.update(body.as_bytes());
        let signature = format!("sha256={}", hex::encode(mac.finalize().into_bytes()));
        let request = lambda_http::http::Request::builder()
            .method("POST")
            .header("content-type", "application/json")
            .header("x-github-event", "push")
            .header("x-github-delivery", id.to_string())
            .header("x-hub-signature-256", signature)
            .body(lambda_http::Body::from(body))
            .expect("a request");
        let code = |ports: Ports, _| async move { webhook::handle(&ports, request).await };
        let limits = Limits {
            time: WEBHOOK_LIMIT,
            memory: WEBHOOK_MEMORY,
        };
        let result = match self.invoke(id, "webhook", 0, limits, code).await {
            End::Done(Ok(response)) => {
                let answer: Value = serde_json::from_slice(response.body()).expect("JSON");
                let expected = answer["queued"].as_array().map_or(0, Vec::len);
                let sent = self.sqs.sent_by(id);
                if response.status().is_success() && sent < expected {
                    let message = format!(
                        "the webhook answered 2xx for {expected} requests, and the queue has {sent}"
                    );
                    self.trace.violation('L', &message);
                }
                format!("answers {} {answer}", response.status().as_u16())
            }
            End::Done(Err(error)) => format!("fails: {error}"),
            End::Killed => "is killed".to_owned(),
            End::TimedOut => "times out".to_owned(),
        };
        self.trace.line(&format!("webhook{id} {result}"));
    }

    /// Checks **S** for everything that is stored.
    pub fn leaks(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (key, (bytes, _)) in self.bucket.content() {
            let is_text = std::str::from_utf8(&bytes);
            // Artifacts are compressed, and may contain the canary, since users may commit it.
            if is_text.is_ok_and(|text| text.contains(CANARY)) {
                found.push(format!("the blob {key} contains the canary"));
            }
        }
        for (name, server) in self.servers.iter().chain(&self.other_hubs) {
            let paths = [
                crate::check::KUSTOMIZATIONS,
                crate::check::SOURCES,
                crate::check::CONFIGS,
                crate::check::RELEASES,
                crate::check::CHARTS,
                "/api/v1/events",
            ];
            for path in paths {
                // A remote cluster does not serve Flux's kinds; its list is empty.
                let list = serde_json::Value::from(server.list(path)).to_string();
                if list.contains(CANARY) {
                    found.push(format!("{name}: {path} contains the canary"));
                }
            }
        }
        found
    }

    /// Returns the number of steps of each object that took its lease.
    pub fn step_counts(&self) -> BTreeMap<String, u64> {
        self.leases.counts()
    }

    /// Returns the number of invocations of each function that ended, and their time together.
    pub fn billed(&self) -> BTreeMap<&'static str, (u64, Duration)> {
        self.billed.lock().expect("the bill").clone()
    }

    /// Returns the time of the world's clock.
    pub fn now(&self) -> Duration {
        self.clock.now()
    }

    /// The names of both repositories.
    pub const REPOSITORIES: [&'static str; 2] = [FLEET, APP];
}
