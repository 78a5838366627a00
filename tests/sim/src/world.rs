//! The world: all services around the core, and the functions that run it.

use crate::bucket::{Bucket, Content};
use crate::bugs::Bug;
use crate::check::Checker;
use crate::clock::SimClock;
use crate::fleet::{APP, FLEET, FLUX};
use crate::gate::Gate;
use crate::git::Host;
use crate::keys::Manager;
use crate::lambda::{self, End};
use crate::queue::{Message, Sqs};
use crate::rng::Rng;
use crate::servers::{ApiServer, SimClusters};
use crate::trace::Trace;
use driftless_adapters::embedded::{self, Embedded};
use driftless_adapters::offline::Offline;
use driftless_apiserver::{Server, User};
use driftless_core::bootstrap::{self, Root};
use driftless_core::hub::{self, Settings};
use driftless_core::ports::{BlobCache, Clock as _, Ports, Request, Secret, WatchCache};
use driftless_core::testing::TestClock;
use driftless_core::webhook::{self, Delivery, DeliveryResult, Entrance};
use driftless_core::{step, sweep};
use futures::StreamExt as _;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::json;
use sha2::Sha256;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The hub's name.
pub const HUB: &str = "hub";
/// A secret string that no status, event, log line, blob or message may contain.
pub const CANARY: &str = "canary-5e1f7a90c3";
const WEBHOOK_SECRET: &str = "canary-5e1f7a90c3-webhook";

/// `Timeout` of the functions in infra/template.yaml.
const RECONCILE_LIMIT: Duration = Duration::from_secs(120);
const DRIFT_LIMIT: Duration = Duration::from_secs(55);
const WEBHOOK_LIMIT: Duration = Duration::from_secs(10);
/// The concurrency of the reconcile function.
const STEPS_AT_ONCE: usize = 10;
const WAIT_BUDGET: Duration = Duration::from_secs(8);
const RESERVE: Duration = Duration::from_secs(60);
const RESPONSE_MARGIN: Duration = Duration::from_secs(5);

/// The limits of the webhook function: a function URL takes 6 MB.
const ENTRANCE: Entrance = Entrance {
    max_body: 6 << 20,
    secret: "the secret manager",
};

