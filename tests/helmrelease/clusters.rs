//! Drift, remote clusters, tenants, charts of their own.

use driftless_core::flux::FluxKind;
use driftless_core::hub::Settings;
use driftless_core::ports::Cause;
use driftless_tests::charts;
use driftless_tests::releases::{HUB, JSON, MERGE, RELEASES, World};
use serde_json::{Value, json};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const CONFIG: &str = "/api/v1/namespaces/apps/configmaps/web-config";

fn installed(spec: &Value) -> World {
    let world = World::start(&[]);
    world.chart(&charts::web("1.0.0"), "1.0.0");
    world.release(spec.clone());
    world.reconcile(MINUTE);
    world.expect_ready("True InstallSucceeded");
    world
}

fn color(world: &World) -> Value {
    world.hub().config("web-config").unwrap_or_default()["data"]["color"].clone()
}

fn paint(world: &World) {
    let red = json!({"data": {"color": "red", "more": "1"}});
    world.hub().must("PATCH", CONFIG, MERGE, Some(&red));
}

#[test]
fn drift_is_put_back() {
    let world = installed(&json!({"driftDetection": {"mode": "enabled"}}));
    paint(&world);
    world.hub().requests();
    world.reconcile(Duration::ZERO);
    assert_eq!(color(&world), "blue");
    // What others added is theirs.
    assert_eq!(
        world.hub().config("web-config").expect("there")["data"]["more"],
        "1"
    );
    assert_eq!(world.records("hub"), "v1 deployed");
    assert_eq!(
        world.event("DriftDetected").expect("told"),
        "Cluster state of release apps/web.v1 has drifted from the desired state:\nConfigMap/apps/web-config changed (0 additions, 1 changes, 0 removals)"
    );
    let asked = world.hub().requests();
    let dry = asked.iter().filter(|one| one.contains("dryRun")).count();
    assert_eq!(dry, 1, "{asked:#?}");
    world.work(Duration::from_secs(1));
    world.hub().must("DELETE", CONFIG, JSON, None);
    world.reconcile(Duration::ZERO);
    assert_eq!(color(&world), "blue");
    assert_eq!(world.condition("Ready"), "True InstallSucceeded");
    assert_eq!(world.condition("Drifted"), "False NoDriftDetected");
    assert_eq!(
        world.event("DriftCorrected").expect("told"),
        "Cluster state of release apps/web.v1 has been corrected:\nConfigMap/apps/web-config created"
    );
    // Nothing drifted: nothing is asked of the server that would write.
    world.hub().requests();
    world.reconcile(Duration::ZERO);
    let asked = world.hub().requests();
    assert!(asked.iter().all(|one| one.starts_with("GET")), "{asked:#?}");
}

#[test]
fn drift_is_told_or_left_alone() {
    let world = installed(&json!({"driftDetection": {"mode": "warn"}}));
    paint(&world);
    world.reconcile(Duration::ZERO);
    assert_eq!(color(&world), "red");
    assert!(world.event("DriftDetected").is_some());
    assert_eq!(world.condition("Drifted"), "True DriftDetected");
    let ignore = json!([{"paths": ["/data/color"], "target": {"kind": "ConfigMap"}}]);
    world.release(json!({"driftDetection": {"mode": "enabled", "ignore": ignore}}));
    world.reconcile(Duration::ZERO);
    assert_eq!(color(&world), "red");
    assert_eq!(world.condition("Drifted"), "False NoDriftDetected");
    let world = installed(&json!({}));
    paint(&world);
    world.reconcile(Duration::ZERO);
    assert_eq!(color(&world), "red");
}

/// The timer finds drift with one LIST a kind; a drift that is only told is looked at once.
#[test]
fn the_timer_finds_drift() {
    for (mode, after) in [("enabled", "blue"), ("warn", "red")] {
        let world = installed(&json!({"driftDetection": {"mode": mode}}));
        world.sweep();
        world.work(Duration::ZERO);
        world.hub().requests();
        let quiet: Vec<String> = Vec::new();
        assert_eq!(world.sweep(), quiet, "{mode}");
        let asked = world.hub().requests();
        let lists = asked.iter().filter(|one| one.contains("/configmaps"));
        assert_eq!(lists.count(), 1, "{asked:#?}");
        // What is not ours is no drift.
        let more = json!({"data": {"more": "1"}});
        world.hub().must("PATCH", CONFIG, MERGE, Some(&more));
        assert_eq!(world.sweep(), quiet, "{mode}");

        paint(&world);
        assert_eq!(world.sweep(), ["Drift HelmRelease/apps/web"], "{mode}");
        world.work(Duration::ZERO);
        assert_eq!(color(&world), after);
        assert!(world.event("DriftDetected").is_some());
        assert_eq!(world.sweep(), quiet, "{mode}: it was looked at");
        world.hub().must("DELETE", CONFIG, JSON, None);
        assert_eq!(world.sweep(), ["Drift HelmRelease/apps/web"], "{mode}");
        world.work(Duration::ZERO);
        assert_eq!(
            world.hub().config("web-config").is_some(),
            mode == "enabled"
        );
        assert_eq!(world.sweep(), quiet, "{mode}: it was looked at");
    }
    let world = installed(&json!({}));
    world.sweep();
    world.work(Duration::ZERO);
    paint(&world);
    assert_eq!(world.sweep(), Vec::<String>::new(), "nobody asked for it");
}

