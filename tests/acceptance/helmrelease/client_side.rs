//! Releases without server-side apply: three-way merges and replacements, compared with the results
//! of Helm's own command lines for the same charts, values and changes by others.

use crate::helm::Helm;
use driftless_harness::cluster::Cluster;
use driftless_harness::tools::{HELM, HELM4};
use driftless_manifest::FileTree;
use driftless_tests::charts;
use driftless_tests::releases::{MERGE, World};
use serde_json::{Value, json};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// Returns a chart with every way of merging: lists by key, sets, whole lists, single fields, an
/// object of a kind that no client knows.
fn merging() -> FileTree {
    FileTree::from_files([
        (
            "web/Chart.yaml",
            "apiVersion: v2\nname: web\nversion: 1.0.0\n",
        ),
        ("web/values.yaml", "next: false\n"),
        ("web/templates/all.yaml", ALL),
    ])
    .expect("a chart")
}

const ALL: &str = r#"apiVersion: v1
kind: ConfigMap
metadata:
  name: config
  finalizers: [acme.example/{{ if .Values.next }}new{{ else }}old{{ end }}, acme.example/both]
  annotations: {mode: "{{ .Values.next }}", {{ if not .Values.next }}old: "1"{{ end }}}
data:
  same: a
  {{ if .Values.next }}new: b{{ else }}old: c{{ end }}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports:
  - {name: http, port: 80}
  {{- if .Values.next }}
  - {name: new, port: 82}
  {{- else }}
  - {name: old, port: 81}
  {{- end }}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  strategy: {type: {{ if .Values.next }}Recreate{{ else }}RollingUpdate{{ end }}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: web:{{ if .Values.next }}2{{ else }}1{{ end }}
        args: [{{ if .Values.next }}a, b{{ else }}a{{ end }}]
        env:
        - {name: SAME, value: x}
        {{- if not .Values.next }}
        - {name: OLD, value: x}
        {{- end }}
        ports: [{containerPort: 80}]
      {{- if not .Values.next }}
      - {name: old, image: old}
      {{- end }}
      volumes:
      - name: data
        {{ if .Values.next }}emptyDir: {}{{ else }}configMap: {name: config}{{ end }}
---
apiVersion: acme.example/v1
kind: Thing
metadata: {name: thing}
spec:
  same: 1
  changed: {{ if .Values.next }}2{{ else }}1{{ end }}
  {{ if .Values.next }}new: 1{{ else }}old: 1{{ end }}
  list: [{{ if .Values.next }}1, 2{{ else }}1{{ end }}]
"#;

/// An object of the chart: its API path, and a change that others make between two releases.
type Other = (&'static str, fn(&mut Value));

fn others() -> [Other; 4] {
    [
        ("/api/v1/namespaces/{}/configmaps/config", |object| {
            object["data"]["same"] = json!("drifted");
            object["data"]["theirs"] = json!("1");
            object["metadata"]["labels"]["theirs"] = json!("1");
            let finalizers = object["metadata"]["finalizers"].as_array_mut();
            finalizers
                .expect("a list")
                .push(json!("acme.example/theirs"));
        }),
        ("/api/v1/namespaces/{}/services/web", |object| {
            let ports = object["spec"]["ports"].as_array_mut().expect("a list");
            ports.push(json!({"name": "theirs", "port": 99}));
            object["spec"]["selector"]["app"] = json!("drifted");
        }),
        ("/apis/apps/v1/namespaces/{}/deployments/web", |object| {
            object["spec"]["replicas"] = json!(5);
            let pod = &mut object["spec"]["template"]["spec"];
            let containers = pod["containers"].as_array_mut().expect("a list");
            let variables = containers[0]["env"].as_array_mut().expect("a list");
            variables.push(json!({"name": "THEIRS", "value": "y"}));
            containers.push(json!({"name": "sidecar", "image": "sidecar"}));
            let volumes = pod["volumes"].as_array_mut().expect("a list");
            volumes.push(json!({"name": "theirs", "emptyDir": {}}));
        }),
        (
            "/apis/acme.example/v1/namespaces/{}/things/thing",
            |object| {
                object["spec"]["same"] = json!(9);
                object["spec"]["theirs"] = json!(1);
            },
        ),
    ]
}

fn path(template: &str, namespace: &str) -> String {
    template.replace("{}", namespace)
}

fn define(cluster: &Cluster) {
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.acme.example"},
        "spec": {"group": "acme.example", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    cluster
        .api()
        .create(definitions, &definition)
        .expect("defined");
    for _ in 0..100 {
        if cluster.api().get("/apis/acme.example/v1/things").is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("the definition is not served");
}

/// Removes from an object what differs between two releases: their names and times.
fn bare(mut object: Value) -> Value {
    let metadata = &mut object["metadata"];
    let labels = metadata["labels"].as_object_mut().expect("labels");
    labels.retain(|label, _| !label.starts_with("helm.toolkit.fluxcd.io/"));
    let bare = json!({"labels": metadata["labels"], "finalizers": metadata["finalizers"]});
    let annotations = metadata["annotations"]
        .as_object_mut()
        .expect("annotations");
    annotations.remove("meta.helm.sh/release-namespace");
    let annotations = json!(annotations);
    object["metadata"] = json!({"bare": bare, "annotations": annotations});
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.retain(|field, _| !field.starts_with("clusterIP"));
    }
    object.as_object_mut().expect("a map").remove("status");
    object
}

/// Helm 3, Helm 4 and driftless each install the chart, another writer changes the objects, and the
/// next values are released: every object must end the same.
#[test]
fn client_side_merges_are_those_of_helm() {
    let cluster = Cluster::start("client-side");
    define(&cluster);
    let versions = [
        (&HELM, &[][..], &["--force"][..]),
        (
            &HELM4,
            &["--server-side=false"][..],
            &["--force-replace"][..],
        ),
    ];
    for (tool, client_side, force) in versions {
        for forced in [false, true] {
            let name = format!("{}-{forced}", client_side.len());
            let (theirs, ours) = (format!("theirs-{name}"), format!("ours-{name}"));
            namespaces(&cluster, [&theirs, &ours]);
            let helm = Helm::new(tool, &cluster, &theirs);
            helm.add("web.tgz", &merging());
            let world = World::with_real_cluster(&cluster);
            world.chart(&merging(), "1.0.0");
            let release = |next: bool| {
                world.release(
                    json!({"releaseName": "web", "targetNamespace": ours, "storageNamespace": ours,
                    "kubeConfig": {"secretRef": {"name": "tenant"}}, "values": {"next": next},
                    "install": {"serverSideApply": false, "disableWait": true},
                    "upgrade": {"disableWait": true, "force": forced}}),
                );
                world.reconcile(MINUTE);
                let ready = world.condition("Ready");
                assert!(
                    ready.starts_with("True"),
                    "{ready}: {}",
                    world.message("Ready")
                );
            };
            helm.run(&[&["install", "web", "web.tgz"][..], client_side].concat());
            release(false);
            for (object, change) in others() {
                for namespace in [&theirs, &ours] {
                    let path = path(object, namespace);
                    let mut live = cluster.api().get(&path).expect("installed");
                    change(&mut live);
                    cluster.api().replace(&path, &live).expect("changed");
                }
            }
            let force = if forced { force } else { &[][..] };
            helm.run(
                &[
                    &["upgrade", "web", "web.tgz", "--set", "next=true"][..],
                    client_side,
                    force,
                ]
                .concat(),
            );
            release(true);
            for (object, _) in others() {
                let get =
                    |namespace| bare(cluster.api().get(&path(object, namespace)).expect("there"));
                assert_eq!(get(&ours), get(&theirs), "{name} {object}");
            }
        }
    }
}

/// Unknown fields are left to the API server, with and without `disableOpenAPIValidation`:
/// server-side apply refuses them, a create drops them.
#[test]
fn unknown_fields_are_left_to_the_api_server() {
    let cluster = Cluster::start("unknown-fields");
    let chart = FileTree::from_files([
        (
            "web/Chart.yaml",
            "apiVersion: v2\nname: web\nversion: 1.0.0\n",
        ),
        (
            "web/templates/all.yaml",
            "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {odd: 1, ports: [{port: 80}]}\n",
        ),
    ]);
    let chart = chart.expect("a chart");
    for server_side in [false, true] {
        for disabled in [false, true] {
            let name = format!("{server_side}-{disabled}");
            let (theirs, ours) = (format!("theirs-{name}"), format!("ours-{name}"));
            namespaces(&cluster, [&theirs, &ours]);
            let helm = Helm::new(&HELM4, &cluster, &theirs);
            helm.add("web.tgz", &chart);
            let flag = format!("--server-side={server_side}");
            let mut install = vec!["install", "web", "web.tgz", &flag];
            install.extend(disabled.then_some("--disable-openapi-validation"));
            let world = World::with_real_cluster(&cluster);
            world.chart(&chart, "1.0.0");
            world.release(json!({"releaseName": "web", "targetNamespace": ours, "storageNamespace": ours,
                "kubeConfig": {"secretRef": {"name": "tenant"}},
                "install": {"serverSideApply": server_side, "disableWait": true, "disableOpenAPIValidation": disabled}}));
            world.reconcile(Duration::from_secs(5));
            let is_ready = world.condition("Ready").starts_with("True");
            assert_eq!(
                is_ready,
                helm.succeeds(&install),
                "{name}: {}",
                world.message("Ready")
            );
            assert_eq!(is_ready, !server_side, "{name}");
        }
    }
}

fn namespaces(cluster: &Cluster, names: [&String; 2]) {
    for name in names {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let made = cluster.api().create("/api/v1/namespaces", &object);
        made.expect("a namespace");
    }
}

/// `auto` keeps the method of the previous release; a release that changes the method keeps its
/// fields.
#[test]
fn the_method_of_applying_is_kept_until_it_is_changed() {
    let world = World::start(&[]);
    world.chart(&charts::web("1.0.0"), "1.0.0");
    let turn = |spec: Value, ready: &str| {
        world.release(spec);
        world.reconcile(MINUTE);
        world.expect_ready(ready);
        let config = world.hub().config("web-config").expect("there");
        let entries = config["metadata"]["managedFields"].as_array();
        let ours = entries.expect("a list").iter();
        let mut ours: Vec<String> = ours
            .filter(|entry| entry["manager"] == "helm-controller")
            .map(|entry| entry["operation"].as_str().unwrap_or_default().to_owned())
            .collect();
        ours.sort();
        (config["data"].clone(), ours.join(" "))
    };
    let client_side = json!({"serverSideApply": false});
    let spec = |values: Value| json!({"install": client_side, "values": values});
    let (_, ours) = turn(
        spec(json!({"hook": "pre-upgrade"})),
        "True InstallSucceeded",
    );
    assert_eq!(ours, "Update");
    let config = "/api/v1/namespaces/apps/configmaps/web-config";
    let theirs = json!({"data": {"theirs": "1", "color": "drifted"}});
    world.hub().must("PATCH", config, MERGE, Some(&theirs));
    let (data, ours) = turn(spec(json!({"color": "red"})), "True UpgradeSucceeded");
    assert_eq!(
        data,
        json!({"color": "red", "revision": "2", "theirs": "1"})
    );
    assert_eq!(ours, "Update");
    let mut enabled = spec(json!({"color": "green"}));
    enabled["upgrade"] = json!({"serverSideApply": "enabled"});
    let (data, ours) = turn(enabled, "True UpgradeSucceeded");
    assert_eq!(data["color"], "green");
    assert_eq!(ours, "Apply");
    let mut disabled = spec(json!({"color": "white"}));
    disabled["upgrade"] = json!({"serverSideApply": "disabled", "force": true});
    let (data, _) = turn(disabled, "True UpgradeSucceeded");
    assert_eq!(data, json!({"color": "white", "revision": "4"}));
}
