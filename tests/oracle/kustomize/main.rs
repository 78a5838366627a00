//! Random kustomizations, rendered by the engine and by the real library: the same bytes, or both
//! refuse. Real ones are rendered by the engine and the real tool (`fleets`).
//!
//! `DRIFTLESS_KUSTOMIZE_CASES` is the number of cases (1,000 by default),
//! `DRIFTLESS_KUSTOMIZE_SEED` the seed of the first. A case that differs is made as small as
//! possible, and printed.

mod fleets;
mod generate;
mod judge;
mod remote;
#[path = "../seeds.rs"]
mod seeds;
mod shrink;

use driftless_harness::environment::number;
use generate::Case;
use judge::{Judge, Verdict};

const CASES: u64 = 1_000;
/// The seed of the first case of an ordinary run.
const FIRST_SEED: u64 = 1;
/// The number of differences that are printed; the rest is counted.
const SHOWN: usize = 5;

#[test]
fn renders_random_kustomizations_as_kustomize_does() {
    let first = seeds::first("DRIFTLESS_KUSTOMIZE_SEED", FIRST_SEED);
    let cases = number("DRIFTLESS_KUSTOMIZE_CASES", CASES);
    let mut judge = Judge::start();
    let (mut rendered, mut refused, mut gaps, mut different) = (0, 0, 0, Vec::new());
    for seed in first..first + cases {
        match judge.verdict(&generate::case(seed)) {
            Verdict::Same => rendered += 1,
            Verdict::BothRefuse => refused += 1,
            Verdict::Gap => gaps += 1,
            Verdict::Different(_) => different.push(seed),
        }
    }
    println!(
        "seeds {first}..{}: {rendered} render the same, {refused} are refused by both, {gaps} are known gaps",
        first + cases
    );
    for seed in different.iter().take(SHOWN) {
        println!("{}", report(&mut judge, *seed));
    }
    assert!(
        different.is_empty(),
        "{} of {cases} differ: seeds {different:?}",
        different.len()
    );
    assert!(
        rendered * 10 > cases * 6,
        "fewer than 6 of 10 cases render: the generator makes too many invalid ones"
    );
}

/// Renders the smallest case that still differs, with both results.
fn report(judge: &mut Judge, seed: u64) -> String {
    let case = shrink::smallest(generate::case(seed), |case: &Case| {
        matches!(judge.verdict(case), Verdict::Different(_))
    });
    let mut text = format!("== seed {seed}\n");
    for (path, file) in &case.files {
        text.push_str(&format!("-- {path}\n{}", file.text()));
    }
    if let Verdict::Different(difference) = judge.verdict(&case) {
        text.push_str(&format!(
            "-- kustomize\n{}\n-- driftless\n{}\n",
            difference.theirs, difference.ours
        ));
    }
    text
}
