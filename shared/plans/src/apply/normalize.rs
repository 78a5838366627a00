//! Normalizes an object as Flux does before it sends it, and compares values as an API server does.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use driftless_manifest::Object;
use serde_json::{Map, Value};

/// Normalizes an object before it is sent (fluxcd/pkg ssa `normalize`): removes `status` (except of
/// definitions) and `creationTimestamp`, moves a Secret's `stringData` to `data`, and sets
/// `protocol: TCP` for ports of containers and services without a protocol, because the protocol is
/// part of a port's key.
///
/// Flux converts to the typed object and so also drops unknown fields of built-in kinds; here they
/// are sent, and the API server refuses them by name.
pub fn object(object: &mut Object) {
    let role = object.api_version() == "rbac.authorization.k8s.io/v1"
        && matches!(object.kind(), "Role" | "ClusterRole");
    let definition =
        object.group() == "apiextensions.k8s.io" && object.kind() == "CustomResourceDefinition";
    let secret = object.api_version() == "v1" && object.kind() == "Secret";
    let pods = pod_spec(object);
    let service = object.api_version() == "v1" && object.kind() == "Service";
    let fields = object.as_map_mut();
    if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
        metadata.remove("creationTimestamp");
    }
    if role {
        return;
    }
    if !definition {
        fields.remove("status");
    }
    if secret {
        string_data(fields);
    }
    if service {
        default_protocol(walk(fields, &["spec"]));
    }
    if let Some(path) = pods
        && let Some(spec) = walk(fields, path)
        && let Some(Value::Array(containers)) = spec.get_mut("containers")
    {
        for container in containers {
            default_protocol(container.as_object_mut());
        }
    }
}

/// Returns the path of the pod spec in a built-in kind.
fn pod_spec(object: &Object) -> Option<&'static [&'static str]> {
    match (object.api_version(), object.kind()) {
        ("v1", "Pod") => Some(&["spec"]),
        ("apps/v1", "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet")
        | ("batch/v1", "Job") => Some(&["spec", "template", "spec"]),
        ("batch/v1", "CronJob") => Some(&["spec", "jobTemplate", "spec", "template", "spec"]),
        _ => None,
    }
}

fn walk<'m>(
    fields: &'m mut Map<String, Value>,
    path: &[&str],
) -> Option<&'m mut Map<String, Value>> {
    path.iter()
        .try_fold(fields, |map, key| map.get_mut(*key)?.as_object_mut())
}

fn default_protocol(owner: Option<&mut Map<String, Value>>) {
    let Some(Value::Array(ports)) = owner.and_then(|owner| owner.get_mut("ports")) else {
        return;
    };
    for port in ports.iter_mut().filter_map(Value::as_object_mut) {
        let protocol = port.entry("protocol").or_insert(Value::Null);
        if protocol.is_null() || protocol.as_str() == Some("") {
            *protocol = "TCP".into();
        }
    }
}

fn string_data(fields: &mut Map<String, Value>) {
    let Some(Value::Object(plain)) = fields.get("stringData") else {
        return;
    };
    if !plain
        .values()
        .all(|value| value.is_string() || value.is_null())
    {
        // The API server reports the error.
        return;
    }
    let plain = plain.clone();
    fields.remove("stringData");
    if plain.is_empty() {
        return;
    }
    let data = fields.entry("data").or_insert(Value::Null);
    if data.is_null() {
        *data = Value::Object(Map::new());
    }
    if let Value::Object(data) = data {
        for (key, value) in plain {
            data.insert(
                key,
                STANDARD.encode(value.as_str().unwrap_or_default()).into(),
            );
        }
    }
}

/// Checks whether two strings or numbers are the same quantity (`1000m` and `1`, `1024Mi` and
/// `1Gi`). The API server stores the canonical form.
pub(super) fn same_quantity(a: &Value, b: &Value) -> bool {
    match (quantity(a), quantity(b)) {
        (Some(a), Some(b)) => a == b,
        _ => false,
    }
}

/// Parses a quantity into units of 10^-9, if that is exact.
fn quantity(value: &Value) -> Option<i128> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let end = text
        .find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let scale: i128 = match suffix {
        "n" => 1,
        "u" => 1_000,
        "m" => 1_000_000,
        _ => 1_000_000_000,
    };
    let factor: i128 = match suffix {
        "" | "n" | "u" | "m" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "P" => 1_000_000_000_000_000,
        "E" => 1_000_000_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        "Pi" => 1 << 50,
        "Ei" => 1 << 60,
        exponent => {
            let exponent = exponent.strip_prefix(['e', 'E'])?;
            10_i128.checked_pow(exponent.parse().ok()?)?
        }
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) || number.is_empty() {
        return None;
    }
    let digits = format!("{whole}{fraction}").parse::<i128>().ok()?;
    let all = digits.checked_mul(scale)?.checked_mul(factor)?;
    let shift = 10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    (all % shift == 0).then_some(all / shift)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn quantities() {
        for (a, b, same) in [
            (json!("1000m"), json!("1"), true),
            (json!(1), json!("1"), true),
            (json!(0.5), json!("500m"), true),
            (json!("1024Mi"), json!("1Gi"), true),
            (json!("1e3"), json!("1k"), true),
            (json!("0.1"), json!("100m"), true),
            (json!("1500m"), json!("1.5"), true),
            (json!("1G"), json!("1Gi"), false),
            (json!("1"), json!("2"), false),
            (json!("x"), json!("x"), false),
            (json!(""), json!(""), false),
            (json!("1e99"), json!("1e99"), false),
            (json!(true), json!("1"), false),
        ] {
            assert_eq!(same_quantity(&a, &b), same, "{a} {b}");
        }
    }

    #[test]
    fn objects_as_flux_sends_them() {
        let normal = |value: Value| {
            let mut one = Object::new(value).unwrap();
            object(&mut one);
            one.into_value()
        };
        let meta = json!({"name": "x"});
        let timed = json!({"name": "x", "creationTimestamp": null});
        assert_eq!(
            normal(
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": timed, "status": {},
                "data": {"a": "YQ==", "b": "Yg=="}, "stringData": {"b": "new"}})
            ),
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": {"a": "YQ==", "b": "bmV3"}})
        );
        let ports = |protocol: Value| json!({"containers": [{"name": "c", "ports": [protocol]}]});
        assert_eq!(
            normal(
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta,
                "spec": {"template": {"spec": ports(json!({"containerPort": 80}))}}})
            ),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta,
                "spec": {"template": {"spec": ports(json!({"containerPort": 80, "protocol": "TCP"}))}}})
        );
        let service = |port: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"ports": [port]}});
        assert_eq!(
            normal(service(json!({"port": 53, "protocol": "UDP"}))),
            service(json!({"port": 53, "protocol": "UDP"}))
        );
        assert_eq!(
            normal(service(json!({"port": 80}))),
            service(json!({"port": 80, "protocol": "TCP"}))
        );
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": meta,
            "status": {"conditions": []}});
        assert_eq!(normal(definition.clone()), definition);
    }
}
