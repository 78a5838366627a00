//! HelmReleases with drift, remote clusters, tenants, and a chart template.

use driftless_flux::FluxKind;
use driftless_kernel::hub::Settings;
use driftless_kernel::ports::Cause;
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
fn drift_is_corrected() {
    let world = installed(&json!({"driftDetection": {"mode": "enabled"}}));
    paint(&world);
    world.hub().requests();
    world.reconcile(Duration::ZERO);
    assert_eq!(color(&world), "blue");
    // A field that another client added is kept.
    assert_eq!(
        world.hub().config("web-config").expect("there")["data"]["more"],
        "1"
    );
    assert_eq!(world.records("hub"), "v1 deployed");
    assert_eq!(
        world.event("DriftDetected").expect("an event"),
        "Cluster state of release apps/web.v1 has drifted from the desired state:\nConfigMap/apps/web-config changed (0 additions, 1 changes, 0 removals)"
    );
    let requests = world.hub().requests();
    let dry = requests.iter().filter(|one| one.contains("dryRun")).count();
    assert_eq!(dry, 1, "{requests:#?}");
    world.work(Duration::from_secs(1));
    world.hub().must("DELETE", CONFIG, JSON, None);
    world.reconcile(Duration::ZERO);
    assert_eq!(color(&world), "blue");
    assert_eq!(world.condition("Ready"), "True InstallSucceeded");
    assert_eq!(world.condition("Drifted"), "False NoDriftDetected");
    assert_eq!(
        world.event("DriftCorrected").expect("an event"),
        "Cluster state of release apps/web.v1 has been corrected:\nConfigMap/apps/web-config created"
    );
    // Without drift, the step sends no writes.
    world.hub().requests();
    world.reconcile(Duration::ZERO);
    let requests = world.hub().requests();
    assert!(
        requests.iter().all(|one| one.starts_with("GET")),
        "{requests:#?}"
    );
}

