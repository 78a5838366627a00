//! What a sweep reads: everything once, and then only what has changed.

use driftless_harness::github::Change;
use driftless_tests::embedded::Embedded;
use driftless_tests::site::*;
use serde_json::json;
use std::time::Duration;

const FLEET: &str = "acme/watched";
const HUB: [HubSpec<'static>; 1] = one_hub(FLEET);
const KUSTOMIZATIONS: usize = 6;
/// The ConfigMaps of each Kustomization.
const CONFIGS: usize = 10;

fn kustomization(number: usize) -> String {
    let spec = json!({"interval": "10m", "path": format!("./apps/{number}"), "prune": true,
        "sourceRef": {"kind": "GitRepository", "name": "flux-system"}});
    let metadata = json!({"name": format!("app-{number}"), "namespace": "flux-system"});
    json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": metadata, "spec": spec})
    .to_string()
}

fn config(number: usize) -> String {
    let object = |one: usize| {
        let metadata = json!({"name": format!("c{number}-{one}"), "namespace": "default"});
        let data = json!({"config.yaml": "level: info\n".repeat(50)});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    };
    let objects: Vec<String> = (0..CONFIGS).map(|one| object(one).to_string()).collect();
    objects.join("\n---\n")
}

/// Returns the hub with its fleet at rest.
fn world() -> Embedded {
    let world = Embedded::start(&HUB, &[]);
    let files = (0..KUSTOMIZATIONS).flat_map(|number| {
        [
            Change::write(
                &format!("clusters/hub/app-{number}.yaml"),
                kustomization(number),
            ),
            Change::write(&format!("apps/{number}/all.yaml"), config(number)),
        ]
    });
    world.commit(FLEET, &files.collect::<Vec<_>>());
    for _ in 0..2 {
        world.sweep();
        world.settle();
        world.advance(Duration::from_secs(120));
    }
    world.sweep();
    world.settle();
    for number in 0..KUSTOMIZATIONS {
        let name = format!("app-{number}");
        let (status, _, message) =
            ready(world.cluster("hub"), "Kustomization", "flux-system", &name);
        assert_eq!(status, "True", "{message}");
    }
    world.steps();
    world
}

/// Sweeps, and returns the URIs of the reads.
fn reads(world: &Embedded) -> Vec<String> {
    let hub = world.cluster("hub");
    let before = request_count(hub);
    world.sweep();
    let requests = hub.requests().into_iter().skip(before);
    requests.map(|request| request.uri).collect()
}

#[test]
fn a_sweep_at_rest_reads_no_object() {
    let world = world();
    let hub = world.cluster("hub");
    let uris = reads(&world);
    let of_kind = |plural: &str| uris.iter().filter(|uri| uri.contains(plural)).count();
    assert_eq!(
        (of_kind("/configmaps?"), of_kind("/kustomizations?")),
        (1, 2)
    );
    let mut bytes = 0;
    for uri in &uris {
        let (list, _) = uri.split_once("watch=true").expect(uri);
        bytes += hub.get(list).to_string().len();
    }
    println!(
        "{KUSTOMIZATIONS} Kustomizations at rest: {} watches instead of LISTs of {bytes} bytes",
        uris.len()
    );
    world.settle();
    assert!(world.steps().is_empty());
}

#[test]
fn each_change_is_found_by_the_next_sweep() {
    let world = world();
    let hub = world.cluster("hub");
    let at = |name: &str| path("ConfigMap", "default", name);
    hub.patch(
        &at("c0-0"),
        &json!({"data": {"config.yaml": "level: debug\n"}}),
    );
    hub.delete(&at("c1-3"));
    let changed = path("Kustomization", "flux-system", "app-2");
    hub.patch(&changed, &json!({"spec": {"interval": "20m"}}));
    for uri in reads(&world) {
        assert!(uri.contains("watch=true"), "{uri}");
    }
    world.settle();
    let steps: Vec<String> = world.steps().into_keys().collect();
    // The root has applied the changed Kustomization.
    let expected = ["app-0", "app-1", "app-2", "flux-system"];
    let expected = expected.map(|name| format!("Kustomization/flux-system/{name}"));
    assert_eq!(steps, expected);
    let restored = hub.get(&at("c0-0"));
    assert_ne!(restored["data"]["config.yaml"], "level: debug\n");
    assert!(hub.find(&at("c1-3")).is_some());

    // What the steps wrote is known to the next sweep: it queues nothing.
    world.sweep_after(Duration::from_secs(60));
    assert!(world.steps().is_empty());
}
