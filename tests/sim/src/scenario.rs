//! The parts of scenarios: a world with its functions running, fleets, and objects.

use crate::bugs::Bug;
use crate::check::CONFIGS;
use crate::economy::Cost;
use crate::fleet::{APPS, Commit, Content, FLEET, FLUX, State, Tenant};
use crate::operations::Users;
use crate::run::converge;
use crate::world::{CANARY, HUB, Setup, Snapshot, World};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The seed of all scenarios.
pub const SEED: u64 = 500;
/// The number of messages, of 10,000, that are delivered two times.
pub const DUPLICATES: u32 = 500;
/// The number of invocations, of 10,000, after which Lambda ends the environment: about two hours
/// of the drift function ("every few hours", AWS Lambda Developer Guide, "Understanding the Lambda
/// execution environment lifecycle").
pub const RECYCLED: u32 = 42;

/// The parameters of a scenario, with one hub and one remote cluster.
const SETUP: Setup = Setup {
    seed: SEED,
    hubs: 1,
    remotes: 1,
    concurrency: 1,
    slow: 20,
    skew: 0,
    duplicates: DUPLICATES,
    recycled: RECYCLED,
    begin: Duration::ZERO,
    bug: None,
};

/// A world whose poller and timer run until it is dropped.
pub struct Running {
    /// The world of the scenario.
    pub world: Arc<World>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Running {
    /// Starts a world with one remote cluster.
    pub async fn start(concurrency: usize, bug: Option<Bug>) -> Self {
        Self::with(1, 1, concurrency, bug).await
    }

    /// Starts a world with this many hubs, and remote clusters of the first.
    pub async fn with(hubs: usize, remotes: usize, concurrency: usize, bug: Option<Bug>) -> Self {
        let setup = Setup {
            hubs,
            remotes,
            concurrency,
            bug,
            ..SETUP
        };
        Self::run(World::new(setup, None, false).await)
    }

    /// Starts a world that begins with `from`, `begin` after the beginning of its first world.
    pub async fn restored(
        from: &Snapshot,
        remotes: usize,
        concurrency: usize,
        begin: Duration,
    ) -> Self {
        let setup = Setup {
            remotes,
            concurrency,
            begin,
            ..SETUP
        };
        Self::run(World::new(setup, Some(from), false).await)
    }

    fn run(world: Arc<World>) -> Self {
        let tasks = vec![
            tokio::spawn(world.clone().poll()),
            tokio::spawn(world.clone().tick()),
        ];
        Self { world, tasks }
    }

    /// Returns the cost since the world began.
    pub fn cost(&self) -> Cost {
        Cost {
            time: self.world.now(),
            messages: self.world.sqs.sent(),
            steps: self.world.step_counts().values().sum(),
            calls: self.world.gate.kinds(),
            received: self.world.gate.received(),
            invocations: self.world.billed(),
        }
    }

    /// Returns the cost since `before`.
    pub fn since(&self, before: &Cost) -> Cost {
        let now = self.cost();
        let calls = now.calls.iter();
        let calls = calls.map(|(kind, count)| (*kind, count - before.of(*kind)));
        let received = now.received.iter();
        let received = received.map(|(kind, bytes)| (*kind, bytes - before.bytes(*kind)));
        let invocations = now.invocations.iter().map(|(function, (count, time))| {
            let (old, old_time) = before
                .invocations
                .get(function)
                .copied()
                .unwrap_or_default();
            (*function, (count - old, *time - old_time))
        });
        Cost {
            time: now.time - before.time,
            messages: now.messages - before.messages,
            steps: now.steps - before.steps,
            calls: calls.collect(),
            received: received.collect(),
            invocations: invocations.collect(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

impl Running {
    /// Pushes a commit with these files to the fleet's repository.
    pub fn push_files(&self, number: u64, files: &[(&str, Value)]) {
        let commit = Commit::new(FLEET, number, State::default());
        let mut tree = commit.files(CANARY);
        for (path, object) in files {
            tree.insert((*path).to_owned(), object.to_string());
        }
        let host = &self.world.host;
        host.with(FLEET, |one| one.push(&commit.sha, tree));
    }

    /// Creates an object in Flux's namespace on the hub.
    pub fn create(&self, path: &str, object: &Value) {
        assert!(self.world.hub().create(path, object), "{object}");
    }

    /// Returns the reason of an object's condition `Ready` with its status; empty without it.
    pub fn ready(&self, path: &str) -> (String, String) {
        let object = self.world.hub().get(path).unwrap_or_default();
        let conditions = object["status"]["conditions"].as_array().cloned();
        let mut conditions = conditions.unwrap_or_default().into_iter();
        let ready = conditions.rfind(|one| one["type"] == "Ready");
        let text = |field: &str| {
            let ready = ready.as_ref();
            let text = ready.and_then(|ready| ready[field].as_str());
            text.unwrap_or_default().to_owned()
        };
        (text("status"), text("reason"))
    }

    /// Waits until an object of the hub has the content of a commit. Returns the time that took.
    pub async fn until_applied(&self, object: &str, commit: &str) -> Duration {
        let start = Instant::now();
        let path = format!("{CONFIGS}/{object}");
        while self.world.hub().get(&path).unwrap_or_default()["data"]["commit"] != commit {
            assert!(start.elapsed() < Duration::from_secs(900), "{path}");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        start.elapsed()
    }

    /// Waits until an object is ready, and returns the time that took.
    pub async fn until_ready(&self, path: &str) -> Duration {
        let start = Instant::now();
        while self.ready(path).0 != "True" {
            assert!(
                start.elapsed() < Duration::from_secs(900),
                "{path}: {:?}",
                self.ready(path)
            );
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        start.elapsed()
    }

    /// Returns the number of steps of each object since `before`.
    pub fn steps_since(&self, before: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
        let counts = self.world.step_counts().into_iter();
        let since = counts.map(|(object, count)| {
            let old = before.get(&object).copied().unwrap_or_default();
            (object, count - old)
        });
        since.collect()
    }
}

/// Returns a fleet of Kustomizations `t0`, `t1`, ... on the hub, each with a ConfigMap.
pub fn fleet(tenants: usize, depends_on: impl Fn(usize) -> Vec<String>) -> State {
    let mut fleet = State::default();
    for at in 0..tenants {
        let name = format!("t{at}");
        let tenant = Tenant {
            cluster: HUB.to_owned(),
            own_repository: false,
            depends_on: depends_on(at),
            waits: false,
        };
        let objects = fleet.objects.entry(name.clone()).or_default();
        objects.insert(format!("cm-{at}"), Content { commit: 0 });
        fleet.tenants.insert(name, tenant);
    }
    fleet
}

/// Waits until the fleet has converged.
pub async fn settle(running: &Running, users: &Users) {
    let converged = converge(&running.world, users).await;
    let ended = running.world.trace.end();
    assert!(converged, "{:?}", ended.violations);
    // Let steps that are under way end.
    tokio::time::sleep(Duration::from_secs(150)).await;
}

/// Returns a ConfigMap of the tenants.
pub fn config(name: &str, finalizers: &[&str]) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": APPS, "finalizers": finalizers}})
}

/// Returns a Kustomization of the fleet's repository.
pub fn kustomization(name: &str, path: &str, cluster: &str) -> Value {
    let mut spec = json!({"interval": "10m", "prune": true, "path": path,
        "deletionPolicy": "WaitForTermination",
        "sourceRef": {"kind": "GitRepository", "name": FLUX}});
    if cluster != HUB {
        let secret = format!("{cluster}-kubeconfig");
        spec["kubeConfig"] = json!({"secretRef": {"name": secret}});
    }
    json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": name, "namespace": FLUX}, "spec": spec})
}

/// Returns a HelmRelease of the chart in the fleet's repository.
pub fn release(name: &str, cluster: &str) -> Value {
    let secret = format!("{cluster}-kubeconfig");
    json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": {"name": name, "namespace": FLUX},
        "spec": {"interval": "10m", "releaseName": name,
            "targetNamespace": APPS, "storageNamespace": APPS,
            "kubeConfig": {"secretRef": {"name": secret}},
            "chart": {"spec": {"chart": "./charts/web", "interval": "10m",
                "sourceRef": {"kind": "GitRepository", "name": FLUX}}}}})
}
