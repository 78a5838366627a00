//! kustomize builds against the real tool, in one run on one machine:
//!
//! - the real library and the engine, each in a process that goes on, files in memory;
//! - the real command line and `driftless build`, each as a whole process, files on the disk;
//! - builds of 10 to 10,000 objects, with the memory that they take.
//!
//! `cargo bench -p driftless-tests --bench kustomize -- --bin target/release/driftless`
//!
//! Times are the fastest of several runs. It writes Markdown tables, and ends in an error when a goal is missed.

mod cases;
mod grow;
#[path = "../../oracle/kustomize/library.rs"]
mod library;
mod measure;

use cases::Case;
use library::Library;
use measure::{engine, library, process};
use std::path::PathBuf;
use std::process::ExitCode;

/// At least so many times faster than the real tool, as geometric means.
const GOALS: [(&str, f64); 2] = [("process", 30.0), ("in-process", 5.0)];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let after = |flag: &str| {
        let at = arguments.iter().position(|argument| argument == flag)?;
        arguments.get(at + 1)
    };
    if let Some(objects) = after(grow::ONLY) {
        return grow::render_once(objects.parse().expect("a number of objects"));
    }
    let binary = after("--bin").map(PathBuf::from);
    let cases = cases::all();
    println!("{} kustomizations that render\n", cases.len());
    println!(
        "| | faster, geometric mean | fastest case | slowest case | goal |\n| --- | --- | --- | --- | --- |"
    );
    let mut missed = false;
    let mut real = Library::start();
    missed |= report(GOALS[1], &cases, |case| {
        (library(&mut real, case), engine(case))
    });
    match binary {
        Some(binary) => missed |= report(GOALS[0], &cases, |case| process(case, &binary)),
        None => println!("| process | not measured: give --bin | | | |"),
    }
    grow::report(&mut real);
    if missed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Measures all cases, prints a row, and says whether a goal is missed.
fn report(
    (name, goal): (&str, f64),
    cases: &[Case],
    mut times: impl FnMut(&Case) -> (f64, f64),
) -> bool {
    let mut ratios: Vec<(f64, &str)> = cases
        .iter()
        .map(|case| {
            let (theirs, ours) = times(case);
            (theirs / ours, case.name.as_str())
        })
        .collect();
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mean = ratios.iter().map(|(ratio, _)| ratio.ln()).sum::<f64>() / ratios.len() as f64;
    let mean = mean.exp();
    let show = |(ratio, case): &(f64, &str)| format!("{ratio:.1}x ({case})");
    let (slowest, fastest) = (&ratios[0], &ratios[ratios.len() - 1]);
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
