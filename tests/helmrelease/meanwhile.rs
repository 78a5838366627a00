//! Releases that are edited while a step works on them.

use crate::charts;
use crate::world::{MERGE, Meanwhile, RELEASES, World};
use driftless_core::flux::REQUESTED_AT;
use serde_json::{Value, json};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);
const RECORD: &str = "POST /api/v1/namespaces/apps/secrets";

/// A release of which a new color is about to be installed, and what somebody does once its record is there.
fn upgraded_while(place: &str, patch: Value) -> World {
    let world = World::start(&[]);
    world.chart(&charts::web("1.0.0"), "1.0.0");
    world.release(json!({"interval": "10m", "values": {"color": "red"}}));
    world.look(SOON);
    assert_eq!(world.history(), "v1 deployed install");
    let path = format!("{RELEASES}/web");
    let green = json!({"spec": {"values": {"color": "green"}}});
    world.hub().must("PATCH", &path, MERGE, Some(&green));
    world.hub().meanwhile(Meanwhile {
        after: RECORD,
        path: format!("{path}{place}"),
        patch,
    });
    world.look(SOON);
    world.look(SOON);
    world
}

#[test]
fn an_annotation_costs_no_second_upgrade() {
    let asked = json!({"metadata": {"annotations": {REQUESTED_AT: "now"}}});
    let world = upgraded_while("", asked);
    let history = "v2 deployed upgrade, v1 superseded";
    assert_eq!(world.history(), history);
    assert_eq!(world.records("hub"), "v1 superseded, v2 deployed");
    assert_eq!(world.status()["lastHandledReconcileAt"], "now");
}

#[test]
fn an_edit_is_the_next_upgrade() {
    let blue = json!({"spec": {"values": {"color": "blue"}}});
    let world = upgraded_while("", blue);
    let history = "v3 deployed upgrade, v2 superseded";
    assert_eq!(world.history(), history);
    assert_eq!(
        world.hub().config("web-config").expect("it is there")["data"]["color"],
        "blue"
    );
}

#[test]
fn the_status_of_another_worker_stays() {
    let other = json!({"status": {"lastAttemptedConfigDigest": "sha256:other", "failures": 7}});
    let world = upgraded_while("/status", other);
    let upgrades = world.records("hub");
    assert_eq!(
        upgrades, "v1 superseded, v2 superseded, v3 deployed",
        "as of a worker that died"
    );
}
