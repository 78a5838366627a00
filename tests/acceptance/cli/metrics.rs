//! The metrics of `driftless serve --object-metrics` on a real API server: Prometheus's own engine
//! answers each query of the Grafana dashboard in `infra/grafana`, and those of Flux's dashboard.

use driftless_harness::cluster::Cluster;
use driftless_harness::github::{Change, GitHub};
use driftless_harness::library::Library;
use driftless_harness::serve::Serve;
use driftless_harness::tools::{self, PROMQL};
use serde_json::{Value, json};
use std::time::Duration;

const FILES: [(&str, &str); 2] = [
    (
        "clusters/one/apps.yaml",
        "apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: apps, namespace: flux-system}
spec: {interval: 10m, path: ./apps, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: broken, namespace: flux-system}
spec: {interval: 10m, path: ./absent, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: paused, namespace: flux-system}
spec: {interval: 10m, path: ./apps, prune: true, suspend: true, sourceRef: {kind: GitRepository, name: flux-system}}
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: other, namespace: flux-system}
spec: {interval: 10m, url: https://github.com/acme/absent}
",
    ),
    (
        "apps/settings.yaml",
        "apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: default}
data: {key: value}
",
    ),
];

/// Queries of the dashboard of clusters in fluxcd/flux2-monitoring-example, with its variables.
const OF_FLUX: [&str; 4] = [
    r#"count(gotk_resource_info{exported_namespace=~"$namespace", customresource_kind=~"Kustomization|HelmRelease"})"#,
    r#"count(gotk_resource_info{exported_namespace=~"$namespace", customresource_kind=~"Kustomization|HelmRelease", ready="False"})"#,
    r#"count(gotk_resource_info{exported_namespace=~"$namespace", customresource_kind=~"GitRepository|HelmRepository|Bucket|OCIRepository", ready="False"})"#,
    r#"sum(rate(gotk_reconcile_duration_seconds_sum{namespace=~"$operator_namespace",exported_namespace=~"$namespace",kind=~"Kustomization|HelmRelease"}[5m])) by (kind) / sum(rate(gotk_reconcile_duration_seconds_count{namespace=~"$operator_namespace",exported_namespace=~"$namespace",kind=~"Kustomization|HelmRelease"}[5m])) by (kind)"#,
];

/// Returns the queries of the project's dashboard, with the titles of their panels.
fn queries() -> Vec<(String, String)> {
    let file = tools::workspace().join("infra/grafana/driftless.json");
    let text = std::fs::read_to_string(file).expect("the dashboard");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        let title = panel["title"].as_str().expect("a title");
        for target in panel["targets"].as_array().unwrap_or(&Vec::new()) {
            let query = target["expr"].as_str().expect("a query");
            queries.push((title.to_owned(), query.to_owned()));
        }
    }
    queries
}

/// Replaces the variables of dashboards, as Grafana does if all values are selected.
fn with_values(query: &str) -> String {
    let values = [
        ("$__rate_interval", "5m"),
        ("$__range", "5m"),
        ("$operator_namespace", "driftless"),
        ("$namespace", ".*"),
        ("$hub", ".*"),
        ("$job", ".*"),
    ];
    let replaced = values.iter().fold(query.to_owned(), |text, (name, value)| {
        text.replace(name, value)
    });
    assert!(!replaced.contains('$'), "an unknown variable: {replaced}");
    replaced
}

#[test]
fn every_query_of_the_grafana_dashboards_has_an_answer() {
    let home = tempfile::tempdir().expect("a home");
    let hub = Cluster::start("hub");
    let kubeconfig = home.path().join("hub.yaml");
    std::fs::write(&kubeconfig, hub.kubeconfig()).expect("write the kubeconfig");
    let github = GitHub::start();
    let fleet = github.repository("acme/fleet");
    github.add_token("ghp_fleet", &["acme/fleet"]);
    let files = FILES.map(|(path, text)| Change::write(path, text.as_bytes()));
    github.push(&fleet, "main", &files);
    let args = [
        "--kubeconfig",
        kubeconfig.to_str().expect("UTF-8"),
        "--github-api",
        github.url(),
        "--repository",
        "acme/fleet",
        "--path",
        "clusters/one",
        "--object-metrics",
    ];
    let serve = Serve::start(home.path(), &args, &[("GITHUB_TOKEN", "ghp_fleet")]);
    let sha = fleet.resolve("main").expect("a head");
    serve.eventually("the apps are applied", || {
        serve.is_ready("flux-system", "apps", &sha)
    });
    let scrape = || {
        serve.post("/sweep", &[], b"");
        serve.get("/metrics").text()
    };
    let first = scrape();
    // Each kind has a step between the two scrapes, so that rates are not zero by zero.
    for path in [
        "kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/apps",
        "source.toolkit.fluxcd.io/v1/namespaces/flux-system/gitrepositories/flux-system",
    ] {
        let requested =
            json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": "now"}}});
        let patched = hub.api().patch(&format!("/apis/{path}"), &requested);
        patched.expect("ask for a reconciliation");
    }
    serve.eventually("the reconciliations that were asked for", || {
        let object = serve.object("Kustomization", "flux-system", "apps");
        let metrics = serve.get("/metrics").text();
        let handled = "gotk_reconcile_duration_seconds_count{kind=\"Kustomization\",name=\"apps\",namespace=\"flux-system\"";
        let count = |text: &str| {
            let mut lines = text.lines().filter(|line| line.starts_with(handled));
            lines.next().and_then(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok())
        };
        match count(&metrics) > count(&first) {
            true => Ok(()),
            false => Err(format!("{object}")),
        }
    });
    std::thread::sleep(Duration::from_secs(1));
    let second = scrape();
    let info = "gotk_resource_info{customresource_group=\"kustomize.toolkit.fluxcd.io\",customresource_kind=\"Kustomization\",\
        customresource_version=\"v1\",hub=\"default\",name=\"broken\",exported_namespace=\"flux-system\",ready=\"False\",\
        source_name=\"flux-system\"} 1";
    assert!(
        second.lines().any(|line| line == info),
        "{info} is not in:\n{second}"
    );

    let mut queries = queries();
    queries.extend(OF_FLUX.map(|query| ("a panel of Flux's".to_owned(), query.to_owned())));
    assert!(queries.len() > 15, "{queries:?}");
    let mut prometheus = Library::start(&PROMQL);
    let asked: Vec<String> = queries
        .iter()
        .map(|(_, query)| with_values(query))
        .collect();
    prometheus.ask(&json!({
        "scrapes": [{"seconds": 0, "text": first}, {"seconds": 60, "text": second}],
        "target": {"namespace": "driftless", "pod": "driftless-0", "job": "driftless"},
        "at": 60,
        "queries": asked,
    }));
    let answers = prometheus.answer();
    let answers = answers.as_array().expect("answers");
    assert_eq!(answers.len(), queries.len());
    for ((title, query), answer) in queries.iter().zip(answers) {
        let is_answered = answer["series"].as_u64() > Some(0) && answer["error"].is_null();
        assert!(is_answered, "{title}: {query}: {answer}");
    }
}
