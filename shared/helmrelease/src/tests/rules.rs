use super::super::action::take_request;
use super::super::conditions::{mark, summarize};
use super::super::history::{is_selected, latest, previous, snapshot, truncate, verify};
use super::super::state::{Desired, State, Target, changed_target, determine, failures_are_stale};
use super::super::values::{compose, references};
use super::{NOW, helm_release, record, table};
use base64::Engine as _;
use driftless_flux::{ConditionStatus, FORCE_AT, HelmRelease, ReleaseAction, Snapshot, TestFilter};
use driftless_fuel::Tank;
use driftless_helm::record::Status;
use driftless_manifest::Object;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn values_sources(objects: &[Value]) -> BTreeMap<(String, String), Object> {
    let one = |value: &Value| {
        let object = Object::new(value.clone()).unwrap();
        ((object.kind().to_owned(), object.name().to_owned()), object)
    };
    objects.iter().map(one).collect()
}

fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "apps"}, "data": data})
}

fn secret(name: &str, key: &str, text: &str) -> Value {
    let data = base64::engine::general_purpose::STANDARD.encode(text);
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "apps"}, "data": {key: data}})
}

#[test]
fn values_in_their_order() {
    let objects = values_sources(&[
        config_map(
            "base",
            json!({"values.yaml": "a: 1\nb: {c: 2, d: 3}\n", "other": "a: other\n"}),
        ),
        secret("over", "values.yaml", "b:\n  c: secret\n"),
        secret("one", "password", "p,a=b{}[1]\\\n"),
        config_map(
            "typed",
            json!({"number": "5", "yes": "true", "quoted": "\"5\"", "list": "{x,y}", "text": "1e3"}),
        ),
    ]);
    let from = |kind: &str, name: &str, more: Value| {
        let mut reference = json!({"kind": kind, "name": name});
        reference
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        reference
    };
    for (rule, references, own, expected) in [
        ("nothing", json!([]), json!({}), json!({})),
        (
            "own values only, numbers as floats",
            json!([]),
            json!({"a": 7}),
            json!({"a": 7.0}),
        ),
        (
            "a key",
            json!([from("ConfigMap", "base", json!({"valuesKey": "other"}))]),
            json!({}),
            json!({"a": "other"}),
        ),
        (
            "later ones over earlier ones, own values over all",
            json!([
                from("ConfigMap", "base", json!({})),
                from("Secret", "over", json!({}))
            ]),
            json!({"b": {"d": 9}}),
            json!({"a": 1.0, "b": {"c": "secret", "d": 9.0}}),
        ),
        (
            "a target path goes over own values",
            json!([from(
                "ConfigMap",
                "typed",
                json!({"valuesKey": "number", "targetPath": "b.c"})
            )]),
            json!({"b": {"d": 1}}),
            json!({"b": {"c": 5, "d": 1.0}}),
        ),
        (
            "but own values go over it where they are the same, as in Flux",
            json!([from(
                "ConfigMap",
                "typed",
                json!({"valuesKey": "number", "targetPath": "b.c"})
            )]),
            json!({"b": {"c": 1}}),
            json!({"b": {"c": 1.0}}),
        ),
        (
            "--set knows types",
            json!([
                from(
                    "ConfigMap",
                    "typed",
                    json!({"valuesKey": "yes", "targetPath": "a"})
                ),
                from(
                    "ConfigMap",
                    "typed",
                    json!({"valuesKey": "list", "targetPath": "l"})
                ),
                from(
                    "ConfigMap",
                    "typed",
                    json!({"valuesKey": "text", "targetPath": "t"})
                )
            ]),
            json!({}),
            json!({"a": true, "l": ["x", "y"], "t": "1e3"}),
        ),
        (
            "quotes make a string",
            json!([from(
                "ConfigMap",
                "typed",
                json!({"valuesKey": "quoted", "targetPath": "x[1]"})
            )]),
            json!({}),
            json!({"x": [null, "5"]}),
        ),
        (
            "literal takes all as text",
            json!([from(
                "Secret",
                "one",
                json!({"valuesKey": "password", "targetPath": "a\\.b.c", "literal": true})
            )]),
            json!({}),
            json!({"a.b": {"c": "p,a=b{}[1]\\\n"}}),
        ),
        (
            "optional and not there",
            json!([
                from("ConfigMap", "none", json!({"optional": true})),
                from(
                    "Secret",
                    "over",
                    json!({"valuesKey": "none", "optional": true})
                )
            ]),
            json!({"a": "x"}),
            json!({"a": "x"}),
        ),
    ] {
        let release = helm_release(&json!({"valuesFrom": references, "values": own}));
        assert_eq!(
            compose(&release, &objects, &Tank::default()).unwrap(),
            table(expected),
            "{rule}"
        );
    }
}

