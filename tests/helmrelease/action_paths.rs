//! Checks every path of release actions: the history, the records and the conditions that Flux
//! documents for it.

use driftless_tests::charts;
use driftless_tests::releases::{JSON, World};
use serde_json::{Value, json};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

fn world() -> World {
    let world = World::start(&[]);
    world.chart(&charts::web("1.0.0"), "1.0.0");
    world
}

/// Starts a hub with an installed release.
fn installed(spec: &Value) -> World {
    let world = world();
    world.release(spec.clone());
    world.reconcile(MINUTE);
    world.expect(
        "True InstallSucceeded",
        "v1 deployed install",
        "v1 deployed",
    );
    world
}

fn with(spec: &Value, values: Value) -> Value {
    let mut spec = spec.clone();
    spec["values"] = values;
    spec
}

#[test]
fn an_install_and_an_upgrade() {
    let world = world();
    world.release(json!({"values": {"color": "red"}}));
    world.reconcile(MINUTE);
    world.expect(
        "True InstallSucceeded",
        "v1 deployed install",
        "v1 deployed",
    );
    assert_eq!(
        world.message("Ready"),
        "Helm install succeeded for release apps/web.v1 with chart web@1.0.0"
    );
    let config = world.hub().config("web-config").expect("applied");
    assert_eq!(config["data"], json!({"color": "red", "revision": "1"}));
    let meta = &config["metadata"];
    assert_eq!(meta["labels"]["app.kubernetes.io/managed-by"], "Helm");
    assert_eq!(meta["labels"]["helm.toolkit.fluxcd.io/name"], "web");
    assert_eq!(meta["annotations"]["meta.helm.sh/release-name"], "web");
    assert_eq!(meta["managedFields"][0]["manager"], "helm-controller");
    let status = world.status();
    assert_eq!(
        status["inventory"]["entries"][0]["id"],
        "apps_web-config__ConfigMap"
    );

    world.chart(&charts::web("1.1.0"), "1.1.0");
    world.reconcile(MINUTE);
    world.expect(
        "True UpgradeSucceeded",
        "v2 deployed upgrade, v1 superseded",
        "v1 superseded, v2 deployed",
    );
    let status = world.status();
    assert_eq!(status["lastAttemptedRevision"], "1.1.0");
    let snapshot = &status["history"][0];
    for field in [
        "digest",
        "configDigest",
        "firstDeployed",
        "lastDeployed",
        "chartName",
        "appVersion",
    ] {
        let text = snapshot[field].as_str().unwrap_or_default();
        assert!(!text.is_empty(), "{field}: {snapshot}");
    }
    assert!(status["lastAttemptedReleaseActionDuration"].is_string());
    let event = world.full_event("UpgradeSucceeded").expect("an event");
    assert_eq!(
        event["metadata"]["annotations"],
        json!({
            "helm.toolkit.fluxcd.io/revision": "1.1.0",
            "helm.toolkit.fluxcd.io/token": snapshot["configDigest"],
            "helm.toolkit.fluxcd.io/app-version": "9",
        })
    );
    assert_eq!(status["observedGeneration"], 1);
    assert_eq!(world.condition("Reconciling"), "");
}

#[test]
fn nothing_changed_writes_nothing() {
    let world = installed(&json!({}));
    let before = world
        .hub()
        .get("/apis/helm.toolkit.fluxcd.io/v2/namespaces/apps/helmreleases/web");
    world.hub().requests();
    world.reconcile(Duration::ZERO);
    let after = world
        .hub()
        .get("/apis/helm.toolkit.fluxcd.io/v2/namespaces/apps/helmreleases/web");
    assert_eq!(before, after);
    let requests = world.hub().requests();
    assert!(
        requests.iter().all(|one| one.starts_with("GET")),
        "{requests:#?}"
    );
    let reads = requests
        .iter()
        .filter(|one| !["GET /api", "GET /apis"].contains(&one.as_str()));
    // The HelmRelease, its HelmChart and the records.
    assert_eq!(reads.count(), 3, "{requests:#?}");
}

