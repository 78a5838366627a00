//! Shared by the benches of the engines: measures times and compares them with the real tool's.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The allocator of the `driftless` command.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The time for which one case is rendered repeatedly in-process.
pub const RENDER_TIME: Duration = Duration::from_millis(30);
/// The number of runs of a process.
const RUNS: usize = 3;

/// Returns the binary that `--bin` names; a relative path starts at the root of the workspace,
/// wherever cargo runs the bench.
pub fn binary(path: &String) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// The least factors by which driftless must be faster than the real tool, as geometric means.
pub const GOALS: [(&str, f64); 2] = [("process", 30.0), ("in-process", 5.0)];
/// The header of the table.
pub const HEAD: &str = "| | faster, geometric mean | fastest case | slowest case | goal |\n| --- | --- | --- | --- | --- |";

/// Prints a row for cases with the times of the real tool and of driftless. Returns whether a goal
/// is missed: the mean, or that no case is slower.
pub fn report<'c>(
    (name, goal): (&str, f64),
    times: impl Iterator<Item = (&'c str, (f64, f64))>,
) -> bool {
    let mut ratios: Vec<(f64, &str)> = times
        .map(|(case, (theirs, ours))| (theirs / ours, case))
        .collect();
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mean = ratios.iter().map(|(ratio, _)| ratio.ln()).sum::<f64>() / ratios.len() as f64;
    let mean = mean.exp();
    let show = |(ratio, case): &(f64, &str)| format!("{ratio:.1}x ({case})");
    let (Some(slowest), Some(fastest)) = (ratios.first(), ratios.last()) else {
        println!("| {name} | no cases | | | {goal}x |");
        return true;
    };
    println!(
        "| {name} | {mean:.1}x | {} | {} | {goal}x |",
        show(fastest),
        show(slowest)
    );
    for case in ratios.iter().take(8) {
        eprintln!("{name}: {}", show(case));
    }
    mean < goal || slowest.0 < 1.0
}

/// Returns the time of the fastest of several renders of one case, in seconds.
pub fn repeat(mut render: impl FnMut()) -> f64 {
    let until = Instant::now() + RENDER_TIME;
    fastest(3, || {
        render();
        Instant::now() < until
    })
}

/// Returns the time of the fastest of several runs of a process, in seconds. Panics if a run fails.
pub fn process(mut command: impl FnMut() -> Command) -> f64 {
    let mut left = RUNS;
    fastest(1, || {
        let mut command = command();
        let done = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        assert!(
            done.is_ok_and(|status| status.success()),
            "{command:?} fails"
        );
        left -= 1;
        left > 0
    })
}

/// Runs `work` until it returns false, but at least `least` times. Returns the time of the fastest
/// run, in seconds.
fn fastest(least: usize, mut work: impl FnMut() -> bool) -> f64 {
    let mut best = f64::INFINITY;
    let mut runs = 0;
    loop {
        let start = Instant::now();
        let more = work();
        best = best.min(start.elapsed().as_secs_f64());
        runs += 1;
        if !more && runs >= least {
            return best;
        }
    }
}