#[test]
fn errors_of_values() {
    let objects = values_sources(&[
        config_map(
            "bad",
            json!({"values.yaml": "- a\n", "broken": "a: [\n", "x": "v,w"}),
        ),
        secret("hidden", "values.yaml", "s3cret: ['\n"),
        secret("hidden2", "x", "s3cret,t0ken"),
    ]);
    for (reference, message) in [
        (
            json!({"kind": "ConfigMap", "name": "none"}),
            "could not resolve ConfigMap chart values reference 'apps/none' with key 'values.yaml': configmaps \"none\" not found",
        ),
        (
            json!({"kind": "Secret", "name": "hidden", "valuesKey": "k"}),
            "could not resolve Secret chart values reference 'apps/hidden' with key 'k': key not found",
        ),
        (
            json!({"kind": "Pod", "name": "p", "optional": true}),
            "could not resolve optional Pod chart values reference 'apps/p' with key 'values.yaml': unsupported values reference kind",
        ),
        (
            json!({"kind": "ConfigMap", "name": "bad"}),
            "could not resolve ConfigMap chart values reference 'apps/bad' with key 'values.yaml': values.yaml: values must be a mapping",
        ),
        (
            json!({"kind": "Secret", "name": "hidden"}),
            "could not resolve Secret chart values reference 'apps/hidden' with key 'values.yaml': failed to read values data",
        ),
        (
            json!({"kind": "Secret", "name": "hidden2", "valuesKey": "x", "targetPath": "a"}),
            "could not resolve Secret chart values reference 'apps/hidden2' with key 'x': failed to merge value",
        ),
        (
            json!({"kind": "ConfigMap", "name": "bad", "valuesKey": "x", "targetPath": "a"}),
            "could not resolve ConfigMap chart values reference 'apps/bad' with key 'x': key \"w\" has no value",
        ),
    ] {
        let release = helm_release(&json!({"valuesFrom": [reference]}));
        let error = compose(&release, &objects, &Tank::default())
            .unwrap_err()
            .to_string();
        assert_eq!(error, message);
        assert!(!error.contains("s3cret") && !error.contains("t0ken"));
    }
    let references_of_spec = json!([{"kind": "Secret", "name": "a"}, {"kind": "Secret", "name": "a", "valuesKey": "x"}, {"kind": "Pod", "name": "p"}]);
    let read = references(&helm_release(&json!({"valuesFrom": references_of_spec})));
    assert_eq!(
        read.into_iter().collect::<Vec<_>>(),
        [("Secret".to_owned(), "a".to_owned())]
    );
}

/// `3:failed 2:deployed! 1:superseded`: newest first, `!` for one with a failed test.
fn snapshots(text: &str) -> Vec<Snapshot> {
    let one = |word: &str| {
        let (version, status) = word.split_once(':').unwrap();
        let tests = if status.ends_with('!') {
            json!({"t": {"phase": "Failed"}})
        } else {
            Value::Null
        };
        serde_json::from_value(json!({"version": version.parse::<i64>().unwrap(),
            "status": status.trim_end_matches('!'), "testHooks": tests}))
        .unwrap()
    };
    text.split_whitespace().map(one).collect()
}

#[test]
fn previous_and_truncated() {
    for (history, ignore_tests, target, kept) in [
        ("", false, None, 0),
        ("1:deployed", false, None, 1),
        ("2:deployed 1:superseded", false, Some(1), 2),
        (
            "4:failed 3:failed 2:deployed 1:superseded",
            false,
            Some(2),
            3,
        ),
        ("3:failed 2:deployed! 1:superseded", false, Some(1), 3),
        ("3:failed 2:deployed! 1:superseded", true, Some(2), 2),
        ("3:failed 2:failed 1:uninstalled", false, None, 3),
        (
            "7:failed 6:failed 5:failed 4:failed 3:failed 2:failed 1:failed",
            false,
            None,
            5,
        ),
        (
            "9:deployed 8:failed 7:failed 6:failed 5:failed 4:failed 3:failed 2:superseded",
            false,
            Some(2),
            8,
        ),
    ] {
        let mut history = snapshots(history);
        let found = previous(&history, ignore_tests).map(|s| s.version);
        assert_eq!(found, target);
        let newest = latest(&history).map(|s| s.version);
        truncate(&mut history, ignore_tests);
        assert_eq!(history.len(), kept);
        assert_eq!(latest(&history).map(|s| s.version), newest);
    }
}

