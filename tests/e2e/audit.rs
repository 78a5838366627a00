//! The audit log that steps write.

use driftless_harness::github::Change;
use driftless_kernel::audit::{Record, time};
use driftless_kernel::ports::Cause;
use driftless_tests::embedded::Embedded;
use driftless_tests::objects::{apps, deployment};
use driftless_tests::site::*;
use serde_json::json;
use std::time::Duration;

const FLEET: &str = "acme/fleet";
const HUB: [HubSpec<'static>; 1] = one_hub(FLEET);
/// A time after which all sources and Kustomizations are due.
const INTERVAL: Duration = Duration::from_secs(900);

/// Pushes changes a second later, and runs the steps that follow.
fn push(world: &Embedded, changes: &[Change]) {
    world.advance(Duration::from_secs(1));
    world.push(FLEET, changes);
    world.settle();
}

/// Returns the newest record of the Kustomization `apps`.
fn of_apps(world: &Embedded) -> Record {
    let mut records = world.audit("hub");
    records.retain(|record| record.by.name == "apps");
    records.pop().expect("a record")
}

/// Returns that record as one line: the object that changed what, on which cluster, for which
/// cause, and by whom.
fn newest(world: &Embedded) -> String {
    let record = of_apps(world);
    let changes = record.changes.iter();
    let changes = changes.map(|change| format!("{} {}", change.object(), change.action));
    let commit = record.commit.as_ref();
    let author = commit.map_or("an unknown author", |commit| &commit.author);
    format!(
        "{} on {}: {}, {}, by {author}",
        record.by,
        record.cluster,
        changes.collect::<Vec<_>>().join(", "),
        record.cause.in_words()
    )
}

#[test]
fn a_push_writes_who_changed_what_and_where() {
    let world = Embedded::start(&HUB, &[]);
    world.commit(FLEET, &[apps(""), deployment("web:1")]);
    world.sweep_after(INTERVAL);
    // The timer found the first commit, so its author is not known.
    assert_eq!(
        newest(&world),
        "Kustomization/flux-system/apps on hub: Deployment/default/web created, after a change, by an unknown author"
    );

    push(&world, &[deployment("web:2")]);
    let ada = "by Ada Example <ada@example.com>";
    assert_eq!(
        newest(&world),
        format!(
            "Kustomization/flux-system/apps on hub: Deployment/default/web configured, after a new artifact, {ada}"
        )
    );
    let record = of_apps(&world);
    let head = world.head(FLEET);
    let commit = record.commit.as_ref().expect("the commit");
    assert_eq!((&*commit.sha, &*commit.delivery), (&*head, "72d3162e"));
    assert_eq!(record.revision, format!("main@sha1:{head}"));
    assert_eq!(record.time, time(world.now()));
    let digest = record.changes[0].digest.as_deref().unwrap_or_default();
    assert!(digest.starts_with("sha256:"), "{digest}");

    // A push that changes no object, and steps that change nothing, write nothing.
    let count = world.audit("hub").len();
    push(&world, &[Change::write("README.md", "Nothing.\n")]);
    world.request("hub", "Kustomization", "flux-system", "apps");
    world.settle();
    world.sweep_after(INTERVAL);
    assert_eq!(world.audit("hub").len(), count);

    // Drift is put back, for no commit's sake.
    let web = "/apis/apps/v1/namespaces/default/deployments/web";
    let drift = json!({"spec": {"replicas": 5}});
    world.cluster("hub").patch(web, &drift);
    world.sweep_after(Duration::from_secs(60));
    let records = world.audit("hub");
    assert_eq!(
        (records.len(), &records[count].cause),
        (count + 1, &Cause::Drift)
    );

    // A deletion is one of the commit that removes the file, and one of the Kustomization's end.
    let note = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: note\n  namespace: default\n";
    push(
        &world,
        &[
            Change::write("apps/note.yaml", note),
            Change::write("clusters/hub/note.yaml", note.replace("note", "root")),
        ],
    );
    push(&world, &[Change::remove("apps/note.yaml")]);
    let removed = "Kustomization/flux-system/apps on hub: ConfigMap/default/note deleted";
    assert_eq!(
        newest(&world),
        format!("{removed}, after a new artifact, {ada}")
    );
    push(&world, &[Change::remove("clusters/hub/apps.yaml")]);
    let text = newest(&world);
    let ended = "Kustomization/flux-system/apps on hub: Deployment/default/web deleted, ";
    assert!(text.starts_with(ended), "{text}");
    let root = world.audit("hub");
    let root = root
        .iter()
        .rev()
        .find(|record| record.by.name == "flux-system");
    let root = root.expect("a record of the root");
    assert_eq!(root.changes[0].object(), "Kustomization/flux-system/apps");
    assert_eq!(root.changes[0].action, "deleted");
}

#[test]
fn no_byte_of_a_secret_is_in_the_audit_log() {
    let world = Embedded::start(&HUB, &[]);
    let secret = |value: &str| {
        let text = format!(
            "apiVersion: v1\nkind: Secret\nmetadata:\n  name: login\n  namespace: default\nstringData:\n  password: {value}\n"
        );
        Change::write("apps/secret.yaml", text)
    };
    world.commit(FLEET, &[apps(""), secret("hunter1")]);
    world.sweep_after(INTERVAL);
    let mut digests = vec![of_apps(&world).changes[0].digest.clone()];
    for value in ["hunter2", "hunter3"] {
        push(&world, &[secret(value)]);
        let record = of_apps(&world);
        assert_eq!(record.changes[0].object(), "Secret/default/login");
        digests.push(record.changes[0].digest.clone());
        let text = serde_json::to_string(&world.audit("hub")).expect("JSON");
        assert!(!text.contains("hunter"), "{text}");
    }
    assert!(digests[1].is_some());
    assert_eq!(digests[1], digests[2]);
}
