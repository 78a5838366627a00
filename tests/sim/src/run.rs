//! One run: a world, a time of operations and trouble, then calm, and the checks at the end.

use crate::bugs::Bug;
use crate::check::{self, CHARTS, CONFIGS, Difference, KUSTOMIZATIONS, RELEASES, SOURCES};
use crate::gate::{Plan, Weather};
use crate::operations::{Users, kubelet};
use crate::rng::Rng;
use crate::servers::Light;
use crate::trace::TraceResult;
use crate::world::{Setup, World};
use driftless_flux::reason;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The longest time to converge once all is calm: the longest wait between two tries is ten
/// minutes.
const CONVERGENCE: Duration = Duration::from_secs(20 * 60);
/// The longest time that a push may take in runs without faults of calls.
const PROMPT: Duration = Duration::from_secs(240);
/// The time that is watched after all have converged.
const QUIET: Duration = Duration::from_secs(180);

/// The options of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The seed of the run.
    pub seed: u64,
    /// The planted bug, if any.
    pub bug: Option<Bug>,
    /// True if every line of the trace is kept.
    pub trace: bool,
}

/// The outcome of a run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The seed of the run.
    pub seed: u64,
    /// The result of the trace.
    pub ended: TraceResult,
    /// The number of calls of the core to the outside.
    pub calls: u64,
    /// The number of steps.
    pub steps: u64,
    /// The number of faults by name.
    pub faults: BTreeMap<&'static str, u64>,
    /// The virtual time that the run took.
    pub time: Duration,
}

impl Outcome {
    /// Returns the outcome of a world at this time.
    pub fn of(world: &World, seed: u64, start: Instant) -> Self {
        let (calls, faults) = world.gate.counts();
        Self {
            seed,
            ended: world.trace.end(),
            calls,
            steps: world.step_counts().values().sum(),
            faults,
            time: start.elapsed(),
        }
    }

    /// Returns whether all invariants held.
    pub fn holds(&self) -> bool {
        self.ended.violations.is_empty()
    }
}

/// The kind of a run, by its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No call fails; clusters still go dark and commits are broken.
    Clear,
    /// Some calls fail.
    Flaky,
    /// Many calls fail.
    Storm,
    /// Functions are frozen and continue, and clocks are wrong.
    Zombies,
}

impl Kind {
    /// Returns the kind of a seed, by its last digit.
    pub fn of(seed: u64) -> Self {
        match seed % 10 {
            0 | 1 => Self::Clear,
            2..7 => Self::Flaky,
            7 | 8 => Self::Storm,
            _ => Self::Zombies,
        }
    }

    fn weather(self) -> Weather {
        let flaky = Weather {
            before: 100,
            after: 60,
            hang: 8,
            kill: 20,
            freeze: 0,
        };
        match self {
            Self::Clear => Weather::default(),
            Self::Flaky => flaky,
            Self::Storm => Weather {
                before: 350,
                after: 200,
                hang: 25,
                kill: 80,
                freeze: 0,
            },
            Self::Zombies => Weather {
                freeze: 25,
                ..flaky
            },
        }
    }
}

/// Runs a seed.
pub fn run(options: Options) -> Outcome {
    World::warm_up();
    guarded(options.seed, || runtime().block_on(drive(options)))
}

/// Returns a runtime of one thread whose time advances when no task can run.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime")
}

/// Calls `run`, and converts a panic of the core or of the simulation to a violation.
pub fn guarded(seed: u64, run: impl FnOnce() -> Outcome) -> Outcome {
    let ran = std::panic::catch_unwind(AssertUnwindSafe(run));
    ran.unwrap_or_else(|_| Outcome {
        seed,
        ended: TraceResult {
            violations: vec!["the run panicked".to_owned()],
            ..TraceResult::default()
        },
        ..Outcome::default()
    })
}

async fn drive(options: Options) -> Outcome {
    let seed = options.seed;
    let kind = Kind::of(seed);
    let mut rng = Rng::new(seed, 10);
    let setup = Setup {
        seed,
        hubs: 1 + usize::from(seed % 7 == 3),
        remotes: 1 + rng.below(2),
        concurrency: 2 + rng.below(6),
        slow: [20, 60, 400][rng.below(3)],
        skew: if kind == Kind::Zombies { 2_000 } else { 200 },
        duplicates: if kind == Kind::Clear { 0 } else { 500 },
        recycled: 300,
        begin: Duration::ZERO,
        bug: options.bug,
    };
    let start = Instant::now();
    let world = World::new(setup, None, options.trace).await;
    let tenants = 2 + rng.below(3);
    let lossy = kind != Kind::Clear;
    let users = Users::new(world.clone(), Rng::new(seed, 11), tenants, lossy);
    let tasks = [
        tokio::spawn(world.clone().poll()),
        tokio::spawn(world.clone().tick()),
        tokio::spawn(kubelet(world.clone(), Rng::new(seed, 12))),
    ];
    world.gate.plan(Plan::Random(kind.weather()));
    play(&world, users, &mut [rng, Rng::new(seed, 13)], kind).await;
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    Outcome::of(&world, seed, start)
}

