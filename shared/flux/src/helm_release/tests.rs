use super::*;
use driftless_manifest::Object;
use serde_json::{Value, json};
use std::time::Duration;

fn object(version: &str, spec: Value, status: Value) -> Object {
    Object::new(json!({
        "apiVersion": format!("helm.toolkit.fluxcd.io/{version}"), "kind": "HelmRelease",
        "metadata": {"name": "web", "namespace": "team", "generation": 3},
        "spec": spec, "status": status,
    }))
    .unwrap()
}

fn release(mut spec: Value) -> HelmRelease {
    spec["interval"] = json!("10m");
    if spec.get("chartRef").is_none() {
        spec["chart"] = json!({"spec": {"chart": "web", "sourceRef": {"kind": "HelmRepository", "name": "charts"}}});
    }
    HelmRelease::from_object(object("v2", spec, json!({}))).unwrap()
}

#[test]
fn defaults_of_flux() {
    let web = release(json!({}));
    assert_eq!(web.release_name(), "web");
    assert_eq!(
        (web.release_namespace(), web.storage_namespace()),
        ("team", "team")
    );
    assert_eq!(web.timeout().unwrap(), Duration::from_secs(300));
    assert_eq!(web.max_history(), Some(5));
    assert_eq!(
        (web.install_crds(), web.upgrade_crds()),
        (CrdsPolicy::Create, CrdsPolicy::Skip)
    );
    assert!(web.install_server_side(true) && !web.install_server_side(false));
    assert!(web.upgrade_server_side(true) && !web.upgrade_server_side(false));
    assert_eq!(web.drift_mode(), DriftMode::Disabled);
    assert_eq!(web.chart_name_change(), ChartNameChange::Reinstall);
    assert_eq!(
        web.chart_source().unwrap().to_string(),
        "HelmChart/team/team-web"
    );
    assert!(web.active_remediation().is_none() && web.active_retry().unwrap().is_none());
    assert!(!web.creates_namespace());
}

#[test]
fn names_and_namespaces() {
    let apps = release(
        json!({"targetNamespace": "apps", "storageNamespace": "store",
        "install": {"createNamespace": true, "timeout": "1m"}, "timeout": "2m", "maxHistory": 0}),
    );
    assert_eq!(apps.release_name(), "apps-web");
    assert_eq!(
        (apps.release_namespace(), apps.storage_namespace()),
        ("apps", "store")
    );
    assert!(apps.creates_namespace());
    assert_eq!(apps.install_timeout().unwrap(), Duration::from_secs(60));
    assert_eq!(apps.upgrade_timeout().unwrap(), Duration::from_secs(120));
    assert_eq!(apps.max_history(), None);
    let named = release(json!({"targetNamespace": "apps", "releaseName": "shop"}));
    assert_eq!(named.release_name(), "shop");
    assert!(!release(json!({"install": {"createNamespace": true}})).creates_namespace());
    // 54 characters are one too many; the hash is that of the whole name.
    let long = "a".repeat(54);
    assert_eq!(
        short_release_name(&long),
        format!("{}-a3f01b693925", "a".repeat(40))
    );
    assert_eq!(short_release_name(&long[..53]), long[..53]);
}

#[test]
fn remediation_and_retry() {
    let mut web = release(json!({"test": {"ignoreFailures": true},
        "install": {"remediation": {"retries": -1}},
        "upgrade": {"remediation": {"retries": 2, "ignoreTestFailures": false, "strategy": "uninstall"},
                    "strategy": {"name": "RetryOnFailure"}}}));
    assert!(web.ignores_test_failures());
    web.status.last_attempted_release_action = Some(ReleaseAction::Install);
    web.status.install_failures = 100;
    let install = web.active_remediation().unwrap();
    assert!(
        !install.is_exhausted() && install.ignore_test_failures && !install.remediate_last_failure
    );
    assert_eq!(install.strategy, RemediationStrategy::Uninstall);
    assert!(web.active_retry().unwrap().is_none());
    web.status.last_attempted_release_action = Some(ReleaseAction::Upgrade);
    web.status.upgrade_failures = 3;
    let upgrade = web.active_remediation().unwrap();
    assert!(upgrade.is_exhausted() && upgrade.remediate_last_failure);
    assert!(upgrade.is_uninstall_after_upgrade() && !upgrade.ignore_test_failures);
    assert_eq!(web.active_retry().unwrap(), Some(Duration::from_secs(300)));
}

