//! Tests the rules of helm-controller in tables, and the paths of actions that result from them.

mod drift_detection;
mod messages;
mod paths;
mod plans;
mod rules;

use driftless_flux::HelmRelease;
use driftless_helm::record::{Info, Release, Status, Time};
use driftless_helm::values::Table;
use driftless_manifest::Object;
use serde_json::{Value, json};

pub(super) const NOW: &str = "2026-03-01T12:00:00Z";

pub(super) fn helm_release(spec: &Value) -> HelmRelease {
    let mut spec = spec.clone();
    spec["interval"] = json!("10m");
    spec["chartRef"] = json!({"kind": "OCIRepository", "name": "web"});
    let object = json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": {"name": "web", "namespace": "apps", "generation": 1}, "spec": spec});
    HelmRelease::from_object(Object::new(object).unwrap()).unwrap()
}

pub(super) fn table(value: Value) -> Table {
    serde_json::from_value(value).unwrap()
}

/// Returns a record of revision `version` of the chart web 1.0.0.
pub(super) fn record(version: i64, status: Status) -> Release {
    let mut record = Release {
        name: "web".to_owned(),
        namespace: "apps".to_owned(),
        version,
        info: Info {
            first_deployed: Time::parse(NOW),
            last_deployed: Time::parse(NOW),
            status,
            ..Info::default()
        },
        manifest: format!("# {version}\n"),
        ..Release::default()
    };
    record.chart.metadata.known.name = "web".to_owned();
    record.chart.metadata.known.version = "1.0.0".to_owned();
    record
}
