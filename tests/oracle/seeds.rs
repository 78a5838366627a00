//! The seeds of random cases: those that the environment names, or the defaults.

use driftless_harness::environment::number;

/// Returns the first seed: from the environment variable, or the default. A run of the checks
/// begins with the default, so that no change is refused for an old difference that only another
/// seed finds; the nightly workflow names new ones. Prints the seed, so that a run can be repeated.
pub fn first(variable: &str, default: u64) -> u64 {
    let seed = number(variable, default);
    println!("repeat this run with {variable}={seed}");
    seed
}
