//! Flux's own controllers as the judges: what they and `driftless serve` make of the same objects.

mod compare;
mod known;
mod over_and_back;
mod site;
mod snapshot;

use driftless_tests::cluster::Cluster;
use site::{Side, Sources};

/// The same objects, reconciled by the controllers on one cluster and by driftless on another.
#[test]
fn flux_controllers_and_driftless_write_the_same() {
    let sources = Sources::new();
    let [flux, driftless] = Cluster::start_all(["flux", "driftless"]);
    let flux = Side::flux(flux, &sources);
    let driftless = Side::driftless(driftless, &sources);
    for side in [&flux, &driftless] {
        side.apply(&sources.fill(include_str!("sources.yaml")));
    }
    for side in [&flux, &driftless] {
        side.sources_are_there();
        side.apply(&sources.fill(include_str!("objects.yaml")));
    }
    compare::eventually_the_same(&flux, &driftless);
}