/// Preserved values of the previous release are not a difference: the next step does not upgrade.
#[test]
fn preserved_values_cause_no_upgrade() {
    let spec = json!({"upgrade": {"preserveValues": true}});
    let world = installed(&with(&spec, json!({"color": "red"})));
    world.release(with(&spec, json!({"size": "big"})));
    for _ in 0..2 {
        world.reconcile(MINUTE);
        world.expect(
            "True UpgradeSucceeded",
            "v2 deployed upgrade, v1 superseded",
            "v1 superseded, v2 deployed",
        );
    }
    let config = world.hub().config("web-config").expect("applied");
    assert_eq!(config["data"]["color"], "red");
    world.release(with(&spec, json!({"color": "green"})));
    world.reconcile(MINUTE);
    let config = world.hub().config("web-config").expect("applied");
    assert_eq!(config["data"]["color"], "green");
}

#[test]
fn a_failed_install_without_retries_stalls_until_the_spec_changes() {
    let world = world();
    world.release(json!({"timeout": "30s", "values": {"stuck": true}}));
    world.reconcile(Duration::from_secs(10));
    assert_eq!(world.condition("Ready"), "Unknown Progressing");
    assert_eq!(
        world.message("Reconciling"),
        "Running 'install' action with timeout of 30s"
    );
    assert_eq!(world.records("hub"), "v1 pending-install");
    world.work(MINUTE);
    world.expect("False InstallFailed", "v1 failed install", "v1 failed");
    assert_eq!(
        world.message("Ready"),
        "Helm install failed for release apps/web with chart web@1.0.0: timeout waiting for: [Deployment/apps/web status: 'InProgress']"
    );
    assert_eq!(world.condition("Stalled"), "True RetriesExceeded");
    assert_eq!(
        world.message("Stalled"),
        "Failed to install after 1 attempt(s)"
    );
    // A corrected spec upgrades the failed release.
    world.release(json!({"timeout": "30s", "values": {}}));
    world.reconcile(MINUTE);
    world.expect(
        "True UpgradeSucceeded",
        "v2 deployed upgrade, v1 superseded",
        "v1 superseded, v2 deployed",
    );
    assert_eq!(world.condition("Stalled"), "");
}

#[test]
fn a_failed_install_is_uninstalled_and_tried_again() {
    let world = world();
    let spec = json!({"timeout": "30s", "install": {"remediation": {"retries": 1}}});
    world.release(with(&spec, json!({"stuck": true})));
    world.reconcile(Duration::from_secs(32));
    assert_eq!(world.condition("Remediated"), "True UninstallSucceeded");
    assert_eq!(world.records("hub"), "");
    assert!(world.hub().config("web-config").is_none());
    world.work(MINUTE * 2);
    // The last failed release stays, so that the user can find the cause.
    world.expect("False InstallFailed", "v1 failed install", "v1 failed");
    assert_eq!(
        world.message("Stalled"),
        "Failed to install after 2 attempt(s)"
    );
    assert!(world.hub().config("web-config").is_some());
}

