//! A sparse checkout of a GitRepository: its directories must exist, as in Flux.

use driftless_harness::github::Change;
use driftless_tests::embedded::Embedded;
use driftless_tests::site::*;
use serde_json::{Value, json};

const FLEET: &str = "acme/fleet";
const HUB: [HubSpec<'static>; 1] = one_hub(FLEET);

/// Sets the directories, runs a step, and returns the object with the status, reason and message of
/// `Ready`.
fn step(world: &Embedded, directories: Value) -> (Value, (String, String, String)) {
    let (kind, namespace, name) = ("GitRepository", "flux-system", "apps");
    let hub = world.cluster("hub");
    let path = path(kind, namespace, name);
    hub.patch(&path, &json!({"spec": {"sparseCheckout": directories}}));
    world.request("hub", kind, namespace, name);
    world.settle();
    (hub.get(&path), ready(hub, kind, namespace, name))
}

#[test]
fn directories_of_a_sparse_checkout() {
    let world = Embedded::start(&HUB, &[]);
    let files = [
        Change::write("clusters/hub/none.txt", "none\n"),
        Change::write("apps/web/a.yaml", "a: 1\n"),
        Change::write("apps/other/b.yaml", "b: 1\n"),
    ];
    world.commit(FLEET, &files);
    world.sweep();
    world.settle();
    let source = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
        "metadata": {"name": "apps", "namespace": "flux-system"},
        "spec": {"interval": "1m", "url": format!("https://github.com/{FLEET}"), "ref": {"branch": "main"}},
    });
    let all = path("GitRepository", "flux-system", "");
    world
        .cluster("hub")
        .create(all.trim_end_matches('/'), &source);
    let (_, (status, reason, message)) = step(&world, json!(["apps/web", "apps/absent"]));
    assert_eq!((&*status, &*reason), ("False", "GitOperationFailed"));
    let expected = "sparse checkout dir 'apps/absent' does not exist in repository";
    assert!(message.ends_with(expected), "{message}");
    let (object, (status, _, message)) = step(&world, json!(["./apps/web"]));
    assert_eq!(status, "True", "{message}");
    assert_eq!(
        object["status"]["observedSparseCheckout"],
        json!(["./apps/web"])
    );
}
