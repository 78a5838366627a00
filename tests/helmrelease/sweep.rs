//! The cost of a sweep over many releases with nothing to do.

use driftless_flux::FluxKind;
use driftless_kernel::ports::Cause;
use driftless_tests::charts;
use driftless_tests::releases::{JSON, MERGE, RELEASES, World};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

const MANY: usize = 200;
const SOME: usize = 12;
const INTERVAL: Duration = Duration::from_secs(600);

fn name(number: usize) -> String {
    format!("r{number:03}")
}

/// Starts a hub with releases, half of them with drift detection, each with its own values in a
/// Secret.
fn world(releases: usize) -> World {
    let world = World::start(&[]);
    world.chart(&charts::web("1.0.0"), "1.0.0");
    for number in 0..releases {
        let name = name(number);
        let values = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
            "stringData": {"values.yaml": "color: green\nservice: true\n"}});
        let secrets = "/api/v1/namespaces/apps/secrets";
        world.hub().must("POST", secrets, JSON, Some(&values));
        let drift = if number % 2 == 0 {
            "enabled"
        } else {
            "disabled"
        };
        let release = json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": {"name": name},
            "spec": {"interval": "10m", "chartRef": {"kind": "HelmChart", "name": "web"}, "driftDetection": {"mode": drift},
                "valuesFrom": [{"kind": "Secret", "name": name}]}});
        world.hub().must("POST", RELEASES, JSON, Some(&release));
    }
    assert_eq!(world.sweep().len(), releases + 1, "and the chart");
    world.work(Duration::from_secs(60));
    // The step of the HelmChart failed without a repository: write its result again.
    world.chart(&charts::web("1.0.0"), "1.0.0");
    world
}

/// Returns the number of reads of each collection or object; panics if there was a write.
fn reads(world: &World) -> BTreeMap<String, usize> {
    let mut reads = BTreeMap::new();
    for request in world.hub().requests() {
        let path = request.strip_prefix("GET ").expect("only reads");
        let path = path.split('?').next().expect("a path").to_owned();
        let is_discovery = path.split('/').count() < 5 && !path.contains("namespaces");
        if !is_discovery
            || FluxKind::ALL
                .iter()
                .any(|kind| path.ends_with(kind.plural()))
        {
            *reads.entry(path).or_default() += 1;
        }
    }
    reads
}

#[test]
fn a_sweep_over_200_releases_with_nothing_to_do() {
    let world = world(MANY);
    let installs = world.hub().requests().len();
    // The installs are more changes than the server keeps: this sweep lists.
    world.sweep();
    world.work(INTERVAL);
    world.hub().requests();
    let before = world.hub().get(RELEASES);
    let start = std::time::Instant::now();
    let queued = world.sweep();
    let took = start.elapsed();
    let releases: Vec<&String> = queued
        .iter()
        .filter(|one| one.contains("HelmRelease/"))
        .collect();
    assert!(releases.is_empty(), "{releases:?}");
    let reads = reads(&world);
    println!(
        "{MANY} releases: {installs} requests to install; {} to find nothing to do, in {took:.0?}: {reads:#?}",
        reads.values().sum::<usize>()
    );
    for (path, times) in &reads {
        assert!(*times <= 2, "{path}: {times} times");
    }
    for path in [
        "/api/v1/namespaces/apps/secrets",
        "/api/v1/namespaces/apps/configmaps",
        "/api/v1/namespaces/apps/services",
    ] {
        assert_eq!(reads.get(path), Some(&1), "{path}");
    }
    assert!(reads.values().sum::<usize>() < 20, "{reads:#?}");
    assert_eq!(before["items"], world.hub().get(RELEASES)["items"]);
    // The sweep checked all of them: their intervals start again.
    assert!(!world.sweep().iter().any(|one| one.contains("HelmRelease/")));
}

/// After the first sweep of a process, a sweep reads only what has changed: there is no LIST.
#[test]
fn a_quiet_sweep_only_watches() {
    let world = world(SOME);
    world.sweep();
    world.hub().requests();
    assert!(world.sweep().is_empty());
    let requests = world.hub().requests();
    let lists = requests.iter().filter(|one| !one.contains("watch=true"));
    assert_eq!(lists.collect::<Vec<_>>(), Vec::<&String>::new());
    let kinds = |path: &str| requests.iter().filter(|one| one.contains(path)).count();
    assert_eq!((kinds("/helmreleases?"), kinds("/configmaps?")), (1, 1));
    // Drift, a deletion and a change of a Flux object are found by the next sweep.
    let config = |number| format!("/api/v1/namespaces/apps/configmaps/r{number:03}-config");
    let change = json!({"data": {"color": "red"}});
    world.hub().must("PATCH", &config(2), MERGE, Some(&change));
    world.hub().must("DELETE", &config(4), JSON, None);
    let release = format!("{RELEASES}/{}", name(6));
    let interval = json!({"spec": {"interval": "20m"}});
    world.hub().must("PATCH", &release, MERGE, Some(&interval));
    world.hub().requests();
    let queued = world.sweep().join(" ");
    for number in [2, 4, 6] {
        assert!(
            queued.contains(&format!("HelmRelease/apps/{}", name(number))),
            "{queued}"
        );
    }
    let requests = world.hub().requests();
    assert!(
        requests.iter().all(|one| one.contains("watch=true")),
        "{requests:#?}"
    );
}

/// Only releases that need a step are queued.
#[test]
fn a_sweep_finds_releases_that_need_a_step() {
    let world = world(SOME);
    world.work(INTERVAL);
    let change = |path: &str, patch: Value| {
        world.hub().must("PATCH", path, MERGE, Some(&patch));
    };
    let config = |number| format!("/api/v1/namespaces/apps/configmaps/r{number:03}-config");
    // New values, a deleted record, drift with detection, and drift without.
    change(
        "/api/v1/namespaces/apps/secrets/r003",
        json!({"stringData": {"values.yaml": "color: red\n"}}),
    );
    let record = "/api/v1/namespaces/apps/secrets/sh.helm.release.v1.r005.v1";
    world.hub().must("DELETE", record, JSON, None);
    change(&config(8), json!({"data": {"color": "red"}}));
    change(&config(9), json!({"data": {"color": "red"}}));
    let queued = world.sweep();
    let mut found: Vec<&str> = queued
        .iter()
        .filter_map(|one| one.split_once("HelmRelease/apps/"))
        .map(|(_, name)| name)
        .collect();
    found.sort_unstable();
    assert_eq!(found, ["r003", "r005", "r008"]);
    world.work(Duration::from_secs(60));
    let color = |number| world.hub().get(&config(number))["data"]["color"].clone();
    assert_eq!(
        (color(3), color(5), color(8), color(9)),
        (json!("red"), json!("green"), json!("green"), json!("red"))
    );
}

/// A step that a message requests reads the HelmRelease, its HelmChart, the values and the records,
/// and writes nothing.
#[test]
fn a_step_of_one_release_with_nothing_to_do() {
    let world = world(SOME);
    world.hub().requests();
    world.request(FluxKind::HelmRelease, &name(1), Cause::Changed);
    world.work(Duration::ZERO);
    let reads = reads(&world);
    assert_eq!(reads.values().sum::<usize>(), 4, "{reads:#?}");
}
