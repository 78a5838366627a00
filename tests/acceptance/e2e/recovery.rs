//! The bucket of a deployed installation is lost, with the registration of the hub.

use crate::world::World;
use driftless_harness::github::Change;
use driftless_tests::objects::apps;
use driftless_tests::site::*;
use serde_json::Value;

const FLEET: &str = "acme/fleet";
const HUB: HubSpec<'static> = one_hub(FLEET)[0];
const CONFIG: &str = "/api/v1/namespaces/default/configmaps/config";

fn config(value: &str) -> Change {
    let object = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: config, namespace: default}}\ndata: {{value: '{value}'}}\n"
    );
    Change::write("apps/config.yaml", object)
}

#[test]
fn a_lost_bucket_is_restored() {
    let world = World::start(false, &[HUB], &[]);
    let hub: &dyn Node = world.hub("hub");
    let value = |object: &Value| object["data"]["value"].as_str().map(str::to_owned);
    let is_ready = || {
        let head = Site::head(&world, FLEET);
        is_ready(hub, "flux-system", "apps", &head)
    };
    Site::commit(&world, FLEET, &[apps(""), config("1")]);
    world.sweep();
    world.eventually("the first sync", is_ready);
    world.settle();
    let before = hub.get(CONFIG);

    world.empty_bucket();
    let text = world.command(&["bootstrap", "restore"]);
    assert!(text.contains("hub hub: is registered again"), "{text}");
    let text = world.command(&["bootstrap", "restore", "hub"]);
    assert!(text.contains("hub hub: is registered, and stays"), "{text}");
    world.sweep();
    world.settle();
    assert_eq!(hub.get(CONFIG), before, "nothing is applied again");
    assert!(
        world
            .keys()
            .iter()
            .any(|key| key.starts_with("objects/hub/kustomizations/"))
    );
    assert_eq!(
        Site::push(&world, FLEET, &[config("2")])[0].status,
        Some(202)
    );
    world.eventually("a push after it", || {
        let found = value(&hub.get(CONFIG));
        (found.as_deref() == Some("2"))
            .then_some(())
            .ok_or(format!("{found:?}"))
    });
}
