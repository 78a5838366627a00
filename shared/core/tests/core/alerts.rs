//! Compares what Alerts select and Providers get with what notification-controller does
//! (`tests/oracle/alerts`).

use driftless_core::notification::{combined, commit_status, conflicts, is_for};
use driftless_flux::{Alert, FluxEvent, Provider};
use driftless_fuel::Tank;
use driftless_kernel::context::events::selects;
use driftless_manifest::Object;
use serde_json::{Value, json};

const CASES: &str = include_str!("../../../../tests/corpus/alerts/cases.json");

fn object(kind: &str, name: &str, uid: &str, spec: &Value) -> Object {
    let object = json!({"apiVersion": "notification.toolkit.fluxcd.io/v1beta3", "kind": kind,
        "metadata": {"name": name, "namespace": "apps", "uid": uid}, "spec": spec});
    Object::new(object).expect("an object")
}

/// Returns the parts of a case that the controller decides.
fn decided(case: &Value) -> Value {
    let alert_uid = "8b05ba07-0000-4000-8000-000000000001";
    let alert = object("Alert", "alert", alert_uid, &case["alert"]);
    let alert = Alert::from_object(alert).expect("an Alert");
    let mut spec = json!({"type": case["type"]});
    if let Some(text) = case.get("commitStatusExpr") {
        spec["commitStatusExpr"] = text.clone();
    }
    let provider_uid = "0C9C2E41-d2f9-4f9b-9c41-bebc1984d67a";
    let provider = object("Provider", "provider", provider_uid, &spec);
    let provider = Provider::from_object(provider).expect("a Provider");
    let event: FluxEvent = serde_json::from_value(case["event"].clone()).expect("an event");
    let about = &event.involved_object;
    let involved = json!({"apiVersion": about.api_version, "kind": about.kind,
        "metadata": {"name": about.name, "namespace": about.namespace, "labels": case["labels"]}});
    let involved = Object::new(involved).expect("an object");
    let locked = case["noCrossNamespaceRefs"] == true;
    if !selects(&alert, &event, &involved, locked) {
        return json!({"sent": null, "commitStatus": null, "conflicts": null, "error": false});
    }
    if !is_for(&provider, &event) {
        return json!({"sent": null, "commitStatus": null, "conflicts": null, "error": false});
    }
    let conflicts = conflicts(&alert, &event);
    let event = combined(&alert, &event);
    match commit_status(&provider, &alert, &event, &Tank::default()) {
        Ok(status) => json!({"sent": event, "error": false,
            "conflicts": (!conflicts.is_empty()).then_some(conflicts),
            "commitStatus": (!status.is_empty()).then_some(status)}),
        Err(_) => json!({"sent": null, "commitStatus": null, "conflicts": null, "error": true}),
    }
}

#[test]
fn alerts_select_as_notification_controller_does() {
    let cases: Vec<Value> = serde_json::from_str(CASES).expect("cases");
    let mut different = Vec::new();
    for case in &cases {
        // The controller's error for another namespace is our selection.
        let error = case["error"].as_str().unwrap_or_default();
        let is_error = !error.is_empty() && !error.contains("cross-namespace references");
        if error.ends_with("expected string, got dyn") {
            // The types of expressions are not checked before they are evaluated.
            continue;
        }
        let expected = json!({"sent": case["sent"], "commitStatus": case["commitStatus"],
            "conflicts": case["conflicts"], "error": is_error});
        let found = decided(case);
        if found != expected {
            different.push(format!("{}\n  {found}\n  {expected}", case["name"]));
        }
    }
    assert!(cases.len() > 150, "{}", cases.len());
    assert!(different.is_empty(), "{}", different.join("\n"));
}