#[test]
fn a_failed_upgrade_is_rolled_back_until_the_retries_are_used_up() {
    let spec = json!({"timeout": "30s", "upgrade": {"remediation": {"retries": 1}}});
    let world = installed(&spec);
    world.release(with(&spec, json!({"stuck": true, "color": "red"})));
    world.reconcile(Duration::from_secs(32));
    assert_eq!(world.condition("Remediated"), "True RollbackSucceeded");
    assert_eq!(world.condition("Ready"), "False RollbackSucceeded");
    assert_eq!(
        world.records("hub"),
        "v1 superseded, v2 failed, v3 deployed"
    );
    let color = || world.hub().config("web-config").expect("there")["data"]["color"].clone();
    assert_eq!(color(), "blue");
    let deployment = "/apis/apps/v1/namespaces/apps/deployments/web";
    assert!(world.hub().find(deployment).is_none());
    world.work(MINUTE * 3);
    world.expect(
        "False RollbackSucceeded",
        "v5 deployed rollback, v4 failed upgrade, v3 superseded rollback",
        "v1 superseded, v2 failed, v3 superseded, v4 failed, v5 deployed",
    );
    assert_eq!(
        world.message("Stalled"),
        "Failed to upgrade after 2 attempt(s)"
    );
    // A new revision is applied at once, and only maxHistory records are kept.
    world.release(with(&spec, json!({"color": "green"})));
    world.reconcile(MINUTE);
    assert_eq!(world.condition("Ready"), "True UpgradeSucceeded");
    assert_eq!(color(), "green");
    assert_eq!(
        world.records("hub"),
        "v2 failed, v3 superseded, v4 failed, v5 superseded, v6 deployed"
    );
}

#[test]
fn a_failed_upgrade_is_uninstalled_and_installed_anew() {
    let remediation = json!({"retries": 1, "strategy": "uninstall"});
    let spec = json!({"timeout": "30s", "upgrade": {"remediation": remediation}});
    let world = installed(&spec);
    world.release(with(&spec, json!({"stuck": true})));
    world.reconcile(Duration::from_secs(32));
    assert_eq!(world.condition("Remediated"), "True UninstallSucceeded");
    assert_eq!(world.records("hub"), "");
    world.release(with(&spec, json!({})));
    world.reconcile(MINUTE);
    world.expect(
        "True InstallSucceeded",
        "v1 deployed install",
        "v1 deployed",
    );
}

#[test]
fn retry_on_failure_upgrades_what_failed() {
    let world = world();
    let strategy = json!({"name": "RetryOnFailure", "retryInterval": "1m"});
    let spec = json!({"timeout": "30s", "install": {"strategy": strategy}, "upgrade": {"strategy": strategy}});
    world.release(with(&spec, json!({"stuck": true})));
    world.reconcile(MINUTE);
    assert_eq!(world.condition("Ready"), "False InstallFailed");
    assert_eq!(world.message("Reconciling"), "retrying after 1m0s");
    assert_eq!(world.records("hub"), "v1 failed");
    world.work(MINUTE);
    world.work(Duration::from_secs(30));
    assert_eq!(world.records("hub"), "v1 failed, v2 failed");
    world.release(with(&spec, json!({})));
    world.reconcile(MINUTE);
    assert_eq!(world.condition("Ready"), "True UpgradeSucceeded");
    assert_eq!(
        world.records("hub"),
        "v1 failed, v2 superseded, v3 deployed"
    );
}

#[test]
fn retry_on_failure_does_not_retry_before_the_interval() {
    let world = world();
    let strategy = json!({"name": "RetryOnFailure", "retryInterval": "1h"});
    let spec = json!({"timeout": "30s", "install": {"strategy": strategy}, "upgrade": {"strategy": strategy}});
    world.release(with(&spec, json!({"stuck": true})));
    world.reconcile(MINUTE);
    assert_eq!(world.records("hub"), "v1 failed");
    // A duplicate of the message, then the delayed messages: none is delayed for an hour.
    world.reconcile(MINUTE);
    world.work(40 * MINUTE);
    assert_eq!(world.records("hub"), "v1 failed");
    assert_eq!(world.message("Reconciling"), "retrying after 1h0m0s");
    world.work(20 * MINUTE);
    assert_eq!(world.records("hub"), "v1 failed, v2 failed");
    // A change of the spec does not wait.
    world.release(with(&spec, json!({})));
    world.reconcile(MINUTE);
    assert_eq!(world.condition("Ready"), "True UpgradeSucceeded");
}

