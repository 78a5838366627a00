//! The chart of `infra/chart`: our engine and Helm render the same objects, and a real API server
//! accepts them without a warning where the namespace is restricted.

use driftless_harness::cluster::Cluster;
use driftless_harness::command;
use driftless_harness::kubectl::Kubectl;
use driftless_harness::process;
use driftless_harness::serve::Serve;
use driftless_harness::tools::{self, HELM, HELM4, Tool};
use driftless_manifest::yaml::{Dialect, Limits, documents};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Values that use every part of the chart.
const EVERYTHING: &str = "
image: {digest: 'sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef'}
imagePullSecrets: [{name: pull}]
serve: {repository: acme/fleet, path: clusters/staging, githubApi: 'https://git.acme.example/api/v3',
  defaultServiceAccount: default, noCrossNamespaceRefs: true, extraArgs: [--allow-remote-bases]}
environmentSecret: driftless-environment
githubApp: {id: '12', secret: app}
serviceAccount: {name: serve, annotations: {example.com/role: gitops}}
rbac: {rules: [{apiGroups: [''], resources: [secrets], verbs: [get]}]}
state: {persistent: false, size: 2Gi}
service: {annotations: {example.com/a: b}}
ingress: {enabled: true, className: nginx, host: gitops.acme.example, tlsSecret: gitops-tls, annotations: {a: b}}
networkPolicy: {from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ingress-nginx}}}], egressPorts: [443]}
podAnnotations: {a: b}
podLabels: {team: platform}
nodeSelector: {kubernetes.io/arch: arm64}
tolerations: [{key: a, operator: Exists}]
affinity: {nodeAffinity: {}}
priorityClassName: system-cluster-critical
";
/// Another hub; claims and definitions of others.
const ELSEWHERE: &str = "
kubeconfigSecret: hub
fullnameOverride: gitops
state: {existingClaim: state}
serviceAccount: {create: false}
metrics: {annotations: false, serviceMonitor: {enabled: true, labels: {release: prometheus}}}
networkPolicy: {enabled: false}
resources: null
";
const CASES: [&str; 3] = ["{}", EVERYTHING, ELSEWHERE];

fn helm(tool: &Tool, home: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(tool.path());
    command.env_clear().env("HOME", home);
    process::run(command.current_dir(tools::workspace()).args(arguments))
}

/// Runs with a values file in a home directory; returns its path also.
fn with_values<T>(values: &str, run: impl FnOnce(&Path, &str) -> T) -> T {
    let home = tempfile::tempdir().expect("a home");
    let file = home.path().join("values.yaml");
    fs::write(&file, values).expect("write the values");
    run(home.path(), file.to_str().expect("UTF-8"))
}

fn arguments<'a>(chart: &'a str, values: &'a str) -> Vec<&'a str> {
    let release = ["template", "gitops", chart, "--namespace", "driftless"];
    let versions = ["--kube-version", "1.36.0", "--values", values];
    release.into_iter().chain(versions).collect()
}

#[test]
fn our_engine_renders_the_chart_as_helm_does() {
    let chart = tools::workspace().join("infra/chart");
    let chart = chart.to_str().expect("UTF-8");
    for values in CASES {
        with_values(values, |home, file| {
            let mut arguments = arguments(chart, file);
            let theirs = helm(&HELM, home, &arguments);
            let ours = command::run_in(home, &arguments, &[]).ok();
            assert!(theirs.contains("kind: Deployment"), "{theirs}");
            assert_eq!(ours, theirs, "{values}");
            let theirs = helm(&HELM4, home, &arguments);
            arguments.push("--helm4");
            let ours = command::run_in(home, &arguments, &[]).ok();
            assert_eq!(ours, theirs, "{values}");
        });
    }
}

#[test]
fn the_chart_passes_helms_linter_and_its_schema_refuses_mistakes() {
    for values in CASES {
        with_values(values, |home, file| {
            let lint = ["lint", "--strict", "infra/chart", "--values", file];
            helm(&HELM, home, &lint);
        });
    }
    for (values, word) in [
        ("serve: {repo: acme/fleet}", "repo"),
        ("serve: {workers: 0}", "workers"),
        ("serve: {extraArgs: ['-x']}", "extraArgs"),
        ("githubApp: {id: '12'}", "secret"),
        ("ingress: {enabled: true}", "host"),
        ("replicas: 2", "replicas"),
    ] {
        with_values(values, |home, file| {
            let output = Command::new(HELM.path())
                .env_clear()
                .env("HOME", home)
                .current_dir(tools::workspace())
                .args(arguments("infra/chart", file))
                .output()
                .expect("run helm");
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(
                !output.status.success() && errors.contains(word),
                "{values}: {errors}"
            );
        });
    }
}

