//! The releases of the second comparison, and the edits of each, step by step.

use super::act::Edit::{Config, Delete, Own};
use super::act::{Act, Edit, act, ask, look};
use serde_json::{Value, json};

/// Returns a step that sets other values of the release.
fn values(values: &Value) -> Vec<Edit> {
    vec![Own(json!({"spec": {"values": values}}))]
}

/// Returns a spec whose upgrades fail when they wait for a Deployment.
fn upgrades(remediation: Value) -> Value {
    json!({"timeout": "3s", "upgrade": {"remediation": remediation}})
}

/// The objects that exist before any release.
pub const BEFORE: &str = "
apiVersion: v1
kind: ConfigMap
metadata:
  name: values
  namespace: apps
data:
  values.yaml: |
    color: green
  more: from a key
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: not-taken-config
  namespace: apps
data:
  color: somebody's
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: taken-config
  namespace: apps
data:
  color: somebody's
  foreign: kept
";

/// Returns all acts. A step of one release must not depend on one of another release.
pub fn acts() -> Vec<Act> {
    let mut all = failures();
    all.extend(hooks());
    all.extend(drift());
    all.extend(forms());
    all.extend(by_others());
    all.extend(installs());
    all
}

fn failures() -> Vec<Act> {
    let waits = json!({"deployment": true});
    let works = json!({"deployment": null, "color": "green"});
    vec![
        act(
            "rolls-back",
            upgrades(json!({"retries": 0, "remediateLastFailure": true})),
            [values(&waits), values(&works)],
        ),
        act(
            "tries-twice",
            upgrades(json!({"retries": 1})),
            [values(&waits), values(&works)],
        ),
        act(
            "uninstalls",
            upgrades(json!({"retries": 0, "remediateLastFailure": true, "strategy": "uninstall"})),
            [values(&waits), values(&works)],
        ),
        act(
            "gives-up",
            upgrades(json!({"retries": 0})),
            [values(&waits), vec![ask(&["resetAt"])], values(&works)],
        ),
        act(
            "tries-on",
            json!({"timeout": "3s", "upgrade": {"strategy": {"name": "RetryOnFailure", "retryInterval": "1h"}}}),
            [values(&waits), values(&works)],
        ),
        act(
            "no-render",
            upgrades(json!({"retries": 0})),
            [
                values(&json!({"fail": "broken"})),
                values(&json!({"fail": null})),
            ],
        ),
        act(
            "no-schema",
            upgrades(json!({"retries": 0})),
            [
                values(&json!({"color": "pink"})),
                values(&json!({"color": "red"})),
            ],
        ),
        act(
            "no-kind",
            upgrades(json!({"retries": 0, "remediateLastFailure": true})),
            [
                values(&json!({"kind": "Absent"})),
                values(&json!({"kind": null})),
            ],
        ),
        act(
            "fixed",
            json!({"values": {"fixed": true}, "upgrade": {"remediation": {"retries": 0, "remediateLastFailure": true}}}),
            [
                values(&json!({"color": "green"})),
                values(&json!({"color": "blue"})),
            ],
        ),
        act(
            "fixed-and-forced",
            json!({"values": {"fixed": true}, "upgrade": {"force": true, "serverSideApply": "disabled"}}),
            [values(&json!({"color": "green"}))],
        ),
    ]
}

