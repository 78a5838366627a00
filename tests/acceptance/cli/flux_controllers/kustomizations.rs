//! Kustomizations over several steps: commits, edits of the spec and of applied objects, deletion.

use super::act::{Act, Edit, delete_all, longest};
use super::compare::Comparison;
use super::intended_differences;
use super::kustomization_acts::{BEFORE, acts};
use super::site::{Side, Sources};
use super::snapshot::{Snapshot, is_settled, of_kind, ready};
use driftless_harness::cluster::Cluster;
use driftless_harness::github::Change;
use serde_json::json;

const KUSTOMIZATIONS: &str = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/apps/kustomizations";
const SOURCE: &str = "/apis/source.toolkit.fluxcd.io/v1/namespaces/apps/gitrepositories/fleet";

/// Runs every step on both sides, and compares all objects after each.
#[test]
fn flux_controllers_and_driftless_run_kustomizations_alike() {
    let sources = Sources::new();
    let acts = acts();
    let before: Vec<Change> = acts
        .iter()
        .flat_map(|(act, files)| of_directory(act, files))
        .collect();
    let mut head = sources.fleet.commit("main", &before, "Before");
    let [flux, driftless] = Cluster::start_all(["flux", "driftless"]);
    let sides = [
        &Side::flux(flux, &sources),
        &Side::driftless(driftless, &sources),
    ];
    let source = sources.fill(include_str!("kustomizations.yaml"));
    for side in sides {
        side.apply(&source);
        side.apply(BEFORE);
        side.wait_for_artifact("gitrepositories/fleet");
    }
    let acts: Vec<Act> = acts.into_iter().map(|(act, _)| act).collect();
    for side in sides {
        acts.iter().for_each(|act| create(side, act));
    }
    let mut comparison = Comparison::new(sides[0], sides[1], intended_differences::KUSTOMIZATIONS);
    let mut same = |description: &str, head: &str| {
        eprintln!("{description}");
        comparison.eventually_the_same(|sides, _| sides.iter().all(|side| has_tried(side, head)));
    };
    same("created", &head);
    for step in 0..longest(&acts) {
        let changes: Vec<Change> = acts.iter().flat_map(|act| committed(act, step)).collect();
        head = sources.fleet.commit("main", &changes, "A step");
        for side in sides {
            let patch =
                json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": &head}}});
            side.cluster.api().patch(SOURCE, &patch).expect("asked");
        }
        same(&format!("step {}: files", step + 1), &head);
        for side in sides {
            acts.iter()
                .for_each(|act| act.edit(side, KUSTOMIZATIONS, step));
        }
        same(&format!("step {}: objects", step + 1), &head);
    }
    delete_all(sides, KUSTOMIZATIONS, &acts);
    same("deleted", &head);
    comparison.finish();
}

fn of_directory(act: &Act, files: &[(&'static str, String)]) -> Vec<Change> {
    let place = |file: &str| format!("acts/{}/{file}", act.name);
    let change = |(file, text): &(&str, String)| Change::write(&place(file), text.clone());
    files.iter().map(change).collect()
}

fn committed(act: &Act, step: usize) -> Vec<Change> {
    let edits = act.steps.get(step).into_iter().flatten();
    let change = |edit: &Edit| match edit {
        Edit::File(file, text) => {
            let place = format!("acts/{}/{file}", act.name);
            Some(match text {
                Some(text) => Change::write(&place, text.clone()),
                None => Change::remove(&place),
            })
        }
        _ => None,
    };
    // This file makes every commit a new revision.
    let note = Change::write("acts/step", format!("{step}"));
    edits.filter_map(change).chain([note]).collect()
}

fn create(side: &Side, act: &Act) {
    let mut spec = act.spec.clone();
    let defaults = json!({"interval": "1h", "retryInterval": "1h", "prune": true, "path": format!("./acts/{}", act.name),
        "sourceRef": {"kind": "GitRepository", "name": "fleet"}});
    for (field, value) in defaults.as_object().into_iter().flatten() {
        if spec.get(field).is_none() {
            spec[field] = value.clone();
        }
    }
    let object = json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": act.name, "namespace": "apps"}, "spec": spec});
    let created = side.cluster.api().create(KUSTOMIZATIONS, &object);
    created.expect("created");
}

/// Returns whether every Kustomization has attempted this commit and settled.
fn has_tried(side: &Snapshot, head: &str) -> bool {
    of_kind(side, "kustomizations").all(|one| {
        // If a revision lacks the directory, the status keeps the previous revision.
        let has_no_directory = ready(one).is_some_and(|ready| ready["reason"] == "ArtifactFailed");
        let tried = one["status"]["lastAttemptedRevision"]
            .as_str()
            .unwrap_or_default();
        let is_suspended = one["spec"]["suspend"] == true;
        is_suspended || is_settled(one) && (has_no_directory || tried.ends_with(head))
    })
}