async fn play(world: &Arc<World>, mut users: Users, rngs: &mut [Rng; 2], kind: Kind) {
    let [rng, switch] = rngs;
    let mut late = BTreeMap::new();
    for _ in 0..6 + rng.below(9) {
        let longest = if users.is_hasty() { 4_000 } else { 60_000 };
        let pause = Duration::from_millis(rng.between(200, longest));
        let end = Instant::now() + pause;
        while Instant::now() < end {
            let left = end - Instant::now();
            tokio::time::sleep(left.min(Duration::from_secs(20))).await;
            if kind == Kind::Clear {
                check_promptness(world, &users, &mut late);
            }
            check_handovers(world);
            if world.trace.is_violated() {
                return;
            }
        }
        users.act();
        for server in world.other_hubs.values() {
            server.set([Light::Lit, Light::Dark, Light::Hung][switch.below(3)]);
        }
    }
    tokio::time::sleep(Duration::from_millis(rng.between(0, 60_000))).await;
    world.gate.plan(Plan::Clean);
    world.sqs.calm();
    for server in world.other_hubs.values() {
        server.set(Light::Lit);
    }
    users.calm();
    if converge(world, &users).await {
        check_quiet(world, &users).await;
    }
}

/// Checks **I**: a tenant without trouble converges promptly, whatever happens to others.
fn check_promptness(world: &World, users: &Users, late: &mut BTreeMap<String, Instant>) {
    let now = Instant::now();
    let differences = world.checker.differences(&world.servers);
    let excused = |one: &Difference| users.may_be_late(one);
    late.retain(|text, _| differences.iter().any(|one| one.text == *text));
    for one in &differences {
        if excused(one) {
            late.remove(&one.text);
            continue;
        }
        let since = *late.entry(one.text.clone()).or_insert(now);
        if now - since > PROMPT {
            let message = format!("late for {} s: {}", (now - since).as_secs(), one.text);
            world.trace.violation('I', &message);
        }
    }
}

/// Checks **N** for objects that were handed over a while ago.
fn check_handovers(world: &World) {
    for (invariant, message) in world.checker.check_handovers() {
        world.trace.violation(invariant, &message);
    }
}

/// Returns all differences from the newest commits.
fn differences(world: &World, users: &Users) -> Vec<String> {
    let differences = world.checker.differences(&world.servers);
    let mut open: Vec<String> = differences.into_iter().map(|one| one.text).collect();
    let mut expected: BTreeMap<String, String> = users
        .tenants()
        .map(|(name, head)| (name.clone(), head))
        .collect();
    expected.insert("flux-system".to_owned(), users.head(false));
    for live in world.hub().list(KUSTOMIZATIONS) {
        let name = live["metadata"]["name"].as_str().unwrap_or_default();
        let ready = ready(&live);
        let applied = live["status"]["lastAppliedRevision"].as_str();
        match expected.remove(name) {
            None => open.push(format!("Kustomization {name} still exists")),
            Some(head) if applied != Some(&head) => {
                open.push(format!(
                    "Kustomization {name} is at {applied:?}, not {head}: {ready}"
                ));
            }
            Some(_) if !ready.starts_with("True") => {
                open.push(format!("Kustomization {name} is not ready: {ready}"));
            }
            Some(_) => {}
        }
    }
    open.extend(
        expected
            .keys()
            .map(|name| format!("Kustomization {name} does not exist")),
    );
    for live in world.hub().list(SOURCES) {
        let ready = ready(&live);
        if !ready.starts_with("True") {
            let name = live["metadata"]["name"].as_str().unwrap_or_default();
            open.push(format!("GitRepository {name} is not ready: {ready}"));
        }
    }
    open.extend(release_differences(world, users));
    let head = users.head(false);
    for (name, server) in &world.other_hubs {
        let root = server.get(&format!("{KUSTOMIZATIONS}/flux-system"));
        let root = root.unwrap_or_default();
        let applied = root["status"]["lastAppliedRevision"].as_str();
        if applied != Some(&head) || !ready(&root).starts_with("True") {
            let ready = ready(&root);
            open.push(format!("{name} is at {applied:?}, not {head}: {ready}"));
        }
    }
    open
}

