//! Comparisons with Flux's own controllers: what they and `driftless serve` make of the same
//! objects.

mod act;
mod compare;
mod config_map_clusters;
mod intended_differences;
mod kustomization_acts;
mod kustomizations;
mod release_acts;
mod releases;
mod signatures;
mod site;
mod snapshot;
mod source_acts;
mod sources;
mod takeover;

use compare::Comparison;
use driftless_harness::cluster::Cluster;
use site::{Side, Sources};
use snapshot::{Snapshot, ready};

/// An object that driftless retries long before Flux does: it is only compared once both sides have
/// failed at the same time.
const RETRIED: &str = "kustomizations no-health";

/// Compares the same objects, reconciled by the controllers on one cluster and by driftless on
/// another.
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
        for source in [
            "gitrepositories/fleet",
            "helmrepositories/charts",
            "ocirepositories/web",
            "buckets/files",
        ] {
            side.wait_for_artifact(source);
        }
        side.apply(&sources.fill(include_str!("objects.yaml")));
        side.apply(&config_map_clusters::objects(&side.cluster));
    }
    let mut failed_alike = false;
    let mut comparison = Comparison::new(&flux, &driftless, intended_differences::OBJECTS);
    comparison.eventually_the_same(|[flux, _], all| {
        let is_tried = |difference: &String| difference.starts_with(RETRIED);
        failed_alike |= is_failed(flux) && !all.iter().any(is_tried);
        all.retain(|difference| !failed_alike || !is_tried(difference));
        failed_alike
    });
    comparison.finish();
}

fn is_failed(side: &Snapshot) -> bool {
    let ready = side.get(RETRIED).and_then(ready);
    ready.is_some_and(|ready| ready["status"] == "False")
}
