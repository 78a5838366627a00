//! Runs seeds of the simulation.

use clap::Parser;
use driftless_sim::bugs::{Bug, Detection, Search};
use driftless_sim::cost::{Fleets, Table};
use driftless_sim::crash;
use driftless_sim::economy;
use driftless_sim::isolation;
use driftless_sim::run::{Options, Outcome, run};
use driftless_sim::scale::{Scale, Size};
use serde_json::json;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Runs seeds of the simulation of driftless.
#[derive(Parser)]
#[command(group = clap::ArgGroup::new("table").args(["cost", "scale"]).multiple(true))]
struct Arguments {
    /// Number of seeds to run
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// First seed
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Number of seeds to run at the same time
    #[arg(long, default_value_t = 1)]
    jobs: u64,
    /// Run only this seed
    #[arg(long)]
    seed: Option<u64>,
    /// Print the whole trace of --seed
    #[arg(long)]
    trace: bool,
    /// Name of a bug to plant
    #[arg(long)]
    bug: Option<String>,
    /// Run the scenario of the crash points, with every Nth point
    #[arg(long, num_args = 0..=1, default_missing_value = "1")]
    crash_points: Option<u64>,
    /// Search for every planted bug, with at most --seeds seeds for each
    #[arg(long)]
    planted: bool,
    /// Count what a fleet of this many Kustomizations costs at rest for --hours
    #[arg(long, num_args = 0..=1, default_missing_value = "500")]
    economy: Option<usize>,
    /// Hours at rest for --economy
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u64).range(1..))]
    hours: u64,
    /// Print what 100, 1,000 and 10,000 objects cost a month, and a push; with --scale also what
    /// 10, 100, 1,000 and 10,000 remote clusters cost
    #[arg(long)]
    cost: bool,
    /// Print what a fleet of this many remote clusters needs
    #[arg(long, num_args = 0..=1, default_missing_value = "1000", value_parser = clap::value_parser!(u64).range(1..))]
    scale: Option<u64>,
    /// Number of objects on each cluster of --scale
    #[arg(long, requires = "scale", default_value_t = 20)]
    objects: usize,
    /// Hours that a cluster of --scale is dark
    #[arg(long, requires = "scale", default_value_t = 72.0, value_parser = hours)]
    dark_hours: f64,
    /// Print --cost or --scale as JSON
    #[arg(long, requires = "table")]
    json: bool,
    /// Print the times of the scenarios, with --bug if it is given
    #[arg(long)]
    scenarios: bool,
    /// Continue after the first violation
    #[arg(long)]
    keep_going: bool,
}

/// Parses a number of hours that is above 0 and at most a year.
fn hours(text: &str) -> Result<f64, String> {
    let hours = text.parse::<f64>().ok();
    let hours = hours.filter(|hours| *hours > 0.0 && *hours <= 8766.0);
    hours.ok_or_else(|| "not a number of hours above 0 and up to 8766".to_owned())
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let bug = arguments.bug.as_deref().map(|name| {
        Bug::parse(name).unwrap_or_else(|| panic!("unknown bug {name}; bugs are {:?}", Bug::ALL))
    });
    if let Some(seed) = arguments.seed {
        let outcome = run(Options {
            seed,
            bug,
            trace: arguments.trace,
        });
        show(&outcome);
        return if outcome.holds() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
    }
    if let Some(stride) = arguments.crash_points {
        return crash_points(stride, arguments.jobs, bug);
    }
    if let Some(kustomizations) = arguments.economy {
        return economy_of(kustomizations, arguments.hours, bug);
    }
    if arguments.cost || arguments.scale.is_some() {
        tables(&arguments);
        return ExitCode::SUCCESS;
    }
    if arguments.scenarios {
        let (hubs, requests) = (isolation::hubs(bug), isolation::requests());
        println!("drift next to hubs that hang: {hubs:?}");
        println!("a request next to clusters that hang: {requests:?}");
        println!("a long chain: {:?}", economy::long_chain(bug));
        println!("the second of two pushes: {:?}", economy::second_push(bug));
        println!(
            "deleted after failed deletes: {}",
            economy::failed_delete(bug)
        );
        println!("slices: {:?}", isolation::slices(400, bug));
        return ExitCode::SUCCESS;
    }
    if arguments.planted {
        return planted(arguments.seeds, arguments.jobs);
    }
    let (next, failed) = (AtomicU64::new(arguments.from), AtomicU64::new(0));
    let end = arguments.from + arguments.seeds;
    let sums = Mutex::new((0u64, 0u64, 0u64, BTreeMap::<&str, u64>::new()));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..arguments.jobs {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let stop = failed.load(Ordering::Relaxed) > 0 && !arguments.keep_going;
                    if seed >= end || stop {
                        return;
                    }
                    let outcome = run(Options {
                        seed,
                        bug,
                        trace: false,
                    });
                    let mut sums = sums.lock().expect("the sums");
                    sums.0 += 1;
                    sums.1 += outcome.calls;
                    sums.2 += outcome.steps;
                    for (fault, count) in &outcome.faults {
                        *sums.3.entry(fault).or_default() += count;
                    }
                    if !outcome.holds() {
                        failed.fetch_add(1, Ordering::Relaxed);
                        match arguments.keep_going {
                            true => {
                                println!("seed {seed}: {}", outcome.ended.violations.join("; "))
                            }
                            false => show(&outcome),
                        }
                    }
                }
            });
        }
    });
    let (seeds, calls, steps, faults) = sums.into_inner().expect("the sums");
    let (time, failed) = (start.elapsed().as_secs_f64(), failed.into_inner());
    println!(
        "{seeds} seeds in {time:.1} s ({:.1} a second), {calls} calls, {steps} steps, faults {faults:?}, {failed} with violations",
        seeds as f64 / time
    );
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Prints the tables of --scale and --cost.
fn tables(arguments: &Arguments) {
    let scale = arguments.scale.map(|clusters| {
        Scale::measure(Size {
            clusters: clusters as usize,
            objects: arguments.objects,
            dark: Duration::from_secs_f64(arguments.dark_hours * 3600.0),
        })
    });
    let fleets = scale.as_ref().filter(|_| arguments.cost);
    let fleets = fleets.map(Fleets::measure);
    let cost = arguments.cost.then(|| Table::measure(100, 1000, 10_000));
    if arguments.json {
        let all = json!({"scale": scale.as_ref().map(Scale::json), "fleets": fleets.as_ref().map(Fleets::json),
            "cost": cost.as_ref().map(Table::json)});
        println!("{all:#}");
        return;
    }
    if let Some(scale) = scale {
        println!("{scale}");
    }
    if let Some(fleets) = fleets {
        println!("{fleets}");
    }
    if let Some(cost) = cost {
        println!("{cost}");
    }
}