#[test]
fn a_request_retries_at_once() {
    let world = world();
    let strategy = json!({"name": "RetryOnFailure", "retryInterval": "1h"});
    let spec = json!({"timeout": "30s", "install": {"strategy": strategy}, "upgrade": {"strategy": strategy}});
    world.release(with(&spec, json!({"stuck": true})));
    world.reconcile(MINUTE);
    let request = json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": "now"}}});
    let path = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/apps/helmreleases/web";
    world.hub().must(
        "PATCH",
        path,
        "application/merge-patch+json",
        Some(&request),
    );
    world.reconcile(MINUTE);
    assert_eq!(world.records("hub"), "v1 failed, v2 failed");
}

#[test]
fn tests_run_and_fail() {
    let spec = json!({"test": {"enable": true}, "upgrade": {"remediation": {"retries": 1}}});
    let world = world();
    world.end("web-smoke", true);
    world.release(with(&spec, json!({"tests": ["smoke"]})));
    world.reconcile(MINUTE);
    world.expect("True TestSucceeded", "v1 deployed install", "v1 deployed");
    let hooks = &world.status()["history"][0]["testHooks"];
    assert_eq!(hooks["web-smoke"]["phase"], "Succeeded");
    assert_eq!(
        world.message("Ready"),
        "Helm test succeeded for release apps/web.v1 with chart web@1.0.0: 1 test hook completed successfully"
    );
    world.end("web-load", false);
    world.release(with(&spec, json!({"tests": ["smoke", "load"]})));
    world.reconcile(Duration::from_secs(10));
    assert_eq!(world.condition("TestSuccess"), "False TestFailed");
    assert_eq!(world.condition("Remediated"), "True RollbackSucceeded");
    assert_eq!(
        world.records("hub"),
        "v1 superseded, v2 superseded, v3 deployed"
    );
    let all = world.status()["history"].clone();
    assert_eq!(all[1]["testHooks"]["web-load"]["phase"], "Failed");
}

#[test]
fn an_ignored_failure_of_a_test_keeps_the_release_deployed() {
    let world = world();
    world.end("web-smoke", false);
    let spec = json!({"test": {"enable": true, "ignoreFailures": true}});
    world.release(with(&spec, json!({"tests": ["smoke"]})));
    world.reconcile(MINUTE);
    world.expect(
        "True InstallSucceeded",
        "v1 deployed install",
        "v1 deployed",
    );
    assert_eq!(world.condition("TestSuccess"), "False TestFailed");
    assert_eq!(
        world.message("TestSuccess"),
        "Helm test failed for release apps/web.v1 with chart web@1.0.0: failed early due to stalled resources: [Pod/apps/web-smoke status: 'Failed']"
    );
}

#[test]
fn hooks_that_fail_or_never_end() {
    for (hook, ready, message) in [
        (
            "pre-install",
            "False InstallFailed",
            "failed pre-install: failed early due to stalled resources: [Job/apps/web-hook status: 'Failed']",
        ),
        (
            "post-install",
            "False InstallFailed",
            "failed post-install: failed early due to stalled resources: [Job/apps/web-hook status: 'Failed']",
        ),
    ] {
        let world = world();
        world.end("web-hook", false);
        world.release(json!({"values": {"hook": hook}}));
        world.reconcile(MINUTE);
        world.expect(ready, "v1 failed install", "v1 failed");
        let expected =
            format!("Helm install failed for release apps/web with chart web@1.0.0: {message}");
        assert_eq!(world.message("Ready"), expected);
        assert_eq!(
            world.hub().config("web-config").is_some(),
            hook == "post-install"
        );
    }
    let world = world();
    world.release(json!({"timeout": "20s", "values": {"hook": "pre-install"}}));
    world.reconcile(MINUTE);
    let message = world.message("Ready");
    assert!(
        message.ends_with(
            "failed pre-install: timeout waiting for: [Job/apps/web-hook status: 'InProgress']"
        ),
        "{message}"
    );
    // Without hooks the upgrade succeeds.
    world.release(json!({"values": {"hook": "pre-upgrade"}, "upgrade": {"disableHooks": true}}));
    world.reconcile(MINUTE);
    assert_eq!(world.condition("Ready"), "True UpgradeSucceeded");
}