fn hooks() -> Vec<Act> {
    let every = json!([
        "pre-install",
        "post-install",
        "pre-upgrade",
        "post-upgrade",
        "pre-rollback",
        "post-rollback",
        "pre-delete",
        "post-delete",
        "test"
    ]);
    let tested = json!({"enable": true, "timeout": "10s"});
    vec![
        act(
            "hooks",
            json!({"test": tested, "values": {"hooks": every}}),
            [values(&json!({"color": "green"}))],
        ),
        act(
            "hooks-go",
            json!({"values": {"hooks": every, "policy": "hook-succeeded,before-hook-creation"}}),
            [values(&json!({"color": "green"}))],
        ),
        act(
            "no-hooks",
            json!({"values": {"hooks": every}, "install": {"disableHooks": true}, "upgrade": {"disableHooks": true}, "uninstall": {"disableHooks": true}}),
            [values(&json!({"color": "green"}))],
        ),
        act(
            "hook-breaks",
            json!({"timeout": "20s", "values": {"pod": "pre-upgrade", "end": "breaks"}, "upgrade": {"remediation": {"retries": 0, "remediateLastFailure": true}}}),
            [
                values(&json!({"color": "green"})),
                values(&json!({"color": "red", "end": "passes"})),
            ],
        ),
        act(
            "test-passes",
            json!({"test": tested, "values": {"pod": "test", "end": "passes"}}),
            [values(&json!({"color": "green"}))],
        ),
        act(
            "test-breaks",
            json!({"test": tested, "values": {"pod": "test", "end": "passes"}, "upgrade": {"remediation": {"retries": 0, "remediateLastFailure": true}}}),
            [
                values(&json!({"end": "breaks"})),
                values(&json!({"end": "passes", "color": "green"})),
            ],
        ),
        act(
            "test-breaks-install",
            json!({"test": tested, "values": {"pod": "test", "end": "breaks"}, "install": {"remediation": {"retries": 0}}}),
            [values(&json!({"end": "passes"}))],
        ),
        act(
            "test-ignored",
            json!({"test": {"enable": true, "ignoreFailures": true, "timeout": "10s"}, "values": {"pod": "test", "end": "breaks"}}),
            [values(&json!({"color": "green"}))],
        ),
    ]
}

fn drift() -> Vec<Act> {
    let edit = |name| Config(name, json!({"data": {"color": "yellow", "foreign": "yes"}}));
    let drifts = |name, detection: Value| {
        let object = match name {
            "drift" => "drift-config",
            "drift-told" => "drift-told-config",
            "drift-ignored" => "drift-ignored-config",
            _ => "drift-unseen-config",
        };
        act(
            name,
            json!({"driftDetection": detection, "values": {"more": "more"}}),
            [vec![edit(object), ask(&[])]],
        )
    };
    vec![
        drifts("drift", json!({"mode": "enabled"})),
        drifts("drift-told", json!({"mode": "warn"})),
        drifts(
            "drift-ignored",
            json!({"mode": "enabled", "ignore": [{"paths": ["/data/color"]}]}),
        ),
        drifts("drift-unseen", json!({"mode": "disabled"})),
        act("forced", json!({}), [vec![ask(&["forceAt"])]]),
    ]
}

fn forms() -> Vec<Act> {
    let patch = "- op: add\n  path: /data/patched\n  value: \"yes\"\n";
    let rendered =
        json!([{"kustomize": {"patches": [{"target": {"kind": "ConfigMap"}, "patch": patch}]}}]);
    vec![
        act(
            "patched",
            json!({}),
            [
                vec![Own(json!({"spec": {"postRenderers": rendered}}))],
                vec![Own(json!({"spec": {"postRenderers": null}}))],
            ],
        ),
        act(
            "labelled",
            json!({}),
            [vec![Own(
                json!({"spec": {"commonMetadata": {"labels": {"team": "a"}, "annotations": {"by": "b"}}}}),
            )]],
        ),
        act(
            "renamed",
            json!({}),
            [vec![Own(json!({"spec": {"releaseName": "another"}}))]],
        ),
        act(
            "keeps",
            json!({"uninstall": {"keepHistory": true}, "maxHistory": 2}),
            [
                values(&json!({"color": "green"})),
                values(&json!({"color": "red"})),
            ],
        ),
        act(
            "in-place",
            json!({"install": {"serverSideApply": false}, "values": {"more": "more"}}),
            [values(&json!({"more": null}))],
        ),
    ]
}