#[test]
fn older_versions_are_mapped() {
    let spec = json!({"interval": "5m", "chart": {"spec": {"chart": "web", "valuesFile": "first.yaml",
        "valuesFiles": ["second.yaml"], "sourceRef": {"kind": "GitRepository", "name": "src", "namespace": "flux"}}},
        "postRenderers": [{"kustomize": {"patchesStrategicMerge": [{"kind": "Service"}],
            "patchesJson6902": [{"target": {"kind": "Service"}, "patch": [{"op": "remove", "path": "/x"}]}]}}]});
    let status = json!({"observedGeneration": 2, "lastAppliedRevision": "1.0.0", "lastReleaseRevision": 4,
        "lastAttemptedValuesChecksum": "abc", "helmChart": "flux/team-web"});
    let web = HelmRelease::from_object(object("v2beta1", spec, status)).unwrap();
    let chart = web.spec.chart.as_ref().unwrap();
    assert_eq!(chart.spec.values_files, ["first.yaml", "second.yaml"]);
    assert_eq!(chart.spec.values_file, None);
    assert_eq!(
        web.chart_source().unwrap().to_string(),
        "HelmChart/flux/team-web"
    );
    assert_eq!(web.status.last_release_revision, 4);
    assert_eq!(
        web.spec.post_renderers.unwrap()[0]
            .kustomize
            .as_ref()
            .unwrap()
            .patches_json6902
            .len(),
        1
    );
    let again = json!({"interval": "5m", "chartRef": {"kind": "OCIRepository", "name": "web"}});
    let status = json!({"history": [
        {"digest": "a", "name": "web", "namespace": "team", "version": 1, "status": "superseded", "chartName": "web",
         "chartVersion": "1", "configDigest": "c", "firstDeployed": "2026-03-01T12:00:00Z",
         "lastDeployed": "2026-03-01T12:00:00Z", "deleted": null, "testHooks": {"smoke": null}},
        {"version": 2}]});
    let web = HelmRelease::from_object(object("v2beta2", again, status)).unwrap();
    assert_eq!(web.status.history[0].version, 2);
    assert_eq!(
        web.chart_source().unwrap().to_string(),
        "OCIRepository/team/web"
    );
    assert_eq!(web.chart_object(), None);
}

#[test]
fn errors_name_the_field() {
    let wrong = |spec| {
        HelmRelease::from_object(object("v2", spec, json!({})))
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        wrong(json!({"interval": "5m"})),
        "spec: either chart or chartRef must be set"
    );
    assert!(wrong(json!({"interval": 5})).starts_with("spec: "));
    let reference = json!({"kind": "OCIRepository", "name": "web"});
    let mode =
        wrong(json!({"interval": "5m", "chartRef": reference, "driftDetection": {"mode": "loud"}}));
    assert!(mode.contains("loud"), "{mode}");
    let odd =
        release(json!({"chartRef": {"kind": "Pod", "name": "x"}, "upgrade": {"timeout": "soon"}}));
    assert!(
        odd.chart_source()
            .unwrap_err()
            .to_string()
            .contains("'Pod' has no chart")
    );
    assert!(
        odd.upgrade_timeout()
            .unwrap_err()
            .to_string()
            .starts_with("spec.upgrade.timeout: 'soon' is not a valid duration")
    );
}

#[test]
fn tests_of_a_snapshot() {
    let with = |hooks: Value| -> Snapshot {
        serde_json::from_value(json!({"version": 1, "testHooks": hooks})).unwrap()
    };
    for (hooks, tested, failed) in [
        (Value::Null, false, false),
        (json!({}), true, false),
        (json!({"a": {"phase": "Succeeded"}}), true, false),
        (
            json!({"a": {"phase": "Succeeded"}, "b": {"phase": "Running"}}),
            false,
            false,
        ),
        (json!({"a": {"phase": "Failed"}, "b": null}), true, true),
        (json!({"a": null}), false, false),
    ] {
        let snapshot = with(hooks.clone());
        assert_eq!(
            (snapshot.has_been_tested(), snapshot.has_failed_test()),
            (tested, failed),
            "{hooks}"
        );
    }
}
