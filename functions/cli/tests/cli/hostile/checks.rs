//! The same inputs in checks of whole fleets, in which the engines run in the steps of the core.

use super::texts::{alias_bomb, lines, object};
use super::{Case, ends, refused};
use crate::check::{SYNC, kustomization};

const CHECK: &[&str] = &["check", "."];

/// Returns a fleet with one Kustomization, and these files in its directory.
fn fleet(spec: &str, files: Vec<(&'static str, String)>) -> Vec<(&'static str, String)> {
    let own = [
        ("clusters/one/flux-system/gotk-sync.yaml", SYNC.to_owned()),
        ("clusters/one/apps.yaml", kustomization("apps", spec)),
    ];
    own.into_iter().chain(files).collect()
}

fn namespaced(fields: &str) -> String {
    object(fields).replace("{name: a}", "{name: a, namespace: default}")
}

pub fn cases() -> Vec<Case> {
    let nested = format!("x: {}1{}\n", "{a: ".repeat(900), "}".repeat(900));
    let copies = lines(40, |at| {
        format!("      - {{op: copy, from: /data, path: /data/x{at}}}\n")
    });
    let doubling = format!("  patches:\n  - target: {{kind: ConfigMap}}\n    patch: |\n{copies}");
    let release = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: a, namespace: flux-system}\n\
                   spec:\n  interval: 10m\n  chart:\n    spec:\n      chart: ./chart\n      sourceRef: {kind: GitRepository, name: flux-system}\n";
    let variables = lines(50_000, |at| format!("{{{{$a{at}:=1}}}}"));
    vec![
        refused(
            "a fleet with a JSON patch that doubles an object",
            CHECK,
            fleet(
                &doubling,
                vec![("apps/a.yaml", namespaced("data: {a: b}\n"))],
            ),
            &["values: the limit of one build"],
        ),
        refused(
            "a fleet with an alias bomb",
            CHECK,
            fleet("", vec![("apps/a.yaml", namespaced(&alias_bomb()))]),
            &["nodes (aliases expanded)"],
        ),
        ends(
            "a fleet with a patch on an object of 900 levels",
            CHECK,
            fleet(
                "  patches:\n  - patch: '{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}, data: {b: c}}'\n",
                vec![("apps/a.yaml", namespaced(&nested))],
            ),
        ),
        refused(
            "a fleet with a chart of 50,000 variables and a loop that reads the first",
            CHECK,
            fleet(
                "",
                vec![
                    ("apps/release.yaml", release.to_owned()),
                    (
                        "chart/Chart.yaml",
                        "apiVersion: v2\nname: chart\nversion: 1.0.0\n".to_owned(),
                    ),
                    (
                        "chart/templates/x.yaml",
                        variables + "{{range 9000000}}{{$x := $a0}}{{end}}",
                    ),
                ],
            ),
            &["the template's budget of steps is used up"],
        ),
    ]
}
