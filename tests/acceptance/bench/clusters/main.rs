//! A thousand embedded clusters in one process: how large an empty one is, and how long one process
//! takes to sync a fleet that spans them all: one hub and a Kustomization for each remote cluster,
//! run by the core's own steps without a socket.
//!
//! `cargo bench -p driftless-acceptance --bench clusters -- [--clusters N] [--objects N] [--max-s
//! S] [--max-kib KIB]`
//!
//! If a figure is above its limit (seconds for the first sync, KiB for an empty cluster), the exit
//! code is not 0.

mod world;

use driftless_adapters::embedded::Embedded;
use driftless_adapters::local::SystemClock;
use driftless_kernel::ports::Cause;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use world::World;

struct Options {
    clusters: usize,
    objects: usize,
    max_s: f64,
    max_kib: f64,
}

fn main() -> ExitCode {
    let options = match options(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!(
                "{error}\nusage: clusters [--clusters N] [--objects N] [--max-s S] [--max-kib KIB]"
            );
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Runtime::new().expect("start a runtime");
    match runtime.block_on(measure(&options)) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn options(arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        clusters: 1000,
        objects: 20,
        max_s: f64::INFINITY,
        max_kib: f64::INFINITY,
    };
    // `cargo bench` adds the flag `--bench`.
    let mut arguments = arguments.filter(|argument| argument != "--bench");
    while let Some(argument) = arguments.next() {
        let value = arguments.next().unwrap_or_default();
        let number: f64 = value
            .parse()
            .map_err(|_| format!("{argument} needs a number, not '{value}'"))?;
        match argument.as_str() {
            "--clusters" => options.clusters = number as usize,
            "--objects" => options.objects = number as usize,
            "--max-s" => options.max_s = number,
            "--max-kib" => options.max_kib = number,
            other => return Err(format!("unknown option {other}")),
        }
    }
    Ok(options)
}

async fn measure(options: &Options) -> bool {
    // The state that all servers share is created before the first measurement.
    drop(Embedded::new(Arc::new(SystemClock)));
    let before = resident_kib();
    let start = Instant::now();
    let world = World::start(options.clusters, options.objects).await;
    let started = start.elapsed();
    let each = |kib: f64| kib / options.clusters as f64;
    let empty = each(resident_kib() - before);
    println!(
        "{} clusters started in {}, {empty:.0} KiB resident each",
        options.clusters,
        seconds(started)
    );

    let (first, steps) = timed(&world, Cause::Push).await;
    let objects = world.objects();
    assert_eq!(
        objects,
        options.clusters * options.objects,
        "every object is applied"
    );
    let full = resident_kib() - before;
    println!(
        "first sync: {objects} objects in {} ({:.0}/s), {steps} steps",
        seconds(first),
        objects as f64 / first.as_secs_f64()
    );
    let writes = world.versions();
    let (again, steps) = timed(&world, Cause::Timer).await;
    assert_eq!(
        world.versions(),
        writes,
        "a sync without a change writes nothing to remote clusters"
    );
    println!("sync without a change: {}, {steps} steps", seconds(again));
    println!(
        "{:.0} MiB resident in all, {:.0} KiB a cluster",
        full / 1024.0,
        each(full)
    );
    first.as_secs_f64() <= options.max_s && empty <= options.max_kib
}

async fn timed(world: &World, cause: Cause) -> (Duration, usize) {
    let start = Instant::now();
    let steps = world.sync(cause).await;
    (start.elapsed(), steps)
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

/// Returns this process's resident memory in KiB.
fn resident_kib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc/self/status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number
        .and_then(|text| text.parse().ok())
        .expect("VmRSS in KiB")
}
