//! The journal that steps write for people.

use driftless_flux::{FluxKind, ObjectRef};
use driftless_harness::github::Change;
use driftless_kernel::journal::{self, Journal, StepResult, pushes};
use driftless_tests::charts;
use driftless_tests::embedded::Embedded;
use driftless_tests::objects::{apps, deployment};
use driftless_tests::releases;
use driftless_tests::site::*;
use serde_json::json;
use std::time::Duration;

const FLEET: &str = "acme/fleet";
const HUB: [HubSpec<'static>; 1] = one_hub(FLEET);
/// A time after which all sources and Kustomizations are due.
const INTERVAL: Duration = Duration::from_secs(900);

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
    world.sweep_after(INTERVAL);
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
    world.sweep_after(INTERVAL);
    assert_eq!(stored(&world), before);

    world.commit(FLEET, &[deployment("web:2")]);
    world.sweep_after(INTERVAL);
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
    world.sweep_after(Duration::from_secs(60));
    assert_eq!(
        newest(&world),
        ["Deployment/default/web configured", "spec.replicas 5 1"]
    );
    let newest = &journal(&world, FluxKind::Kustomization, "apps").entries[0];
    assert_eq!(newest.cause, driftless_kernel::ports::Cause::Drift);

    // A failure is recorded once, and the journal goes with its object.
    world.commit(FLEET, &[Change::write("apps/web.yaml", "kind: [\n")]);
    world.sweep_after(INTERVAL);
    world.sweep_after(INTERVAL);
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
    world.sweep_after(INTERVAL);
    world.sweep_after(INTERVAL);
    let none: [&str; 0] = [];
    let left = world.stored("journal/hub/kustomizations/flux-system/apps");
    assert_eq!(left, none);
}

#[test]
fn a_push_is_received_when_its_delivery_is() {
    let world = Embedded::start(&HUB, &[]);
    world.commit(FLEET, &[apps(""), deployment("web:1")]);
    world.sweep_after(INTERVAL);
    world.push(FLEET, &[deployment("web:2")]);
    let received = world.now();
    // The queue is slow.
    world.advance(Duration::from_secs(7));
    let started = world.now();
    world.settle();
    let source = ObjectRef::new(FluxKind::GitRepository, "flux-system", "flux-system");
    let journal = world.journal("hub", &source);
    let millis = |time: Duration| u64::try_from(time.as_millis()).expect("a time");
    let newest = &journal.entries[0];
    assert_eq!(newest.received, Some(millis(received)));
    assert_eq!(newest.started, millis(started));
    let found = pushes([("hub", &source, &journal)], 10);
    assert_eq!(found[0].received, millis(received));
    // The first revision was found by the timer.
    assert_eq!(journal.entries[1].received, None);
    assert_eq!(found[1].received, journal.entries[1].started);
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
    world.sweep_after(INTERVAL);
    world.commit(FLEET, &[deployment("web:${TAG}")]);
    world.sweep_after(INTERVAL);
    let image = "spec.template.spec.containers[name=web].image  ";
    assert_eq!(newest(&world), ["Deployment/default/web configured", image]);
    let all = journal(&world, FluxKind::Kustomization, "apps");
    let text = serde_json::to_string(&all).expect("JSON");
    assert!(!text.contains("hunter2"), "{text}");
}

/// Returns the newest entries of the journal of the HelmRelease `apps/web` that have changes: a
/// line for each change, and for each of its fields.
fn release_changes(world: &releases::World, entries: usize) -> Vec<String> {
    let web = ObjectRef::new(FluxKind::HelmRelease, "apps", "web");
    let read = journal::read(world.ports.blobs.as_ref(), releases::HUB, &web);
    let journal = futures::executor::block_on(read).expect("a journal");
    let changed = journal.entries.iter().filter(|entry| entry.changed() > 0);
    let changes = changed.take(entries).flat_map(|entry| &entry.changes);
    let mut lines = Vec::new();
    for change in changes {
        lines.push(format!("{} {}", change.object, change.action));
        lines.extend(
            change
                .fields
                .iter()
                .map(|field| match (&field.from, &field.to) {
                    (None, None) => field.path.clone(),
                    (from, to) => format!("{} {from:?} {to:?}", field.path),
                }),
        );
    }
    lines
}

