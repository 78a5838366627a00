use super::super::drift_detection::{
    Drifted, Finding, changes, compare_with_live, desired, summary,
};
use super::{helm_release, record};
use driftless_flux::HELM_CONTROLLER;
use driftless_helm::record::Status;
use driftless_manifest::Object;
use driftless_plans::apply::ignore_rules::IgnoreRules;
use serde_json::{Value, json};

const MANIFEST: &str = "---
# Source: web/templates/web.yaml
apiVersion: v1
kind: ConfigMap
metadata: {name: web, labels: {app: web}}
data: {a: '1', b: '2'}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: other}}
- {apiVersion: v1, kind: Secret, metadata: {name: s, namespace: other}, stringData: {k: v}}
---
";

fn objects() -> Vec<Object> {
    let mut made = record(1, Status::Deployed);
    made.manifest = MANIFEST.to_owned();
    desired(&made, &|gvk| Some(gvk.kind != "Namespace")).unwrap()
}

fn rules(ignore: &Value) -> IgnoreRules {
    let spec = json!({"driftDetection": {"ignore": ignore}});
    let ignore = helm_release(&spec).spec.drift_detection.unwrap().ignore;
    IgnoreRules::new(&ignore, "spec.driftDetection.ignore").unwrap()
}

/// Returns the object as the API server would, with the fields owned by our server-side apply.
fn live(object: &Object) -> Object {
    let mut value = object.to_value();
    let fields = json!({"f:metadata": {"f:labels": {"f:app": {}, "f:app.kubernetes.io/managed-by": {}},
        "f:annotations": {"f:meta.helm.sh/release-name": {}, "f:meta.helm.sh/release-namespace": {}}},
        "f:data": {"f:a": {}, "f:b": {}}});
    value["metadata"]["managedFields"] = json!([{"manager": HELM_CONTROLLER, "operation": "Apply",
        "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}]);
    Object::new(value).unwrap()
}

fn with(object: &Object, change: impl Fn(&mut Value)) -> Object {
    let mut value = object.to_value();
    change(&mut value);
    Object::new(value).unwrap()
}

#[test]
fn objects_as_helm_applied_them() {
    let all = objects();
    let names: Vec<String> = all
        .iter()
        .map(|o| format!("{}/{}/{}", o.kind(), o.namespace(), o.name()))
        .collect();
    assert_eq!(
        names,
        ["ConfigMap/apps/web", "Namespace//other", "Secret/other/s"]
    );
    assert_eq!(all[0].label("app.kubernetes.io/managed-by"), Some("Helm"));
    assert_eq!(all[0].annotation("meta.helm.sh/release-name"), Some("web"));
    assert_eq!(all[2].pointer("/data/k"), Some(&json!("dg==")));
    let mut bad = record(3, Status::Deployed);
    bad.manifest = "a: [".to_owned();
    assert!(
        desired(&bad, &|_| Some(true))
            .unwrap_err()
            .to_string()
            .starts_with("failed to read objects from manifest of release web.v3: ")
    );
    bad.manifest = MANIFEST.to_owned();
    assert_eq!(
        desired(&bad, &|_| None).unwrap_err().to_string(),
        "failed to determine if ConfigMap is namespace scoped"
    );
}

#[test]
fn findings() {
    let web = &objects()[0];
    let there = live(web);
    let none = IgnoreRules::default();
    let changed = with(&there, |o| o["data"]["a"] = json!("9"));
    assert_eq!(compare_with_live(web, None, &none), Finding::Missing);
    assert_eq!(compare_with_live(web, Some(&there), &none), Finding::Same);
    assert!(matches!(
        compare_with_live(web, Some(&changed), &none),
        Finding::Differs(_)
    ));
    let off = |o: &mut Value| {
        o["metadata"]["annotations"]["helm.toolkit.fluxcd.io/driftDetection"] = json!("disabled")
    };
    assert_eq!(
        compare_with_live(&with(web, off), None, &none),
        Finding::Excluded
    );
    assert_eq!(
        compare_with_live(web, Some(&with(&changed, off)), &none),
        Finding::Excluded
    );
    for (ignore, same) in [
        (json!([{"paths": ["/data/a"]}]), true),
        (json!([{"paths": ["/data/b"]}]), false),
        (
            json!([{"paths": ["/none/at/all", "/data/a"], "target": {"kind": "ConfigMap"}}]),
            true,
        ),
        (
            json!([{"paths": ["/data/a"], "target": {"kind": "Secret"}}]),
            false,
        ),
        (
            json!([{"paths": ["/data/a"], "target": {"kind": "Config.*", "namespace": "apps", "labelSelector": "app in (web)"}}]),
            true,
        ),
        (
            json!([{"paths": ["/data/a"], "target": {"labelSelector": "app!=web"}}]),
            false,
        ),
        (
            json!([{"paths": ["/data/a"], "target": {"annotationSelector": "meta.helm.sh/release-name=web"}}]),
            true,
        ),
    ] {
        let found = compare_with_live(web, Some(&changed), &rules(&ignore));
        assert_eq!(found == Finding::Same, same, "{ignore}");
    }
    assert_eq!(
        compare_with_live(web, Some(&changed), &rules(&json!([{"paths": [""]}]))),
        Finding::Excluded
    );
    // An ignored field that another client removed.
    let gone = with(&there, |o| {
        drop(o["data"].as_object_mut().unwrap().remove("a"))
    });
    assert!(matches!(
        compare_with_live(web, Some(&gone), &none),
        Finding::Unknown(_)
    ));
    assert_eq!(
        compare_with_live(web, Some(&gone), &rules(&json!([{"paths": ["/data/a"]}]))),
        Finding::Same
    );
    let spec = json!({"driftDetection": {"ignore": [{"paths": ["/a"], "target": {"name": "("}}]}});
    let ignore = helm_release(&spec).spec.drift_detection.unwrap().ignore;
    let error = IgnoreRules::new(&ignore, "spec.driftDetection.ignore")
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("spec.driftDetection.ignore[0].target: "),
        "{error}"
    );
}

#[test]
fn patches_and_their_summary() {
    let web = &objects()[0];
    let there = with(web, |o| {
        o["metadata"]["labels"] = json!({"app": "shop", "added/by": "others"});
        o["data"] = json!({"a": "9", "x": "1"});
        o["status"] = json!({"a": 1});
    });
    let patch = changes(&there, web);
    assert_eq!(
        Value::from(patch.clone()),
        json!([
            {"op": "replace", "path": "/metadata/labels/app", "value": "web"},
            {"op": "add", "path": "/metadata/labels/app.kubernetes.io~1managed-by", "value": "Helm"},
            {"op": "replace", "path": "/data/a", "value": "1"},
            {"op": "remove", "path": "/data/x"},
            {"op": "add", "path": "/data/b", "value": "2"},
        ])
    );
    assert!(changes(web, web).is_empty());
    let all = objects();
    let drifted = [
        Drifted::Changed(web.clone(), patch),
        Drifted::Gone(all[1].clone()),
        Drifted::Excluded(all[2].clone()),
    ];
    assert_eq!(
        summary("apps/web.v1", &drifted),
        "Cluster state of release apps/web.v1 has drifted from the desired state:\n\
        ConfigMap/apps/web changed (2 additions, 2 changes, 1 removals)\nNamespace/other removed\nSecret/other/s excluded"
    );
}
