//! The time from a push to the cluster, of `driftless serve`, of Flux's controllers, and of a bare
//! client that applies the same objects (the floor), on real API servers in one run.
//!
//! `cargo run --release -p driftless-acceptance --bin sync-bench -- [--sizes N,..]
//! [--releases N,..] [--bin FILE] [--flux] [--only SYSTEM,..] [--rest SECONDS] [--json FILE] [--svg
//! FILE] [--with FILE,..]`

mod chart;
mod floor;
mod measure;
mod observe;
mod options;
mod report;
mod run;
mod systems;
mod worlds;

use options::Options;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [command, plan] = arguments.as_slice()
        && command == floor::COMMAND
    {
        floor::child(plan);
        return ExitCode::SUCCESS;
    }
    match Options::parse(arguments) {
        Ok(options) => {
            run::run(&options);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}\n{}", options::USAGE);
            ExitCode::from(2)
        }
    }
}