/// One object's trouble keeps no other from being corrected.
#[test]
fn drift_that_cannot_be_told() {
    let spec = json!({"driftDetection": {"mode": "enabled"}, "values": {"extra": true}});
    let world = installed(&spec);
    let extra = "/api/v1/namespaces/apps/configmaps/web-extra";
    world.hub().must("DELETE", extra, JSON, None);
    let frozen = json!({"immutable": true, "data": {"color": "red"}});
    world.hub().must("PATCH", CONFIG, MERGE, Some(&frozen));
    world.reconcile(Duration::ZERO);
    assert!(world.hub().find(extra).is_some());
    assert!(world.event("DriftCorrected").is_some());
    assert_eq!(world.condition("Ready"), "False StateError");
    let message = world.message("Ready");
    let start = "Could not determine release state: unable to determine cluster state: ";
    assert!(message.starts_with(start), "{message}");
    world.hub().must("DELETE", CONFIG, JSON, None);
    world.work(MINUTE);
    assert_eq!(world.condition("Ready"), "True InstallSucceeded");
    assert_eq!(color(&world), "blue");
}

/// A tenant's cluster whose kubeconfig comes later, under a key of its own, as Kamaji writes it.
#[test]
fn a_remote_cluster_is_waited_for() {
    let world = World::start(&["tenant", "second"]);
    world.chart(&charts::web("1.0.0"), "1.0.0");
    let secret = json!({"secretRef": {"name": "tenant-admin-kubeconfig", "key": "admin.conf"}});
    world.release(
        json!({"kubeConfig": secret, "targetNamespace": "default", "storageNamespace": "default"}),
    );
    world.reconcile(MINUTE);
    assert_eq!(world.condition("Ready"), "False RESTClientError");
    let kubeconfig = |server: &str| {
        let text = world.server(server).kubeconfig();
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "tenant-admin-kubeconfig"},
            "stringData": {"admin.conf": text.expose_str().expect("text")}})
    };
    let secrets = "/api/v1/namespaces/apps/secrets";
    world
        .hub()
        .must("POST", secrets, JSON, Some(&kubeconfig("tenant")));
    world.work(MINUTE * 2);
    world.expect_ready("True InstallSucceeded");
    let config = |server: &str| {
        let path = "/api/v1/namespaces/default/configmaps/default-web-config";
        world.server(server).find(path)
    };
    assert!(config("tenant").is_some() && config(HUB).is_none());
    // Nothing else of ours is there.
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let items = world.server("tenant").get(definitions)["items"].clone();
    assert_eq!(items, json!([]));
    // The Secret leads elsewhere now: so does the next step.
    let path = format!("{secrets}/tenant-admin-kubeconfig");
    world
        .hub()
        .must("PATCH", &path, MERGE, Some(&kubeconfig("second")));
    world.reconcile(MINUTE);
    assert!(config("second").is_some());
    // A dark cluster fails the step and changes nothing.
    world.server("second").set_dark(true);
    world.reconcile(Duration::ZERO);
    assert_eq!(world.condition("Ready").split(' ').next(), Some("False"));
    world.server("second").set_dark(false);
    world.work(MINUTE * 2);
    world.expect_ready("True InstallSucceeded");
    // The cluster is given up: the release goes without it.
    world.hub().must("DELETE", &path, JSON, None);
    world
        .hub()
        .must("DELETE", &format!("{RELEASES}/web"), JSON, None);
    world.reconcile(MINUTE);
    assert!(world.hub().find(&format!("{RELEASES}/web")).is_none());
    assert!(config("second").is_some());
}

