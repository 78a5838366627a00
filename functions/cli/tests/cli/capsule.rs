//! The README of capsule-addon-fluxcd as a fleet, without Capsule's definitions: its chart brings
//! them to a cluster.

use crate::charts::copy;
use crate::check::{check, config_map};
use crate::demo::once;
use driftless_harness::tools;
use serde_json::Value;
use std::path::Path;
use tempfile::TempDir;

const BINDING: &str = "apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: oil
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: cluster-admin
subjects:
- kind: ServiceAccount
  name: gitops-reconciler
  namespace: oil-system
";

/// Returns a copy of the guide: the directories `platform` and `oil-apps`.
fn guide() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    copy(&tools::tests().join("guides/capsule"), directory.path());
    directory
}

fn write(guide: &TempDir, file: &str, text: &str) {
    std::fs::write(guide.path().join(file), text).expect("write a file");
}

/// The account's kubeconfig leads to the hub itself, with the rights of a Tenant's owner.
#[test]
fn an_owner_cannot_leave_its_tenant() {
    let good = guide();
    let done = check(good.path(), &["-o", "json"]);
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    let report = done.json().to_string();
    assert!(
        !report.contains("replaces that of"),
        "another cluster: {report}"
    );

    let foreign = config_map("foreign");
    for (file, text, words) in [
        ("oil-apps/binding.yaml", BINDING, "ClusterRoleBinding/oil"),
        (
            "oil-apps/foreign.yaml",
            foreign.as_str(),
            "ConfigMap/default/foreign",
        ),
    ] {
        let guide = guide();
        write(&guide, file, text);
        let done = check(guide.path(), &[]);
        assert_eq!(done.code, 1, "{file}: {}", done.out);
        let place = format!("{file}:1: error: hub: Kustomization/oil-system/oil-apps: ");
        let line = done.out.lines().find(|line| line.contains(&place));
        let line = line.unwrap_or_else(|| panic!("no {place} in {}", done.out));
        let account = "system:serviceaccount:oil-system:gitops-reconciler";
        for words in [words, "forbidden", account] {
            assert!(line.contains(words), "{words}: {line}");
        }
    }
}

/// An enabled account that owns no Tenant gets no kubeconfig, on a hub and here.
#[test]
fn an_account_without_a_tenant_gets_no_kubeconfig() {
    let guide = guide();
    let file = "platform/clusters/hub/oil.yaml";
    let text = std::fs::read_to_string(guide.path().join(file)).expect("the Tenant");
    let owner = "- name: system:serviceaccount:oil-system:gitops-reconciler";
    let other = "- name: system:serviceaccount:oil-system:another";
    write(&guide, file, &text.replace(owner, other));
    let done = check(guide.path(), &[]);
    assert_eq!(done.code, 1, "{}", done.out);
    let place = "oil-apps.yaml:16: error: hub: Kustomization/oil-system/oil-apps: ";
    assert!(done.out.contains(place), "{}", done.out);
    let secret = "Secret/oil-system/gitops-reconciler-kubeconfig with the kubeconfig";
    assert!(done.out.contains(secret), "{}", done.out);
}

/// The demo shows the tenant on the hub; with the annotation of the README's additional feature,
/// also the copies of its kubeconfig.
#[test]
fn the_demo_shows_the_oil_tenant() {
    let guide = guide();
    let file = "platform/clusters/hub/oil.yaml";
    let text = std::fs::read_to_string(guide.path().join(file)).expect("the Tenant");
    let global = "enabled: \"true\"\n    capsule.addon.fluxcd/kubeconfig-global: \"true\"";
    write(&guide, file, &text.replace("enabled: \"true\"", global));
    let report = demo(guide.path());
    let objects = report["objects"].as_array().expect("objects");
    for object in [
        "Tenant/oil",
        "CapsuleConfiguration/default",
        "Kustomization/oil-system/oil-apps",
        "Namespace/oil-production",
        "ConfigMap/oil-production/web",
    ] {
        let on_hub = |one: &&Value| one["object"] == object && one["cluster"] == "hub";
        assert!(
            objects.iter().any(|one| on_hub(&one)),
            "{object}: {report:#}"
        );
    }
}

fn demo(fleet: &Path) -> Value {
    let home = tempfile::tempdir().expect("a home");
    let done = once(
        home.path(),
        &["-o", "json", "--fleet", fleet.to_str().expect("UTF-8")],
    );
    assert_eq!(done.code, 0, "{}{}", done.out, done.err);
    let report = done.json();
    assert_eq!(report["ready"], true, "{report:#}");
    report
}
