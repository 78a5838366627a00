//! The names of kinds on the command line, which `get`, `reconcile`, `suspend` and `resume` share
//! with `flux`.

use crate::demo::Demo;
use driftless_harness::command::{Done, run_in};
use std::fs;
use std::path::Path;

/// Returns the files of a fleet with a release of a chart.
const FLEET: [(&str, &str); 3] = [
    (
        "clusters/demo/app.yaml",
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: app, namespace: flux-system}\n\
         spec:\n  interval: 10m\n  chart: {spec: {chart: ./charts/app, sourceRef: {kind: GitRepository, name: flux-system}}}\n",
    ),
    (
        "charts/app/Chart.yaml",
        "apiVersion: v2\nname: app\nversion: 1.2.3\n",
    ),
    (
        "charts/app/templates/a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\n",
    ),
];

fn write(directory: &Path) {
    for (name, text) in FLEET {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("make the directory");
        fs::write(path, text).expect("write");
    }
}

#[test]
fn every_kind_is_reconciled_under_the_names_of_get_and_of_flux() {
    let home = tempfile::tempdir().expect("a home");
    let fleet = home.path().join("fleet");
    write(&fleet);
    let fleet = fleet.to_str().expect("UTF-8");
    let demo = Demo::start(home.path(), &["--fleet", fleet, "--path", "clusters/demo"]);
    demo.says("synced in");
    let kubeconfig = home.path().join("demo/kubeconfig");
    let kubeconfig = [("KUBECONFIG", kubeconfig.to_str().expect("UTF-8"))];
    let run = |line: &str| -> Done {
        let args: Vec<&str> = line.split(' ').collect();
        run_in(home.path(), &args, &kubeconfig)
    };
    for line in [
        "reconcile ks flux-system",
        "reconcile helmchart flux-system-app",
        "suspend hr app",
        "resume helmreleases app",
        "get hr app",
        "get source helmchart flux-system-app",
    ] {
        run(line).ok();
    }
    for (line, kind) in [
        ("reconcile kustomization x --with-source", "Kustomization"),
        ("reconcile kustomizations x", "Kustomization"),
        ("reconcile helmrelease x --force", "HelmRelease"),
        ("reconcile helmreleases x", "HelmRelease"),
        ("reconcile chart x --with-source", "HelmChart"),
        ("reconcile source chart x --with-source", "HelmChart"),
        ("reconcile source helmchart x", "HelmChart"),
        ("reconcile git x", "GitRepository"),
        ("reconcile sources git x", "GitRepository"),
        ("reconcile oci x", "OCIRepository"),
        ("reconcile source oci x", "OCIRepository"),
        ("reconcile bucket x", "Bucket"),
        ("reconcile helm x", "HelmRepository"),
        ("reconcile source helmrepository x", "HelmRepository"),
        ("suspend sources git x", "GitRepository"),
        ("resume kustomizations x", "Kustomization"),
    ] {
        let words = format!("{kind} object 'x' not found in \"flux-system\" namespace");
        run(line).refused(1, &[&words]);
    }

    let release = run("reconcile hr app --force --reset -o json").json();
    let asked = &release["metadata"]["annotations"]["reconcile.fluxcd.io/requestedAt"];
    for field in [
        "lastHandledForceAt",
        "lastHandledResetAt",
        "lastHandledReconcileAt",
    ] {
        assert_eq!(&release["status"][field], asked, "{field}: {release}");
    }
    assert_eq!(release["status"]["history"][0]["version"], 2, "{release}");

    // The order is that of the data: the chart's source, the chart, the release.
    let stderr = run("reconcile hr app --with-source").err;
    let at = |kind: &str| {
        let place = stderr.find(&format!("annotating {kind} "));
        place.unwrap_or_else(|| panic!("no {kind} in:\n{stderr}"))
    };
    let order = [at("GitRepository"), at("HelmChart"), at("HelmRelease")];
    assert!(order.is_sorted(), "{stderr}");
}
