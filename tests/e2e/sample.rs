//! The sample fleet in this process.

use driftless_tests::embedded::Embedded;
use driftless_tests::sample::Sample;

fn sample() -> Sample {
    Sample::on(|hubs| Box::new(Embedded::start(hubs, &["edge"])))
}

#[test]
fn push_lands_everywhere() {
    sample().all();
}

#[test]
fn second_sync_writes_nothing() {
    let sample = sample();
    sample.first_sync();
    sample.second_sync_writes_nothing();
}
