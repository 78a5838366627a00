//! kustomize builds against the real tool, in one run on one machine:
//!
//! - the real library and the engine, each in a running process, files in memory;
//! - the real command line and `driftless build`, each as a whole process, files on the disk;
//! - builds of 10 to 10,000 objects, with the memory that they take.
//!
//! `cargo bench -p driftless-oracles --bench kustomize -- --bin target/release/driftless`
//!
//! Times are the fastest of several runs. Prints Markdown tables; the exit code is not 0 if a goal
//! is missed.

mod cases;
#[path = "../common/mod.rs"]
mod common;
mod grow;
mod measure;

use common::{GOALS, report};
use driftless_harness::{library::Library, tools};
use measure::{engine, library, process};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let after = |flag: &str| {
        let at = arguments.iter().position(|argument| argument == flag)?;
        arguments.get(at + 1)
    };
    if let Some(objects) = after(grow::ONLY) {
        return grow::render_once(objects.parse().expect("a number of objects"));
    }
    let binary = after("--bin").map(common::binary);
    let cases = cases::all();
    println!("{} kustomizations that render\n", cases.len());
    println!("{}", common::HEAD);
    let mut missed = false;
    let mut real = Library::start(&tools::KUSTOMIZE_LIBRARY);
    missed |= report(
        GOALS[1],
        cases
            .iter()
            .map(|case| (case.name.as_str(), (library(&mut real, case), engine(case)))),
    );
    match binary {
        Some(binary) => {
            let times = cases
                .iter()
                .map(|case| (case.name.as_str(), process(case, &binary)));
            missed |= report(GOALS[0], times);
        }
        None => println!("| process | not measured: give --bin | | | |"),
    }
    grow::report(&mut real);
    if missed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