#[test]
fn a_tenant_acts_as_its_service_account() {
    let settings = Settings {
        no_cross_namespace_refs: true,
        default_service_account: Some("default".to_owned()),
        ..Settings::default()
    };
    let world = World::with(&[], settings);
    world.chart(&charts::web("1.0.0"), "1.0.0");
    world.release(json!({}));
    world.reconcile(Duration::from_secs(2));
    // The default service account may do nothing yet.
    assert_eq!(world.condition("Ready").split(' ').next(), Some("False"));
    assert_eq!(world.records("hub"), "");
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "tenant"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "apps"}]});
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/apps/rolebindings";
    world.hub().must("POST", bindings, JSON, Some(&binding));
    world.hub().requests();
    world.reconcile(MINUTE);
    world.expect_ready("True InstallSucceeded");
    for line in world.hub().requests() {
        let is_tenants = line.contains("sh.helm.release") || line.contains("configmaps");
        let is_impersonated = line.contains(" as system:serviceaccount:apps:default");
        assert!(!is_tenants || is_impersonated, "{line}");
    }
    // Neither a chart nor a source of another namespace.
    world.release(json!({"chart": {"spec": {"chart": "web",
        "sourceRef": {"kind": "HelmRepository", "name": "charts", "namespace": "other"}}}}));
    world.reconcile(Duration::ZERO);
    assert_eq!(world.condition("Ready"), "False AccessDenied");
    assert_eq!(world.condition("Stalled"), "True AccessDenied");
}

#[test]
fn a_chart_of_its_own() {
    let world = World::start(&[]);
    let chart = json!({"metadata": {"labels": {"team": "a"}}, "spec": {"chart": "web", "version": "1.x", "valuesFiles": ["values.yaml"],
        "sourceRef": {"kind": "HelmRepository", "name": "charts"}}});
    world.release(json!({"chart": chart}));
    world.reconcile(Duration::from_secs(2));
    let path = "/apis/source.toolkit.fluxcd.io/v1/namespaces/apps/helmcharts/apps-web";
    let made = world.hub().get(path);
    assert_eq!(
        made["spec"],
        json!({"chart": "web", "version": "1.x", "interval": "10m0s", "valuesFiles": ["values.yaml"],
            "reconcileStrategy": "ChartVersion", "sourceRef": {"kind": "HelmRepository", "name": "charts"}})
    );
    assert_eq!(made["metadata"]["labels"]["team"], "a");
    assert_eq!(
        made["metadata"]["labels"]["helm.toolkit.fluxcd.io/name"],
        "web"
    );
    assert_eq!(world.status()["helmChart"], "apps/apps-web");
    assert_eq!(world.condition("Ready"), "False SourceNotReady");
    assert_eq!(
        world.message("Ready"),
        "HelmChart 'apps/apps-web' is not ready: failed to get source: HelmRepository.source.toolkit.fluxcd.io \"charts\" not found"
    );
    assert_eq!(
        world.event("HelmChartCreated").expect("told"),
        "Created HelmChart/apps/apps-web with SourceRef 'HelmRepository/apps/charts'"
    );
    // With the chart of somebody else it is not needed any more.
    world.chart(&charts::web("1.0.0"), "1.0.0");
    world.release(json!({}));
    world.reconcile(MINUTE);
    assert_eq!(world.condition("Ready"), "True InstallSucceeded");
    assert!(world.hub().find(path).is_none());
    assert_eq!(world.status().get("helmChart"), None);
    let told = world.event("HelmChartDeleted").expect("told");
    assert_eq!(told, "deleted HelmChart 'apps/apps-web'");
    // It goes with the release that it was made for.
    world.release(json!({"chart": chart}));
    world.reconcile(Duration::from_secs(2));
    assert!(world.hub().find(path).is_some());
    world
        .hub()
        .must("DELETE", &format!("{RELEASES}/web"), JSON, None);
    world.reconcile(MINUTE);
    assert!(world.hub().find(path).is_none());
}

#[test]
fn dependencies_and_the_timer() {
    let world = World::start(&[]);
    world.chart(&charts::web("1.0.0"), "1.0.0");
    world.release(json!({"dependsOn": [{"name": "base"}]}));
    world.reconcile(Duration::ZERO);
    assert_eq!(world.condition("Ready"), "False DependencyNotReady");
    let base = json!({"apiVersion": "helm.toolkit.fluxcd.io/v2beta1", "kind": "HelmRelease", "metadata": {"name": "base"},
        "spec": {"interval": "1h", "chartRef": {"kind": "HelmChart", "name": "web"}}});
    let path = "/apis/helm.toolkit.fluxcd.io/v2beta1/namespaces/apps/helmreleases";
    world.hub().must("POST", path, JSON, Some(&base));
    // Whoever becomes ready wakes those that wait for it.
    world.request(FluxKind::HelmRelease, "base", Cause::Changed);
    world.work(Duration::ZERO);
    world.expect_ready("True InstallSucceeded");
    // A chart that moved without a message is found by the timer.
    world.sweep();
    world.work(MINUTE);
    world.chart(&charts::web("1.1.0"), "1.1.0");
    world.work(MINUTE);
    world.sweep();
    world.work(Duration::ZERO);
    world.expect_ready("True UpgradeSucceeded");
}