/// Helm 3's rules and messages: a Deployment is ready if enough Pods of its newest ReplicaSet are.
#[test]
fn the_legacy_wait_strategy() {
    let legacy = |timeout: &str, values: Value| json!({"waitStrategy": {"name": "legacy"}, "timeout": timeout, "values": values});
    let failed = |world: &World, cause: &str| {
        let expected =
            format!("Helm install failed for release apps/web with chart web@1.0.0: {cause}");
        assert_eq!(world.message("Ready"), expected);
    };
    let late = world();
    late.release(legacy("30s", json!({"stuck": true})));
    late.reconcile(MINUTE);
    failed(&late, "context deadline exceeded");
    let hooked = world();
    hooked.end("web-hook", false);
    hooked.release(legacy("30s", json!({"hook": "pre-install"})));
    hooked.reconcile(MINUTE);
    failed(
        &hooked,
        "failed pre-install: job web-hook failed: BackoffLimitExceeded",
    );

    let world = world();
    world.release(legacy("5m", json!({"stuck": true})));
    world.reconcile(Duration::from_secs(10));
    assert_eq!(world.condition("Ready"), "Unknown Progressing");
    let directory = "/apis/apps/v1/namespaces/apps";
    let deployment = world.hub().get(&format!("{directory}/deployments/web"));
    let owner = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": true,
        "uid": deployment["metadata"]["uid"]});
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "web-1", "labels": {"app": "web"}, "ownerReferences": [owner]},
        "spec": {"replicas": 1, "selector": deployment["spec"]["selector"], "template": deployment["spec"]["template"]}});
    let sets = format!("{directory}/replicasets");
    world.hub().must("POST", &sets, JSON, Some(&set));
    for (path, ready) in [("replicasets/web-1", 1), ("deployments/web", 0)] {
        let status =
            json!({"status": {"observedGeneration": 1, "replicas": 1, "readyReplicas": ready}});
        let path = format!("{directory}/{path}/status");
        world.hub().must(
            "PATCH",
            &path,
            driftless_tests::releases::MERGE,
            Some(&status),
        );
    }
    world.work(MINUTE);
    world.expect(
        "True InstallSucceeded",
        "v1 deployed install",
        "v1 deployed",
    );
}

#[test]
fn an_uninstall_with_hooks() {
    let world = installed(&json!({"values": {"hook": "pre-delete"}}));
    world.hub().must(
        "DELETE",
        "/apis/helm.toolkit.fluxcd.io/v2/namespaces/apps/helmreleases/web",
        JSON,
        None,
    );
    world.reconcile(Duration::from_secs(10));
    // The hook runs, and nothing is deleted before it succeeds.
    let job = "/apis/batch/v1/namespaces/apps/jobs/web-hook";
    assert!(world.hub().find(job).is_some());
    assert!(world.hub().config("web-config").is_some());
    world.end("web-hook", true);
    world.work(MINUTE);
    assert!(world.hub().config("web-config").is_none());
    assert_eq!(world.records("hub"), "");
    let release = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/apps/helmreleases/web";
    assert!(world.hub().find(release).is_none());
}

#[test]
fn an_uninstall_that_keeps_its_history() {
    let world = installed(&json!({"uninstall": {"keepHistory": true}}));
    let release = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/apps/helmreleases/web";
    world.hub().must("DELETE", release, JSON, None);
    world.reconcile(MINUTE);
    assert!(world.hub().find(release).is_none());
    assert_eq!(world.records("hub"), "v1 uninstalled");
    // The name is reused only with install.replace.
    world.release(json!({}));
    world.reconcile(Duration::from_secs(2));
    world.expect("False InstallFailed", "", "v1 uninstalled");
    assert_eq!(
        world.message("Ready"),
        "Helm install failed for release apps/web with chart web@1.0.0: release name check failed: cannot reuse a name that is still in use"
    );
    world.release(json!({"install": {"replace": true}}));
    world.reconcile(MINUTE);
    world.expect(
        "True InstallSucceeded",
        "v2 deployed install",
        "v1 superseded, v2 deployed",
    );
}

