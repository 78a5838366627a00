//! The simulation in the ordinary test run: as many seeds as a minute has room for, and what shows that it can fail.

use driftless_sim::bugs::Bug;
use driftless_sim::crash;
use driftless_sim::run::{Options, Outcome, run};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// How many seeds the ordinary test run has.
const SEEDS: u64 = 60;
/// Of all combinations of a call and a fault, every so many; `--crash-points` of the program runs all.
const STRIDE: u64 = 11;

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
    if let Some(outcome) = search(None, 0..SEEDS) {
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

#[test]
fn planted_bugs_are_found() {
    let missed = AtomicU64::new(0);
    for (bug, seeds) in Bug::SOUGHT {
        let expected = bug.breaks();
        match search(Some(bug), 0..seeds) {
            Some(outcome) => {
                let first = &outcome.ended.violations[0];
                assert!(
                    expected.iter().any(|one| first.starts_with(*one)),
                    "{bug:?} breaks one of {expected:?}, found by seed {}: {first}",
                    outcome.seed
                );
            }
            None => {
                missed.fetch_add(1, Ordering::Relaxed);
                eprintln!("{bug:?} was not found by {seeds} seeds");
            }
        }
    }
    assert_eq!(missed.into_inner(), 0, "planted bugs that were not found");
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
