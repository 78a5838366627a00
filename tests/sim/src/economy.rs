//! Counts what driftless costs: at rest, for one push, and with objects that fail for a day.

use crate::bugs::Bug;
use crate::check::{CONFIGS, KUSTOMIZATIONS, RELEASES, SOURCES};
use crate::fleet::{APP, APPS, Commit, Content, FLEET, FLUX, State, Tenant};
use crate::gate::Kind;
use crate::operations::Users;
use crate::rng::Rng;
use crate::run::{converge, runtime};
use crate::servers::Light;
use crate::world::{CANARY, HUB, Setup, World};
use driftless_core::flux::reason;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The length of a day.
pub const DAY: Duration = Duration::from_secs(24 * 3600);
/// The lowest and the highest number of steps for an object that fails or waits for a day.
pub const FAILING_STEPS: std::ops::RangeInclusive<u64> = 120..=150;
/// The lowest and the highest number of steps for an object whose cluster is dark for a day: it
/// tries the cluster each hour.
pub const DARK_STEPS: std::ops::RangeInclusive<u64> = 16..=40;
/// The longest time that a push may take while the steps of another object do not end.
pub const MAX_NEIGHBOUR_TIME: Duration = Duration::from_secs(45);
/// The number of Kustomizations when the cost of a push is counted.
pub const FLEET_SIZE: usize = 30;
/// The highest number of requests to API servers for the push of one file of one Kustomization:
/// each Kustomization reads itself and its source, and writes that it is at the new revision, which
/// changes nothing for it.
pub const MAX_PUSH_REQUESTS: u64 = 4 * FLEET_SIZE as u64;
/// The number of Kustomizations in a chain of dependencies.
pub const CHAIN_LENGTH: usize = 6;
/// The longest time that a push through the chain may take.
pub const MAX_CHAIN_TIME: Duration = Duration::from_secs(60);

const SEED: u64 = 500;
/// The number of messages, of 10,000, that are delivered two times.
const DUPLICATES: u32 = 500;

/// The cost of a period of time.
#[derive(Clone, Debug, Default)]
pub struct Cost {
    /// The length of the period.
    pub time: Duration,
    /// The number of messages that were sent.
    pub messages: u64,
    /// The number of steps that were not skipped.
    pub steps: u64,
    /// The number of calls of the core by kind.
    pub calls: BTreeMap<Kind, u64>,
    /// The number of invocations of each function, and their time together: that of the calls, not
    /// of computations.
    pub invocations: BTreeMap<&'static str, (u64, Duration)>,
}

impl Cost {
    /// Returns the number of calls of a kind.
    pub fn of(&self, kind: Kind) -> u64 {
        self.calls.get(&kind).copied().unwrap_or_default()
    }

    /// Returns the number of requests to the bucket.
    pub fn bucket(&self) -> u64 {
        self.of(Kind::BlobRead) + self.of(Kind::BlobList) + self.of(Kind::BlobWrite)
    }

    /// Returns the number of requests to API servers.
    pub fn api(&self) -> u64 {
        self.of(Kind::ApiRead) + self.of(Kind::ApiWrite)
    }
}

/// Returns the bounds that a day of this many Kustomizations at rest misses. For 500, a day has at
/// most 4,000 messages and 40,000 requests to S3; nothing is written to an API server.
pub fn missed_bounds(kustomizations: usize, cost: &Cost) -> Vec<String> {
    let scaled = |most: u64| most * kustomizations as u64 / 500;
    // A sweep each minute, and a full step of each object.
    let sweeps = cost.of(Kind::Send);
    let bounds = [
        ("messages", cost.messages, scaled(400), scaled(4_000)),
        (
            "sweeps and other sends",
            sweeps,
            1_400,
            1_500 + scaled(2_500),
        ),
        (
            "requests to S3",
            cost.bucket(),
            1_440,
            8_000 + scaled(32_000),
        ),
        ("writes to API servers", cost.of(Kind::ApiWrite), 0, 0),
    ];
    let missed = bounds
        .iter()
        .filter(|(_, count, least, most)| !(*least..=*most).contains(count));
    missed
        .map(|(name, count, least, most)| format!("{count} {name}, expected {least} to {most}"))
        .collect()
}

