//! Helm releases: an upgrade applies every object, and without one only drift detection does.

use crate::site::{Site, find, ids, kustomization, run};
use driftless_fleet::plan::text;
use serde_json::json;

const CHART: &str = "apiVersion: v2\nname: web\nversion: 1.0.0\n";
const TEMPLATE: &str = "{{- range $name, $value := .Values.maps }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ $name }}\n\
    data:\n  key: {{ $value | quote }}\n{{- end }}\n";

fn release(drift: &str, values: &str) -> String {
    format!(
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: web, namespace: default}}\nspec:\n  interval: 10m\n  \
         {drift}chart:\n    spec:\n      chart: ./charts/web\n      reconcileStrategy: Revision\n      \
         sourceRef: {{kind: GitRepository, name: flux-system, namespace: flux-system}}\n  values: {{maps: {values}}}\n"
    )
}

fn map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: default}}\n")
}

#[test]
fn releases_are_compared_as_their_steps_write_them() {
    run(async {
        let apps = kustomization("apps", "");
        let files = |release| {
            [
                ("clusters/one/apps.yaml", &*apps),
                ("charts/web/Chart.yaml", CHART),
                ("charts/web/templates/maps.yaml", TEMPLATE),
                ("apps/web.yaml", release),
            ]
        };
        let (base, head, detects) = (
            release("", "{one: a, two: a, gone: a}"),
            release("", "{one: b, two: a, new: a}"),
            release(
                "driftDetection: {mode: enabled}\n  ",
                "{one: a, two: a, gone: a}",
            ),
        );
        let site = Site::start(&files(&base)).await;
        site.patch(&map("two"), json!({"data": {"key": "by hand"}}))
            .await;
        // Without an upgrade and without drift detection, no step writes.
        let plan = site.plan(&files(&base)).await;
        assert!(plan.clusters.is_empty(), "{}", text(&plan));

        let plan = site.plan(&files(&head)).await;
        let cluster = &plan.clusters[0];
        assert_eq!(
            ids(&cluster.changes),
            [
                "delete ConfigMap/default/gone",
                "create ConfigMap/default/new",
                "change ConfigMap/default/one",
                "change HelmRelease/default/web",
            ],
            "{}",
            text(&plan)
        );
        assert_eq!(ids(&cluster.drift), ["change ConfigMap/default/two"]);
        let diff = &find(&cluster.drift, "ConfigMap/default/two").diff;
        assert!(diff.contains("by hand"), "{diff}");

        let site = Site::start(&files(&detects)).await;
        site.patch(&map("two"), json!({"data": {"key": "by hand"}}))
            .await;
        let plan = site.plan(&files(&detects)).await;
        assert_eq!(
            ids(&plan.clusters[0].drift),
            ["change ConfigMap/default/two"]
        );
    });
}
