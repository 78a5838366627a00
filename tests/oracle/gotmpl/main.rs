//! Generated templates, executed by the engine and by Go's own text/template: the same bytes, or
//! the same message.
//!
//! `DRIFTLESS_GOTMPL_CASES` is the number of cases (5,000 by default), `DRIFTLESS_GOTMPL_SEED` the
//! generator's seed.

#[path = "../../../shared/gotmpl/tests/common/mod.rs"]
mod common;
#[path = "../seeds.rs"]
mod seeds;

use driftless_harness::environment::number;
use driftless_harness::{process, tools};
use std::process::Command;

/// The seed of an ordinary run.
const FIRST_SEED: u64 = 1;
/// The number of differences that are printed; the rest is counted.
const SHOWN: usize = 5;

#[test]
fn executes_generated_templates_as_go_does() {
    let seed = seeds::first("DRIFTLESS_GOTMPL_SEED", FIRST_SEED).to_string();
    let count = number("DRIFTLESS_GOTMPL_CASES", 5_000);
    let mut oracle = Command::new(tools::GOTMPL.path());
    let cases = process::run(oracle.args(["generate", &seed, &count.to_string()]));
    let data = common::data(include_str!("data.json"));
    let (mut rendered, mut refused, mut different) = (0, 0, Vec::new());
    for line in cases.lines() {
        let case = serde_json::from_str(line).expect("a case");
        match common::run(&case, &data) {
            Some(difference) => different.push(difference),
            None if case["got"].is_string() => rendered += 1,
            None => refused += 1,
        }
    }
    println!("seed {seed}: {rendered} give the same text, {refused} the same error");
    for difference in different.iter().take(SHOWN) {
        println!("{difference}");
    }
    assert!(
        different.is_empty(),
        "{} of {count} differ",
        different.len()
    );
    assert!(
        rendered * 10 > refused * 5,
        "fewer than a third of the cases render: the generator makes too many invalid ones"
    );
}
