//! Which random cases a run compares: new ones each time, or those that are asked for.

use std::time::{SystemTime, UNIX_EPOCH};

/// A number in an environment variable.
pub fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is not a number: {text}"))
    })
}

/// The first seed: the one in the environment variable, or one of the clock. It is printed, so that a run can be repeated.
pub fn first(variable: &str) -> u64 {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH);
    let micros = clock.expect("the clock is set after 1970").as_micros();
    // Below 2^31: every language's generator takes it.
    let new = u64::try_from(micros % 2_000_000_000).expect("below 2^31") + 1;
    let seed = number(variable, new);
    println!("repeat this run with {variable}={seed}");
    seed
}
