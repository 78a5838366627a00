//! The Kustomizations of the comparison, and the edits of each, step by step.

use super::act::Edit::{Config, Delete, File, Own};
use super::act::{Act, act, ask, look};
use serde_json::{Value, json};

/// The objects that exist before any Kustomization.
pub const BEFORE: &str = "
apiVersion: v1
kind: ConfigMap
metadata:
  name: variables
  namespace: apps
data:
  COLOR: green
  TEAM: a
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: taken
  namespace: apps
data:
  text: before
  foreign: goes
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: not-taken
  namespace: apps
data:
  text: before
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: merged
  namespace: apps
data:
  text: before
  foreign: kept
";

type Files = Vec<(&'static str, String)>;

/// Renders a ConfigMap with an annotation.
fn marked(name: &str, text: &str, annotation: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: apps\n  annotations:\n    {annotation}: {value}\n\
         data:\n  text: {text}\n"
    )
}

fn config(name: &str, text: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: apps\ndata:\n  text: {text}\n"
    )
}

fn deployment(name: &str, image: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}\n  namespace: apps\nspec:\n  replicas: 1\n  strategy:\n    type: Recreate\n  \
         selector:\n    matchLabels: {{app: {name}}}\n  template:\n    metadata:\n      labels: {{app: {name}}}\n    spec:\n      containers:\n      - name: web\n        image: {image}\n        resources: {{limits: {{cpu: 1}}}}\n"
    )
}

fn fixed(name: &str, text: &str) -> String {
    config(name, text) + "immutable: true\n"
}

/// Returns all acts, each with the files of its directory. A step of one act must not depend on one
/// of another act.
pub fn acts() -> Vec<(Act, Files)> {
    let mut all = commits();
    all.extend(specs());
    all.extend(by_others());
    all.extend(annotated());
    all.extend(failures());
    all
}

fn file(name: &'static str, text: String) -> super::act::Edit {
    File(name, Some(text))
}

fn one(name: &'static str) -> Files {
    vec![("a.yaml", config(name, "first"))]
}

fn commits() -> Vec<(Act, Files)> {
    let generated = |text: &str| {
        format!(
            "configMapGenerator:\n- name: generated\n  namespace: apps\n  literals: [text={text}]\n"
        )
    };
    vec![
        (
            act("changes", json!({}), [vec![file("a.yaml", config("changes", "second"))]]),
            one("changes"),
        ),
        (
            act("prunes", json!({}), [vec![File("b.yaml", None)]]),
            vec![("a.yaml", config("prunes-a", "a")), ("b.yaml", config("prunes-b", "b"))],
        ),
        (
            act("keeps", json!({"prune": false}), [vec![File("b.yaml", None)]]),
            vec![("a.yaml", config("keeps-a", "a")), ("b.yaml", config("keeps-b", "b"))],
        ),
        (
            act("generates", json!({}), [vec![file("kustomization.yaml", generated("second"))]]),
            vec![("kustomization.yaml", generated("first"))],
        ),
        (
            act(
                "grows",
                json!({"wait": true, "timeout": "30s"}),
                [
                    vec![file("b.yaml", config("grows-b", "b"))],
                    vec![file("c.yaml", config("grows-c", "c")), File("a.yaml", None)],
                ],
            ),
            vec![("a.yaml", config("grows-a", "a"))],
        ),
        (
            act(
                "defines",
                json!({}),
                [vec![file(
                    "b.yaml",
                    "apiVersion: acts.example.com/v1\nkind: Gadget\nmetadata:\n  name: defined\n  namespace: apps\n".to_owned(),
                )]],
            ),
            vec![(
                "a.yaml",
                "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: gadgets.acts.example.com\nspec:\n  \
                 group: acts.example.com\n  names: {kind: Gadget, plural: gadgets, singular: gadget, listKind: GadgetList}\n  scope: Namespaced\n  \
                 versions:\n  - name: v1\n    served: true\n    storage: true\n    schema:\n      openAPIV3Schema: {type: object}\n"
                    .to_owned(),
            )],
        ),
        (
            act("empties", json!({}), [vec![file("a.yaml", "# nothing\n".to_owned())]]),
            one("empties"),
        ),
    ]
}

