//! Charts rendered by the engine and by the real Helm 3, in one run on one machine:
//!
//! - the real library and the engine, each in a running process: files in memory, from loading to
//!   the manifest;
//! - the real command line and `driftless template`, each as a whole process, files on the disk.
//!
//! The charts are the public ones of `../shared/conformance/helm`, if they exist, and the project's
//! own generated ones.
//!
//! `cargo bench -p driftless-oracles --bench helm -- --bin target/release/driftless`, with
//! `--only PART` for the charts whose names contain it
//!
//! Times are the fastest of several runs. Prints a Markdown table; the exit code is not 0 if a goal
//! is missed.

#[path = "../../../shared/helm/tests/common/answer.rs"]
#[expect(dead_code, reason = "the tests need the rest")]
mod answer;
mod cases;
#[path = "../../../shared/helm/tests/common/charts.rs"]
#[expect(dead_code, reason = "the tests need the rest")]
mod charts;
#[path = "../../../shared/helm/tests/common/mod.rs"]
mod common;
mod measure;
#[path = "../common/mod.rs"]
mod shared;
mod templates;

use driftless_harness::library::Library;
use driftless_harness::tools;
use shared::{GOALS, report};
use std::process::ExitCode;

/// The stack of the thread that renders: large enough that the engine does not start another thread
/// for every chart. Go's stack also grows only once.
const STACK: usize = 256 << 20;

fn main() -> ExitCode {
    let renderer = std::thread::Builder::new().stack_size(STACK).spawn(run);
    let done = renderer.expect("a thread").join();
    done.unwrap_or(ExitCode::FAILURE)
}

fn run() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let after = |flag: &str| {
        let at = arguments.iter().position(|argument| argument == flag)?;
        arguments.get(at + 1)
    };
    let binary = after("--bin").map(shared::binary);
    let cases = cases::all(after("--only").map_or("", String::as_str));
    println!("{} charts that render\n\n{}", cases.len(), shared::HEAD);
    let mut real = Library::start(&tools::HELM_LIBRARY);
    let (keys, plain): (Vec<_>, Vec<_>) = cases.iter().partition(|case| case.makes_keys);
    let [(process, whole), (in_process, library)] = GOALS;
    let mut missed = false;
    for (suffix, cases) in [("", &plain), (", new keys", &keys)] {
        let times = cases.iter().map(|case| {
            let times = (measure::library(&mut real, case), measure::engine(case));
            (case.name.as_str(), times)
        });
        missed |= report((&format!("{in_process}{suffix}"), library), times);
        let Some(binary) = &binary else {
            println!("| {process}{suffix} | not measured: give --bin | | | |");
            continue;
        };
        let on_disk = cases.iter().filter_map(|case| {
            let times = measure::process(case.arguments.as_ref()?, binary);
            Some((case.name.as_str(), times))
        });
        missed |= report((&format!("{process}{suffix}"), whole), on_disk);
    }
    templates::report();
    match missed {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}
