//! Counts what driftless costs: at rest, with a source that always fails, and for one push.

use crate::bugs::Bug;
use crate::fleet::{Content, FLEET, State, Tenant};
use crate::gate::Kind;
use crate::operations::Users;
use crate::rng::Rng;
use crate::run::{converge, runtime};
use crate::world::{HUB, Setup, World};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The length of a day.
pub const DAY: Duration = Duration::from_secs(24 * 3600);
/// The highest number of steps for a source that fails for a day.
pub const MAX_SOURCE_STEPS: u64 = 150;
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
}

impl Cost {
    /// Returns the number of calls of a kind.
    pub fn of(&self, kind: Kind) -> u64 {
        self.calls.get(&kind).copied().unwrap_or_default()
    }

    /// Returns the number of requests to the bucket.
    pub fn bucket(&self) -> u64 {
        self.of(Kind::BlobRead) + self.of(Kind::BlobWrite)
    }

    /// Returns the number of requests to API servers.
    pub fn api(&self) -> u64 {
        self.of(Kind::ApiRead) + self.of(Kind::ApiWrite)
    }
}

struct Running {
    world: Arc<World>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Running {
    async fn start(concurrency: usize, bug: Option<Bug>) -> Self {
        let setup = Setup {
            seed: SEED,
            remotes: 1,
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
        }
    }

    fn since(&self, before: &Cost) -> Cost {
        let now = self.cost();
        let calls = now.calls.iter();
        let calls = calls.map(|(kind, count)| (*kind, count - before.of(*kind)));
        Cost {
            time: now.time - before.time,
            messages: now.messages - before.messages,
            steps: now.steps - before.steps,
            calls: calls.collect(),
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