/// Applies the objects as a user does, and returns the warnings.
fn apply(kubectl: &Kubectl, manifests: &str) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("manifests.yaml");
    fs::write(&file, manifests).expect("write the manifests");
    let file = file.to_str().expect("UTF-8");
    let apply = [
        "apply",
        "--server-side",
        "--namespace",
        "driftless",
        "-f",
        file,
    ];
    let output = kubectl.command(apply, 120).output().expect("run kubectl");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    errors
}

#[test]
fn a_restricted_namespace_accepts_the_chart_without_a_warning() {
    let cluster = Cluster::start("chart");
    let kubectl = Kubectl::new(&cluster.kubeconfig());
    let labels = "{pod-security.kubernetes.io/enforce: restricted, pod-security.kubernetes.io/warn: restricted}";
    kubectl.apply(&format!(
        "apiVersion: v1\nkind: Namespace\nmetadata: {{name: driftless, labels: {labels}}}\n"
    ));
    // The definition of ServiceMonitor is the Prometheus operator's.
    let ours = ELSEWHERE.replace(
        "serviceMonitor: {enabled: true",
        "serviceMonitor: {enabled: false",
    );
    for values in ["{}", EVERYTHING, &ours] {
        let rendered = with_values(values, |home, file| {
            helm(&HELM, home, &arguments("infra/chart", file))
        });
        assert_eq!(apply(&kubectl, &rendered), "", "{values}");
    }
    // The Deployment of the last values is the one that the server has.
    let path = "/apis/apps/v1/namespaces/driftless/deployments/gitops";
    let deployment = cluster.api().get(path).expect("the Deployment");
    assert_eq!(deployment["spec"]["strategy"]["type"], "Recreate");
    // A pod template that is not restricted has a warning: the label takes effect.
    let loose = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: loose}\nspec:\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n    spec: {containers: [{name: a, image: a}]}\n";
    let warned = apply(&kubectl, loose);
    assert!(warned.contains("would violate PodSecurity"), "{warned}");
}

/// Starts `serve` with the arguments and the kubeconfig of the chart, as the chart's account.
#[test]
fn serve_starts_with_the_arguments_and_the_login_of_the_chart() {
    let cluster = Cluster::start("chart-login");
    let kubectl = Kubectl::new(&cluster.kubeconfig());
    kubectl.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: driftless}\n");
    let rendered = with_values("{}", |home, file| {
        helm(&HELM, home, &arguments("infra/chart", file))
    });
    apply(&kubectl, &rendered);
    let objects = documents(
        rendered.as_bytes(),
        "chart",
        Dialect::V3,
        &Limits::default(),
    );
    let objects = objects.expect("YAML");
    let of_kind = |kind: &str| objects.iter().find(|object| object["kind"] == kind);
    let deployment = of_kind("Deployment").expect("a Deployment");
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];

    // The files that the pod mounts. No controller writes tokens into Secrets here.
    let home = tempfile::tempdir().expect("a home");
    let root = home.path().to_str().expect("UTF-8");
    let place = |text: &str| {
        let text = text.replace("/etc/driftless", &format!("{root}/etc"));
        let text = text.replace("/var/lib/driftless", &format!("{root}/state"));
        text.replace("https://kubernetes.default.svc", &cluster.url())
    };
    let kubeconfig = &of_kind("ConfigMap").expect("a ConfigMap")["data"]["kubeconfig"];
    let kubeconfig = place(kubeconfig.as_str().expect("a kubeconfig"));
    let token = [
        "create",
        "token",
        "gitops-driftless",
        "--namespace",
        "driftless",
    ];
    let token = kubectl.run(&token).expect("a token");
    for (name, text) in [
        ("kubeconfig/kubeconfig", kubeconfig.as_str()),
        ("token/token", &token),
        ("token/ca.crt", cluster.ca()),
    ] {
        let file = home.path().join("etc").join(name);
        fs::create_dir_all(file.parent().expect("a directory")).expect("make a directory");
        fs::write(file, text).expect("write a file");
    }
    let given: Vec<String> = container["args"]
        .as_array()
        .expect("arguments")
        .iter()
        .map(|argument| place(argument.as_str().expect("a string")))
        .filter(|argument| argument != "serve" && !argument.starts_with("--listen="))
        .collect();
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let serve = Serve::start(home.path(), &given, &[]);
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let path = container[probe]["httpGet"]["path"].as_str();
        assert_eq!(serve.get(path.expect("a path")).text(), "ok\n", "{probe}");
    }
    assert!(
        serve
            .get("/metrics")
            .text()
            .contains("driftless_queue_length")
    );
    assert!(home.path().join("state/lock").is_file());
    let user = "system:serviceaccount:driftless:gitops-driftless";
    let requests = cluster.requests();
    let of_account = requests.iter().filter(|request| request.user == user);
    assert!(of_account.count() > 10, "{requests:?}");
    let bound = cluster.api().get(
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/cluster-reconciler-flux-system",
    );
    assert_ne!(bound.expect("the binding of Flux's accounts"), Value::Null);
}
