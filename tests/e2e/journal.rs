//! The journal that steps write for people.

use driftless_core::flux::{FluxKind, ObjectRef};
use driftless_core::journal::{Journal, StepResult, pushes};
use driftless_harness::github::Change;
use driftless_tests::embedded::Embedded;
use driftless_tests::site::*;
use serde_json::json;
use std::time::Duration;

const FLEET: &str = "acme/fleet";
const HUB: [HubSpec<'static>; 1] = one_hub(FLEET);

fn apps(post_build: &str) -> Change {
    let text = format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata:\n  name: apps\n  namespace: flux-system\n\
         spec:\n  interval: 10m\n  path: ./apps\n  prune: true\n  sourceRef:\n    kind: GitRepository\n    name: flux-system\n{post_build}"
    );
    Change::write("clusters/hub/apps.yaml", text)
}

fn deployment(image: &str) -> Change {
    let text = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n  namespace: default\nspec:\n  replicas: 1\n  \
         selector:\n    matchLabels: {{app: web}}\n  template:\n    metadata:\n      labels: {{app: web}}\n    \
         spec:\n      containers:\n      - name: web\n        image: {image}\n"
    );
    Change::write("apps/web.yaml", text)
}

fn settle(world: &Embedded) {
    world.advance(Duration::from_secs(900));
    world.sweep();
    world.settle();
}

fn journal(world: &Embedded, kind: FluxKind, name: &str) -> Journal {
    world.journal("hub", &ObjectRef::new(kind, "flux-system", name))
}

/// Returns the changes of the newest entry, one line each.
fn newest(world: &Embedded) -> Vec<String> {
    let journal = journal(world, FluxKind::Kustomization, "apps");
    let entry = journal.entries.first().expect("an entry");
    let mut lines = Vec::new();
    for change in &entry.changes {
        lines.push(format!("{} {}", change.object, change.action));
        for field in &change.fields {
            let value = |value: &Option<String>| value.clone().unwrap_or_default();
            lines.push(format!(
                "{} {} {}",
                field.path,
                value(&field.from),
                value(&field.to)
            ));
        }
    }
    lines
}

#[test]
fn steps_record_what_they_changed_and_nothing_else() {
    let world = Embedded::start(&HUB, &[]);
    world.commit(FLEET, &[apps(""), deployment("web:1")]);
    settle(&world);
    assert_eq!(newest(&world), ["Deployment/default/web created"]);
    let source = journal(&world, FluxKind::GitRepository, "flux-system");
    assert_eq!(source.entries[0].result, StepResult::NewRevision);

    // A step that changes nothing writes nothing.
    let stored = |world: &Embedded| {
        let all = [
            journal(world, FluxKind::Kustomization, "apps"),
            journal(world, FluxKind::Kustomization, "flux-system"),
            journal(world, FluxKind::GitRepository, "flux-system"),
        ];
        all.map(|journal| journal.entries.len())
    };
    let before = stored(&world);
    world.request("hub", "Kustomization", "flux-system", "apps");
    world.settle();
    settle(&world);
    assert_eq!(stored(&world), before);

    world.commit(FLEET, &[deployment("web:2")]);
    settle(&world);
    let image = "spec.template.spec.containers[name=web].image web:1 web:2";
    assert_eq!(newest(&world), ["Deployment/default/web configured", image]);
    // The revision of the root changed no file of its build: it landed without an entry.
    let objects = [
        (FluxKind::GitRepository, "flux-system"),
        (FluxKind::Kustomization, "apps"),
        (FluxKind::Kustomization, "flux-system"),
    ]
    .map(|(kind, name)| ObjectRef::new(kind, "flux-system", name));
    let journals = objects
        .each_ref()
        .map(|object| world.journal("hub", object));
    let all = objects
        .iter()
        .zip(&journals)
        .map(|(object, journal)| ("hub", object, journal));
    let found = pushes(all, 10);
    let landed: Vec<&str> = found[0]
        .landings
        .iter()
        .map(|one| &*one.object.name)
        .collect();
    assert_eq!((found.len(), landed), (2, vec!["apps"]));

    // Drift that is put back is recorded as drift.
    let web = "/apis/apps/v1/namespaces/default/deployments/web";
    world
        .cluster("hub")
        .patch(web, &json!({"spec": {"replicas": 5}}));
    world.advance(Duration::from_secs(60));
    world.sweep();
    world.settle();
    assert_eq!(
        newest(&world),
        ["Deployment/default/web configured", "spec.replicas 5 1"]
    );
    let newest = &journal(&world, FluxKind::Kustomization, "apps").entries[0];
    assert_eq!(newest.cause, driftless_core::ports::Cause::Drift);

    // A failure is recorded once, and the journal goes with its object.
    world.commit(FLEET, &[Change::write("apps/web.yaml", "kind: [\n")]);
    settle(&world);
    settle(&world);
    let failed = journal(&world, FluxKind::Kustomization, "apps").entries;
    let results: Vec<StepResult> = failed.iter().map(|entry| entry.result).collect();
    assert_eq!(results[..2], [StepResult::Failed, StepResult::Ready]);
    // The directory of the root must not become empty.
    let note = Change::write(
        "clusters/hub/note.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: note\n  namespace: default\n",
    );
    world.commit(
        FLEET,
        &[
            deployment("web:2"),
            Change::remove("clusters/hub/apps.yaml"),
            note,
        ],
    );
    settle(&world);
    settle(&world);
    let none: [&str; 0] = [];
    let left = world.stored("journal/hub/kustomizations/flux-system/apps");
    assert_eq!(left, none);
}

#[test]
fn no_byte_of_a_secret_is_recorded() {
    let world = Embedded::start(&HUB, &[]);
    let hub = world.cluster("hub");
    hub.create(
        "/api/v1/namespaces/flux-system/secrets",
        &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "variables"},
                "stringData": {"TAG": "hunter2"}}),
    );
    let from = "  postBuild:\n    substituteFrom:\n    - kind: Secret\n      name: variables\n";
    world.commit(FLEET, &[apps(from), deployment("web:1")]);
    settle(&world);
    world.commit(FLEET, &[deployment("web:${TAG}")]);
    settle(&world);
    let image = "spec.template.spec.containers[name=web].image  ";
    assert_eq!(newest(&world), ["Deployment/default/web configured", image]);
    let all = journal(&world, FluxKind::Kustomization, "apps");
    let text = serde_json::to_string(&all).expect("JSON");
    assert!(!text.contains("hunter2"), "{text}");
}