#[test]
fn a_suspended_release_is_deleted_without_an_uninstall() {
    let world = installed(&json!({}));
    world.release(json!({"suspend": true, "values": {"color": "red"}}));
    world.reconcile(MINUTE);
    assert_eq!(world.history(), "v1 deployed install");
    let release = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/apps/helmreleases/web";
    world.hub().must("DELETE", release, JSON, None);
    world.reconcile(MINUTE);
    assert!(world.hub().find(release).is_none());
    assert_eq!(world.records("hub"), "v1 deployed");
}

#[test]
fn a_target_namespace_that_is_deleted() {
    let world = world();
    let spec = json!({"targetNamespace": "shop", "releaseName": "web"});
    world.release(spec.clone());
    world.reconcile(Duration::from_secs(2));
    assert_eq!(world.condition("Ready"), "False InstallFailed");
    assert_eq!(world.records("hub"), "v1 failed");
    let mut created = spec;
    created["install"] = json!({"createNamespace": true});
    created["upgrade"] = json!({"remediation": {"retries": 1}});
    world.hub().namespace("shop");
    world.release(created.clone());
    world.reconcile(MINUTE);
    world.expect_ready("True UpgradeSucceeded");
    world
        .hub()
        .must("DELETE", "/api/v1/namespaces/shop", JSON, None);
    world.chart(&charts::web("1.1.0"), "1.1.0");
    world.reconcile(Duration::from_secs(2));
    // The records are in the HelmRelease's namespace, so they still exist: the upgrade and the
    // rollback fail.
    assert_eq!(world.condition("Released"), "False UpgradeFailed");
    assert_eq!(world.condition("Remediated"), "False RollbackFailed");
}

#[test]
fn a_namespace_is_created_on_request() {
    let world = world();
    world.release(json!({"targetNamespace": "shop", "storageNamespace": "shop", "install": {"createNamespace": true}}));
    world.reconcile(MINUTE);
    world.expect_ready("True InstallSucceeded");
    let shop = world.hub().get("/api/v1/namespaces/shop");
    assert_eq!(shop["metadata"]["labels"]["name"], "shop");
    let record = "/api/v1/namespaces/shop/secrets/sh.helm.release.v1.shop-web.v1";
    assert!(world.hub().find(record).is_some());
    // Another name is another release: the previous one is uninstalled first.
    world.release(
        json!({"targetNamespace": "shop", "storageNamespace": "shop", "releaseName": "other"}),
    );
    world.reconcile(MINUTE);
    assert_eq!(world.history(), "v1 deployed install");
    assert!(world.hub().find(record).is_none());
    let config = |name: &str| {
        world
            .hub()
            .find(&format!("/api/v1/namespaces/shop/configmaps/{name}"))
    };
    assert!(config("shop-web-config").is_none() && config("other-config").is_some());
}

#[test]
fn missing_values() {
    let world = world();
    world.release(json!({"valuesFrom": [{"kind": "Secret", "name": "colors"}]}));
    world.reconcile(MINUTE);
    assert_eq!(world.condition("Ready"), "False ValuesError");
    assert_eq!(
        world.message("Ready"),
        "could not resolve Secret chart values reference 'apps/colors' with key 'values.yaml': secrets \"colors\" not found"
    );
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "colors"},
        "stringData": {"values.yaml": "color: green\n"}});
    world.hub().must(
        "POST",
        "/api/v1/namespaces/apps/secrets",
        JSON,
        Some(&secret),
    );
    // As with helm-controller, this event is about no revision.
    let event = world.full_event("ValuesError").expect("an event");
    assert_eq!(event["type"], "Warning");
    assert_eq!(event["metadata"].get("annotations"), None);
    // The step is retried without a request.
    world.work(MINUTE * 2);
    let event = world.full_event("InstallSucceeded").expect("an event");
    let latest = &world.status()["history"][0];
    assert_eq!(
        event["metadata"]["annotations"],
        json!({"helm.toolkit.fluxcd.io/revision": "1.0.0",
            "helm.toolkit.fluxcd.io/token": latest["configDigest"],
            "helm.toolkit.fluxcd.io/app-version": latest["appVersion"]})
    );
    world.expect(
        "True InstallSucceeded",
        "v1 deployed install",
        "v1 deployed",
    );
    let config = world.hub().config("web-config").expect("applied");
    assert_eq!(config["data"]["color"], "green");
}

