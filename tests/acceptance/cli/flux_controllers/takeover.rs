//! From the controllers to driftless and back, on one cluster: no object is recreated or left
//! behind.

use super::site::{Side, Sources};
use super::snapshot;
use driftless_harness::cluster::Cluster;
use driftless_harness::github::Change;
use driftless_harness::process::PATIENCE;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const SOURCES: &str = "/apis/source.toolkit.fluxcd.io/v1/namespaces/apps";
const RELEASES: &str = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/apps/helmreleases";
const KUSTOMIZATIONS: &str = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/apps/kustomizations";
/// The objects that are taken over: API path and name.
const MOVED: [(&str, &str); 9] = [
    (SOURCES, "gitrepositories/fleet"),
    (SOURCES, "helmrepositories/charts"),
    (SOURCES, "ocirepositories/web"),
    (RELEASES, "good"),
    (RELEASES, "leaves"),
    (RELEASES, "from-oci"),
    (KUSTOMIZATIONS, "good"),
    (KUSTOMIZATIONS, "healthy"),
    (KUSTOMIZATIONS, "follows"),
];

#[test]
fn flux_controllers_and_driftless_take_over_from_each_other() {
    let sources = Sources::new();
    let side = Side::flux(Cluster::start("moves"), &sources);
    side.apply(&sources.fill(include_str!("sources.yaml")));
    for (_, source) in &MOVED[..3] {
        side.wait_for_artifact(source);
    }
    side.apply(&sources.fill(include_str!("moved.yaml")));
    until(
        &side,
        "Flux's controllers have applied everything",
        all_ready,
    );

    side.stop_serving();
    let before = World::of(&side);
    side.serve(&sources);
    ask(&side, "over");
    before.is_unchanged(&side);

    push(
        &sources,
        &[
            Change::write("good/config.yaml", config("second")),
            Change::remove("good/more.yaml"),
        ],
    );
    set_color(&side, "green");
    ask(&side, "changed");
    changed_by(&side, "second", "green", 2);
    assert!(find(&side, "ks-more").is_none(), "pruned");
    delete(
        &side,
        &[
            (RELEASES, "leaves"),
            (KUSTOMIZATIONS, "healthy"),
            (SOURCES, "helmrepositories/no-index"),
        ],
    );
    assert!(find(&side, "leaves-config").is_none(), "uninstalled");
    assert!(find(&side, "ks-healthy").is_none(), "pruned");

    side.stop_serving();
    let before = World::of(&side);
    side.flux_again(&sources);
    ask(&side, "back");
    before.is_unchanged(&side);

    push(
        &sources,
        &[Change::write("good/config.yaml", config("third"))],
    );
    set_color(&side, "yellow");
    ask(&side, "changed again");
    changed_by(&side, "third", "yellow", 3);
    let rest = ["good", "from-oci"].map(|name| (RELEASES, name));
    delete(&side, &rest);
    delete(
        &side,
        &[(KUSTOMIZATIONS, "follows"), (KUSTOMIZATIONS, "good")],
    );
    delete(&side, &MOVED[..3]);
    for name in ["good-config", "from-oci-config", "ks-good", "ks-follows"] {
        assert!(find(&side, name).is_none(), "{name} is left behind");
    }
}

/// The state that must not change when the server changes: applied objects, records, and the status
/// that describes them.
struct World(snapshot::Snapshot);

impl World {
    fn of(side: &Side) -> Self {
        let mut all = snapshot::Snapshot::new();
        for kind in ["configmaps", "secrets"] {
            let path = format!("/api/v1/namespaces/apps/{kind}");
            for object in side.cluster.api().list(&path).expect("a list") {
                all.insert(format!("{kind} {}", object["metadata"]["name"]), object);
            }
        }
        for (path, name) in MOVED {
            let Some(object) = side.cluster.api().find(&format!("{path}/{name}")) else {
                continue;
            };
            let fields = [
                "history",
                "inventory",
                "lastAppliedRevision",
                "storageNamespace",
                "helmChart",
            ];
            let fields = fields.map(|field| (field.to_owned(), object["status"][field].clone()));
            let mut kept = json!({"spec": object["spec"], "finalizers": object["metadata"]["finalizers"],
                "status": Value::Object(fields.into_iter().collect())});
            // Flux counts every reconciliation.
            for entry in kept["status"]["history"]
                .as_array_mut()
                .into_iter()
                .flatten()
            {
                entry["totalReconciliations"] = Value::Null;
            }
            snapshot::strip(&mut kept);
            all.insert(format!("{path}/{name}"), kept);
        }
        let charts = side.cluster.api().list(&format!("{SOURCES}/helmcharts"));
        for chart in charts.expect("a list") {
            all.insert(
                format!("chart {}", chart["metadata"]["name"]),
                chart["spec"].clone(),
            );
        }
        Self(all)
    }

