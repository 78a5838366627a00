//! Every fuzz target over the inputs that it begins with and those that it once failed on, without libFuzzer: `cargo test` holds
//! what was found.

#[path = "targets/mod.rs"]
mod targets;

use driftless_harness::tools;
use std::time::{Duration, Instant};

/// Twenty times what libFuzzer allows an optimised program.
const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn targets_take_their_seeds_and_what_was_found() {
    let tests = tools::tests();
    for target in &targets::ALL {
        let found = tests.join("fuzz/found").join(target.name);
        let mut inputs = (target.seeds)(&tests.join("corpus"));
        let seeds = inputs.len();
        if found.is_dir() {
            inputs.extend(
                targets::files::below(&found)
                    .into_iter()
                    .map(|(_, bytes)| bytes),
            );
        }
        assert!(seeds > 0, "{} has seeds", target.name);
        for input in &inputs {
            let start = Instant::now();
            (target.run)(input);
            let took = start.elapsed();
            assert!(
                took < LIMIT,
                "{} takes {took:?} for\n{}",
                target.name,
                String::from_utf8_lossy(input)
            );
        }
        println!(
            "{}: {seeds} seeds, {} found",
            target.name,
            inputs.len() - seeds
        );
    }
}
