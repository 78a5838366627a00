//! The simulation in the test run: some seeds, crash points, and planted bugs that it must find.
//! The acceptance tier runs the same tests with more of each.

use driftless_sim::bugs::{Bug, Detection, Search};
use driftless_sim::crash;
use driftless_sim::economy;
use driftless_sim::gate::Kind;
use driftless_sim::isolation;
use driftless_sim::run::{Options, Outcome, run};
use driftless_sim::scale::{Scale, Size};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// True in the longer form of the acceptance tier.
const IS_LONG: bool = matches!(env!("CARGO_PKG_NAME").as_bytes(), b"driftless-acceptance");
/// The number of seeds.
const SEEDS: u64 = if IS_LONG { 500 } else { 60 };
/// The stride through all combinations of a call and a fault; `--crash-points` of the program runs
/// all.
const STRIDE: u64 = if IS_LONG { 23 } else { 199 };
/// The number of seeds that find a planted bug.
const BUG_SEEDS: u64 = 100;
/// The stride through the planted bugs.
const BUG_STRIDE: usize = if IS_LONG { 1 } else { 4 };

/// Seeds that once found a mistake in the core or in a check.
const PAST_SEEDS: [u64; 24] = [
    4_669, 5_374, 7_113, 8_405, 11_480, 12_791, 13_714, 17_595, 20_591, 23_679, 24_070, 29_307,
    30_510, 32_178, 34_931, 37_276, 45_750, 50_249, 51_923, 54_090, 56_739, 82_400, 87_754, 98_180,
];

fn jobs() -> u64 {
    std::thread::available_parallelism().map_or(1, |jobs| jobs.get() as u64)
}

/// Runs seeds until one has a violation. Returns its outcome.
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