#[test]
fn steps_of_a_release_record_what_they_changed() {
    let world = releases::World::start(&[]);
    world.chart(&charts::web("1.0.0"), "1.0.0");
    world.release(json!({"values": {"color": "red", "extra": true}}));
    world.reconcile(Duration::from_secs(60));
    assert_eq!(
        release_changes(&world, 1),
        [
            "ConfigMap/apps/web-config created",
            "ConfigMap/apps/web-extra created"
        ]
    );

    // An upgrade: the value of a ConfigMap is text, which is left out.
    world.release(json!({"values": {"color": "green", "extra": false}, "driftDetection": {"mode": "enabled"}}));
    world.reconcile(Duration::from_secs(60));
    assert_eq!(
        release_changes(&world, 1),
        [
            "ConfigMap/apps/web-config configured",
            "data.color",
            "data.revision",
            "ConfigMap/apps/web-extra deleted"
        ]
    );

    // A step that changes nothing records nothing.
    let before = release_changes(&world, 10);
    world.reconcile(Duration::from_secs(60));
    assert_eq!(release_changes(&world, 10), before);

    // The correction of drift, of a changed object and of one that is gone.
    let config = "/api/v1/namespaces/apps/configmaps/web-config";
    let drift = json!({"data": {"color": "black"}});
    world.hub().must(
        "PATCH",
        config,
        "application/merge-patch+json",
        Some(&drift),
    );
    world.reconcile(Duration::from_secs(60));
    let corrected = ["ConfigMap/apps/web-config configured", "data.color"];
    assert_eq!(release_changes(&world, 1), corrected);
    world.hub().must("DELETE", config, releases::JSON, None);
    world.reconcile(Duration::from_secs(60));
    let created = ["ConfigMap/apps/web-config created"];
    assert_eq!(release_changes(&world, 1), created);
}

#[test]
fn a_release_without_server_side_apply_records_the_same_and_hooks_too() {
    let world = releases::World::start(&[]);
    world.chart(&charts::web("1.0.0"), "1.0.0");
    let spec = |color: &str| {
        json!({"values": {"color": color, "hook": "pre-upgrade"},
            "install": {"serverSideApply": false}, "upgrade": {"serverSideApply": "disabled"}})
    };
    world.release(spec("red"));
    world.reconcile(Duration::from_secs(60));
    let created = ["ConfigMap/apps/web-config created"];
    assert_eq!(release_changes(&world, 1), created);
    world.end("web-hook", true);
    world.release(spec("green"));
    world.reconcile(Duration::from_secs(120));
    let mut changes = release_changes(&world, 2);
    changes.sort();
    assert_eq!(
        changes,
        [
            "ConfigMap/apps/web-config configured",
            "Job/apps/web-hook created",
            "data.color",
            "data.revision"
        ]
    );
}

#[test]
fn no_value_of_a_release_is_recorded_if_it_may_come_from_a_secret() {
    let world = releases::World::start(&[]);
    let chart = |port: &str, version: &str| {
        let about = format!("apiVersion: v2\nname: web\nversion: {version}\n");
        let service = format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: web}}\nspec:\n  selector: {{app: web}}\n  \
             ports: [{{name: http, port: {port}, targetPort: 8000}}]\n"
        );
        driftless_manifest::FileTree::from_files([
            ("web/Chart.yaml", about.as_str()),
            ("web/values.yaml", "port: 80\n"),
            ("web/templates/service.yaml", service.as_str()),
        ])
        .expect("a chart")
    };
    let versions = std::cell::Cell::new(0);
    let change = |port: &str| {
        versions.set(versions.get() + 1);
        let version = format!("1.0.{}", versions.get());
        world.chart(&chart(port, &version), &version);
        world.reconcile(Duration::from_secs(60));
        let lines = release_changes(&world, 1);
        lines[1..].join(", ")
    };
    let path = "spec.ports[name=http].port";
    world.release(json!({}));
    assert_eq!(change("80"), "");
    assert_eq!(change("81"), format!("{path} Some(\"80\") Some(\"81\")"));
    // The chart reads a Secret.
    let looked_up = "{{ if lookup \"v1\" \"Secret\" \"apps\" \"x\" }}1{{ else }}8082{{ end }}";
    assert_eq!(change(looked_up), path);
    // The values come from a Secret.
    let from = json!([{"kind": "Secret", "name": "values", "optional": true}]);
    world.release(json!({ "valuesFrom": from }));
    assert_eq!(change("{{ .Values.port }}"), path);
    // They no longer do, but the earlier value did.
    world.release(json!({}));
    assert_eq!(change("83"), format!("{path} None Some(\"83\")"));
    assert_eq!(change("84"), format!("{path} Some(\"83\") Some(\"84\")"));
}
