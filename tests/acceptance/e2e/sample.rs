//! The sample fleet on the real parts.

use crate::world::World;
use driftless_tests::sample::Sample;

/// Starts the sample fleet; with `watch`, the functions run under `cargo lambda`.
fn sample(watch: bool) -> Sample {
    Sample::on(|hubs| Box::new(World::start(watch, hubs, &["edge"])))
}

#[test]
fn push_lands_everywhere() {
    sample(false).all();
}

#[test]
fn second_sync_writes_nothing() {
    let sample = sample(false);
    sample.first_sync();
    sample.second_sync_writes_nothing();
}

#[test]
fn push_lands_everywhere_under_cargo_lambda() {
    let sample = sample(true);
    sample.first_sync();
    sample.second_sync_writes_nothing();
    sample.a_push_of_one_tenant_touches_that_tenant_only();
    sample.drift_is_repaired();
    sample.a_wrong_signature_queues_nothing();
}
