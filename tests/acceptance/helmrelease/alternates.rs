//! One release that Helm's command lines and driftless change in turn, on a real API server: each
//! continues where the other stopped, and nothing is orphaned.

use crate::helm::Helm;
use driftless_harness::cluster::Cluster;
use driftless_harness::tools::{HELM, HELM4};
use driftless_tests::charts;
use driftless_tests::releases::{JSON, RELEASES, World};
use serde_json::{Value, json};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

impl Helm<'_> {
    /// Returns the history, for example `1 superseded, 2 deployed`.
    fn history(&self) -> String {
        let all = self.json(&["history", "web"]);
        let one = |entry: &Value| {
            let status = entry["status"].as_str().unwrap_or_default();
            format!("{} {status}", entry["revision"])
        };
        let all: Vec<String> = all.as_array().expect("a list").iter().map(one).collect();
        all.join(", ")
    }

    fn color(&self) -> String {
        let path = "/api/v1/namespaces/default/configmaps/web-config";
        let config = self.cluster.api().get(path).expect("there");
        config["data"]["color"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    fn has_extra(&self) -> bool {
        let path = "/api/v1/namespaces/default/configmaps/web-extra";
        self.cluster.api().find(path).is_some()
    }
}

#[test]
fn helm_cli_alternates() {
    let cluster = Cluster::start("alternates");
    // Helm 4 needs a flag to take fields from another manager; Helm 3 always takes them.
    for (tool, force) in [(&HELM, &[][..]), (&HELM4, &["--force-conflicts"][..])] {
        let helm = Helm::new(tool, &cluster, "default");
        helm.add("web-1.0.0.tgz", &charts::web("1.0.0"));
        alternate(&helm, force);
    }
}

fn alternate(helm: &Helm<'_>, force: &[&str]) {
    let world = World::with_real_cluster(helm.cluster);
    world.chart(&charts::web("1.0.0"), "1.0.0");
    let turn = |values: Value, ready: &str| {
        world.release(json!({"releaseName": "web", "targetNamespace": "default", "storageNamespace": "default",
            "kubeConfig": {"secretRef": {"name": "tenant"}}, "values": values}));
        world.reconcile(MINUTE);
        world.expect_ready(ready);
    };

    let change = |arguments: &[&str]| helm.run(&[arguments, force].concat());
    // Helm's release is taken over, with all its objects.
    helm.run(&[
        "install",
        "web",
        "web-1.0.0.tgz",
        "--set",
        "color=red,extra=true",
    ]);
    assert!(helm.has_extra());
    turn(json!({"color": "blue"}), "True UpgradeSucceeded");
    assert_eq!((helm.color(), helm.has_extra()), ("blue".to_owned(), false));
    assert_eq!(helm.history(), "1 superseded, 2 deployed");

    // Helm reads what driftless wrote.
    let status = helm.json(&["status", "web"]);
    assert_eq!(
        (&status["info"]["status"], &status["version"]),
        (&json!("deployed"), &json!(2))
    );
    assert_eq!(
        helm.json(&["get", "values", "web"]),
        json!({"color": "blue"})
    );
    let manifest = helm.run(&["get", "manifest", "web"]);
    assert!(
        manifest.contains("# Source: web/templates/config.yaml"),
        "{manifest}"
    );
    let list = helm.json(&["list"]);
    assert_eq!(list[0]["chart"], "web-1.0.0");
    assert_eq!(list[0]["app_version"], "9");

    // Helm upgrades the release, driftless restores the desired state.
    change(&[
        "upgrade",
        "web",
        "web-1.0.0.tgz",
        "--set",
        "color=green,extra=true",
    ]);
    assert_eq!((helm.color(), helm.has_extra()), ("green".to_owned(), true));
    assert_eq!(helm.history(), "1 superseded, 2 superseded, 3 deployed");
    turn(json!({"color": "blue"}), "True UpgradeSucceeded");
    assert_eq!((helm.color(), helm.has_extra()), ("blue".to_owned(), false));

    // Helm rolls back to its own revision, and driftless continues from there.
    change(&["rollback", "web", "3"]);
    assert_eq!((helm.color(), helm.has_extra()), ("green".to_owned(), true));
    turn(json!({"color": "black"}), "True UpgradeSucceeded");
    assert_eq!(
        (helm.color(), helm.has_extra()),
        ("black".to_owned(), false)
    );
    assert_eq!(
        helm.history(),
        "2 superseded, 3 superseded, 4 superseded, 5 superseded, 6 deployed"
    );
    // Helm rolls back to a revision of driftless.
    change(&["rollback", "web", "4"]);
    assert_eq!(helm.color(), "blue");

    // A release that Helm uninstalled is installed again; one that driftless uninstalled no longer
    // exists for Helm.
    helm.run(&["uninstall", "web"]);
    turn(json!({"color": "white"}), "True InstallSucceeded");
    assert_eq!(helm.history(), "1 deployed");
    world
        .hub()
        .must("DELETE", &format!("{RELEASES}/web"), JSON, None);
    world.reconcile(MINUTE);
    assert_eq!(helm.json(&["list"]), json!([]));
    let path = "/api/v1/namespaces/default/configmaps/web-config";
    assert!(helm.cluster.api().find(path).is_none());
}
