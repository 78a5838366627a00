//! Unsupported objects, and index entries of deleted or moved sources: sources have no finalizer.

use driftless_harness::github::Change;
use driftless_tests::embedded::Embedded;
use driftless_tests::site::*;
use serde_json::{Value, json};

const FLEET: &str = "acme/forgotten";
const HUB: [HubSpec<'static>; 1] = one_hub(FLEET);
const SOURCES: &str = "/apis/source.toolkit.fluxcd.io/v1/namespaces/apps/gitrepositories";

fn started() -> Embedded {
    let world = Embedded::start(&HUB, &[]);
    let file = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: app\n  namespace: default\n";
    world.commit(FLEET, &[Change::write("clusters/hub/app.yaml", file)]);
    for repository in ["acme/one", "acme/two"] {
        world.commit(repository, &[Change::write("app.yaml", file)]);
    }
    world.cluster("hub").namespace("apps");
    world
}

fn source(repository: &str) -> Value {
    json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "metadata": {"name": "app"},
        "spec": {"interval": "1h", "url": format!("https://github.com/{repository}"), "ref": {"branch": "main"}}})
}

/// Returns the repositories that the index lists for the source `apps/app`.
fn followed(world: &Embedded) -> Vec<String> {
    let notes = world.stored("index/").into_iter();
    let ours = notes.filter_map(|key| key.strip_suffix("/hub+apps+app.json").map(str::to_owned));
    let ours = ours.filter_map(|key| key.strip_suffix("/refs%2Fheads%2Fmain").map(str::to_owned));
    ours.map(|key| key.replace("index/github.com/", ""))
        .collect()
}

fn push(world: &Embedded, repository: &str, version: &str) -> Option<u16> {
    let file = Change::write("version", version);
    world.push(repository, &[file])[0].status
}

#[test]
fn a_push_forgets_a_deleted_source() {
    let world = started();
    world.cluster("hub").create(SOURCES, &source("acme/one"));
    world.sweep();
    world.settle();
    assert_eq!(followed(&world), ["acme/one"]);
    let memory = "objects/hub/gitrepositories/apps/app.json";
    assert_eq!(world.stored(memory), [memory]);
    world.cluster("hub").delete(&format!("{SOURCES}/app"));
    assert_eq!(
        push(&world, "acme/one", "1"),
        Some(202),
        "the source is queued once"
    );
    world.settle();
    assert_eq!(followed(&world), [""; 0]);
    assert_eq!(world.stored(memory), [""; 0]);
    assert_eq!(
        push(&world, "acme/one", "2"),
        Some(200),
        "no source follows the repository"
    );
}

#[test]
fn a_moved_source_no_longer_follows_its_old_repository() {
    let world = started();
    let hub = world.cluster("hub");
    hub.create(SOURCES, &source("acme/one"));
    world.sweep();
    world.settle();
    let moved = json!({"spec": {"url": "https://github.com/acme/two"}});
    hub.patch(&format!("{SOURCES}/app"), &moved);
    world.sweep();
    world.settle();
    assert_eq!(followed(&world), ["acme/two"]);
    assert_eq!(push(&world, "acme/one", "1"), Some(200));
    assert_eq!(push(&world, "acme/two", "1"), Some(202));
    world.settle();
    assert_eq!(followed(&world), ["acme/two"]);
}

#[test]
fn an_alert_without_its_provider_gets_a_status_and_one_event() {
    let world = started();
    let hub = world.cluster("hub");
    let alerts = "/apis/notification.toolkit.fluxcd.io/v1beta3/namespaces/apps/alerts";
    let alert = json!({"apiVersion": "notification.toolkit.fluxcd.io/v1beta3", "kind": "Alert", "metadata": {"name": "all"},
        "spec": {"providerRef": {"name": "chat"}, "eventSources": [{"kind": "Kustomization", "name": "*"}]}});
    hub.create(alerts, &alert);
    for _ in 0..3 {
        world.request("hub", "Alert", "apps", "all");
        world.settle();
    }
    let object = hub.get(&format!("{alerts}/all"));
    let conditions = object["status"]["conditions"].as_array();
    let ready = conditions.and_then(|all| all.iter().find(|one| one["type"] == "Ready"));
    let ready = ready.expect("a condition");
    assert_eq!(
        (&ready["status"], &ready["reason"]),
        (&json!("False"), &json!("NotificationDispatchFailed"))
    );
    let events = hub.get("/api/v1/namespaces/apps/events");
    let items = events["items"].as_array().into_iter().flatten();
    let found: Vec<_> = items
        .map(|event| (&event["type"], &event["reason"], &event["message"]))
        .collect();
    assert_eq!(
        found,
        [(
            &json!("Warning"),
            &json!("NotificationDispatchFailed"),
            &ready["message"]
        )]
    );
}
