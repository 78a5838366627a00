//! The strictness of Flux's definitions: the errors of `check`, and the upgrade of a hub with the
//! lax definitions that earlier versions of driftless installed.

use crate::check::{check, fleet, kustomization};
use crate::create::Server;
use serde_json::{Value, json};
use std::path::Path;

const RELEASE: &str = "apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata:
  name: web
  namespace: default
spec:
  interval: 5m
  chartRef:
    kind: OCIRepository
    name: web
";

/// Returns the lines and messages of the errors of `check` for `apps/web.yaml` with this content.
fn reported(text: &str) -> Vec<(u64, String)> {
    let directory = fleet(&[
        ("clusters/one/apps.yaml", kustomization("apps", "")),
        ("apps/web.yaml", text.to_owned()),
    ]);
    let done = check(directory.path(), &["-o", "json"]);
    assert_eq!(done.code, 1, "{}\n{}", done.out, done.err);
    let found: Value = serde_json::from_str(&done.out).expect("JSON");
    let errors = found["errors"].as_array().expect("errors");
    let of_file = errors.iter().filter(|error| {
        let file = Path::new(error["file"].as_str().unwrap_or_default());
        file.ends_with("apps/web.yaml")
    });
    let reports = of_file.map(|error| {
        let message = error["message"].as_str().unwrap_or_default();
        (
            error["line"].as_u64().unwrap_or_default(),
            message.to_owned(),
        )
    });
    reports.collect()
}

#[test]
fn fields_that_flux_refuses_are_errors() {
    let kustomization = kustomization("web", "");
    for (text, line, words) in [
        (
            format!("{RELEASE}  forceUpgrade: true\n"),
            11,
            "spec.forceUpgrade: field not declared in schema",
        ),
        (RELEASE.replace("5m", "soon"), 7, "spec.interval"),
        (
            RELEASE.replace("OCIRepository", "OCIRepo"),
            9,
            "spec.chartRef.kind",
        ),
        (
            format!("{RELEASE}  releaseName: {}\n", "a".repeat(54)),
            11,
            "spec.releaseName",
        ),
        (
            format!(
                "{RELEASE}  chart:\n    spec:\n      chart: web\n      sourceRef:\n        kind: HelmRepository\n        name: web\n"
            ),
            1,
            "either chart or chartRef must be set",
        ),
        (
            kustomization.replace("  prune: true\n", ""),
            6,
            "spec.prune: Required value",
        ),
        (
            kustomization.replace("prune: true", "prune: true\n  purne: true"),
            10,
            "spec.purne: field not declared in schema",
        ),
    ] {
        let found = reported(&text);
        assert!(
            found
                .iter()
                .any(|(at, message)| *at == line && message.contains(words)),
            "'{words}' at line {line} is not in {found:?}"
        );
    }
}

/// Returns the definition of a kind as earlier versions installed it: `spec` may have any field.
fn lax(server: &Server, name: &str) -> Value {
    let kind = "CustomResourceDefinition";
    let mut live = server.get("apiextensions.k8s.io/v1", kind, "", name);
    for version in live["spec"]["versions"].as_array_mut().expect("versions") {
        version["schema"]["openAPIV3Schema"]["properties"]["spec"] =
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    }
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": kind,
        "metadata": {"name": name, "labels": live["metadata"]["labels"]}, "spec": live["spec"]})
}

#[test]
fn a_hub_with_lax_definitions_loses_nothing() {
    let server = Server::start();
    server.install();
    let names = [
        "kustomizations.kustomize.toolkit.fluxcd.io",
        "helmreleases.helm.toolkit.fluxcd.io",
    ];
    for name in names {
        server
            .apply(lax(&server, name))
            .expect("apply the lax definition");
    }
    let kustomization = json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": "apps", "namespace": "flux-system"},
        "spec": {"interval": "soon", "sourceRef": {"kind": "GitRepository", "name": "fleet"}}});
    let release = json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": {"name": "web", "namespace": "flux-system"},
        "spec": {"interval": "5m", "forceUpgrade": true, "chartRef": {"kind": "OCIRepository", "name": "web"}}});
    for object in [&kustomization, &release] {
        server
            .apply(object.clone())
            .expect("the lax definitions take it");
    }

    // The doctor names both before and after.
    let doctor = || {
        let done = server.run("doctor");
        for words in [
            "the definitions refuse 2 of 2 Flux objects",
            "Kustomization/flux-system/apps: ",
            "spec.prune: Required value",
            "HelmRelease/flux-system/web: ",
            "spec.forceUpgrade: field not declared in schema",
        ] {
            assert!(
                done.err.contains(words),
                "'{words}' is not in:\n{}",
                done.err
            );
        }
        assert_eq!(done.code, 1);
    };
    doctor();

    // The definition whose objects would lose a field stays, with a message; the other becomes
    // strict.
    let report = server.install();
    assert_eq!(
        report.updated,
        [format!("CustomResourceDefinition/{}", names[0])]
    );
    assert_eq!(report.kept.len(), 1, "{report:?}");
    assert!(
        report.kept[0].contains("HelmRelease/flux-system/web has spec.forceUpgrade"),
        "{report:?}"
    );
    let spec = |kind: &str, version: &str, name: &str| {
        server.get(version, kind, "flux-system", name)["spec"].clone()
    };
    let live = spec("HelmRelease", "helm.toolkit.fluxcd.io/v2", "web");
    assert_eq!(live, release["spec"]);
    let live = spec("Kustomization", "kustomize.toolkit.fluxcd.io/v1", "apps");
    assert_eq!(live["interval"], "soon");
    assert_eq!(live["sourceRef"], kustomization["spec"]["sourceRef"]);
    doctor();

    // Stored objects can be changed, as long as the invalid fields stay unchanged.
    let mut suspended = kustomization.clone();
    suspended["metadata"]["labels"] = json!({"team": "a"});
    server
        .apply(suspended)
        .expect("an object with an old invalid field stays usable");
    let mut changed = kustomization;
    changed["spec"]["interval"] = json!("later");
    let refused = server.apply(changed).expect_err("a new wrong value");
    assert!(refused.to_string().contains("spec.interval"), "{refused}");

    // When the field is removed, the definition also becomes strict.
    let mut corrected = release;
    corrected["spec"]
        .as_object_mut()
        .expect("a spec")
        .remove("forceUpgrade");
    server
        .apply(corrected)
        .expect("apply the corrected release");
    let report = server.install();
    assert_eq!(
        report.updated,
        [format!("CustomResourceDefinition/{}", names[1])]
    );
    assert!(report.kept.is_empty(), "{report:?}");
}