struct Running {
    world: Arc<World>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Running {
    async fn start(concurrency: usize, bug: Option<Bug>) -> Self {
        Self::with_remotes(1, concurrency, bug).await
    }

    async fn with_remotes(remotes: usize, concurrency: usize, bug: Option<Bug>) -> Self {
        let setup = Setup {
            seed: SEED,
            remotes,
            concurrency,
            slow: 20,
            skew: 0,
            duplicates: DUPLICATES,
            begin: Duration::ZERO,
            bug,
        };
        let world = World::new(setup, None, false).await;
        let tasks = vec![
            tokio::spawn(world.clone().poll()),
            tokio::spawn(world.clone().tick()),
        ];
        Self { world, tasks }
    }

    fn cost(&self) -> Cost {
        Cost {
            time: self.world.now(),
            messages: self.world.sqs.sent(),
            steps: self.world.step_counts().values().sum(),
            calls: self.world.gate.kinds(),
            invocations: self.world.billed(),
        }
    }

    fn since(&self, before: &Cost) -> Cost {
        let now = self.cost();
        let calls = now.calls.iter();
        let calls = calls.map(|(kind, count)| (*kind, count - before.of(*kind)));
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
            invocations: invocations.collect(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

/// Runs a source with `interval: 1m` whose repository does not exist. Returns the number of its
/// steps.
pub fn failing_source(time: Duration, bug: Option<Bug>) -> u64 {
    World::warm_up();
    runtime().block_on(async {
        let running = Running::start(4, bug).await;
        tokio::time::sleep(time).await;
        let counts = running.world.step_counts();
        let of_sources = counts
            .iter()
            .filter(|(object, _)| object.starts_with("GitRepository/"));
        of_sources.map(|(_, count)| count).sum()
    })
}

fn fleet(tenants: usize, depends_on: impl Fn(usize) -> Vec<String>) -> State {
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

async fn settle(running: &Running, users: &Users) {
    let converged = converge(&running.world, users).await;
    let ended = running.world.trace.end();
    assert!(converged, "{:?}", ended.violations);
    // Let steps that are under way end.
    tokio::time::sleep(Duration::from_secs(150)).await;
}

/// Lets a fleet converge. Returns what it costs for `time` at rest.
pub fn rest(kustomizations: usize, time: Duration) -> Cost {
    World::warm_up();
    runtime().block_on(async {
        let running = Running::start(20, None).await;
        let fleet = fleet(kustomizations, |_| Vec::new());
        let users = Users::of(running.world.clone(), Rng::new(SEED, 11), fleet);
        settle(&running, &users).await;
        let before = running.cost();
        tokio::time::sleep(time).await;
        running.since(&before)
    })
}

/// Pushes a change of one file of one Kustomization. Returns what that costs until the fleet has
/// converged.
pub fn push(kustomizations: usize, bug: Option<Bug>) -> Cost {
    World::warm_up();
    runtime().block_on(async {
        let running = Running::start(20, bug).await;
        let fleet = fleet(kustomizations, |_| Vec::new());
        let mut users = Users::of(running.world.clone(), Rng::new(SEED, 11), fleet);
        settle(&running, &users).await;
        let before = running.cost();
        users.commit(FLEET, "one file", |state, commit| {
            let objects = state.objects.entry("t0".to_owned()).or_default();
            objects.insert("cm-0".to_owned(), Content { commit });
        });
        let converged = converge(&running.world, &users).await;
        assert!(converged, "{:?}", running.world.trace.end().violations);
        running.since(&before)
    })
}

/// Runs a Kustomization on each of `clusters` remote clusters, of which every fourth hangs. Deletes
/// the object of each healthy one by hand, and returns the longest time until one exists again.
pub fn slices(clusters: usize) -> Duration {
    World::warm_up();
    runtime().block_on(async {
        let running = Running::with_remotes(clusters, 100, None).await;
        let mut fleet = fleet(clusters, |_| Vec::new());
        for at in 0..clusters {
            let tenant = fleet.tenants.get_mut(&format!("t{at}"));
            tenant.expect("a tenant").cluster = format!("remote-{at}");
        }
        let users = Users::of(running.world.clone(), Rng::new(SEED, 11), fleet);
        settle(&running, &users).await;
        let server = |at: usize| &running.world.servers[&format!("remote-{at}")];
        for at in (0..clusters).step_by(4) {
            server(at).set(Light::Hung);
        }
        tokio::time::sleep(Duration::from_secs(90)).await;
        let path = |at: usize| format!("{CONFIGS}/cm-{at}");
        let mut open: Vec<usize> = (0..clusters).filter(|at| at % 4 != 0).collect();
        for at in &open {
            assert!(server(*at).delete(&path(*at)), "cm-{at}");
        }
        let start = Instant::now();
        while !open.is_empty() && start.elapsed() < Duration::from_secs(3600) {
            tokio::time::sleep(Duration::from_secs(1)).await;
            open.retain(|at| server(*at).get(&path(*at)).is_none());
        }
        start.elapsed()
    })
}

/// Pushes a change of each Kustomization of a chain, in which each depends on the one before.
/// Returns the time until all are ready.
pub fn chain(length: usize, bug: Option<Bug>) -> Duration {
    World::warm_up();
    runtime().block_on(async {
        let running = Running::start(20, bug).await;
        let fleet = fleet(length, |at| {
            let before = at.checked_sub(1).map(|at| format!("t{at}"));
            before.into_iter().collect()
        });
        let mut users = Users::of(running.world.clone(), Rng::new(SEED, 11), fleet);
        settle(&running, &users).await;
        let start = Instant::now();
        users.commit(FLEET, "all of them", |state, commit| {
            for objects in state.objects.values_mut() {
                objects.values_mut().for_each(|one| one.commit = commit);
            }
        });
        let converged = converge(&running.world, &users).await;
        assert!(converged, "{:?}", running.world.trace.end().violations);
        start.elapsed()
    })
}

/// The remote cluster that goes dark.
const REMOTE: &str = "remote-0";

impl Running {
    /// Pushes a commit with these files to the fleet's repository.
    fn push_files(&self, number: u64, files: &[(&str, Value)]) {
        let commit = Commit::new(FLEET, number, State::default());
        let mut tree = commit.files(CANARY);
        for (path, object) in files {
            tree.insert((*path).to_owned(), object.to_string());
        }
        let host = &self.world.host;
        host.with(FLEET, |one| one.push(&commit.sha, tree));
    }

    /// Creates an object in Flux's namespace on the hub.
    fn create(&self, path: &str, object: &Value) {
        assert!(self.world.hub().create(path, object), "{object}");
    }

    /// Returns the reason of an object's condition `Ready` with its status; empty without it.
    fn ready(&self, path: &str) -> (String, String) {
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

    /// Waits until an object is ready, and returns the time that took.
    async fn until_ready(&self, path: &str) -> Duration {
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
    fn steps_since(&self, before: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
        let counts = self.world.step_counts().into_iter();
        let since = counts.map(|(object, count)| {
            let old = before.get(&object).copied().unwrap_or_default();
            (object, count - old)
        });
        since.collect()
    }
}

fn config(name: &str, finalizers: &[&str]) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": APPS, "finalizers": finalizers}})
}

fn kustomization(name: &str, path: &str, cluster: &str) -> Value {
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

fn release(name: &str, cluster: &str) -> Value {
    let secret = format!("{cluster}-kubeconfig");
    json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": {"name": name, "namespace": FLUX},
        "spec": {"interval": "10m", "releaseName": name,
            "targetNamespace": APPS, "storageNamespace": APPS,
            "kubeConfig": {"secretRef": {"name": secret}},
            "chart": {"spec": {"chart": "./charts/web", "interval": "10m",
                "sourceRef": {"kind": "GitRepository", "name": FLUX}}}}})
}

/// Runs Kustomizations and HelmReleases whose cluster is dark for `time`; one of each is being
/// deleted. Returns the number of steps of each, and the time until they are ready again.
pub fn dark_cluster(each: usize, time: Duration) -> (BTreeMap<String, u64>, Duration) {
    World::warm_up();
    runtime().block_on(async {
        let running = Running::start(10, None).await;
        let chart = json!({"apiVersion": "v2", "name": "web", "version": "1.0.0"});
        let mut files = vec![
            ("charts/web/Chart.yaml", chart),
            (
                "charts/web/templates/web.yaml",
                config("web-{{ .Release.Name }}", &[]),
            ),
        ];
        let paths: Vec<String> = (0..each)
            .map(|at| format!("apps/{at}/config.yaml"))
            .collect();
        for (at, path) in paths.iter().enumerate() {
            files.push((path, config(&format!("k-{at}"), &[])));
        }
        running.push_files(1, &files);
        let mut objects = Vec::new();
        for at in 0..each {
            let (k, r) = (format!("k-{at}"), format!("r-{at}"));
            let path = format!("./apps/{at}");
            running.create(KUSTOMIZATIONS, &kustomization(&k, &path, REMOTE));
            running.create(RELEASES, &release(&r, REMOTE));
            objects.extend([format!("{KUSTOMIZATIONS}/{k}"), format!("{RELEASES}/{r}")]);
        }
        for object in &objects {
            running.until_ready(object).await;
        }
        running.world.servers[REMOTE].set(Light::Dark);
        // A new revision changes no file of the Kustomizations.
        running.push_files(2, &files);
        for object in objects.drain(..2) {
            assert!(running.world.hub().delete(&object), "{object}");
        }
        tokio::time::sleep(Duration::from_secs(1800)).await;
        let before = running.world.step_counts();
        tokio::time::sleep(time).await;
        let steps = running.steps_since(&before);
        running.world.servers[REMOTE].set(Light::Lit);
        let mut longest = Duration::ZERO;
        for object in &objects {
            longest += running.until_ready(object).await;
        }
        let steps = steps
            .into_iter()
            .filter(|(object, _)| object.starts_with("HelmRelease/") || object.contains("/k-"));
        (steps.collect(), longest)
    })
}

/// Deletes a Kustomization whose child cannot be deleted, because an object of the child keeps its
/// finalizer; another one prunes such an object. Returns the number of steps of each in `time`.
pub fn stuck_deletions(time: Duration) -> BTreeMap<String, u64> {
    World::warm_up();
    runtime().block_on(async {
        let running = Running::start(4, None).await;
        let stuck = ["example.com/stuck"];
        let files = [
            ("parent/child.yaml", kustomization("child", "./child", HUB)),
            // The child may need it to clean up.
            (
                "parent/account.yaml",
                json!({"apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": "child", "namespace": FLUX}}),
            ),
            ("child/config.yaml", config("child", &stuck)),
            ("pruning/kept.yaml", config("kept", &[])),
            ("pruning/removed.yaml", config("removed", &stuck)),
        ];
        running.push_files(1, &files);
        for name in ["parent", "pruning"] {
            let object = kustomization(name, &format!("./{name}"), HUB);
            running.create(KUSTOMIZATIONS, &object);
        }
        for name in ["parent", "child", "pruning"] {
            running
                .until_ready(&format!("{KUSTOMIZATIONS}/{name}"))
                .await;
        }
        running.push_files(2, &files[..4]);
        assert!(
            running
                .world
                .hub()
                .delete(&format!("{KUSTOMIZATIONS}/parent"))
        );
        tokio::time::sleep(Duration::from_secs(1800)).await;
        let before = running.world.step_counts();
        tokio::time::sleep(time).await;
        let steps = running.steps_since(&before);
        for name in ["child", "removed"] {
            let path = format!("{CONFIGS}/{name}");
            let free = json!({"metadata": {"finalizers": null}});
            assert!(running.world.hub().merge(&path, &free), "{path}");
        }
        // The child is gone at its next step, and the parent at the one after that.
        tokio::time::sleep(Duration::from_secs(1260)).await;
        let parent = running.world.hub().get(&format!("{KUSTOMIZATIONS}/parent"));
        assert_eq!(parent, None, "the deletion has ended");
        let names = ["parent", "child", "pruning"];
        let steps = steps.into_iter();
        let steps = steps.filter(|(object, _)| names.iter().any(|name| object.ends_with(name)));
        steps.collect()
    })
}

/// The effects of an object whose steps end their function.
#[derive(Debug)]
pub struct Poison {
    /// The time until the object's status shows it.
    pub shown: Duration,
    /// The number of its steps that ended, in [`POISON_TIME`] after it is shown: each reports the
    /// steps that did not end.
    pub steps: u64,
    /// The longest time of a push of a neighbour, after it is shown.
    pub neighbour: Duration,
    /// The time until the object is ready, after the cause is gone.
    pub ready: Duration,
}

/// The time for which the steps of an object do not end.
pub const POISON_TIME: Duration = Duration::from_secs(6 * 3600);

/// Runs a source whose download runs out of memory, among neighbours.
pub fn poison() -> Poison {
    World::warm_up();
    runtime().block_on(async {
        let running = Running::start(4, None).await;
        let users = Users::of(running.world.clone(), Rng::new(SEED, 11), fleet(5, |_| Vec::new()));
        settle(&running, &users).await;
        let poison = &running.world.gate.poison;
        *poison.lock().expect("the poison") = Some(format!("fetch https://{APP}"));
        let path = format!("{SOURCES}/poison");
        let source = json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
            "metadata": {"name": "poison", "namespace": FLUX},
            "spec": {"interval": "1m", "url": format!("https://{APP}"), "ref": {"branch": "main"}}});
        running.create(SOURCES, &source);
        let start = Instant::now();
        let interrupted = ("False".to_owned(), reason::STEP_INTERRUPTED.to_owned());
        while running.ready(&path) != interrupted {
            assert!(start.elapsed() < Duration::from_secs(3600), "{:?}", running.ready(&path));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let shown = start.elapsed();
        let before = running.world.step_counts();
        let mut users = users;
        let mut neighbour = Duration::ZERO;
        for _ in 0..6 {
            let mut number = String::new();
            users.commit(FLEET, "a neighbour", |state, commit| {
                number = commit.to_string();
                let objects = state.objects.entry("t0".to_owned()).or_default();
                objects.insert("cm-0".to_owned(), Content { commit });
            });
            let pushed = Instant::now();
            let applied = format!("{CONFIGS}/cm-0");
            while running.world.hub().get(&applied).unwrap_or_default()["data"]["commit"]
                != number
            {
                assert!(pushed.elapsed() < Duration::from_secs(900), "{applied}");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            neighbour = neighbour.max(pushed.elapsed());
            let left = (POISON_TIME / 6).saturating_sub(pushed.elapsed());
            tokio::time::sleep(left).await;
            assert_eq!(running.ready(&path), interrupted);
        }
        let steps = running.steps_since(&before).into_iter();
        let steps = steps.filter(|(object, _)| object.ends_with("/poison"));
        let steps = steps.map(|(_, count)| count).sum();
        *poison.lock().expect("the poison") = None;
        let ready = running.until_ready(&path).await;
        Poison { shown, steps, neighbour, ready }
    })
}