#[test]
fn an_immutable_field() {
    let world = installed(&json!({}));
    let frozen = json!({"immutable": true});
    let path = "/api/v1/namespaces/apps/configmaps/web-config";
    world.hub().must(
        "PATCH",
        path,
        driftless_tests::releases::MERGE,
        Some(&frozen),
    );
    let spec = json!({"upgrade": {"remediation": {"retries": 0}}});
    world.release(with(&spec, json!({"color": "red"})));
    world.reconcile(MINUTE);
    world.expect(
        "False UpgradeFailed",
        "v2 failed upgrade, v1 deployed install",
        "v1 deployed, v2 failed",
    );
    let message = world.message("Ready");
    assert!(
        message.contains("server-side apply failed for object apps/web-config /v1, Kind=ConfigMap"),
        "{message}"
    );
    assert_eq!(world.condition("Stalled"), "True RetriesExceeded");
}

#[test]
fn a_kind_that_is_not_served_leaves_nothing() {
    let world = world();
    world.release(json!({"values": {"bad": "nowhere.example/v1"}}));
    world.reconcile(Duration::from_secs(2));
    world.expect("False InstallFailed", "", "");
    let message = world.message("Ready");
    assert!(
        message.contains("no matches for kind \"Nothing\" in version \"nowhere.example/v1\""),
        "{message}"
    );
    let status = world.status();
    assert_eq!(
        (&status["failures"], &status["installFailures"]),
        (&json!(1), &Value::Null)
    );
}

#[test]
fn a_pending_release_of_a_dead_worker_is_unlocked() {
    let world = world();
    world.release(json!({"timeout": "5m", "values": {"stuck": true}}));
    world.reconcile(Duration::from_secs(10));
    assert_eq!(world.records("hub"), "v1 pending-install");
    // The record of the HelmRelease in the bucket is lost.
    world.delete_record();
    world.reconcile(Duration::ZERO);
    let records = world.records("hub");
    assert_eq!(records, "v1 failed, v2 pending-upgrade");
    let event = world.event("PendingRelease").expect("an event");
    assert_eq!(
        event,
        "Unlocked Helm release apps/web.v1 with chart web@1.0.0 in pending-install state"
    );
}

