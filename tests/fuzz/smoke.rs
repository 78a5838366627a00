//! Every fuzz target on its first inputs and on those that it once failed on, without libFuzzer:
//! `cargo test` keeps the fixes.

#[path = "targets/mod.rs"]
mod targets;

use driftless_harness::tools;
use std::time::{Duration, Instant};

/// Twenty times the limit of libFuzzer for an optimised program.
const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn targets_accept_their_seeds_and_earlier_failures() {
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
