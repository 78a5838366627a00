//! The fields of a live object that a field manager applied.

use super::fieldset::FieldSet;
use driftless_manifest::Object;
use serde_json::{Map, Value, json};

/// Returns the object that a manager applied by server-side apply, as `managedFields` of the live
/// object records it: the fields that the manager sent, without those that the server completed.
/// `None` if the manager applied nothing in the object's version, or an entry cannot be read.
pub fn applied_by(live: &Object, manager: &str) -> Option<Object> {
    let entries = live.pointer("/metadata/managedFields")?.as_array()?;
    let entry = entries.iter().find(|entry| {
        let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
        text("manager") == manager
            && text("operation") == "Apply"
            && text("subresource").is_empty()
            && text("apiVersion") == live.api_version()
    })?;
    let set = FieldSet::parse(entry.get("fieldsV1")?).ok()?;
    let mut fields = Map::new();
    for (field, value) in live.as_map() {
        if let Some(below) = set.field(field) {
            fields.insert(field.clone(), owned(below, value));
        }
    }
    for field in ["apiVersion", "kind"] {
        fields.insert(field.to_owned(), live.as_map().get(field)?.clone());
    }
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    for field in ["name", "namespace"] {
        if let Some(value) = live.pointer(&format!("/metadata/{field}")) {
            metadata[field] = value.clone();
        }
    }
    Object::new(Value::Object(fields)).ok()
}

/// Returns the owned part of a value.
fn owned(set: &FieldSet, value: &Value) -> Value {
    if set.is_leaf() {
        return value.clone();
    }
    match value {
        Value::Object(map) => {
            let parts = map
                .iter()
                .filter_map(|(name, value)| Some((name.clone(), owned(set.field(name)?, value))));
            Value::Object(parts.collect())
        }
        Value::Array(items) => {
            let parts = items
                .iter()
                .enumerate()
                .filter_map(|(at, item)| Some(owned(set.item(at, item)?, item)));
            Value::Array(parts.collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_server_and_of_others_are_left_out() {
        let fields = json!({"f:metadata": {"f:labels": {"f:app": {}}, "f:finalizers": {".": {}, "v:\"a/b\"": {}}},
            "f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}},
                "f:selector": {}, "f:empty": {}}});
        let live = Object::new(json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "web", "namespace": "apps", "uid": "1", "labels": {"app": "web", "other": "x"},
                "finalizers": ["a/b", "c/d"],
                "managedFields": [
                    {"manager": "us", "operation": "Apply", "apiVersion": "v1", "fieldsV1": fields},
                    {"manager": "us", "operation": "Apply", "apiVersion": "v1", "subresource": "status", "fieldsV1": {"f:status": {}}}]},
            "spec": {"ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}, {"port": 81, "protocol": "TCP"}],
                "selector": {"app": "web"}, "empty": {}, "clusterIP": "10.0.0.1"},
            "status": {"loadBalancer": {}}}))
        .unwrap();
        assert_eq!(
            applied_by(&live, "us").unwrap().to_value(),
            json!({"apiVersion": "v1", "kind": "Service",
                "metadata": {"name": "web", "namespace": "apps", "labels": {"app": "web"}, "finalizers": ["a/b"]},
                "spec": {"ports": [{"port": 80}], "selector": {"app": "web"}, "empty": {}}})
        );
        assert_eq!(applied_by(&live, "other"), None);
    }
}
