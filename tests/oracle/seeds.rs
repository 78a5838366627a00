//! The seeds of random cases: those that the environment names, the defaults, or new ones.

use driftless_harness::environment::number;
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the first seed: from the environment variable, or the default, or from the clock. Prints
/// it, so that a run can be repeated.
pub fn first(variable: &str, default: Option<u64>) -> u64 {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH);
    let micros = clock.expect("the clock is set after 1970").as_micros();
    // Below 2^31: every language's generator accepts it.
    let new = u64::try_from(micros % 2_000_000_000).expect("below 2^31") + 1;
    let seed = number(variable, default.unwrap_or(new));
    println!("repeat this run with {variable}={seed}");
    seed
}