fn describe(outcome: &Outcome) -> String {
    let ended = &outcome.ended;
    let last = ended.lines.len().saturating_sub(60);
    format!(
        "seed {}: {}\noperations:\n{}\nthe last lines:\n{}\nall lines: cargo run --release -p driftless-sim -- --seed {} --trace",
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
    if let Some(outcome) = search(None, PAST_SEEDS.into_iter().chain(0..SEEDS)) {
        panic!("{}", describe(&outcome));
    }
    let time = start.elapsed().as_secs_f64();
    println!("{} seeds in {time:.1} s", SEEDS + PAST_SEEDS.len() as u64);
}

/// Runs seeds that once had a violation: it shows that those mistakes stay fixed.
#[test]
fn seeds_that_failed_once() {
    // A mistake of the core: two prunes that released an object at the same moment.
    let core = [37_276];
    // Mistakes of the simulation.
    let model = [5_374, 7_113, 8_405, 11_480, 12_791, 17_595, 25_706];
    if let Some(outcome) = search(None, core.into_iter().chain(model)) {
        panic!("{}", describe(&outcome));
    }
}

#[test]
fn a_seed_gives_the_same_run() {
    // One seed of each kind.
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

/// Searches for planted bugs by few seeds, or by the scenario that shows the bug.
#[test]
fn planted_bugs_are_found() {
    for bug in Bug::ALL.into_iter().step_by(BUG_STRIDE) {
        let found = match bug.search() {
            Search::Seeds(_) => search(Some(bug), 0..BUG_SEEDS).and_then(|outcome| {
                let violation = outcome.ended.violations.into_iter().next()?;
                let by = format!("seed {}", outcome.seed);
                Some(Detection { by, violation })
            }),
            _ => bug.find(),
        };
        let found = found.unwrap_or_else(|| panic!("{bug:?}: not found"));
        assert!(bug.explains(&found), "{bug:?}: {found:?}");
    }
}

#[test]
fn every_crash_point() {
    let results = crash::run_all(STRIDE, jobs(), None);
    if let Some((call, fault, outcome)) = results.failed.first() {
        let failed = results.failed.len();
        panic!(
            "{failed} of {} runs; call {call} with {fault:?}: {}",
            results.runs,
            describe(outcome)
        );
    }
    assert!(results.calls > 100, "{} calls", results.calls);
}

/// Objects that fail or wait for a day.
#[test]
fn economy_of_failures() {
    let (each, hours) = (3, 3);
    let time = Duration::from_secs(hours * 3600);
    let (steps, ready) = economy::dark_cluster(each, time);
    println!("a dark cluster: {steps:?}, ready {ready:?} after its return");
    assert_eq!(steps.len(), 2 * each, "{steps:?}");
    let deletions = economy::stuck_deletions(time);
    println!("deletions that do not end: {deletions:?}");
    assert_eq!(deletions.len(), 3, "{deletions:?}");
    for (object, steps) in &steps {
        let of_a_day = steps * 24 / hours;
        // The files of these Kustomizations have not changed, so they need no step.
        let is_idle = object.contains("/k-") && !object.ends_with("/k-0");
        let least = if is_idle {
            0
        } else {
            *economy::DARK_STEPS.start()
        };
        let most = *economy::DARK_STEPS.end();
        assert!((least..=most).contains(&of_a_day), "{object}: {steps}");
    }
    for (object, steps) in &deletions {
        let of_a_day = steps * 24 / hours;
        assert!(
            economy::FAILING_STEPS.contains(&of_a_day),
            "{object}: {steps}"
        );
    }
    // The sweep finds within a minute that the cluster answers.
    assert!(ready <= Duration::from_secs(120), "{ready:?}");
}

/// One hub with 400 clusters, of which 100 accept requests and never answer: the drift of each
/// other cluster is corrected within two minutes.
#[test]
fn slices() {
    let longest = isolation::slices(400, None);
    println!("drift of 300 healthy clusters, next to 100 that hang: corrected in {longest:?}");
    assert!(longest <= isolation::MAX_DRIFT_TIME, "{longest:?}");
}

/// Hubs and remote clusters that do not answer do not delay the objects of others.
#[test]
fn hubs_that_hang_delay_no_other() {
    let time = isolation::hubs(None);
    println!("drift of a hub, next to one that hangs: corrected in {time:?}");
    assert!(time <= isolation::MAX_DRIFT_TIME, "{time:?}");
    let time = isolation::requests();
    println!("a request of a user, next to 40 clusters that hang: handled in {time:?}");
    assert!(time <= isolation::MAX_REQUEST_TIME, "{time:?}");
}

/// Pushes and deletes that a planted bug delays or loses are prompt and complete without it.
#[test]
fn every_push_and_delete_arrives() {
    assert_eq!(economy::long_chain(None), 0, "messages are dead");
    let time = economy::second_push(None);
    println!("the second of two pushes: {time:?}");
    assert!(time <= economy::MAX_PUSH_TIME, "{time:?}");
    assert!(economy::failed_delete(None), "the object was not deleted");
}

/// An object whose steps run out of memory harms no other one.
#[test]
fn poison_step() {
    let poison = isolation::poison();
    println!("{poison:?}");
    assert!(poison.shown <= Duration::from_secs(900), "{poison:?}");
    // An interrupted step and the one that reports it, after 600 s of back-off, 150 s of a lease,
    // and up to a minute until the timer finds that.
    assert!((44..=80).contains(&poison.steps), "{poison:?}");
    assert!(
        poison.neighbour <= isolation::MAX_NEIGHBOUR_TIME,
        "{poison:?}"
    );
    assert!(poison.ready <= Duration::from_secs(900), "{poison:?}");
}

#[test]
fn economy() {
    let steps = economy::failing_source(economy::DAY, None);
    println!("a source with interval: 1m that fails for a day: {steps} steps");
    assert!(economy::FAILING_STEPS.contains(&steps), "{steps} steps");

    let cost = economy::push(economy::FLEET_SIZE, None);
    println!("a push of one file: {cost:?}");
    assert!(cost.api() <= economy::MAX_PUSH_REQUESTS, "{cost:?}");

    let time = economy::chain(economy::CHAIN_LENGTH, None);
    println!(
        "a chain of {} Kustomizations: {time:?}",
        economy::CHAIN_LENGTH
    );
    assert!(time <= economy::MAX_CHAIN_TIME, "{time:?}");

    // A sweep each minute, and no step. `--economy` measures 500 for a day.
    let hour = Duration::from_secs(3600);
    let cost = economy::rest(50, hour);
    println!("50 Kustomizations at rest for an hour: {cost:?}");
    assert_eq!((cost.messages, cost.steps), (0, 0), "{cost:?}");
    assert_eq!(cost.of(Kind::ApiWrite), 0, "nothing is written: {cost:?}");
    assert!((59..=61).contains(&cost.of(Kind::Send)), "{cost:?}");
    // A new environment has a cold cache.
    assert!((300..=800).contains(&cost.bucket()), "{cost:?}");
    assert!((500..=1200).contains(&cost.of(Kind::ApiRead)), "{cost:?}");
    let missed = economy::missed_bounds(50, &cost);
    assert_eq!(missed, Vec::<String>::new(), "{cost:?}");
}

/// Checks on a small fleet the statements of tests/bench/README.md about large ones.
#[test]
fn scale() {
    let (clusters, objects) = (3, 5);
    let table = Scale::measure(Size {
        clusters,
        objects,
        dark: Duration::from_secs(3600),
    });
    let table = table.json();
    let count = |event: &str, column: &str| {
        let mut events = table["events"].as_array().into_iter().flatten();
        let event = events.find(|one| one["event"] == event);
        event
            .and_then(|event| event[column].as_u64())
            .expect(column)
    };
    let all = (clusters * objects) as u64;
    for event in ["first sync", "push of all objects"] {
        assert!(count(event, "apiWrites") >= all, "{table:#}");
    }
    for column in ["messages", "steps", "apiWrites"] {
        assert_eq!(count("one cluster dark", column), 0, "{column}: {table:#}");
        let at_rest = count("a minute at rest: one sweep", column);
        assert_eq!(at_rest, 0, "{column}: {table:#}");
    }
    let restored = count("hub restored from a backup", "apiWrites");
    assert!(restored < all, "a remote cluster is written: {table:#}");
}
