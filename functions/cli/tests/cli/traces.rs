//! Traces of `driftless serve`, as a collector gets them.

use crate::embedded::Hub;
use driftless_harness::github::{Change, GitHub};
use driftless_harness::serve::Serve;
use driftless_harness::traces::{Collector, Span};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const SECRET: &str = "It's a Secret to Everybody";
const TOKEN: &str = "ghp_of_the_fleet";

const KUSTOMIZATIONS: &str = "apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: apps, namespace: flux-system}
spec: {interval: 10m, path: ./apps, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: later, namespace: flux-system}
spec: {interval: 10m, path: ./later, prune: true, dependsOn: [{name: apps}], sourceRef: {kind: GitRepository, name: flux-system}}
";

fn config(name: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: default}}\ndata: {{key: {value}}}\n"
    )
}

#[test]
fn a_push_is_one_trace_from_the_delivery_to_each_object() {
    let (hub, home) = (Hub::start(), tempfile::tempdir().expect("a home"));
    let kubeconfig = home.path().join("hub.yaml");
    std::fs::write(&kubeconfig, hub.kubeconfig()).expect("write the kubeconfig");
    let github = GitHub::start();
    let fleet = github.repository("acme/fleet");
    github.add_token(TOKEN, &["acme/fleet"]);
    let first = [
        Change::write("clusters/one/apps.yaml", KUSTOMIZATIONS),
        Change::write("apps/settings.yaml", config("settings", "one")),
        Change::write("apps/old.yaml", config("old", "one")),
        Change::write("later/last.yaml", config("last", "one")),
    ];
    github.push(&fleet, "main", &first);
    let collector = Collector::start();
    let endpoint = collector.endpoint();
    let args = [
        "--kubeconfig",
        kubeconfig.to_str().expect("UTF-8"),
        "--github-api",
        github.url(),
        "--repository",
        "acme/fleet",
        "--path",
        "clusters/one",
    ];
    let environment = [
        ("GITHUB_TOKEN", TOKEN),
        ("DRIFTLESS_WEBHOOK_SECRET", SECRET),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test"),
    ];
    let serve = Serve::start(home.path(), &args, &environment);
    let are_ready = |sha: &str| {
        let ready = ["apps", "later"].map(|name| serve.is_ready("flux-system", name, sha));
        ready.into_iter().collect::<Result<(), String>>()
    };
    let head = || fleet.resolve("main").expect("a head");
    serve.eventually("the first commit", || are_ready(&head()));

    github.add_webhook(&serve.url("/webhook"), SECRET);
    let second = [
        Change::write("apps/settings.yaml", config("settings", "two")),
        Change::remove("apps/old.yaml"),
        Change::write("apps/new.yaml", config("new", "two")),
        Change::write("later/last.yaml", config("last", "two")),
    ];
    let pushed = github.push(&fleet, "main", &second);
    let delivery = &pushed.deliveries[0];
    assert_eq!(delivery.status, Some(202));
    serve.eventually("the second commit", || are_ready(&head()));
    let expected = BTreeSet::from([
        "apply ConfigMap/default/settings",
        "apply ConfigMap/default/new",
        "apply ConfigMap/default/last",
        "delete ConfigMap/default/old",
    ]);
    let mut trace = Vec::new();
    serve.eventually("the trace without a gap", || {
        trace = collector.trace_of_delivery(&delivery.id)?;
        let writes = writes(&trace);
        match expected.iter().all(|write| writes.contains(*write)) {
            true => Ok(()),
            false => Err(format!("{writes:?}")),
        }
    });
    let root = trace.iter().find(|span| span.name == "delivery");
    let root = root.expect("the root");
    for (name, value) in [
        ("host", "GitHub"),
        ("event", "push"),
        ("repository", "github.com/acme/fleet"),
        ("ref", "refs/heads/main"),
        ("commit", &head()),
        ("status", "202"),
        ("chain", &root.trace),
    ] {
        assert_eq!(root.attribute(name), value, "{name} of {root:?}");
    }
    let steps = trace.iter().filter(|span| span.name == "step");
    let steps: BTreeSet<&str> = steps.map(|span| span.attribute("object")).collect();
    for object in [
        "GitRepository/flux-system/flux-system",
        "Kustomization/flux-system/apps",
        "Kustomization/flux-system/later",
    ] {
        assert!(steps.contains(object), "no step of {object}: {steps:?}");
    }
    for span in &trace {
        assert_eq!(span.service, "driftless-serve");
        if span.name == "step" {
            assert_eq!(span.attribute("hub"), "default");
            assert_eq!(span.attribute("step").len(), 32, "{span:?}");
        }
        if span.name == "message" {
            assert_eq!(span.attribute("delivery"), delivery.id);
            assert_eq!(span.attribute("chain"), span.trace);
        }
        if span.name == "write" {
            assert_eq!(span.attribute("cluster"), "default");
        }
    }
    // The source reads the commit, and each Kustomization renders and applies.
    for name in ["fetch", "render", "apply", "prune"] {
        assert!(trace.iter().any(|span| span.name == name), "no {name}");
    }
    let all = format!("{:?}", collector.spans());
    for secret in [TOKEN, SECRET, "data: {key"] {
        assert!(!all.contains(secret), "{secret} is in a trace");
    }

    // The lines of the log have the same ids.
    let log = serve.log();
    let lines = log
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let lines: Vec<serde_json::Value> = lines.collect();
    let of_step = lines.iter().find(|line| {
        line["chain"] == *root.trace && line["object"] == "Kustomization/flux-system/later"
    });
    let of_step = of_step.unwrap_or_else(|| panic!("no line of the step:\n{log}"));
    assert_eq!(of_step["delivery"], *delivery.id);
    assert_eq!(of_step["hub"], "default");
    assert!(of_step["step"].is_string(), "{of_step}");
}

fn writes(trace: &[Span]) -> BTreeSet<String> {
    let writes = trace.iter().filter(|span| span.name == "write");
    let name = |span: &Span| format!("{} {}", span.attribute("action"), span.attribute("object"));
    writes.map(name).collect()
}

#[test]
fn a_collector_that_hangs_delays_nothing_and_a_wrong_variable_is_refused() {
    let (hub, home) = (Hub::start(), tempfile::tempdir().expect("a home"));
    let kubeconfig = home.path().join("hub.yaml");
    std::fs::write(&kubeconfig, hub.kubeconfig()).expect("write the kubeconfig");
    let args = ["--kubeconfig", kubeconfig.to_str().expect("UTF-8")];
    let collector = Collector::start();
    collector.delay(Duration::from_secs(60));
    let endpoint = collector.endpoint();
    let serve = Serve::start(
        home.path(),
        &args,
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)],
    );
    let start = Instant::now();
    for _ in 0..3 {
        serve.post("/sweep", &[], b"");
    }
    assert!(start.elapsed() < Duration::from_secs(10));

    for (variable, value, words) in [
        (
            "OTEL_EXPORTER_OTLP_PROTOCOL",
            "grpc",
            ["'grpc'", "http/json"],
        ),
        (
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "collector:4317",
            ["not valid", "http://localhost:4318"],
        ),
        ("OTEL_TRACES_EXPORTER", "zipkin", ["'zipkin'", "otlp"]),
    ] {
        let environment = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint),
            (variable, value),
        ];
        let mut args = vec!["serve", "--listen", "127.0.0.1:0"];
        args.extend(["--kubeconfig", kubeconfig.to_str().expect("UTF-8")]);
        let done = driftless_harness::command::run_in(home.path(), &args, &environment);
        done.refused(2, &words);
    }
}