    #[track_caller]
    fn is_unchanged(&self, side: &Side) {
        let all = super::compare::differences(&self.0, &Self::of(side).0);
        assert!(all.is_empty(), "before and after:\n{}", all.join("\n"));
    }
}

fn object(side: &Side, path: &str, name: &str) -> Option<Value> {
    side.cluster.api().find(&format!("{path}/{name}"))
}

fn find(side: &Side, config: &str) -> Option<Value> {
    object(side, "/api/v1/namespaces/apps/configmaps", config)
}

#[track_caller]
fn until(side: &Side, description: &str, mut check: impl FnMut(&Side) -> Result<(), String>) {
    let start = Instant::now();
    while let Err(error) = check(side) {
        assert!(start.elapsed() < PATIENCE, "{description}: {error}");
        std::thread::sleep(Duration::from_millis(200));
    }
    eprintln!("  {description}: {:.1} s", start.elapsed().as_secs_f64());
}

fn all_ready(side: &Side) -> Result<(), String> {
    for (path, name) in MOVED {
        if let Some(object) = object(side, path, name) {
            ready(&object)?;
        }
    }
    Ok(())
}

fn ready(object: &Value) -> Result<(), String> {
    let is_ready = snapshot::ready(object).is_some_and(|ready| ready["status"] == "True");
    let is_observed = object["status"]["observedGeneration"] == object["metadata"]["generation"];
    match is_ready && is_observed {
        true => Ok(()),
        false => Err(format!(
            "{}: {:#}",
            object["metadata"]["name"], object["status"]
        )),
    }
}

/// Requests a reconciliation of everything, sources first, and waits until it is done.
#[track_caller]
fn ask(side: &Side, token: &str) {
    for stage in [&MOVED[..3], &MOVED[3..]] {
        for (path, name) in stage {
            let patch =
                json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": token}}});
            if object(side, path, name).is_some() {
                let place = format!("{path}/{name}");
                side.cluster.api().patch(&place, &patch).expect("annotated");
            }
        }
        until(
            side,
            &format!("everything is reconciled: {token}"),
            |side| {
                for (path, name) in stage {
                    let Some(object) = object(side, path, name) else {
                        continue;
                    };
                    if object["status"]["lastHandledReconcileAt"] != token {
                        return Err(format!("{name}: {:#}", object["status"]));
                    }
                    ready(&object)?;
                }
                Ok(())
            },
        );
    }
}

fn config(text: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: ks-good\n  namespace: apps\ndata:\n  text: {text}\n"
    )
}

fn push(sources: &Sources, changes: &[Change]) {
    sources.fleet.commit("main", changes, "Change");
}

fn set_color(side: &Side, color: &str) {
    let patch = json!({"spec": {"values": {"color": color}}});
    let path = format!("{RELEASES}/good");
    side.cluster.api().patch(&path, &patch).expect("patched");
}

/// Waits until both changes have been applied, and checks that the release has this revision.
#[track_caller]
fn changed_by(side: &Side, text: &str, color: &str, version: i64) {
    until(side, "the change landed", |side| {
        let data = |name: &str| find(side, name).unwrap_or_default()["data"].clone();
        let (config, release) = (data("ks-good"), data("good-config"));
        match config["text"] == text && release["color"] == color {
            true => Ok(()),
            false => Err(format!("{config} {release}")),
        }
    });
    let history = object(side, RELEASES, "good").expect("the release")["status"]["history"].clone();
    assert_eq!(history[0]["version"], version, "{history:#}");
    assert_eq!(history[0]["status"], "deployed", "{history:#}");
}

/// Deletes objects and waits until they are gone.
#[track_caller]
fn delete(side: &Side, all: &[(&str, &str)]) {
    for (path, name) in all {
        side.cluster
            .api()
            .delete(&format!("{path}/{name}"))
            .expect("deleted");
    }
    until(side, "the deleted are gone", |side| {
        let charts = side.cluster.api().list(&format!("{SOURCES}/helmcharts"));
        let is_going = |chart: &&Value| !chart["metadata"]["deletionTimestamp"].is_null();
        if let Some(chart) = charts.expect("a list").iter().find(is_going) {
            return Err(format!("{chart:#}"));
        }
        let left: Vec<_> = all
            .iter()
            .filter(|(path, name)| object(side, path, name).is_some())
            .collect();
        match left.is_empty() {
            true => Ok(()),
            false => Err(format!("{left:?}")),
        }
    });
}
