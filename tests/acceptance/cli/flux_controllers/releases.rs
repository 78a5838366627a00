//! Releases over several steps: failures and their remediation, failing hooks and tests, drift,
//! requests.

use super::act::{Act, CORE, delete_all, longest};
use super::compare::Comparison;
use super::intended_differences;
use super::release_acts::{BEFORE, acts};
use super::site::{Side, Sources};
use super::snapshot::{is_settled, of_kind};
use driftless_harness::cluster::Cluster;
use serde_json::json;

const RELEASES: &str = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/apps/helmreleases";

/// Runs every step on both sides, and compares all objects after each.
#[test]
fn flux_controllers_and_driftless_run_releases_alike() {
    let sources = Sources::new();
    let [flux, driftless] = Cluster::start_all(["flux", "driftless"]);
    let sides = [
        &Side::flux(flux, &sources),
        &Side::driftless(driftless, &sources),
    ];
    let source = sources.fill(include_str!("releases.yaml"));
    for side in sides {
        side.apply(&source);
        side.apply(BEFORE);
        side.wait_for_artifact("helmrepositories/charts");
    }
    let acts = acts();
    for side in sides {
        for act in &acts {
            install(side, act);
        }
    }
    let mut comparison = Comparison::new(sides[0], sides[1], intended_differences::RELEASES);
    let mut same = |description: &str| {
        eprintln!("{description}");
        comparison.eventually_the_same(|snapshots, _| {
            sides.iter().for_each(|side| end_pods(side));
            snapshots
                .iter()
                .all(|side| of_kind(side, "helmreleases").all(is_settled))
        });
    };
    same("installed");
    for step in 0..longest(&acts) {
        for side in sides {
            acts.iter().for_each(|act| act.edit(side, RELEASES, step));
        }
        same(&format!("step {}", step + 1));
    }
    delete_all(sides, RELEASES, &acts);
    same("deleted");
    comparison.finish();
}

fn install(side: &Side, act: &Act) {
    let mut spec = act.spec.clone();
    spec["interval"] = json!("1h");
    spec["chart"] = json!({"spec": {"chart": "acts", "version": "1.0.0",
        "sourceRef": {"kind": "HelmRepository", "name": "charts"}}});
    let object = json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": {"name": act.name, "namespace": "apps"}, "spec": spec});
    side.cluster
        .api()
        .create(RELEASES, &object)
        .expect("created");
}

/// Ends Pods as their label demands: no kubelet runs here.
fn end_pods(side: &Side) {
    for pod in side
        .cluster
        .api()
        .list(&format!("{CORE}/pods"))
        .expect("the Pods")
    {
        let phase = match pod["metadata"]["labels"]["end"].as_str() {
            Some("passes") => "Succeeded",
            Some("breaks") => "Failed",
            _ => continue,
        };
        if pod["status"]["phase"] != phase {
            let name = pod["metadata"]["name"].as_str().unwrap_or_default();
            let status = json!({"status": {"phase": phase}});
            // The Pod may have been deleted meanwhile.
            let _ = side
                .cluster
                .api()
                .patch(&format!("{CORE}/pods/{name}/status"), &status);
        }
    }
}