/// A chart's CustomResourceDefinitions are created at once, replaced on request, listed in the
/// inventory, and kept by an uninstall.
#[test]
fn definitions_of_a_chart() {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.acme.example";
    for server_side in [true, false] {
        let world = World::start(&[]);
        world.chart(&charts::web_with_crd("1.0.0", "old"), "1.0.0");
        let install = json!({"serverSideApply": server_side});
        world.release(json!({"install": install}));
        world.reconcile(MINUTE);
        assert_eq!(world.condition("Ready"), "True InstallSucceeded");
        let field = || {
            let live = world.hub().get(path);
            let fields = &live["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
            let fields = fields.as_object().expect("fields").keys().cloned();
            fields.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(field(), "old");
        let labels = world.hub().get(path)["metadata"]["labels"].clone();
        assert_eq!(labels["helm.toolkit.fluxcd.io/name"], "web");
        assert!(world.hub().config("stray").is_none());
        let inventory = world.status()["inventory"]["entries"].to_string();
        let id = "_things.acme.example_apiextensions.k8s.io_CustomResourceDefinition";
        assert!(inventory.contains(id), "{inventory}");
        world.chart(&charts::web_with_crd("1.1.0", "new"), "1.1.0");
        world.reconcile(MINUTE);
        assert_eq!(world.condition("Ready"), "True UpgradeSucceeded");
        assert_eq!(field(), "old");
        world.release(json!({"install": install, "upgrade": {"crds": "CreateReplace"}}));
        world.chart(&charts::web_with_crd("1.2.0", "new"), "1.2.0");
        world.reconcile(MINUTE);
        assert_eq!(field(), "new");
        let release = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/apps/helmreleases/web";
        world.hub().must("DELETE", release, JSON, None);
        world.reconcile(MINUTE);
        assert!(world.hub().find(path).is_some());
    }
}

/// The pending release of a worker that holds the lease is not changed until the lease is over.
#[test]
fn a_pending_release_of_a_living_worker_stays() {
    let world = installed(&json!({}));
    world.release(json!({"timeout": "30m", "values": {"stuck": true}}));
    world.reconcile(Duration::from_secs(10));
    assert_eq!(world.records("hub"), "v1 deployed, v2 pending-upgrade");
    world.delete_record();
    world.take_lease();
    world.reconcile(MINUTE);
    assert_eq!(world.records("hub"), "v1 deployed, v2 pending-upgrade");
    assert_eq!(world.event("PendingRelease"), None);
    world.work(driftless_kernel::schedule::LEASE_DURATION);
    assert_eq!(
        world.records("hub"),
        "v1 deployed, v2 failed, v3 pending-upgrade"
    );
    assert_eq!(
        world.event("PendingRelease").expect("an event"),
        "Unlocked Helm release apps/web.v2 with chart web@1.0.0 in pending-upgrade state"
    );
    // With its memory, the next step continues the upgrade.
    world.reconcile(MINUTE);
    assert_eq!(
        world.records("hub"),
        "v1 deployed, v2 failed, v3 pending-upgrade"
    );
}

#[test]
fn a_forced_upgrade_runs_once() {
    let world = installed(&json!({}));
    let release = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/apps/helmreleases/web";
    let annotate = |annotations: Value| {
        let patch = json!({"metadata": {"annotations": annotations}});
        world.hub().must(
            "PATCH",
            release,
            driftless_tests::releases::MERGE,
            Some(&patch),
        );
        world.reconcile(MINUTE);
    };
    annotate(json!({"reconcile.fluxcd.io/requestedAt": "a", "reconcile.fluxcd.io/forceAt": "a"}));
    world.expect(
        "True UpgradeSucceeded",
        "v2 deployed upgrade, v1 superseded",
        "v1 superseded, v2 deployed",
    );
    let status = world.status();
    assert_eq!(
        (
            &status["lastHandledForceAt"],
            &status["lastHandledReconcileAt"]
        ),
        (&json!("a"), &json!("a"))
    );
    annotate(json!({"reconcile.fluxcd.io/requestedAt": "b"}));
    assert_eq!(world.records("hub"), "v1 superseded, v2 deployed");
}

#[test]
fn a_cleanup_without_the_previous_record_deletes_nothing() {
    let world = world();
    let spec = json!({"timeout": "1m", "maxHistory": 1, "upgrade": {"cleanupOnFail": true}});
    world.release(with(&spec, json!({"stuck": true})));
    world.reconcile(2 * MINUTE);
    world.expect("False InstallFailed", "v1 failed install", "v1 failed");
    assert!(world.hub().config("web-config").is_some());

    // With maxHistory 1 only the new record is kept: the objects of the previous release are
    // unknown.
    world.release(with(&spec, json!({"stuck": true, "extra": true})));
    world.reconcile(3 * MINUTE);
    assert_eq!(world.records("hub"), "v2 failed");
    assert!(world.hub().config("web-config").is_some(), "deleted");
}
