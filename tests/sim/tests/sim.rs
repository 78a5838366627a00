//! The simulation in the test run: as many seeds as there is time for, and what shows that it can fail. The acceptance tier
//! runs the same tests with more seeds, crash points and planted bugs.

use driftless_sim::bugs::{Bug, Found, Search};
use driftless_sim::crash;
use driftless_sim::economy;
use driftless_sim::gate::Kind;
use driftless_sim::run::{Options, Outcome, run};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Whether this is the longer form of the acceptance tier.
const IS_LONG: bool = matches!(env!("CARGO_PKG_NAME").as_bytes(), b"driftless-acceptance");
/// How many seeds the run has.
const SEEDS: u64 = if IS_LONG { 500 } else { 60 };
/// Of all combinations of a call and a fault, every so many; `--crash-points` of the program runs all.
const STRIDE: u64 = if IS_LONG { 23 } else { 199 };
/// Of the planted bugs that few seeds find, every so many.
const BUGS: usize = if IS_LONG { 1 } else { 4 };

/// Seeds in which the core or a check was wrong once.
const FOUND: [u64; 12] = [
    5_374, 7_113, 8_405, 11_480, 12_791, 17_595, 20_591, 24_070, 29_307, 30_510, 37_276, 45_750,
];

fn jobs() -> u64 {
    std::thread::available_parallelism().map_or(1, |jobs| jobs.get() as u64)
}

/// Runs seeds until one is violated, and returns that one.
fn search(bug: Option<Bug>, seeds: impl Iterator<Item = u64> + Send) -> Option<Outcome> {
    let seeds = Mutex::new(seeds);
    let found = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..jobs() {
            scope.spawn(|| {
                loop {
                    let seed = seeds.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(seed) = seed else { return };
                    if found.lock().expect("the result").is_some() {
                        return;
                    }
                    let outcome = run(Options {
                        seed,
                        bug,
                        trace: false,
                    });
                    if !outcome.holds() {
                        *found.lock().expect("the result") = Some(outcome);
                        return;
                    }
                }
            });
        }
    });
    found.into_inner().expect("the result")
}

fn told(outcome: &Outcome) -> String {
    let ended = &outcome.ended;
    let last = ended.lines.len().saturating_sub(60);
    format!(
        "seed {}: {}\noperations:\n{}\nthe last lines:\n{}\nall of it: cargo run --release -p driftless-sim -- --seed {} --trace",
        outcome.seed,
        ended.violations.join("\n"),
        ended.operations.join("\n"),
        ended.lines[last..].join("\n"),
        outcome.seed
    )
}

#[test]
fn sim_seeds() {
    let start = Instant::now();
    if let Some(outcome) = search(None, FOUND.into_iter().chain(0..SEEDS)) {
        panic!("{}", told(&outcome));
    }
    let time = start.elapsed().as_secs_f64();
    println!("{} seeds in {time:.1} s", SEEDS + FOUND.len() as u64);
}

/// Seeds that were violated once: a clean run of them shows only that what was wrong then is right now.
#[test]
fn seeds_that_failed_once() {
    // By the core: two prunes that let go of an object at the same moment.
    let core = [37_276];
    // By the simulation.
    let model = [5_374, 7_113, 8_405, 11_480, 12_791, 17_595, 25_706];
    if let Some(outcome) = search(None, core.into_iter().chain(model)) {
        panic!("{}", told(&outcome));
    }
}

#[test]
fn a_seed_gives_the_same_run() {
    // One of each kind.
    for seed in [10, 13, 18, 19] {
        let options = Options {
            seed,
            bug: None,
            trace: true,
        };
        let (first, second) = (run(options), run(options));
        let differs = first
            .ended
            .lines
            .iter()
            .zip(&second.ended.lines)
            .find(|(first, second)| first != second);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(first.ended.hash, second.ended.hash, "seed {seed}");
    }
}

/// Those that few seeds find; `--planted` of the program looks for all.
#[test]
fn planted_bugs_are_found() {
    let quick = Bug::ALL
        .into_iter()
        .filter_map(|bug| Some((bug, bug.quick()?)))
        .step_by(BUGS);
    for (bug, seeds) in quick {
        let found = match bug.search() {
            Search::Seeds(_) => search(Some(bug), 0..seeds).and_then(|outcome| {
                let violation = outcome.ended.violations.into_iter().next()?;
                let by = format!("seed {}", outcome.seed);
                Some(Found { by, violation })
            }),
            _ => bug.find(),
        };
        let found = found.unwrap_or_else(|| panic!("{bug:?} was not found"));
        assert!(bug.explains(&found), "{bug:?}: {found:?}");
    }
}

#[test]
fn every_crash_point() {
    let ran = crash::every(STRIDE, jobs(), None);
    if let Some((call, fault, outcome)) = ran.failed.first() {
        let failed = ran.failed.len();
        panic!(
            "{failed} of {} runs; call {call} with {fault:?}: {}",
            ran.runs,
            told(outcome)
        );
    }
    assert!(ran.calls > 100, "{} calls", ran.calls);
}

#[test]
fn economy() {
    let looks = economy::failing_source(economy::DAY, None);
    println!("a source with interval: 1m that fails for a day: {looks} steps");
    assert!(looks <= economy::MOST_LOOKS, "{looks} steps");

    let cost = economy::push(economy::FLEET_SIZE, None);
    println!("a push of one file: {cost:?}");
    assert!(cost.api() <= economy::MOST_REQUESTS, "{cost:?}");

    let time = economy::chain(economy::CHAIN, None);
    println!("a chain of {} Kustomizations: {time:?}", economy::CHAIN);
    assert!(time <= economy::LONGEST_CHAIN, "{time:?}");

    // Its source each minute, everything else each interval: no message more. `--economy` has 500 for a day.
    let hour = Duration::from_secs(3600);
    let cost = economy::rest(50, hour);
    println!("50 Kustomizations at rest for an hour: {cost:?}");
    let most = 62 + 7 * 51;
    assert!(cost.messages <= most, "{} messages", cost.messages);
    assert_eq!(cost.of(Kind::ApiWrite), 0, "nothing is written: {cost:?}");
}
