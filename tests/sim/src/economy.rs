//! What driftless costs: when nothing happens, when the same goes wrong again and again, and for one push.

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

/// A day.
pub const DAY: Duration = Duration::from_secs(24 * 3600);
/// How often a source that fails for a day may be looked at.
pub const MOST_LOOKS: u64 = 150;
/// How many Kustomizations there are when the cost of a push is counted.
pub const FLEET_SIZE: usize = 30;
/// How many requests to API servers the push of one file of one of them may cost: each of them reads itself and its source,
/// and says that the new revision is none of its business.
pub const MOST_REQUESTS: u64 = 4 * FLEET_SIZE as u64;
/// How many Kustomizations wait for one another.
pub const CHAIN: usize = 6;
/// How long their chain may take.
pub const LONGEST_CHAIN: Duration = Duration::from_secs(60);

const SEED: u64 = 500;
/// One of so many of 10,000 messages comes twice.
const DUPLICATES: u32 = 500;

/// How often something happened in a time.
#[derive(Clone, Debug, Default)]
pub struct Cost {
    /// The time.
    pub time: Duration,
    /// Messages that were sent.
    pub messages: u64,
    /// Steps that did more than to see that they are not needed.
    pub steps: u64,
    /// Calls of the core by kind.
    pub calls: BTreeMap<Kind, u64>,
}

impl Cost {
    /// How many calls of a kind there were.
    pub fn of(&self, kind: Kind) -> u64 {
        self.calls.get(&kind).copied().unwrap_or_default()
    }

    /// Requests to the bucket.
    pub fn bucket(&self) -> u64 {
        self.of(Kind::BlobRead) + self.of(Kind::BlobWrite)
    }

    /// Requests to API servers.
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
            steps: self.world.looks().values().sum(),
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

/// A source with `interval: 1m` whose repository is not there: how often it is looked at.
pub fn failing_source(time: Duration, bug: Option<Bug>) -> u64 {
    World::warm_up();
    runtime().block_on(async {
        let running = Running::start(4, bug).await;
        tokio::time::sleep(time).await;
        let looks = running.world.looks();
        let of_sources = looks
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
    // What was begun before ends.
    tokio::time::sleep(Duration::from_secs(150)).await;
}

/// A fleet at rest: what it costs to see that.
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

/// A push that changes one file, which is that of one Kustomization: what it costs, and how long it takes.
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

/// A push that changes each of a chain of Kustomizations, of which each waits for the one before: how long it takes.
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