/// Returns the differences of releases from the newest commits, and the remains of removed
/// releases.
fn release_differences(world: &World, users: &Users) -> Vec<String> {
    let mut open = Vec::new();
    let mut expected = BTreeSet::new();
    for (cluster, server) in &world.servers {
        let here = users.releases(cluster);
        open.extend(check::check_records(server, &here));
        for name in &here {
            let live = server.get(&format!("{CONFIGS}/{name}"));
            let chart = live
                .as_ref()
                .and_then(|live| live["data"]["chart"].as_str());
            let version = users.chart_version();
            if chart != Some(&version) {
                open.push(format!(
                    "{cluster}: {name} has chart version {chart:?}, not {version}"
                ));
            }
        }
        expected.extend(here);
    }
    for (path, prefix) in [(RELEASES, ""), (CHARTS, "flux-system-")] {
        let mut missing: BTreeSet<String> = expected
            .iter()
            .map(|name| format!("{prefix}{name}"))
            .collect();
        for live in world.hub().list(path) {
            let kind = live["kind"].as_str().unwrap_or_default();
            let name = live["metadata"]["name"].as_str().unwrap_or_default();
            let ready = ready(&live);
            if !missing.remove(name) {
                open.push(format!("{kind} {name} still exists: {ready}"));
            } else if !ready.starts_with("True") {
                open.push(format!("{kind} {name} is not ready: {ready}"));
            }
        }
        open.extend(
            missing
                .iter()
                .map(|name| format!("{path}/{name} does not exist")),
        );
    }
    open
}

fn ready(object: &Value) -> String {
    let conditions = object["status"]["conditions"].as_array();
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|one| one["type"] == "Ready");
    ready.map_or_else(String::new, |one| {
        let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
        format!("{} {}: {}", text("status"), text("reason"), text("message"))
    })
}

/// Checks **L**: once all is calm, everything converges to the newest commits. Returns whether it
/// did.
pub async fn converge(world: &World, users: &Users) -> bool {
    let end = Instant::now() + CONVERGENCE;
    loop {
        tokio::time::sleep(Duration::from_secs(15)).await;
        check_handovers(world);
        if world.trace.is_violated() {
            return false;
        }
        let open = differences(world, users);
        if open.is_empty() {
            return true;
        }
        if Instant::now() >= end {
            let message = format!(
                "not converged after {} s:\n  {}",
                CONVERGENCE.as_secs(),
                open.join("\n  ")
            );
            world.trace.violation('L', &message);
            return false;
        }
    }
}

/// Checks **E**, **N**, **S** and again **L**: nothing changes after convergence, and nothing is
/// left over.
async fn check_quiet(world: &World, users: &Users) {
    // Let pending work end: waits that the timer checks, and messages that are under way.
    tokio::time::sleep(Duration::from_secs(150)).await;
    let before = world.sqs.sent();
    tokio::time::sleep(QUIET).await;
    let sent = world.sqs.sent() - before;
    let tenants = users.tenants().count() as u64;
    let releases = world
        .servers
        .keys()
        .map(|name| users.releases(name).len() as u64);
    // Two sources each minute; and one message for each Kustomization, release and chart, whose
    // interval may end in this time.
    let most = 2 * 4 + 2 * (tenants + 1) + 2 * releases.sum::<u64>() + 2;
    if sent > most {
        let message = format!(
            "{sent} messages in {} quiet seconds, at most {most} are due",
            QUIET.as_secs()
        );
        world.trace.violation('E', &message);
    }
    let (_, dead) = world.sqs.waiting();
    if !dead.is_empty() {
        let message = format!("{} messages are dead: {}", dead.len(), dead.join(" "));
        world.trace.violation('E', &message);
    }
    let is_interrupted = |one: &String| one.contains(reason::STEP_INTERRUPTED);
    if differences(world, users).iter().any(is_interrupted) {
        // A message whose third step was cut off has come back late; the isolated step follows.
        tokio::time::sleep(Duration::from_secs(180)).await;
    }
    for difference in differences(world, users) {
        world
            .trace
            .violation('L', &format!("after convergence: {difference}"));
    }
    for (invariant, message) in world.checker.check_all_inventories(&world.servers) {
        world.trace.violation(invariant, &message);
    }
    for leak in world.leaks() {
        world.trace.violation('S', &leak);
    }
}