#[test]
fn filters_of_tests() {
    let filter = |name: &str, exclude| TestFilter {
        name: name.to_owned(),
        exclude,
    };
    for (filters, selected) in [
        (vec![], vec!["a", "b"]),
        (vec![filter("a", false)], vec!["a"]),
        (vec![filter("a", true)], vec!["b"]),
        (vec![filter("a", true), filter("a", false)], vec![]),
    ] {
        let got: Vec<&str> = ["a", "b"]
            .into_iter()
            .filter(|t| is_selected(t, &filters))
            .collect();
        assert_eq!(got, selected, "{filters:?}");
    }
}

/// A HelmRelease that made the record, with chart web 1.0.0 and the value a: 1.
fn managing(spec: &Value, status: Status) -> (HelmRelease, driftless_helm::record::Release) {
    let mut last = record(2, status);
    last.config = table(json!({"a": 1.0}));
    let mut release = helm_release(spec);
    release.status.history = vec![snapshot(&last, Some(ReleaseAction::Upgrade), "").unwrap()];
    release.status.last_attempted_release_action = Some(ReleaseAction::Upgrade);
    release.status.observed_generation = Some(1);
    (release, last)
}

#[test]
fn states() {
    let values = table(json!({"a": 1}));
    let wanted = Desired {
        chart_name: "web",
        chart_version: "1.0.0",
        values: &values,
    };
    let state =
        |release: &HelmRelease, last: Option<&_>| determine(release, last, &wanted).unwrap();
    let (release, last) = managing(&json!({}), Status::Deployed);
    assert_eq!(
        state(&release, None),
        State::Absent("no release in storage for object")
    );
    assert_eq!(state(&release, Some(&last)), State::InSync);
    for status in [
        Status::PendingInstall,
        Status::PendingUpgrade,
        Status::PendingRollback,
    ] {
        assert_eq!(state(&release, Some(&record(3, status))), State::Locked);
    }
    let fresh = helm_release(&json!({}));
    assert_eq!(
        state(&fresh, Some(&last)),
        State::Unmanaged("found existing release in storage")
    );
    assert_eq!(
        state(&fresh, Some(&record(1, Status::Uninstalled))),
        State::Absent("found uninstalled release in storage")
    );
    let mut other = last.clone();
    other.manifest.push('x');
    assert_eq!(
        state(&release, Some(&other)),
        State::Unmanaged("release not observed to be made for object")
    );
    let mut legacy = release.clone();
    legacy.status.history[0].api_version.clear();
    assert_eq!(state(&legacy, Some(&other)), State::InSync);
    let mut broken = release.clone();
    broken.status.history[0].digest = "md5:0".to_owned();
    assert_eq!(
        state(&broken, Some(&last)),
        State::Unmanaged("release digest verification error")
    );
    assert!(verify(&release.status.history[0], &last).is_ok());
    for (status, expected) in [
        (Status::Failed, Ok(State::Failed(""))),
        (
            Status::Uninstalled,
            Ok(State::Absent("found uninstalled release in storage")),
        ),
        (
            Status::Superseded,
            Err("unable to determine state for release with status 'superseded'".to_owned()),
        ),
        (
            Status::Uninstalling,
            Err("unable to determine state for release with status 'uninstalling'".to_owned()),
        ),
    ] {
        let (release, last) = managing(&json!({}), status);
        let found = determine(&release, Some(&last), &wanted);
        assert_eq!(found.map_err(|error| error.to_string()), expected);
    }
}

