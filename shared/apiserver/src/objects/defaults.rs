//! Defaults of built-in objects: those of the schema table, which belong to a type
//! wherever it is used, and those that depend on other fields.

use serde_json::{Map, Value, json};

use crate::schema::{Id, Schema, Type};
use crate::values::is_zero;

/// Defaults of the table that depend on conditions; the rules below set them.
const CONDITIONAL: [(&str, &str); 6] = [
    ("NetworkPolicySpec", "policyTypes"),
    ("ConfigMap", "data"),
    ("DeviceTaint", "timeAdded"),
    ("Container", "imagePullPolicy"),
    ("EphemeralContainer", "imagePullPolicy"),
    ("ServiceSpec", "internalTrafficPolicy"),
];

/// Sets the defaults of an object.
pub fn fill(schema: &Schema, id: Id, kind: &str, object: &mut Value) {
    walk(schema, id, object);
    root(kind, object);
}

fn walk(schema: &Schema, id: Id, value: &mut Value) {
    match (schema.get(id), value) {
        (Type::List { item, .. }, Value::Array(list)) => {
            for value in list {
                walk(schema, *item, value);
            }
        }
        (Type::Map { value: of, .. }, Value::Object(map)) => {
            for value in map.values_mut() {
                walk(schema, *of, value);
            }
        }
        (Type::Struct(of), Value::Object(map)) => {
            let name = of.name.rsplit('.').next().unwrap_or_default();
            before(name, map);
            for (key, field) in &of.fields {
                let absent = match map.get(key) {
                    None => true,
                    Some(value) => !field.pointer && is_zero(value) && !value.is_object(),
                };
                if absent
                    && !CONDITIONAL.contains(&(name, key))
                    && let Some(default) = &field.default
                {
                    map.insert(key.clone(), default.clone());
                }
                if let Some(value) = map.get_mut(key) {
                    walk(schema, field.id, value);
                }
            }
        }
        (Type::OrBool(of) | Type::OrArray(of), value) => walk(schema, *of, value),
        _ => {}
    }
}

fn absent(map: &Map<String, Value>, key: &str) -> bool {
    map.get(key).is_none_or(is_zero)
}

fn text<'a>(map: &'a Map<String, Value>, key: &str) -> &'a str {
    map.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn put(map: &mut Map<String, Value>, key: &str, value: Value) {
    if !map.contains_key(key) {
        map.insert(key.to_owned(), value);
    }
}

/// Returns the tag of an image reference; `latest` if it has no tag and no digest.
fn tag(image: &str) -> &str {
    if image.contains('@') {
        return "";
    }
    let last = image.rsplit('/').next().unwrap_or_default();
    match last.split_once(':') {
        Some((_, tag)) => tag,
        None if image.is_empty() => "",
        None => "latest",
    }
}

/// Sets the conditional defaults of one struct, before the defaults of its fields.
fn before(name: &str, map: &mut Map<String, Value>) {
    match name {
        "Container" | "EphemeralContainer" if text(map, "imagePullPolicy").is_empty() => {
            let always = tag(text(map, "image")) == "latest";
            let policy = if always { "Always" } else { "IfNotPresent" };
            map.insert("imagePullPolicy".into(), policy.into());
        }
        "PodSpec" => {
            put(map, "securityContext", json!({}));
            let account = text(map, "serviceAccountName").to_owned();
            let old = text(map, "serviceAccount").to_owned();
            if account.is_empty() && !old.is_empty() {
                map.insert("serviceAccountName".into(), old.into());
            } else if !account.is_empty() {
                map.insert("serviceAccount".into(), account.into());
            }
        }
        "Volume" if map.keys().all(|key| key == "name") => {
            map.insert("emptyDir".into(), json!({}));
        }
        "DeploymentStrategy" | "DaemonSetUpdateStrategy" => {
            if matches!(text(map, "type"), "" | "RollingUpdate") {
                put(map, "rollingUpdate", json!({}));
            }
        }
        "StatefulSetUpdateStrategy" if text(map, "type").is_empty() => {
            put(map, "rollingUpdate", json!({}));
        }
        "StatefulSetSpec" => {
            put(map, "persistentVolumeClaimRetentionPolicy", json!({}));
            let claims = map
                .get_mut("volumeClaimTemplates")
                .and_then(Value::as_array_mut);
            for claim in claims.into_iter().flatten() {
                claim["apiVersion"] = "v1".into();
                claim["kind"] = "PersistentVolumeClaim".into();
            }
        }
        "NetworkPolicySpec" if absent(map, "policyTypes") => {
            let types = if absent(map, "egress") {
                json!(["Ingress"])
            } else {
                json!(["Ingress", "Egress"])
            };
            map.insert("policyTypes".into(), types);
        }
        "ServiceSpec" => service(map),
        "MutatingWebhook" | "ValidatingWebhook" => {
            put(map, "namespaceSelector", json!({}));
            put(map, "objectSelector", json!({}));
        }
        "MatchResources" => {
            put(map, "namespaceSelector", json!({}));
            put(map, "objectSelector", json!({}));
        }
        "PersistentVolumeSpec" => {
            put(map, "persistentVolumeReclaimPolicy", "Retain".into());
            put(map, "volumeMode", "Filesystem".into());
        }
        "Subject" if absent(map, "apiGroup") && matches!(text(map, "kind"), "User" | "Group") => {
            map.insert("apiGroup".into(), "rbac.authorization.k8s.io".into());
        }
        _ => {}
    }
}

