//! `driftless plan --live` on a real API server: what it lists is what the apply of the changed
//! state and a reconciliation of the cluster then change, and nothing else.

use driftless_harness::cluster::Cluster;
use driftless_harness::command::run_in;
use driftless_harness::github::{Change, GitHub};
use driftless_harness::process;
use driftless_harness::serve::Serve;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

const SECRET: &str = "It's a Secret to Everybody";
/// The lists of the API whose objects are compared.
const LISTS: [&str; 8] = [
    "/api/v1/namespaces",
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/fresh/configmaps",
    "/api/v1/namespaces/default/secrets",
    "/api/v1/namespaces/default/services",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/example.com/v1/namespaces/default/widgets",
];
const APPS: &str = "apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: apps, namespace: flux-system}
spec: {interval: 10m, path: ./apps, prune: true, sourceRef: {kind: GitRepository, name: flux-system}}
";
const WIDGETS: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
";
const WIDGET: &str = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: one, namespace: default}\nspec: {size: 1}\n";

fn config_map(name: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: default}}\ndata: {{key: {value}}}\n"
    )
}

fn secret(name: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: default}}\nstringData: {{password: {value}}}\n"
    )
}

fn service(port: u16) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: web, namespace: default}}\nspec:\n  selector: {{app: web}}\n  ports: [{{port: {port}}}]\n"
    )
}

fn deployment(name: &str, image: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}, namespace: default}}\nspec:\n  replicas: 0\n  \
         selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    \
         spec: {{containers: [{{name: web, image: {image}, ports: [{{containerPort: 80}}], resources: {{limits: {{cpu: 1000m}}}}}}]}}\n"
    )
}

/// Returns the files of the base and of the head.
fn states() -> [Vec<(String, String)>; 2] {
    let base = [
        ("drifted", config_map("drifted", "a")),
        ("missing", config_map("missing", "a")),
        ("changed", config_map("changed", "a")),
        ("already", config_map("already", "a")),
        ("same", config_map("same", "a")),
        ("removed", config_map("removed", "a")),
        ("kept", config_map("kept", "a")),
        ("vanished", config_map("vanished", "a")),
        ("login", secret("login", "first-password")),
        ("other", secret("other", "same-password")),
        ("service", service(80)),
        ("web", deployment("web", "example.com/web:1")),
        ("idle", deployment("idle", "example.com/idle:1")),
    ];
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: fresh}\n";
    let inside = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: inside, namespace: fresh}\ndata: {a: b}\n";
    let head = [
        ("drifted", config_map("drifted", "a")),
        ("missing", config_map("missing", "a")),
        ("changed", config_map("changed", "b")),
        ("already", config_map("already", "b")),
        ("same", config_map("same", "a")),
        ("foreign", config_map("foreign", "ours")),
        ("login", secret("login", "second-password")),
        ("other", secret("other", "same-password")),
        ("service", service(8080)),
        ("web", deployment("web", "example.com/web:2")),
        ("idle", deployment("idle", "example.com/idle:1")),
        ("namespace", namespace.to_owned()),
        ("inside", inside.to_owned()),
        ("widgets", WIDGETS.to_owned()),
        ("widget", WIDGET.to_owned()),
    ];
    let files = |all: &[(&str, String)]| {
        let root = ("clusters/one/apps.yaml".to_owned(), APPS.to_owned());
        let apps = all
            .iter()
            .map(|(name, text)| (format!("apps/{name}.yaml"), text.clone()));
        apps.chain([root]).collect()
    };
    [files(&base), files(&head)]
}

fn write(directory: &Path, files: &[(String, String)]) {
    let _ = std::fs::remove_dir_all(directory.join("apps"));
    for (path, text) in files {
        let file = directory.join(path);
        std::fs::create_dir_all(file.parent().expect("a directory")).expect("make a directory");
        std::fs::write(file, text).expect("write a file");
    }
}

fn git(directory: &Path, args: &[&str]) {
    let mut git = Command::new("git");
    git.current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .args(["-c", "user.name=a", "-c", "user.email=a@example.com"])
        .args(args);
    process::run(&mut git);
}

/// Returns the version of each object of the API server, by its name in a plan.
fn versions(hub: &Cluster) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for path in LISTS {
        let kind = match path.rsplit('/').next() {
            Some("namespaces") => "Namespace",
            Some("configmaps") => "ConfigMap",
            Some("secrets") => "Secret",
            Some("services") => "Service",
            Some("deployments") => "Deployment",
            Some("customresourcedefinitions") => "CustomResourceDefinition",
            _ => "Widget",
        };
        for object in hub.api().list(path).unwrap_or_default() {
            let metadata = &object["metadata"];
            let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
            let parts = [kind.to_owned(), text("namespace"), text("name")];
            let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            // The controllers of the API server change its own objects, and the status of others.
            let version = match kind {
                "Namespace" | "CustomResourceDefinition" => text("uid"),
                _ => text("uid") + &text("resourceVersion"),
            };
            all.insert(parts.join("/"), version);
        }
    }
    all.retain(|name, _| !name.ends_with("/kube-root-ca.crt"));
    all
}

/// Returns `ACTION OBJECT` for each difference.
fn differences(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> BTreeSet<String> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let action = |name: &String| match (before.get(name), after.get(name)) {
        (None, _) => Some("create"),
        (Some(_), None) => Some("delete"),
        (Some(was), Some(is)) => (was != is).then_some("change"),
    };
    let named = names
        .into_iter()
        .filter_map(|name| Some(format!("{} {name}", action(name)?)));
    named.collect()
}

