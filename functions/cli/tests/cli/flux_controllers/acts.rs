//! What the releases of the second comparison are, and what happens to each, step by step.

use serde_json::{Value, json};

/// A release, and the patches of each step: to itself, or to an object of its own when that is named.
pub struct Act {
    pub name: &'static str,
    pub spec: Value,
    pub steps: Vec<Vec<Edit>>,
}

/// A merge patch.
pub enum Edit {
    /// Of the HelmRelease.
    Release(Value),
    /// Of the ConfigMap of this name, by somebody.
    Config(&'static str, Value),
}

use Edit::{Config, Release};

/// A step that gives the release other values.
fn values(values: &Value) -> Vec<Edit> {
    vec![Release(json!({"spec": {"values": values}}))]
}

/// A step that asks for a look, and for what else the annotations ask.
fn ask(annotations: &[&str]) -> Edit {
    let mut all = json!({"reconcile.fluxcd.io/requestedAt": "now"});
    for one in annotations {
        all[format!("reconcile.fluxcd.io/{one}")] = json!("now");
    }
    Release(json!({"metadata": {"annotations": all}}))
}

fn act(name: &'static str, spec: Value, steps: impl IntoIterator<Item = Vec<Edit>>) -> Act {
    Act {
        name,
        spec,
        steps: steps.into_iter().collect(),
    }
}

/// A spec whose upgrades fail when they wait for a Deployment.
fn upgrades(remediation: Value) -> Value {
    json!({"timeout": "3s", "upgrade": {"remediation": remediation}})
}

/// All of them. What a step does to one release must not hang on another's.
pub fn acts() -> Vec<Act> {
    let mut all = failures();
    all.extend(hooks());
    all.extend(drift());
    all.extend(forms());
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
                vec![Release(json!({"spec": {"postRenderers": rendered}}))],
                vec![Release(json!({"spec": {"postRenderers": null}}))],
            ],
        ),
        act(
            "labelled",
            json!({}),
            [vec![Release(
                json!({"spec": {"commonMetadata": {"labels": {"team": "a"}, "annotations": {"by": "b"}}}}),
            )]],
        ),
        act(
            "renamed",
            json!({}),
            [vec![Release(json!({"spec": {"releaseName": "another"}}))]],
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