#[test]
fn drift_is_reported_or_ignored() {
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

/// A sweep finds drift with one LIST for each kind; drift that is only reported queues one step.
#[test]
fn the_timer_finds_drift() {
    for (mode, after) in [("enabled", "blue"), ("warn", "red")] {
        let world = installed(&json!({"driftDetection": {"mode": mode}}));
        world.sweep();
        world.work(Duration::ZERO);
        world.hub().requests();
        let quiet: Vec<String> = Vec::new();
        assert_eq!(world.sweep(), quiet, "{mode}");
        let requests = world.hub().requests();
        let lists = requests.iter().filter(|one| one.contains("/configmaps"));
        assert_eq!(lists.count(), 1, "{requests:#?}");
        // A field that the release does not have is not drift.
        let more = json!({"data": {"more": "1"}});
        world.hub().must("PATCH", CONFIG, MERGE, Some(&more));
        assert_eq!(world.sweep(), quiet, "{mode}");

        paint(&world);
        assert_eq!(world.sweep(), ["Drift HelmRelease/apps/web"], "{mode}");
        world.work(Duration::ZERO);
        assert_eq!(color(&world), after);
        assert!(world.event("DriftDetected").is_some());
        assert_eq!(world.sweep(), quiet, "{mode}: the step has run");
        world.hub().must("DELETE", CONFIG, JSON, None);
        assert_eq!(world.sweep(), ["Drift HelmRelease/apps/web"], "{mode}");
        world.work(Duration::ZERO);
        assert_eq!(
            world.hub().config("web-config").is_some(),
            mode == "enabled"
        );
        assert_eq!(world.sweep(), quiet, "{mode}: the step has run");
    }
    let world = installed(&json!({}));
    world.sweep();
    world.work(Duration::ZERO);
    paint(&world);
    assert_eq!(
        world.sweep(),
        Vec::<String>::new(),
        "drift detection is disabled"
    );
}

/// A failure of one object does not prevent the correction of others.
#[test]
fn drift_that_cannot_be_determined() {
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

/// A tenant's cluster whose kubeconfig Secret is created later, with another key than the default,
/// as Kamaji writes it.
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
    // Nothing else was created there.
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let items = world.server("tenant").get(definitions)["items"].clone();
    assert_eq!(items, json!([]));
    // The Secret has another cluster's kubeconfig: the next step uses that cluster.
    let path = format!("{secrets}/tenant-admin-kubeconfig");
    world
        .hub()
        .must("PATCH", &path, MERGE, Some(&kubeconfig("second")));
    world.reconcile(MINUTE);
    assert!(config("second").is_some());
    // An unreachable cluster fails the step and changes nothing.
    world.server("second").set_dark(true);
    world.reconcile(Duration::ZERO);
    assert_eq!(world.condition("Ready").split(' ').next(), Some("False"));
    world.server("second").set_dark(false);
    world.work(MINUTE * 2);
    world.expect_ready("True InstallSucceeded");
    // The kubeconfig is deleted: the release is deleted without an uninstall.
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
    // The default service account has no rights yet.
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
    // A source of another namespace is refused.
    world.release(json!({"chart": {"spec": {"chart": "web",
        "sourceRef": {"kind": "HelmRepository", "name": "charts", "namespace": "other"}}}}));
    world.reconcile(Duration::ZERO);
    assert_eq!(world.condition("Ready"), "False AccessDenied");
    assert_eq!(world.condition("Stalled"), "True AccessDenied");
}

#[test]
fn a_release_creates_its_chart() {
    let world = World::start(&[]);
    let chart = json!({"metadata": {"labels": {"team": "a"}}, "spec": {"chart": "web", "version": "1.x", "valuesFiles": ["values.yaml"],
        "sourceRef": {"kind": "HelmRepository", "name": "charts"}}});
    world.release(json!({"chart": chart}));
    world.reconcile(Duration::from_secs(2));
    let path = "/apis/source.toolkit.fluxcd.io/v1/namespaces/apps/helmcharts/apps-web";
    let chart_object = world.hub().get(path);
    assert_eq!(
        chart_object["spec"],
        json!({"chart": "web", "version": "1.x", "interval": "10m0s", "valuesFiles": ["values.yaml"],
            "reconcileStrategy": "ChartVersion", "sourceRef": {"kind": "HelmRepository", "name": "charts"}})
    );
    assert_eq!(chart_object["metadata"]["labels"]["team"], "a");
    assert_eq!(
        chart_object["metadata"]["labels"]["helm.toolkit.fluxcd.io/name"],
        "web"
    );
    assert_eq!(world.status()["helmChart"], "apps/apps-web");
    assert_eq!(world.condition("Ready"), "False SourceNotReady");
    assert_eq!(
        world.message("Ready"),
        "HelmChart 'apps/apps-web' is not ready: failed to get source: HelmRepository.source.toolkit.fluxcd.io \"charts\" not found"
    );
    assert_eq!(
        world.event("HelmChartCreated").expect("an event"),
        "Created HelmChart/apps/apps-web with SourceRef 'HelmRepository/apps/charts'"
    );
    // With spec.chartRef the HelmChart is no longer needed.
    world.chart(&charts::web("1.0.0"), "1.0.0");
    world.release(json!({}));
    world.reconcile(MINUTE);
    assert_eq!(world.condition("Ready"), "True InstallSucceeded");
    assert!(world.hub().find(path).is_none());
    assert_eq!(world.status().get("helmChart"), None);
    let event = world.event("HelmChartDeleted").expect("an event");
    assert_eq!(event, "deleted HelmChart 'apps/apps-web'");
    // It is deleted with its release.
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
    // A release that becomes ready requeues its dependents.
    world.request(FluxKind::HelmRelease, "base", Cause::Changed);
    world.work(Duration::ZERO);
    world.expect_ready("True InstallSucceeded");
    // A sweep finds a chart that changed without a message.
    world.sweep();
    world.work(MINUTE);
    world.chart(&charts::web("1.1.0"), "1.1.0");
    world.work(MINUTE);
    world.sweep();
    world.work(Duration::ZERO);
    world.expect_ready("True UpgradeSucceeded");
}