fn specs() -> Vec<(Act, Files)> {
    let spec = |change: Value| vec![Own(json!({"spec": change}))];
    let patch = "- op: add\n  path: /data/patched\n  value: \"yes\"\n";
    vec![
        (
            act("moves", json!({}), [spec(json!({"targetNamespace": "elsewhere"}))]),
            one("moves"),
        ),
        (
            act("prefixed", json!({}), [spec(json!({"namePrefix": "pre-", "nameSuffix": "-post"}))]),
            one("prefixed"),
        ),
        (
            act(
                "labelled",
                json!({}),
                [spec(json!({"commonMetadata": {"labels": {"team": "a"}, "annotations": {"by": "b"}}}))],
            ),
            one("labelled"),
        ),
        (
            act(
                "patched",
                json!({}),
                [
                    spec(json!({"patches": [{"patch": patch, "target": {"kind": "ConfigMap"}}]})),
                    spec(json!({"patches": null})),
                ],
            ),
            one("patched"),
        ),
        (
            act(
                "images",
                json!({}),
                [spec(json!({"images": [{"name": "web", "newName": "registry.example/web", "newTag": "2"}]}))],
            ),
            vec![("a.yaml", deployment("images", "web:1"))],
        ),
        (
            act(
                "substitutes",
                json!({"postBuild": {"substitute": {"SIZE": "big"}, "substituteFrom": [{"kind": "ConfigMap", "name": "variables"}]}}),
                [
                    spec(json!({"postBuild": {"substitute": {"SIZE": "small"}}})),
                    vec![Config("variables", json!({"data": {"COLOR": "red"}})), ask(&[])],
                ],
            ),
            vec![("a.yaml", config("substitutes", "${SIZE} ${COLOR} ${ABSENT:=none}"))],
        ),
        (
            act("goes-away", json!({}), [spec(json!({"path": "./good"}))]),
            one("goes-away"),
        ),
        (
            act(
                "stops",
                json!({}),
                [
                    vec![Own(json!({"spec": {"suspend": true}})), file("a.yaml", config("stops", "second"))],
                    spec(json!({"suspend": false})),
                ],
            ),
            one("stops"),
        ),
        (
            act(
                "components",
                json!({"components": ["./part"]}),
                [spec(json!({"components": ["./part", "./absent"], "ignoreMissingComponents": true}))],
            ),
            vec![
                ("a.yaml", config("components", "first")),
                ("kustomization.yaml", "resources: [a.yaml]\n".to_owned()),
                (
                    "part/kustomization.yaml",
                    "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches:\n- patch: |\n    - {op: add, path: /data/part, value: x}\n  target: {kind: ConfigMap}\n"
                        .to_owned(),
                ),
            ],
        ),
        (
            act("orphans", json!({"deletionPolicy": "Orphan"}), [look()]),
            one("orphans"),
        ),
        (
            act("deletes", json!({"prune": false, "deletionPolicy": "Delete"}), [look()]),
            one("deletes"),
        ),
        (
            act("waits-for-the-end", json!({"deletionPolicy": "WaitForTermination"}), [look()]),
            one("waits-for-the-end"),
        ),
        (
            act("not-pruned", json!({"prune": false}), [look()]),
            one("not-pruned"),
        ),
        (
            act(
                "follows",
                json!({"dependsOn": [{"name": "changes"}]}),
                [spec(json!({"dependsOn": [{"name": "changes", "readyExpr": "dep.metadata.name == 'changes'"}]}))],
            ),
            one("follows"),
        ),
        (
            act(
                "checked",
                json!({"timeout": "3s", "healthCheckExprs": [{"apiVersion": "apps/v1", "kind": "Deployment", "current": "spec.replicas == 1"}],
                    "healthChecks": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "checked", "namespace": "apps"}]}),
                [look()],
            ),
            vec![("a.yaml", deployment("checked", "web:1"))],
        ),
    ]
}

fn by_others() -> Vec<(Act, Files)> {
    vec![
        (
            act(
                "edited",
                json!({}),
                [vec![
                    Config(
                        "edited",
                        json!({"data": {"text": "theirs", "foreign": "kept"}}),
                    ),
                    ask(&[]),
                ]],
            ),
            one("edited"),
        ),
        (
            act(
                "deleted",
                json!({}),
                [vec![Delete("configmaps", "deleted"), ask(&[])]],
            ),
            one("deleted"),
        ),
        (act("taken", json!({}), [look()]), one("taken")),
        (
            act(
                "scaled",
                json!({}),
                [vec![file("a.yaml", deployment("scaled", "web:2"))]],
            ),
            vec![("a.yaml", deployment("scaled", "web:1"))],
        ),
    ]
}