#[test]
fn out_of_sync_and_tests() {
    let (values, others) = (table(json!({"a": 1})), table(json!({"a": 2})));
    let wanted = Desired {
        chart_name: "web",
        chart_version: "1.0.0",
        values: &values,
    };
    let (release, last) = managing(&json!({}), Status::Deployed);
    for (wanted, reason) in [
        (
            Desired {
                chart_version: "1.0.1",
                ..wanted
            },
            "release chart changed",
        ),
        (
            Desired {
                chart_name: "shop",
                ..wanted
            },
            "release chart changed",
        ),
        (
            Desired {
                values: &others,
                ..wanted
            },
            "release config values changed",
        ),
    ] {
        assert_eq!(
            determine(&release, Some(&last), &wanted),
            Ok(State::OutOfSync(reason))
        );
    }
    for (spec, reason) in [
        (
            json!({"postRenderers": [{"kustomize": {}}]}),
            "postrenderers digest has changed",
        ),
        (
            json!({"commonMetadata": {"labels": {"a": "b"}}}),
            "common metadata digest has changed",
        ),
    ] {
        let (mut release, last) = managing(&spec, Status::Deployed);
        assert_eq!(
            determine(&release, Some(&last), &wanted),
            Ok(State::InSync),
            "the same generation"
        );
        release.status.observed_generation = Some(0);
        assert_eq!(
            determine(&release, Some(&last), &wanted),
            Ok(State::OutOfSync(reason))
        );
        summarize(&mut release, NOW);
        assert_eq!(
            determine(&release, Some(&last), &wanted),
            Ok(State::InSync),
            "noted"
        );
    }
    for (test, hooks, expected) in [
        (json!({"enable": true}), Value::Null, State::Untested),
        (json!({"enable": true}), json!({}), State::InSync),
        (
            json!({"enable": true}),
            json!({"t": {"phase": "Failed"}}),
            State::Failed("release has test in failed phase"),
        ),
        (
            json!({"enable": true, "ignoreFailures": true}),
            json!({"t": {"phase": "Failed"}}),
            State::InSync,
        ),
        (json!({}), json!({"t": {"phase": "Failed"}}), State::InSync),
    ] {
        let (mut release, last) = managing(&json!({"test": test}), Status::Deployed);
        release.status.history[0].test_hooks = serde_json::from_value(hooks).unwrap();
        assert_eq!(determine(&release, Some(&last), &wanted), Ok(expected));
    }
}

#[test]
fn failures_that_no_longer_count() {
    let values = table(json!({"a": 1}));
    let wanted = Desired {
        chart_name: "web",
        chart_version: "1.0.0",
        values: &values,
    };
    let mut release = helm_release(&json!({}));
    assert_eq!(
        failures_are_stale(&release, &wanted),
        Some("generation differs from last attempt")
    );
    release.status.last_attempted_generation = 1;
    assert_eq!(
        failures_are_stale(&release, &wanted),
        Some("chart version differs from last attempt")
    );
    release.status.last_attempted_revision = "1.0.0".to_owned();
    assert_eq!(failures_are_stale(&release, &wanted), None);
    // SHA-1 of "a: 1\n", as v2beta1 noted it.
    release.status.last_attempted_values_checksum =
        "088313970433b9a1e04187ee3403c822591d41e5".to_owned();
    assert_eq!(failures_are_stale(&release, &wanted), None);
    release.status.last_attempted_values_checksum = "ffff".to_owned();
    assert_eq!(
        failures_are_stale(&release, &wanted),
        Some("values differ from last attempt")
    );
    release.status.last_attempted_config_digest = driftless_helm::record::config_digest(&values);
    assert_eq!(failures_are_stale(&release, &wanted), None);
}

#[test]
fn targets_that_changed() {
    let (mut release, _) = managing(&json!({}), Status::Deployed);
    assert_eq!(changed_target(&release, "shop"), None, "nothing was stored");
    release.status.storage_namespace = "apps".to_owned();
    assert_eq!(changed_target(&release, "web"), None);
    assert_eq!(changed_target(&release, "shop"), Some(Target::ChartName));
    for (spec, target) in [
        (
            json!({"storageNamespace": "store"}),
            Some(Target::StorageNamespace),
        ),
        (
            json!({"targetNamespace": "shop", "releaseName": "web"}),
            Some(Target::ReleaseNamespace),
        ),
        (json!({"releaseName": "shop"}), Some(Target::ReleaseName)),
        (
            json!({"upgrade": {"chartNameChangeStrategy": "InPlaceUpdate"}}),
            None,
        ),
    ] {
        let mut changed = helm_release(&spec);
        changed.status = release.status.clone();
        assert_eq!(changed_target(&changed, "shop"), target, "{spec}");
    }
}