fn host_ports(map: &mut Map<String, Value>) {
    for list in ["containers", "initContainers"] {
        let containers = map.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let ports = container.get_mut("ports").and_then(Value::as_array_mut);
            for port in ports.into_iter().flatten() {
                if port.get("hostPort").is_none() {
                    port["hostPort"] = port["containerPort"].clone();
                }
            }
        }
    }
}

fn service(map: &mut Map<String, Value>) {
    let kind = match text(map, "type") {
        "" => "ClusterIP",
        other => other,
    }
    .to_owned();
    match text(map, "sessionAffinity") {
        "" | "None" => {
            map.remove("sessionAffinityConfig");
        }
        "ClientIP" => {
            let given = map
                .get("sessionAffinityConfig")
                .and_then(|config| config.pointer("/clientIP/timeoutSeconds"))
                .is_some();
            if !given {
                let config = json!({"clientIP": {"timeoutSeconds": 10800}});
                map.insert("sessionAffinityConfig".into(), config);
            }
        }
        _ => {}
    }
    for port in map
        .get_mut("ports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        if is_zero(&port["targetPort"]) {
            port["targetPort"] = port["port"].clone();
        }
    }
    if kind != "ExternalName" {
        put(map, "internalTrafficPolicy", "Cluster".into());
    }
    let external = matches!(kind.as_str(), "NodePort" | "LoadBalancer")
        || (kind == "ClusterIP" && !absent(map, "externalIPs"));
    if external && text(map, "externalTrafficPolicy").is_empty() {
        map.insert("externalTrafficPolicy".into(), "Cluster".into());
    }
    if kind == "LoadBalancer" {
        put(map, "allocateLoadBalancerNodePorts", true.into());
    }
}

fn job(map: &mut Map<String, Value>) {
    if !map.contains_key("completions") && !map.contains_key("parallelism") {
        map.insert("completions".into(), 1.into());
    }
    put(map, "parallelism", 1.into());
    put(
        map,
        "backoffLimit",
        if map.contains_key("backoffLimitPerIndex") {
            i32::MAX.into()
        } else {
            6.into()
        },
    );
    put(map, "completionMode", "NonIndexed".into());
    put(map, "suspend", false.into());
    put(map, "manualSelector", false.into());
    let policy = if map.contains_key("podFailurePolicy") {
        "Failed"
    } else {
        "TerminatingOrFailed"
    };
    put(map, "podReplacementPolicy", policy.into());
}