fn annotated() -> Vec<(Act, Files)> {
    const OWN: &str = "kustomize.toolkit.fluxcd.io";
    let annotation = |what: &str| format!("{OWN}/{what}");
    let mark = |name: &str, text: &str, what: &str, value: &str| {
        marked(name, text, &annotation(what), value)
    };
    vec![
        (
            act(
                "if-absent",
                json!({}),
                [vec![file(
                    "a.yaml",
                    mark("if-absent", "second", "ssa", "IfNotPresent"),
                )]],
            ),
            vec![("a.yaml", mark("if-absent", "first", "ssa", "IfNotPresent"))],
        ),
        (
            act("not-taken", json!({}), [look()]),
            vec![("a.yaml", mark("not-taken", "first", "ssa", "IfNotPresent"))],
        ),
        (
            act("merged", json!({}), [look()]),
            vec![("a.yaml", mark("merged", "first", "ssa", "Merge"))],
        ),
        (
            act(
                "ignored",
                json!({}),
                [vec![file(
                    "a.yaml",
                    mark("ignored", "second", "ssa", "Ignore"),
                )]],
            ),
            vec![("a.yaml", config("ignored", "first"))],
        ),
        (
            act(
                "held",
                json!({}),
                [vec![
                    Config(
                        "held",
                        json!({"metadata": {"annotations": {annotation("reconcile"): "disabled"}}}),
                    ),
                    file("a.yaml", config("held", "second")),
                ]],
            ),
            one("held"),
        ),
        (
            act("not-gone", json!({}), [vec![File("b.yaml", None)]]),
            vec![
                ("a.yaml", config("not-gone-a", "a")),
                ("b.yaml", mark("not-gone-b", "b", "prune", "disabled")),
            ],
        ),
        (
            act(
                "as-it-is",
                json!({"postBuild": {"substitute": {"SIZE": "big"}}}),
                [look()],
            ),
            vec![(
                "a.yaml",
                mark("as-it-is", "${SIZE}", "substitute", "disabled"),
            )],
        ),
        (
            act(
                "forced-one",
                json!({}),
                [vec![file(
                    "a.yaml",
                    mark("forced-one", "second", "force", "enabled") + "immutable: true\n",
                )]],
            ),
            vec![(
                "a.yaml",
                mark("forced-one", "first", "force", "enabled") + "immutable: true\n",
            )],
        ),
    ]
}

fn failures() -> Vec<(Act, Files)> {
    vec![
        (
            act(
                "forced",
                json!({"force": true}),
                [vec![file("a.yaml", fixed("forced", "second"))]],
            ),
            vec![("a.yaml", fixed("forced", "first"))],
        ),
        (
            act(
                "no-change",
                json!({}),
                [
                    vec![file("a.yaml", fixed("no-change", "second"))],
                    vec![file("a.yaml", fixed("no-change", "first"))],
                ],
            ),
            vec![("a.yaml", fixed("no-change", "first"))],
        ),
        (
            act(
                "no-build",
                json!({}),
                [
                    vec![file(
                        "kustomization.yaml",
                        "resources: [absent.yaml]\n".to_owned(),
                    )],
                    vec![file(
                        "kustomization.yaml",
                        "resources: [a.yaml]\n".to_owned(),
                    )],
                ],
            ),
            one("no-build"),
        ),
        (
            act(
                "no-kind",
                json!({}),
                [
                    vec![file(
                        "b.yaml",
                        "apiVersion: absent.example.com/v1\nkind: Absent\nmetadata:\n  name: x\n"
                            .to_owned(),
                    )],
                    vec![File("b.yaml", None)],
                ],
            ),
            one("no-kind"),
        ),
        (
            act(
                "no-health",
                json!({"wait": true, "timeout": "3s"}),
                [
                    vec![file("b.yaml", deployment("no-health", "web:1"))],
                    vec![File("b.yaml", None)],
                ],
            ),
            one("no-health"),
        ),
        (
            act(
                "no-namespace",
                json!({}),
                [
                    vec![file(
                        "a.yaml",
                        config("no-namespace", "second")
                            .replace("namespace: apps", "namespace: absent"),
                    )],
                    vec![file("a.yaml", config("no-namespace", "third"))],
                ],
            ),
            one("no-namespace"),
        ),
        (
            act(
                "no-path",
                json!({}),
                [
                    vec![Own(json!({"spec": {"path": "./absent"}}))],
                    vec![Own(json!({"spec": {"path": "./acts/no-path"}}))],
                ],
            ),
            one("no-path"),
        ),
    ]
}