fn patch(hub: &Cluster, name: &str, patch: &Value) {
    let path = format!("/api/v1/namespaces/default/configmaps/{name}");
    hub.api().patch(&path, patch).expect("patch a live object");
}

#[test]
fn plan_live() {
    let home = tempfile::tempdir().expect("a home");
    let hub = Cluster::start("hub");
    let kubeconfig = home.path().join("hub.yaml");
    std::fs::write(&kubeconfig, hub.kubeconfig()).expect("write the kubeconfig");
    let kubeconfig = kubeconfig.to_str().expect("UTF-8");
    let github = GitHub::start();
    let fleet = github.repository("acme/fleet");
    github.add_token("ghp_fleet", &["acme/fleet"]);
    let [base, head] = states();
    let written = |files: &[(String, String)]| -> Vec<Change> {
        let changes = files.iter();
        changes
            .map(|(path, text)| Change::write(path, text.as_bytes()))
            .collect()
    };
    github.push(&fleet, "main", &written(&base));
    let args = [
        ["--kubeconfig", kubeconfig],
        ["--github-api", github.url()],
        ["--repository", "acme/fleet"],
        ["--path", "clusters/one"],
    ];
    let environment = [
        ("DRIFTLESS_WEBHOOK_SECRET", SECRET),
        ("GITHUB_TOKEN", "ghp_fleet"),
    ];
    let serve = Serve::start(home.path(), &args.concat(), &environment);
    github.add_webhook(&serve.url("/webhook"), SECRET);
    let sha = fleet.resolve("main").expect("a head");
    serve.eventually("the base is applied", || {
        serve.is_ready("flux-system", "apps", &sha)
    });
    // Nothing is put back before the plan: a suspended object has no drift detection.
    let path = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/apps";
    let suspend = |is_suspended: bool| {
        let patch = json!({"spec": {"suspend": is_suspended}});
        hub.api().patch(path, &patch).expect("suspend or resume");
    };
    suspend(true);
    patch(&hub, "drifted", &json!({"data": {"key": "by hand"}}));
    patch(&hub, "already", &json!({"data": {"key": "b"}}));
    let disabled =
        json!({"metadata": {"annotations": {"kustomize.toolkit.fluxcd.io/prune": "disabled"}}});
    patch(&hub, "kept", &disabled);
    for name in ["missing", "vanished"] {
        let path = format!("/api/v1/namespaces/default/configmaps/{name}");
        hub.api().delete(&path).expect("delete a live object");
    }
    let foreign = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "foreign"}, "data": {"key": "mine"}});
    let maps = "/api/v1/namespaces/default/configmaps";
    hub.api().create(maps, &foreign).expect("create an object");

    let checkout = home.path().join("checkout");
    write(&checkout, &base);
    git(
        &checkout,
        &["-c", "init.defaultBranch=main", "init", "--quiet"],
    );
    git(&checkout, &["add", "--all"]);
    git(&checkout, &["commit", "--quiet", "--message", "base"]);
    write(&checkout, &head);
    let before = versions(&hub);
    let plan = run_in(
        home.path(),
        &[
            "plan",
            checkout.to_str().expect("UTF-8"),
            "--url",
            "https://github.com/acme/fleet",
            "--live",
            "--kubeconfig",
            kubeconfig,
            "-o",
            "json",
        ],
        &[],
    );
    for value in ["first-password", "second-password", "same-password"] {
        assert!(
            !plan.out.contains(value) && !plan.err.contains(value),
            "{value}"
        );
    }
    assert_eq!(plan.code, 0, "{}{}", plan.out, plan.err);
    assert_eq!(differences(&before, &versions(&hub)), BTreeSet::new());
    let plan: Value = serde_json::from_str(&plan.out).expect("JSON");
    let cluster = &plan["clusters"][0];
    assert_eq!(cluster["comparedWith"], "live", "{plan:#}");
    let listed = |field: &str| -> Vec<String> {
        let all = cluster[field].as_array().expect("a list").iter();
        let all = all.filter(|one| one["action"] != "keep");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        all.map(|one| format!("{} {}", text(&one["action"]), text(&one["object"])))
            .collect()
    };
    let (changes, drift) = (listed("changes"), listed("drift"));
    assert_eq!(
        drift,
        [
            "change ConfigMap/default/drifted",
            "create ConfigMap/default/missing"
        ]
    );
    let planned: BTreeSet<String> = changes.iter().chain(&drift).cloned().collect();
    assert!(
        planned.contains("change ConfigMap/default/foreign")
            && planned.contains("create Widget/default/one"),
        "{planned:#?}"
    );

    let paths: BTreeSet<&String> = head.iter().map(|(path, _)| path).collect();
    let gone = base.iter().filter(|(path, _)| !paths.contains(path));
    let mut pushed = written(&head);
    pushed.extend(gone.map(|(path, _)| Change::remove(path)));
    let push = github.push(&fleet, "main", &pushed);
    // The first step after the suspension is at the head, and reads the cluster.
    serve.eventually("the head is fetched", || {
        let source = serve.object("GitRepository", "flux-system", "flux-system");
        let revision = source["revision"].as_str().unwrap_or_default();
        match revision.ends_with(&push.sha) {
            true => Ok(()),
            false => Err(source.to_string()),
        }
    });
    assert_eq!(differences(&before, &versions(&hub)), BTreeSet::new());
    suspend(false);
    serve.eventually("the head is applied", || {
        serve.is_ready("flux-system", "apps", &push.sha)
    });
    assert_eq!(differences(&before, &versions(&hub)), planned);
}