fn crash_points(stride: u64, jobs: u64, bug: Option<Bug>) -> ExitCode {
    let start = Instant::now();
    let results = crash::run_all(stride, jobs, bug);
    for (at, fault, outcome) in results.failed.iter().take(3) {
        show(outcome);
        println!("-- call {at}: {fault:?}");
    }
    println!(
        "{} calls, {} runs in {:.1} s, {} with violations",
        results.calls,
        results.runs,
        start.elapsed().as_secs_f64(),
        results.failed.len()
    );
    if results.failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Searches for every bug; searches by seeds use all jobs.
fn planted(seeds: u64, jobs: u64) -> ExitCode {
    let mut missed = 0;
    for bug in Bug::ALL {
        let start = Instant::now();
        let found = match bug.search() {
            Search::Seeds(most) => by_seeds(bug, most.min(seeds), jobs),
            _ => bug.find(),
        };
        let time = start.elapsed().as_secs_f64();
        match found {
            Some(found) if bug.explains(&found) => {
                let violation = found.violation.lines().next().unwrap_or_default();
                println!("{bug:?}: found by {} in {time:.1} s: {violation}", found.by);
            }
            Some(found) => {
                missed += 1;
                println!(
                    "{bug:?}: {} broke an unexpected invariant: {}",
                    found.by, found.violation
                );
            }
            None => {
                missed += 1;
                println!("{bug:?}: not found in {time:.1} s");
            }
        }
    }
    println!(
        "{} of {} bugs found",
        Bug::ALL.len() - missed,
        Bug::ALL.len()
    );
    match missed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn by_seeds(bug: Bug, seeds: u64, jobs: u64) -> Option<Detection> {
    let (next, found) = (AtomicU64::new(0), Mutex::new(None));
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds || found.lock().expect("the result").is_some() {
                        return;
                    }
                    if let Some(one) = bug.find_with_seed(seed) {
                        *found.lock().expect("the result") = Some(one);
                    }
                }
            });
        }
    });
    found.into_inner().expect("the result")
}

fn economy_of(kustomizations: usize, hours: u64, bug: Option<Bug>) -> ExitCode {
    let steps = economy::failing_source(economy::DAY, bug);
    println!("a source with interval: 1m that fails for a day: {steps} steps");
    let cost = economy::push(economy::FLEET_SIZE, bug);
    println!(
        "a push of one file to {} Kustomizations: {} messages, {:?}",
        economy::FLEET_SIZE,
        cost.messages,
        cost.calls
    );
    let time = economy::chain(economy::CHAIN_LENGTH, bug);
    println!(
        "a push through a chain of {} Kustomizations: {time:?}",
        economy::CHAIN_LENGTH
    );
    let start = Instant::now();
    let cost = economy::rest(kustomizations, Duration::from_secs(hours * 3600));
    println!(
        "{kustomizations} Kustomizations at rest for {hours} hours: {} messages, {} steps, {} requests to S3 ({:?}), {} to API servers, which send {} bytes, in {:.1} s",
        cost.messages,
        cost.steps,
        cost.bucket(),
        cost.calls,
        cost.api(),
        cost.api_bytes(),
        start.elapsed().as_secs_f64()
    );
    let missed = economy::missed_bounds(kustomizations, &cost);
    for bound in &missed {
        println!("!! {bound}");
    }
    match missed.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn show(outcome: &Outcome) {
    for line in &outcome.ended.lines {
        println!("{line}");
    }
    println!("-- seed {}, operations:", outcome.seed);
    for line in &outcome.ended.operations {
        println!("{line}");
    }
    println!(
        "-- {} lines, hash {:016x}, {} calls, {} steps, {} s of virtual time, faults {:?}",
        outcome.ended.count,
        outcome.ended.hash,
        outcome.calls,
        outcome.steps,
        outcome.time.as_secs(),
        outcome.faults
    );
    for line in &outcome.ended.violations {
        println!("!! {line}");
    }
}