#[test]
fn ready_is_the_summary() {
    // Kind, status, generation.
    for (test, conditions, ready) in [
        (
            json!({}),
            vec![("Released", ConditionStatus::True, 1)],
            "True Released",
        ),
        (
            json!({}),
            vec![
                ("Released", ConditionStatus::True, 1),
                ("Remediated", ConditionStatus::True, 1),
            ],
            "False Remediated",
        ),
        (
            json!({}),
            vec![
                ("Released", ConditionStatus::True, 2),
                ("Remediated", ConditionStatus::True, 1),
            ],
            "True Released",
        ),
        (
            json!({"enable": true}),
            vec![
                ("Released", ConditionStatus::True, 1),
                ("TestSuccess", ConditionStatus::False, 1),
            ],
            "False TestSuccess",
        ),
        (
            json!({"enable": true}),
            vec![
                ("Released", ConditionStatus::True, 2),
                ("TestSuccess", ConditionStatus::False, 1),
            ],
            "True Released",
        ),
        (
            json!({"enable": true, "ignoreFailures": true}),
            vec![
                ("Released", ConditionStatus::True, 1),
                ("TestSuccess", ConditionStatus::False, 1),
            ],
            "True Released",
        ),
        (
            json!({}),
            vec![
                ("Released", ConditionStatus::False, 1),
                ("TestSuccess", ConditionStatus::True, 3),
            ],
            "False Released",
        ),
    ] {
        let mut release = helm_release(&json!({"test": test}));
        release.status.conditions.set(
            "Stalled",
            ConditionStatus::True,
            "RetriesExceeded",
            "",
            1,
            NOW,
        );
        for (kind, status, generation) in &conditions {
            release
                .status
                .conditions
                .set(kind, *status, kind, "", *generation, NOW);
        }
        summarize(&mut release, NOW);
        let got = release.status.conditions.get("Ready").unwrap();
        assert_eq!(
            format!("{} {}", got.status, got.reason),
            ready,
            "{conditions:?}"
        );
        assert_eq!(
            release.status.conditions.get("Stalled").is_none(),
            got.status == ConditionStatus::True
        );
        assert_eq!(
            release.status.conditions.get("TestSuccess").is_some(),
            test.get("enable").is_some()
                && conditions.iter().any(|(kind, ..)| *kind == "TestSuccess")
        );
    }
}

#[test]
fn long_messages_are_cut() {
    let mut release = helm_release(&json!({}));
    mark(
        &mut release,
        "Ready",
        ConditionStatus::False,
        "X",
        &"ä".repeat(20_000),
        NOW,
    );
    let message = &release.status.conditions.get("Ready").unwrap().message;
    assert!(message.len() <= 32_768 && message.ends_with("ä..."));
}

#[test]
fn requests_by_annotation() {
    for (annotations, handled, reconciled, asked) in [
        (json!({}), "", "", false),
        (json!({"reconcile.fluxcd.io/forceAt": "1"}), "", "", false),
        (
            json!({"reconcile.fluxcd.io/forceAt": "1", "reconcile.fluxcd.io/requestedAt": "2"}),
            "",
            "",
            false,
        ),
        (
            json!({"reconcile.fluxcd.io/forceAt": "2", "reconcile.fluxcd.io/requestedAt": "2"}),
            "1",
            "1",
            true,
        ),
        (
            json!({"reconcile.fluxcd.io/forceAt": "2", "reconcile.fluxcd.io/requestedAt": "2"}),
            "2",
            "1",
            false,
        ),
        (
            json!({"reconcile.fluxcd.io/forceAt": "2", "reconcile.fluxcd.io/requestedAt": "2"}),
            "1",
            "2",
            false,
        ),
    ] {
        let mut release = helm_release(&json!({}));
        for (key, value) in annotations.as_object().unwrap() {
            release.object.set_annotation(key, value.as_str().unwrap());
        }
        release.status.last_handled_force_at = handled.to_owned();
        release.status.last_handled_reconcile_at = reconciled.to_owned();
        assert_eq!(take_request(&mut release, FORCE_AT), asked, "{annotations}");
        if let Some(noted) = annotations.get(FORCE_AT) {
            assert_eq!(
                release.status.last_handled_force_at,
                noted.as_str().unwrap()
            );
        }
    }
}
