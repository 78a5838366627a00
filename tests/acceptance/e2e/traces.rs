//! Traces and metrics of the deployed functions.

use crate::world::World;
use driftless_harness::github::Change;
use driftless_harness::traces::Collector;
use driftless_tests::site::{Site as _, one_hub};
use serde_json::Value;
use std::collections::BTreeSet;

const FLEET: &str = "acme/fleet";

fn kustomization(name: &str, more: &str) -> String {
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {{name: {name}, namespace: flux-system}}
spec: {{interval: 10m, path: ./{name}, prune: true, sourceRef: {{kind: GitRepository, name: flux-system}}{more}}}
"
    )
}

fn config(name: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: default}}\ndata: {{key: {value}}}\n"
    )
}

#[test]
fn a_push_is_one_trace_through_the_functions() {
    let collector = Collector::start();
    let parameters = [
        ("OtlpEndpoint", collector.endpoint()),
        ("OtlpHeadersSecret", "otlp/headers".to_owned()),
        ("Metrics", "true".to_owned()),
    ];
    let parameters: Vec<(&str, &str)> = parameters
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let world = World::start_with(false, &one_hub(FLEET), &["edge"], &parameters);
    world
        .ministack
        .aws()
        .put_secret("driftless/otlp/headers", "x-tenant=acme, x-key=very secret");
    let edge = world.remote("edge");
    world
        .hub("hub")
        .add_remote("flux-system", "edge-kubeconfig", edge);
    let on_edge = ", dependsOn: [{name: apps}], kubeConfig: {secretRef: {name: edge-kubeconfig}}";
    world.commit(
        FLEET,
        &[
            Change::write("clusters/hub/apps.yaml", kustomization("apps", "")),
            Change::write("clusters/hub/later.yaml", kustomization("later", on_edge)),
            Change::write("apps/settings.yaml", config("settings", "one")),
            Change::write("later/last.yaml", config("last", "one")),
        ],
    );
    world.sweep();
    let last = |value: &str| {
        let path = "/api/v1/namespaces/default/configmaps/last";
        let found = world.remote("edge").api().get(path);
        match found {
            Ok(found) if found["data"]["key"] == value => Ok(()),
            other => Err(format!("{other:?}")),
        }
    };
    world.eventually("the first commit", || last("one"));
    world.settle();

    let pushed = world.push(
        FLEET,
        &[
            Change::write("apps/settings.yaml", config("settings", "two")),
            Change::write("later/last.yaml", config("last", "two")),
        ],
    );
    let delivery = &pushed[0];
    assert_eq!(delivery.status, Some(202));
    world.eventually("the second commit", || last("two"));
    let mut trace = Vec::new();
    world.eventually("the trace without a gap", || {
        trace = collector.trace_of_delivery(&delivery.id)?;
        let is_last = |span: &&driftless_harness::traces::Span| {
            span.name == "write" && span.attribute("object") == "ConfigMap/default/last"
        };
        let write = trace.iter().find(is_last).ok_or("no write")?;
        assert_eq!(write.attribute("cluster"), "flux-system/edge-kubeconfig");
        Ok(())
    });
    let services: BTreeSet<&str> = trace.iter().map(|span| &*span.service).collect();
    let expected = BTreeSet::from(["driftless-webhook", "driftless-reconcile"]);
    assert_eq!(services, expected);
    let messages = trace.iter().filter(|span| span.name == "message");
    assert!(messages.count() >= 3, "{trace:?}");
    assert_eq!(collector.header("x-tenant"), "acme");
    assert!(!format!("{:?}", collector.spans()).contains("very secret"));

    // The log of the step has the ids of the trace, and the next line its metrics.
    let root = trace.iter().find(|span| span.name == "delivery");
    let chain = &root.expect("the root").trace;
    let lines = world.log_lines("reconcile");
    let is_step = |line: &&Value| line["chain"] == **chain && line["step"].is_string();
    let step = lines.iter().find(is_step).expect("a line of a step");
    assert_eq!(step["delivery"], *delivery.id, "{step}");
    let is_metrics = |line: &&Value| {
        line["_aws"].is_object() && line["object"] == "Kustomization/flux-system/later"
    };
    let metrics = lines.iter().rfind(is_metrics).expect("a line of metrics");
    let directive = &metrics["_aws"]["CloudWatchMetrics"][0];
    assert_eq!(directive["Namespace"], "driftless/driftless");
    for (name, value) in [
        ("hub", "hub"),
        ("kind", "Kustomization"),
        ("function", "reconcile"),
    ] {
        assert_eq!(metrics[name], value, "{metrics}");
    }
    for name in ["Steps", "StepDuration", "ApiRequests", "QueueAge"] {
        assert!(metrics[name].is_number(), "{name}: {metrics}");
    }
    let swept = world.log_lines("drift");
    assert!(swept.iter().any(|line| line["DriftFound"].is_number()));
    let received = world.log_lines("webhook");
    assert!(received.iter().any(|line| line["Deliveries"].is_number()));
}
