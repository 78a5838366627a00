//! Crash points: one scenario, run once for each call of the core and each fault of that call.

use crate::bugs::Bug;
use crate::gate::{Fault, Plan};
use crate::operations::Users;
use crate::rng::Rng;
use crate::run::{Outcome, converge, guarded};
use crate::world::{Setup, Snapshot, World};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

const SEED: u64 = 4711;
/// The time after which the scenario removes a release that it installs: about when its objects are
/// applied.
const TAKEN_BACK: Duration = Duration::from_millis(1_800);

/// The faults that are tried at each call.
pub const FAULTS: [Fault; 5] = [
    Fault::Before,
    Fault::After,
    Fault::Hang,
    Fault::Kill,
    Fault::KillAfter,
];

/// The scenario: a fleet that has converged, and the time that this took.
pub struct Scenario {
    from: Snapshot,
    begin: Duration,
    bug: Option<Bug>,
}

fn setup(begin: Duration, bug: Option<Bug>) -> Setup {
    Setup {
        seed: SEED,
        hubs: 1,
        remotes: 1,
        concurrency: 4,
        slow: 20,
        skew: 0,
        duplicates: 0,
        recycled: 300,
        begin,
        bug,
    }
}

struct Running {
    world: Arc<World>,
    users: Users,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

async fn start(from: Option<&Snapshot>, begin: Duration, bug: Option<Bug>, trace: bool) -> Running {
    let world = World::new(setup(begin, bug), from, trace).await;
    let users = Users::canonical(world.clone(), Rng::new(SEED, 11));
    let tasks = vec![
        tokio::spawn(world.clone().poll()),
        tokio::spawn(world.clone().tick()),
    ];
    Running {
        world,
        users,
        tasks,
    }
}

impl Running {
    fn end(self, seed: u64, start: Instant) -> Outcome {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
        Outcome::of(&self.world, seed, start)
    }
}

impl Scenario {
    /// Lets the fleet converge for the first time.
    pub fn prepare(bug: Option<Bug>) -> Self {
        World::warm_up();
        let runtime = crate::run::runtime();
        let (from, begin) = runtime.block_on(async {
            let begin = Instant::now();
            let running = start(None, Duration::ZERO, None, false).await;
            let converged = converge(&running.world, &running.users).await;
            assert!(converged, "{:?}", running.world.trace.end().violations);
            // The queue is empty between two turns of the timer.
            tokio::time::sleep(Duration::from_secs(30)).await;
            (running.world.snapshot(), begin.elapsed())
        });
        Self { from, begin, bug }
    }

    /// Runs the scenario with one fault. Returns the outcome and the number of calls.
    pub fn run(&self, plan: Plan, trace: bool) -> (Outcome, u64) {
        let mut number = 0;
        // A release whose function is cut off has not failed, so it needs no retry.
        let is_cut_off = |fault| matches!(fault, Fault::Kill | Fault::KillAfter);
        let strict = match plan {
            Plan::At(_, fault) => is_cut_off(fault),
            _ => true,
        };
        let outcome = guarded(0, || {
            crate::run::runtime().block_on(async {
                let begin = Instant::now();
                let mut running = start(Some(&self.from), self.begin, self.bug, trace).await;
                running.world.gate.plan(plan);
                running.users.script(strict);
                tokio::time::sleep(TAKEN_BACK).await;
                running.users.take_back();
                if converge(&running.world, &running.users).await {
                    number = running.world.gate.number();
                    running.finish().await;
                }
                running.end(0, begin)
            })
        });
        (outcome, number)
    }
}

impl Running {
    /// Checks **N** and **S**, and that the dead-letter queue is empty.
    async fn finish(&self) {
        for (invariant, message) in self
            .world
            .checker
            .check_all_inventories(&self.world.servers)
        {
            self.world.trace.violation(invariant, &message);
        }
        for leak in self.world.leaks() {
            self.world.trace.violation('S', &leak);
        }
        let (_, dead) = self.world.sqs.waiting();
        for message in dead {
            let violation = format!("a message is in the dead-letter queue: {message}");
            self.world.trace.violation('E', &violation);
        }
    }
}

/// The results of all crash points.
#[derive(Default)]
pub struct CrashPoints {
    /// The number of calls of the scenario without a fault.
    pub calls: u64,
    /// The number of runs.
    pub runs: u64,
    /// The runs with violations: the number of the call, its fault, and the outcome.
    pub failed: Vec<(u64, Fault, Outcome)>,
}

/// Runs every `stride`th combination of a call and a fault.
pub fn run_all(stride: u64, jobs: u64, bug: Option<Bug>) -> CrashPoints {
    let scenario = Scenario::prepare(bug);
    let (clean, calls) = scenario.run(Plan::Clean, false);
    let results = Mutex::new(CrashPoints {
        calls,
        ..CrashPoints::default()
    });
    if !clean.holds() {
        let mut results = results.into_inner().expect("the results");
        results.failed.push((0, Fault::Before, clean));
        return results;
    }
    let all = calls * FAULTS.len() as u64;
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(stride, Ordering::Relaxed);
                    if at >= all {
                        return;
                    }
                    let fault = FAULTS[(at % FAULTS.len() as u64) as usize];
                    let call = at / FAULTS.len() as u64;
                    let (outcome, _) = scenario.run(Plan::At(call, fault), false);
                    let mut results = results.lock().expect("the results");
                    results.runs += 1;
                    if !outcome.holds() {
                        results.failed.push((call, fault, outcome));
                    }
                }
            });
        }
    });
    results.into_inner().expect("the results")
}