/// Returns acts in which other users change objects, before or during the release.
fn by_others() -> Vec<Act> {
    let other = json!({"chart": {"spec": {"chart": "web"}}});
    vec![
        act("taken", json!({}), [values(&json!({"color": "green"}))]),
        act(
            "not-taken",
            json!({"install": {"disableTakeOwnership": true, "remediation": {"retries": 0}}}),
            [vec![
                Delete("configmaps", "not-taken-config"),
                ask(&["resetAt"]),
            ]],
        ),
        act(
            "from-config",
            json!({"valuesFrom": [
                {"kind": "ConfigMap", "name": "values"},
                {"kind": "ConfigMap", "name": "values", "valuesKey": "more", "targetPath": "more"},
                {"kind": "ConfigMap", "name": "absent", "optional": true},
            ]}),
            [vec![
                Config("values", json!({"data": {"more": "another"}})),
                ask(&[]),
            ]],
        ),
        act(
            "record-gone",
            json!({}),
            [vec![
                Delete("secrets", "sh.helm.release.v1.record-gone.v1"),
                ask(&[]),
            ]],
        ),
        act(
            "object-gone",
            json!({"driftDetection": {"mode": "enabled"}, "values": {"more": "more"}}),
            [vec![Delete("configmaps", "object-gone-more"), ask(&[])]],
        ),
        act(
            "object-gone-unseen",
            json!({"values": {"more": "more"}}),
            [
                vec![Delete("configmaps", "object-gone-unseen-more"), ask(&[])],
                values(&json!({"color": "red"})),
            ],
        ),
        act(
            "another-chart",
            json!({}),
            [vec![Own(json!({"spec": other}))]],
        ),
        act(
            "another-chart-in-place",
            json!({"upgrade": {"chartNameChangeStrategy": "InPlaceUpdate"}}),
            [vec![Own(json!({"spec": other}))]],
        ),
        act(
            "moves",
            json!({}),
            [vec![Own(
                json!({"spec": {"targetNamespace": "elsewhere", "install": {"createNamespace": true}}}),
            )]],
        ),
        act(
            "stops",
            json!({}),
            [
                vec![Own(json!({"spec": {"suspend": true}}))],
                vec![Own(
                    json!({"spec": {"suspend": false, "values": {"color": "red"}}}),
                )],
            ],
        ),
    ]
}

fn installs() -> Vec<Act> {
    let waits = json!({"deployment": true});
    let fails = |install: Value| json!({"timeout": "3s", "values": waits, "install": install});
    vec![
        act(
            "install-fails",
            fails(json!({"remediation": {"retries": 0}})),
            [look(), values(&json!({"deployment": null}))],
        ),
        act(
            "install-twice",
            fails(json!({"remediation": {"retries": 1}})),
            [values(&json!({"deployment": null}))],
        ),
        act(
            "install-remedied",
            fails(json!({"remediation": {"retries": 0, "remediateLastFailure": true}})),
            [values(&json!({"deployment": null}))],
        ),
        act(
            "install-tries-on",
            fails(json!({"strategy": {"name": "RetryOnFailure", "retryInterval": "1h"}})),
            [values(&json!({"deployment": null}))],
        ),
        act(
            "install-no-wait",
            fails(json!({"disableWait": true})),
            [vec![Own(
                json!({"spec": {"upgrade": {"disableWait": true}, "values": {"color": "red"}}}),
            )]],
        ),
        act(
            "no-definitions",
            json!({"install": {"crds": "Skip"}}),
            [vec![Own(
                json!({"spec": {"upgrade": {"crds": "CreateReplace"}, "values": {"color": "red"}}}),
            )]],
        ),
        act(
            "legacy",
            json!({"waitStrategy": {"name": "legacy"}, "timeout": "3s", "upgrade": {"remediation": {"retries": 0, "remediateLastFailure": true}}}),
            [
                values(&waits),
                values(&json!({"deployment": null, "color": "red"})),
            ],
        ),
        act(
            "cleans-up",
            json!({"timeout": "3s", "upgrade": {"cleanupOnFail": true, "remediation": {"retries": 0}}}),
            [
                values(&waits),
                values(&json!({"deployment": null, "color": "red"})),
            ],
        ),
        act(
            "checked",
            json!({"timeout": "3s", "values": waits, "healthCheckExprs": [{"apiVersion": "apps/v1", "kind": "Deployment",
                "current": "status.readyReplicas == 1"}]}),
            [vec![Own(
                json!({"spec": {"healthCheckExprs": [{"apiVersion": "apps/v1", "kind": "Deployment",
                "inProgress": "spec.replicas != 1", "current": "spec.replicas == 1"}]}}),
            )]],
        ),
        act(
            "preserves",
            json!({"values": {"more": "more"}, "upgrade": {"preserveValues": true}}),
            [vec![Own(
                json!({"spec": {"values": {"more": null, "color": "red"}}}),
            )]],
        ),
    ]
}