/// Sets the conditional defaults of whole objects.
fn root(kind: &str, object: &mut Value) {
    match kind {
        "Namespace" => {
            let name = object["metadata"]["name"].clone();
            if name.as_str().is_some_and(|name| !name.is_empty()) {
                object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
            }
        }
        "Pod" => pod(object),
        "ReplicationController" => copy_labels(object),
        "Job" => {
            if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
                job(spec);
            }
        }
        "Secret" => move_text_data(object),
        "DaemonSet" => {
            let key = "deprecated.daemonset.template.generation";
            let annotations = &mut object["metadata"]["annotations"];
            if annotations.get(key).is_none() {
                annotations[key] = "0".into();
            }
        }
        "RoleBinding" | "ClusterRoleBinding" => {
            let subjects = object.get_mut("subjects").and_then(Value::as_array_mut);
            for subject in subjects.into_iter().flatten() {
                if subject.get("kind") == Some(&json!("ServiceAccount"))
                    && subject["apiGroup"] == ""
                {
                    remove(subject, "apiGroup");
                }
            }
        }
        "HorizontalPodAutoscaler" => autoscaler(object),
        "LimitRange" => limit_range(object),
        "CustomResourceDefinition" => definition(object),
        _ => {}
    }
}

fn remove(value: &mut Value, key: &str) {
    if let Some(map) = value.as_object_mut() {
        map.remove(key);
    }
}

fn pod(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    put(spec, "enableServiceLinks", true.into());
    if spec.get("hostNetwork") == Some(&Value::Bool(true)) {
        host_ports(spec);
    }
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let limits = container.pointer("/resources/limits").cloned();
            for (name, limit) in limits
                .as_ref()
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
            {
                let requests = &mut container["resources"]["requests"];
                if requests.get(name).is_none() {
                    requests[name] = limit.clone();
                }
            }
        }
    }
}

/// Copies the labels of a ReplicationController from its template.
fn copy_labels(object: &mut Value) {
    let labels = object.pointer("/spec/template/metadata/labels").cloned();
    if let Some(labels) = labels.filter(|labels| !is_zero(labels))
        && object["metadata"].get("labels").is_none()
    {
        object["metadata"]["labels"] = labels.clone();
        if object["spec"].get("selector").is_none() {
            object["spec"]["selector"] = labels;
        }
    }
}

/// Moves `stringData` to `data`.
fn move_text_data(object: &mut Value) {
    use base64::Engine as _;
    let Some(Value::Object(texts)) = object.as_object_mut().and_then(|o| o.remove("stringData"))
    else {
        return;
    };
    for (key, value) in texts {
        let encoded =
            base64::engine::general_purpose::STANDARD.encode(value.as_str().unwrap_or_default());
        object["data"][key] = encoded.into();
    }
}

fn autoscaler(object: &mut Value) {
    let old = object["apiVersion"] == "autoscaling/v1";
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    if old {
        put(spec, "targetCPUUtilizationPercentage", 80.into());
        return;
    }
    put(
        spec,
        "metrics",
        json!([{"type": "Resource", "resource": {
            "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80},
        }}]),
    );
    let Some(behavior) = spec.get_mut("behavior").and_then(Value::as_object_mut) else {
        return;
    };
    let up = json!({"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ]});
    let down = json!({"selectPolicy": "Max", "policies": [
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ]});
    for (name, defaults) in [("scaleUp", up), ("scaleDown", down)] {
        let rules = behavior.entry(name).or_insert_with(|| json!({}));
        if let (Value::Object(rules), Value::Object(defaults)) = (rules, defaults) {
            for (key, value) in defaults {
                put(rules, &key, value);
            }
        }
    }
}

fn limit_range(object: &mut Value) {
    let limits = object
        .pointer_mut("/spec/limits")
        .and_then(Value::as_array_mut);
    for item in limits.into_iter().flatten() {
        if item["type"] != "Container" {
            continue;
        }
        let merge = |item: &mut Value, from: &str, to: &str| {
            let values = item.get(from).cloned().unwrap_or_default();
            for (name, value) in values.as_object().into_iter().flatten() {
                if item[to].get(name).is_none() {
                    item[to][name] = value.clone();
                }
            }
        };
        merge(item, "max", "default");
        merge(item, "default", "defaultRequest");
        merge(item, "min", "defaultRequest");
    }
}

fn definition(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    put(spec, "conversion", json!({"strategy": "None"}));
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = text(names, "kind").to_owned();
        if text(names, "singular").is_empty() && !kind.is_empty() {
            names.insert("singular".into(), kind.to_lowercase().into());
        }
        if text(names, "listKind").is_empty() && !kind.is_empty() {
            names.insert("listKind".into(), format!("{kind}List").into());
        }
    }
}
