//! Built-in resources that are served in two versions; objects are stored in one of them.
//!
//! | served | stored | not representable in the served form |
//! | --- | --- | --- |
//! | `events.k8s.io/v1` | `v1` | nothing |
//! | `autoscaling/v1` | `autoscaling/v2` | metrics other than CPU utilization, and `behavior`: refused when written, left out when read |

use serde_json::{Map, Value, json};

use crate::error::ApiError;
use crate::objects::codec;
use crate::objects::codec::DecodeReport;
use crate::resources::Resource;
use crate::values::{set, take};

/// Fields of an event by their names in `events.k8s.io/v1` and `v1`.
const EVENT: [(&str, &str); 7] = [
    ("reportingController", "reportingComponent"),
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

const EVENTS: &str = "events.k8s.io/v1";
const SCALERS: &str = "autoscaling/v1";

/// Converts a stored object to the version of a resource.
pub(crate) fn from_stored(resource: &Resource, object: Value) -> Value {
    let api_version = resource.api_version_ref();
    if resource.custom.is_some() || object["apiVersion"] == api_version {
        return object;
    }
    match api_version {
        EVENTS => decode_again(resource, rename_fields(object, EVENT, EVENTS)),
        SCALERS => decode_again(resource, simple_scaler(object)),
        _ => object,
    }
}

/// Converts an object to the version that is stored.
pub(crate) fn to_stored(resource: &Resource, object: Value) -> Value {
    if resource.custom.is_some() {
        return object;
    }
    match resource.api_version_ref() {
        EVENTS => {
            let names = EVENT.map(|(new, old)| (old, new));
            decode_again(resource, rename_fields(object, names, "v1"))
        }
        SCALERS => decode_again(resource, full_scaler(object)),
        _ => object,
    }
}

/// Refuses a write in a version that cannot represent the stored object.
pub(crate) fn check(resource: &Resource, stored: &Value) -> Result<(), ApiError> {
    if resource.custom.is_some() || resource.api_version_ref() != SCALERS {
        return Ok(());
    }
    let metrics = stored["spec"]["metrics"].as_array();
    let others = metrics
        .into_iter()
        .flatten()
        .any(|m| utilization(m).is_none());
    if others || stored["spec"]["behavior"].is_object() {
        return Err(ApiError::new(
            501,
            "NotImplemented",
            "this server does not change a HorizontalPodAutoscaler with behavior or metrics other than CPU utilization through autoscaling/v1: use autoscaling/v2",
        ));
    }
    Ok(())
}

/// Decodes an object after its fields were renamed.
fn decode_again(resource: &Resource, object: Value) -> Value {
    let api_version = object["apiVersion"].clone();
    let name = format!(
        "{}/{}",
        api_version.as_str().unwrap_or_default(),
        resource.kind
    );
    let Some(id) = resource.schema.kinds.get(&name) else {
        return object;
    };
    match codec::read(&resource.schema, *id, &object, &mut DecodeReport::default()) {
        Ok(mut read) => {
            read["apiVersion"] = api_version;
            read["kind"] = resource.kind.clone().into();
            read
        }
        Err(_) => object,
    }
}

/// Renames the second field of each pair to the first.
fn rename_fields(mut object: Value, names: [(&str, &str); 7], api_version: &str) -> Value {
    for (new, old) in names {
        if let Some(value) = take(&mut object, &[old]) {
            object[new] = value;
        }
    }
    object["apiVersion"] = api_version.into();
    object
}

/// Returns the target CPU utilization of a metric; `None` for other metrics.
fn utilization(metric: &Value) -> Option<&Value> {
    let resource = &metric["resource"];
    let wanted = resource["target"].get("averageUtilization")?;
    (metric["type"] == "Resource" && resource["name"] == "cpu").then_some(wanted)
}

fn simple_scaler(mut object: Value) -> Value {
    object["apiVersion"] = SCALERS.into();
    let metrics = take(&mut object, &["spec", "metrics"]).unwrap_or_default();
    let wanted = metrics
        .as_array()
        .into_iter()
        .flatten()
        .find_map(utilization);
    set(
        &mut object,
        "spec",
        "targetCPUUtilizationPercentage",
        wanted.cloned(),
    );
    let current = take(&mut object, &["status", "currentMetrics"]).unwrap_or_default();
    let current = current.as_array().into_iter().flatten().find_map(|metric| {
        let cpu = metric["type"] == "Resource" && metric["resource"]["name"] == "cpu";
        cpu.then(|| {
            metric["resource"]["current"]
                .get("averageUtilization")
                .cloned()
        })?
    });
    set(
        &mut object,
        "status",
        "currentCPUUtilizationPercentage",
        current,
    );
    object
}

fn full_scaler(mut object: Value) -> Value {
    object["apiVersion"] = "autoscaling/v2".into();
    let resource = |key: &str, value: Value| {
        let mut target = Map::new();
        if key == "target" {
            target.insert("type".into(), "Utilization".into());
        } else {
            target.insert("averageValue".into(), "0".into());
        }
        target.insert("averageUtilization".into(), value);
        json!([{"type": "Resource", "resource": {"name": "cpu", key: target}}])
    };
    for (part, simple, full, key) in [
        (
            "spec",
            "targetCPUUtilizationPercentage",
            "metrics",
            "target",
        ),
        (
            "status",
            "currentCPUUtilizationPercentage",
            "currentMetrics",
            "current",
        ),
    ] {
        let value = take(&mut object, &[part, simple]).filter(|value| !value.is_null());
        set(
            &mut object,
            part,
            full,
            value.map(|value| resource(key, value)),
        );
    }
    object
}

/// An annotation that the server keeps for DaemonSets.
pub(crate) const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Removes the annotation of the deprecated template generation, which is a field of the internal
/// type: rows of a Table are made from internal objects.
pub(crate) fn hide_template_generation(object: &mut Value) {
    let metadata = &mut object["metadata"];
    if let Some(annotations) = metadata["annotations"].as_object_mut() {
        annotations.remove(TEMPLATE_GENERATION);
        if annotations.is_empty() {
            take(metadata, &["annotations"]);
        }
    }
}
