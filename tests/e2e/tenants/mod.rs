//! Limits of tenants: they cannot read with foreign credentials, inherit foreign objects, or make a
//! prune delete more than it reports.

mod a_rename_is_not_held;
mod children;
mod depends;
mod heirs;
mod isolation;
mod locked;
mod refused_entries_leave_the_inventory;
mod sources;

use driftless_harness::github::Change;
use driftless_tests::embedded::Embedded;
use driftless_tests::site::*;
use serde_json::{Value, json};

const FLEET: &str = "acme/fleet";
const HUB: [HubSpec<'static>; 1] = one_hub(FLEET);

/// Starts a hub whose fleet has these files, and reconciles it once.
fn start(files: &[Change]) -> Embedded {
    let world = Embedded::start(&HUB, &[]);
    world.commit(
        FLEET,
        &[Change::write("clusters/hub/readme.yaml", config("readme"))],
    );
    world.commit(FLEET, files);
    for namespace in ["team-a", "team-b"] {
        world.cluster("hub").namespace(namespace);
    }
    world.sweep();
    world.settle();
    world
}

/// Returns a ConfigMap of the namespace `team-b` as YAML.
fn config(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: team-b\ndata: {{a: b}}\n"
    )
}

/// Returns `count` ConfigMaps of the namespace `team-b` as YAML.
fn configs(count: usize) -> String {
    let all: Vec<String> = (0..count).map(|n| config(&format!("app-{n}"))).collect();
    all.join("---\n")
}

fn create(world: &Embedded, kind: &str, namespace: &str, name: &str, spec: Value) {
    let group = match kind {
        "Kustomization" => "kustomize.toolkit.fluxcd.io/v1",
        "HelmRelease" => "helm.toolkit.fluxcd.io/v2",
        _ => "source.toolkit.fluxcd.io/v1",
    };
    let object =
        json!({"apiVersion": group, "kind": kind, "metadata": {"name": name}, "spec": spec});
    world
        .cluster("hub")
        .create(&path(kind, namespace, ""), &object);
    look(world, kind, namespace, name);
}

/// Returns the spec of a Kustomization of a directory of the fleet.
fn sync(directory: &str) -> Value {
    json!({"interval": "10m", "path": directory, "prune": true,
        "sourceRef": {"kind": "GitRepository", "name": "flux-system", "namespace": "flux-system"}})
}

fn look(world: &Embedded, kind: &str, namespace: &str, name: &str) {
    world.request("hub", kind, namespace, name);
    world.settle();
}

/// Returns status, reason and message of the Ready condition of an object on the hub.
fn condition(
    world: &Embedded,
    kind: &str,
    namespace: &str,
    name: &str,
) -> (String, String, String) {
    ready(world.cluster("hub"), kind, namespace, name)
}

#[track_caller]
fn is_true(world: &Embedded, kind: &str, namespace: &str, name: &str) {
    let (status, reason, message) = condition(world, kind, namespace, name);
    assert_eq!(status, "True", "{namespace}/{name}: {reason}: {message}");
}

/// Returns the ids in a Kustomization's inventory.
fn inventory(world: &Embedded, namespace: &str, name: &str) -> Vec<String> {
    let object = world
        .cluster("hub")
        .get(&path("Kustomization", namespace, name));
    let entries = object["status"]["inventory"]["entries"].as_array().cloned();
    let id = |entry: &Value| entry["id"].as_str().unwrap_or_default().to_owned();
    entries.unwrap_or_default().iter().map(id).collect()
}
