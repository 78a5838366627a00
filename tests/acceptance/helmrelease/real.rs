//! Public charts with their own defaults, on a real API server: defaults that the server adds are
//! not reported as drift, and an uninstall removes everything.

use driftless_harness::cluster::Cluster;
use driftless_harness::skip::has_material;
use driftless_harness::{files, tools};
use driftless_manifest::{EntryKind, FileTree, TreePath};
use driftless_tests::releases::{JSON, RELEASES, World};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// The charts of the shared corpus whose objects differ most.
const CHARTS: [&str; 24] = [
    "CloudPirates-io_timescaledb",
    "DataDog_observability-pipelines-worker",
    "FairwindsOps_logentries",
    "VictoriaMetrics_victoria-logs-single",
    "bitnami_elasticsearch",
    "bitnami_flink",
    "bitnami_keydb",
    "bitnami_kube-arangodb",
    "bitnami_minio-operator",
    "bitnami_postgresql-ha",
    "falcosecurity_falcosidekick",
    "fluxcd-community_flux2",
    "grafana_fluent-bit",
    "grafana_loki-distributed",
    "hashicorp_vault",
    "helm_mcrouter",
    "k8s-at-home_miniflux",
    "kubernetes-csi_csi-driver-nfs",
    "kubernetes_ingress-nginx",
    "open-policy-agent_gatekeeper",
    "open-telemetry_opentelemetry-ebpf",
    "rancher_fleet",
    "strimzi_strimzi-kafka-operator",
    "wiremind_ack-iam-controller-crds",
];

const MINUTE: Duration = Duration::from_secs(60);

/// Returns a chart's directory, as its archive contains it.
fn tree(directory: &Path) -> FileTree {
    let mut tree = FileTree::new();
    for (name, file) in files::below(directory) {
        let path = TreePath::new(&format!("chart/{name}")).expect("a path inside");
        let bytes = std::fs::read(file).expect("read a file");
        let added = tree.insert(path, EntryKind::File, bytes);
        added.expect("each file once");
    }
    tree
}

/// Installs the chart in its own namespace, without waiting: no controller runs the objects.
fn install(world: &World, cluster: &Cluster, namespace: &str) {
    cluster.namespace(namespace);
    let alone = json!({"disableWait": true, "disableHooks": true});
    world.release(
        json!({"releaseName": namespace, "targetNamespace": namespace, "storageNamespace": namespace,
        "kubeConfig": {"secretRef": {"name": "tenant"}}, "driftDetection": {"mode": "enabled"},
        "install": alone, "uninstall": alone}),
    );
    world.reconcile(MINUTE);
}

/// Installs the chart, reconciles it again, runs the timer's sweep and uninstalls it. Returns the
/// number of its objects.
fn live(cluster: &Cluster, directory: &Path, namespace: &str) -> usize {
    let world = World::with_real_cluster(cluster);
    world.chart(&tree(directory), "1.0.0");
    install(&world, cluster, namespace);
    let is_ready = || {
        let (found, message) = (world.condition("Ready"), world.message("Ready"));
        assert_eq!(found, "True InstallSucceeded", "{namespace}: {message}");
    };
    is_ready();
    let before = cluster.writes();
    world.reconcile(Duration::ZERO);
    let message = world.message("Drifted");
    let drifted = world.condition("Drifted");
    assert_eq!(drifted, "False NoDriftDetected", "{namespace}: {message}");
    assert_eq!(world.event("DriftDetected"), None, "{namespace}");
    is_ready();
    world.sweep();
    world.work(Duration::ZERO);
    assert_eq!(world.sweep(), Vec::<String>::new(), "{namespace}");
    assert_eq!(world.status()["history"][0]["version"], 1, "{namespace}");
    let writes = cluster.writes().since(&before);
    assert_eq!(writes.total(), 0, "{namespace}: {writes:?}");

    let entries = world.status()["inventory"]["entries"].clone();
    let path = format!("{RELEASES}/web");
    world.hub().must("DELETE", &path, JSON, None);
    world.reconcile(MINUTE);
    assert_eq!(world.hub().find(&path), None, "{namespace}");
    nothing_is_left(cluster, namespace);
    entries.as_array().map_or(0, Vec::len)
}

/// Checks that no object of the usual kinds is left, records included, except those that the chart
/// keeps.
fn nothing_is_left(cluster: &Cluster, namespace: &str) {
    for kind in [
        "api/v1/{}/secrets",
        "api/v1/{}/configmaps",
        "api/v1/{}/services",
        "apis/apps/v1/{}/deployments",
    ] {
        let path = kind.replace("{}", &format!("namespaces/{namespace}"));
        let items = cluster.api().list(&format!("/{path}")).expect("a list");
        let is_kept =
            |item: &Value| item["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep";
        let left: Vec<_> = items.iter().filter(|item| !is_kept(item)).collect();
        assert!(left.is_empty(), "{namespace}: {left:#?}");
    }
}

#[test]
fn real_charts_do_not_drift() {
    let charts = tools::workspace().join("../shared/conformance/helm/charts");
    if !has_material(&charts) {
        return;
    }
    let cluster = Cluster::start("real");
    let live = |name: &&str| {
        let namespace = name.to_lowercase().replace('_', "-");
        live(&cluster, &charts.join(name), &namespace)
    };
    let objects: usize = CHARTS.iter().map(live).sum();
    println!("{} charts with {objects} objects", CHARTS.len());
}
