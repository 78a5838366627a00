//! Many releases with nothing to do: what a look at all of them costs.

use crate::charts;
use crate::world::{JSON, RELEASES, World};
use driftless_core::flux::FluxKind;
use driftless_core::ports::Cause;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

const RELEASES_IN_ALL: usize = 200;

#[test]
fn a_look_at_200_releases_with_nothing_to_do() {
    let world = World::start(&[]);
    world.chart(&charts::web("1.0.0"), "1.0.0");
    let name = |number: usize| format!("r{number:03}");
    for number in 0..RELEASES_IN_ALL {
        let release = json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": {"name": name(number)},
            "spec": {"interval": "10m", "chartRef": {"kind": "HelmChart", "name": "web"}}});
        world.hub().must("POST", RELEASES, JSON, Some(&release));
        world.request(FluxKind::HelmRelease, &name(number), Cause::Changed);
    }
    world.work(Duration::from_secs(60));
    let installs = world.hub().requests().len();
    for number in 0..RELEASES_IN_ALL {
        world.request(FluxKind::HelmRelease, &name(number), Cause::Timer);
    }
    world.work(Duration::ZERO);
    let requests = world.hub().requests();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for request in &requests {
        assert!(request.starts_with("GET"), "{request}");
        let what = match request {
            one if one.contains("/secrets?") => "records",
            one if one.contains("/helmreleases/") => "releases",
            one if one.contains("/helmcharts/") => "charts",
            _ => "discovery",
        };
        *kinds.entry(what).or_default() += 1;
    }
    println!(
        "{RELEASES_IN_ALL} releases: {installs} requests to install, {kinds:?} to see that nothing is to do"
    );
    for what in ["records", "releases", "charts"] {
        assert_eq!(kinds.get(what), Some(&RELEASES_IN_ALL), "{what}");
    }
}