/// The parameters of a world.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The seed of all random numbers.
    pub seed: u64,
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
    /// The API servers by name.
    pub servers: BTreeMap<String, Arc<ApiServer>>,
    clusters: Arc<SimClusters>,
    clock: SimClock,
    setup: Setup,
    rng: Mutex<Rng>,
    invocations: AtomicU64,
    running: AtomicUsize,
    /// The number of steps that were begun.
    pub steps: AtomicU64,
    step_counts: Mutex<BTreeMap<String, u64>>,
    /// The cache of blobs that warm functions keep.
    read: Arc<BlobCache>,
    /// The objects that the sweeps of all invocations have read of the clusters.
    watches: Arc<WatchCache>,
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
        let gate = Arc::new(Gate::new(rng(1), setup.slow, trace.clone()));
        let clock = SimClock::new(rng(if from.is_some() { 20 } else { 2 }), setup.begin);
        let checker = Arc::<Checker>::default();
        let names = (0..setup.remotes).map(|at| format!("remote-{at}"));
        let names: Vec<String> = [HUB.to_owned()].into_iter().chain(names).collect();
        let mut servers = BTreeMap::new();
        for name in &names {
            let (hub, remote) = prepared();
            let base = if name == HUB { hub } else { remote };
            let content = from.map_or(base, |from| &from.servers[name]);
            let server = ApiServer::new(
                name,
                content,
                Arc::new(clock.clone()),
                gate.clone(),
                checker.clone(),
                setup.bug,
            );
            servers.insert(name.clone(), Arc::new(server));
        }
        checker.set_servers(&servers);
        let content = from.map(|from| from.bucket.clone()).unwrap_or_default();
        let keys = Arc::new(Manager::new(gate.clone()));
        let sqs = Sqs::new(gate.clone(), rng(3), setup.duplicates, CANARY, setup.bug);
        let world = Arc::new(Self {
            sqs: Arc::new(sqs),
            bucket: Arc::new(Bucket::new(gate.clone(), content, setup.bug)),
            host: Arc::new(Host::new(gate.clone(), setup.bug)),
            clusters: Arc::new(SimClusters {
                servers: servers.clone(),
                bug: setup.bug,
            }),
            rng: Mutex::new(rng(4)),
            trace,
            gate,
            checker,
            keys,
            servers,
            clock,
            setup,
            invocations: AtomicU64::new(0),
            running: AtomicUsize::new(0),
            steps: AtomicU64::new(0),
            step_counts: Mutex::default(),
            read: Arc::default(),
            watches: Arc::default(),
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
        let settings = Settings {
            name: HUB.to_owned(),
            ..Settings::default()
        };
        hub::register(&self.ports(), &settings)
            .await
            .expect("the hub is registered");
    }

    /// Sets the secrets; `turn` makes the token of each rotation different.
    pub fn set_keys(&self, turn: u64) {
        let token = format!("{CANARY}-{turn}");
        let kubeconfig = embedded::kubeconfig(&self.hub().url, None, &token);
        self.keys
            .set(&format!("hubs/{HUB}"), Secret::new(kubeconfig));
        self.keys.set(webhook::SECRET, Secret::new(WEBHOOK_SECRET));
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

    /// Returns the ports of one invocation: its clock may be wrong.
    fn ports(&self) -> Ports {
        let skew = match self.setup.skew {
            0 => 0,
            most => {
                let number = self.rng.lock().expect("the generator").between(0, 2 * most);
                number as i64 - most as i64
            }
        };
        Ports {
            git: self.host.clone(),
            charts: Arc::new(Offline),
            buckets: Arc::new(Offline),
            blobs: self.bucket.clone(),
            queue: self.sqs.clone(),
            secrets: self.keys.clone(),
            clusters: self.clusters.clone(),
            clouds: Offline::clouds(),
            clock: Arc::new(self.clock.skewed(skew)),
            compute: Arc::new(driftless_core::ports::Inline),
            unpacked: Arc::default(),
            read: self.read.clone(),
            watches: self.watches.clone(),
            throttle: Arc::default(),
        }
    }

    fn number(&self) -> u64 {
        self.invocations.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes messages and runs their steps, as Lambda's poller does.
    pub async fn poll(self: Arc<Self>) {
        loop {
            let free = self.running.load(Ordering::Relaxed) < self.setup.concurrency;
            let batch = if free { self.sqs.receive() } else { Vec::new() };
            if !batch.is_empty() {
                self.running.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(self.clone().reconcile(batch));
                continue;
            }
            let next = self.sqs.next().filter(|_| free);
            let later = Instant::now() + Duration::from_secs(3600);
            tokio::select! {
                biased;
                () = self.sqs.bell.notified() => {}
                () = tokio::time::sleep_until(next.unwrap_or(later)) => {}
            }
        }
    }

    /// Runs the reconcile function, as functions/reconcile/src/handler.rs does.
    async fn reconcile(self: Arc<Self>, batch: Vec<Message>) {
        let id = self.number();
        let depth = batch.iter().map(|one| one.depth).max().unwrap_or_default();
        let bodies: Vec<String> = batch.iter().map(|one| one.body.clone()).collect();
        self.trace.line(&format!(
            "reconcile{id} begins, depth {depth}: {}",
            bodies.join(" ")
        ));
        let ports = self.ports();
        let steps = batch.iter().map(|message| {
            let (ports, world) = (&ports, &self);
            async move {
                let done = timeout(
                    RECONCILE_LIMIT - RESPONSE_MARGIN,
                    world.step(ports, message),
                )
                .await;
                done.unwrap_or(false).then_some(message.id)
            }
        });
        let steps: Vec<_> = steps.collect();
        let code = futures::stream::iter(steps)
            .buffer_unordered(STEPS_AT_ONCE)
            .collect::<Vec<_>>();
        let end = lambda::invoke(id, "reconcile", depth, RECONCILE_LIMIT, code).await;
        let result = match end {
            End::Done(done) => {
                let done: Vec<u64> = done.into_iter().flatten().collect();
                done.iter().for_each(|id| self.sqs.delete(*id));
                if self.setup.bug == Some(Bug::EndlessLoop) {
                    self.sqs.resend(&batch);
                }
                format!("ends, {} of {} done", done.len(), batch.len())
            }
            End::Killed => "is killed".to_owned(),
            End::TimedOut => "times out".to_owned(),
        };
        self.trace.line(&format!("reconcile{id} {result}"));
        self.running.fetch_sub(1, Ordering::Relaxed);
        self.sqs.bell.notify_one();
    }

    async fn step(&self, ports: &Ports, message: &Message) -> bool {
        let Ok(request) = serde_json::from_str::<Request>(&message.body) else {
            self.trace
                .violation('L', "the queue has a message that is not a request");
            return false;
        };
        self.steps.fetch_add(1, Ordering::Relaxed);
        let wait_budget = (RECONCILE_LIMIT - RESERVE).min(WAIT_BUDGET);
        match step::run(ports, &request, wait_budget).await {
            Ok(outcome) => {
                if !outcome.is_skipped {
                    let mut step_counts = self.step_counts.lock().expect("the counts");
                    *step_counts.entry(request.object.to_string()).or_default() += 1;
                }
                let line = format!("step {}: {}", request.object, outcome.summary);
                self.trace.line(&line);
                if line.contains(CANARY) {
                    self.trace.violation('S', "a log line contains the canary");
                }
                true
            }
            Err(error) => {
                self.trace
                    .line(&format!("step {} failed: {error}", request.object));
                false
            }
        }
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
        let id = self.number();
        self.trace.line(&format!("drift{id} begins"));
        let ports = self.ports();
        let code = sweep::start(&ports);
        let end = lambda::invoke(id, "drift", 0, DRIFT_LIMIT, code).await;
        let result = match end {
            End::Done(Ok(started)) => format!("ends: {started:?}"),
            End::Done(Err(error)) => format!("fails: {error}"),
            End::Killed => "is killed".to_owned(),
            End::TimedOut => "times out".to_owned(),
        };
        self.trace.line(&format!("drift{id} {result}"));
        for (hub, after) in self.sqs.take_sweeps() {
            tokio::spawn(self.clone().sweep(hub, after));
        }
    }

    /// Runs an invocation for a message of the sweep queue.
    async fn sweep(self: Arc<Self>, hub: String, after: Duration) {
        tokio::time::sleep(after).await;
        let id = self.number();
        self.trace.line(&format!("drift{id} begins: {hub}"));
        let ports = self.ports();
        let code = sweep::sweep_hub(&ports, hub);
        let end = lambda::invoke(id, "drift", 0, DRIFT_LIMIT, code).await;
        let result = match end {
            End::Done(report) => format!("ends: {report:?}"),
            End::Killed => "is killed".to_owned(),
            End::TimedOut => "times out".to_owned(),
        };
        if result.contains(CANARY) {
            self.trace
                .violation('S', "the report of a sweep contains the canary");
        }
        self.trace.line(&format!("drift{id} {result}"));
    }

    /// Delivers the webhook of a push.
    pub async fn deliver(self: Arc<Self>, repository: &'static str) {
        let id = self.number();
        self.trace
            .line(&format!("webhook{id} begins: {repository}"));
        let ports = self.ports();
        let name = repository.trim_start_matches("github.com/");
        let body = json!({"ref": "refs/heads/main", "after": "",
            "repository": {"full_name": name, "html_url": format!("https://{repository}")}});
        let body = body.to_string();
        let mut mac =
            Hmac::<Sha256>::new_from_slice(WEBHOOK_SECRET.as_bytes()).expect("a key of any length");
        mac.update(body.as_bytes());
        let signature = format!("sha256={}", hex::encode(mac.finalize().into_bytes()));
        let header = |name: &str| match name {
            "x-github-event" => Some("push"),
            "x-hub-signature-256" => Some(signature.as_str()),
            _ => None,
        };
        let delivery = Delivery {
            header: &header,
            body: body.as_bytes(),
        };
        let code = webhook::receive(&ports, &ENTRANCE, delivery);
        let end = lambda::invoke(id, "webhook", 0, WEBHOOK_LIMIT, code).await;
        let result = match end {
            End::Done(Ok(DeliveryResult::Queued(requests))) => {
                let (sent, expected) = (self.sqs.sent_by(id), requests.len());
                if sent < expected {
                    let message = format!(
                        "the webhook answered 2xx for {expected} requests, and the queue has {sent}"
                    );
                    self.trace.violation('L', &message);
                }
                format!("queued {expected}")
            }
            End::Done(Ok(answer)) => format!("answers {answer:?}"),
            End::Done(Err(refusal)) => format!("refuses: {refusal}"),
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
        for (name, server) in &self.servers {
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

    /// Returns the number of steps of each object, without those that were skipped.
    pub fn step_counts(&self) -> BTreeMap<String, u64> {
        self.step_counts.lock().expect("the counts").clone()
    }

    /// Returns the time of the world's clock.
    pub fn now(&self) -> Duration {
        self.clock.now()
    }

    /// The names of both repositories.
    pub const REPOSITORIES: [&'static str; 2] = [FLEET, APP];
}
