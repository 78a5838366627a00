//! The columns of built-in kinds.

use serde_json::Value;

use super::cells::{ColumnSpec, WIDE, containers_at, count, images_at, names, number, pairs, text};
use super::platform;
use crate::resources::Resource;

/// Kinds whose table shows no age.
pub(super) const AGELESS: [&str; 2] = ["events", "podtemplates"];

fn containers(object: &Value) -> Value {
    containers_at(object, "/spec/template/spec/containers")
}

fn images(object: &Value) -> Value {
    images_at(object, "/spec/template/spec/containers")
}

fn selector(object: &Value) -> Value {
    // The selector of a ReplicationController is the map of labels itself.
    let selector = &object["spec"]["selector"];
    if object["kind"] == "ReplicationController" {
        pairs(Some(selector)).into()
    } else {
        pairs(selector.get("matchLabels")).into()
    }
}

fn addresses(object: &Value) -> Value {
    let kind = object["spec"]["type"].as_str().unwrap_or_default();
    let listed = crate::values::texts(&object["spec"]["externalIPs"]);
    let text = match kind {
        "ExternalName" => object["spec"]["externalName"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        "LoadBalancer" => {
            let ingress = object
                .pointer("/status/loadBalancer/ingress")
                .and_then(Value::as_array);
            let mut all: Vec<String> = ingress
                .into_iter()
                .flatten()
                .filter_map(|i| i["ip"].as_str().or(i["hostname"].as_str()))
                .map(str::to_owned)
                .collect();
            all.extend(listed);
            if all.is_empty() {
                "<pending>".to_owned()
            } else {
                all.join(",")
            }
        }
        _ if listed.is_empty() => "<none>".to_owned(),
        _ => listed.join(","),
    };
    text.into()
}

fn ports(object: &Value) -> Value {
    let ports: Vec<String> = object["spec"]["ports"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|port| {
            let protocol = port["protocol"].as_str().unwrap_or_default();
            match port["nodePort"].as_i64() {
                Some(node) => format!("{}:{node}/{protocol}", port["port"]),
                None => format!("{}/{protocol}", port["port"]),
            }
        })
        .collect();
    if ports.is_empty() {
        "<none>".into()
    } else {
        ports.join(",").into()
    }
}

fn ready(object: &Value) -> Value {
    format!(
        "{}/{}",
        number(object, "/status/readyReplicas"),
        number(object, "/spec/replicas")
    )
    .into()
}

fn or_none(text: Value) -> Value {
    match text {
        Value::String(text) if text.is_empty() => "<none>".into(),
        other => other,
    }
}

fn hosts(object: &Value) -> Value {
    let rules = object.pointer("/spec/rules").and_then(Value::as_array);
    let hosts: Vec<&str> = rules
        .into_iter()
        .flatten()
        .filter_map(|rule| rule["host"].as_str())
        .collect();
    match hosts.as_slice() {
        [] => "*".into(),
        [a, b, c, more @ ..] if !more.is_empty() => {
            format!("{a},{b},{c} + {} more...", more.len()).into()
        }
        all => all.join(",").into(),
    }
}

fn job_status(object: &Value) -> Value {
    let conditions = object
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let has = |kind: &str| {
        conditions.is_some_and(|list| {
            list.iter()
                .any(|c| c["type"] == kind && c["status"] == "True")
        })
    };
    for kind in ["Complete", "Failed"] {
        if has(kind) {
            return kind.into();
        }
    }
    if object["metadata"].get("deletionTimestamp").is_some() {
        "Terminating".into()
    } else if has("Suspended") {
        "Suspended".into()
    } else {
        "Running".into()
    }
}

fn phase(object: &Value) -> Value {
    text(object, "/status/phase")
}

fn role(object: &Value) -> Value {
    format!(
        "{}/{}",
        object["roleRef"]["kind"].as_str().unwrap_or_default(),
        object["roleRef"]["name"].as_str().unwrap_or_default()
    )
    .into()
}

fn subjects(object: &Value, kind: &str) -> Value {
    let all: Vec<String> = object["subjects"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|subject| subject["kind"] == kind)
        .map(|subject| {
            let name = subject["name"].as_str().unwrap_or_default();
            match subject["namespace"].as_str() {
                Some(namespace) if kind == "ServiceAccount" => format!("{namespace}/{name}"),
                _ => name.to_owned(),
            }
        })
        .collect();
    all.join(", ").into()
}

/// Returns `used/hard` of a quota, for limits or for everything else.
fn usage(object: &Value, limits: bool) -> Value {
    let hard = object["status"]["hard"].as_object();
    let mut cells = Vec::new();
    for (name, hard) in hard.into_iter().flatten() {
        if name.starts_with("limits.") == limits {
            let used = object["status"]["used"][name].as_str().unwrap_or("0");
            let hard = hard.as_str().unwrap_or_default();
            cells.push(format!("{name}: {used}/{hard}"));
        }
    }
    cells.join(", ").into()
}

const CONFIG_MAP: &[ColumnSpec] = &[("Data", "string", 0, |o| {
    (count(o, "/data") + count(o, "/binaryData")).into()
})];
const SECRET: &[ColumnSpec] = &[
    ("Type", "string", 0, |o| text(o, "/type")),
    ("Data", "string", 0, |o| count(o, "/data").into()),
];
const NAMESPACE: &[ColumnSpec] = &[("Status", "string", 0, phase)];
const ACCOUNT: &[ColumnSpec] = &[];
const INGRESS: &[ColumnSpec] = &[
    ("Class", "string", 0, |o| {
        or_none(text(o, "/spec/ingressClassName"))
    }),
    ("Hosts", "string", 0, hosts),
    ("Address", "string", 0, |o| {
        names(o, "/status/loadBalancer/ingress", "ip")
    }),
    ("Ports", "string", 0, |o| {
        if count(o, "/spec/tls") > 0 {
            "80, 443".into()
        } else {
            "80".into()
        }
    }),
];
const JOB: &[ColumnSpec] = &[
    ("Status", "string", 0, job_status),
    ("Completions", "string", 0, |o| {
        format!(
            "{}/{}",
            number(o, "/status/succeeded"),
            number(o, "/spec/completions")
        )
        .into()
    }),
    ("Duration", "string", 0, |_| "".into()),
    ("Containers", "string", WIDE, containers),
    ("Images", "string", WIDE, images),
    ("Selector", "string", WIDE, selector),
];
const POD: &[ColumnSpec] = &[
    ("Ready", "string", 0, |o| {
        let ready = o
            .pointer("/status/containerStatuses")
            .and_then(Value::as_array);
        let ready = ready
            .into_iter()
            .flatten()
            .filter(|c| c["ready"] == true)
            .count();
        format!("{ready}/{}", count(o, "/spec/containers")).into()
    }),
    ("Status", "string", 0, phase),
    ("Restarts", "string", 0, |_| "0".into()),
    ("IP", "string", WIDE, |o| or_none(text(o, "/status/podIP"))),
    ("Node", "string", WIDE, |o| {
        or_none(text(o, "/spec/nodeName"))
    }),
    ("Nominated Node", "string", WIDE, |o| {
        or_none(text(o, "/status/nominatedNodeName"))
    }),
    ("Readiness Gates", "string", WIDE, |_| "<none>".into()),
];
const CLAIM: &[ColumnSpec] = &[
    ("Status", "string", 0, phase),
    ("Volume", "string", 0, |o| text(o, "/spec/volumeName")),
    ("Capacity", "string", 0, |o| {
        text(o, "/status/capacity/storage")
    }),
    ("Access Modes", "string", 0, |_| "".into()),
    ("StorageClass", "string", 0, |o| {
        text(o, "/spec/storageClassName")
    }),
    ("VolumeAttributesClass", "string", 0, |o| {
        match text(o, "/spec/volumeAttributesClassName") {
            Value::String(name) if name.is_empty() => "<unset>".into(),
            other => other,
        }
    }),
    ("VolumeMode", "string", WIDE, |o| {
        text(o, "/spec/volumeMode")
    }),
];
const SERVICE: &[ColumnSpec] = &[
    ("Type", "string", 0, |o| text(o, "/spec/type")),
    ("Cluster-IP", "string", 0, |o| {
        match text(o, "/spec/clusterIP") {
            Value::String(ip) if ip.is_empty() => "<none>".into(),
            other => other,
        }
    }),
    ("External-IP", "string", 0, addresses),
    ("Port(s)", "string", 0, ports),
    ("Selector", "string", WIDE, |o| {
        pairs(o.pointer("/spec/selector")).into()
    }),
];
const DEPLOYMENT: &[ColumnSpec] = &[
    ("Ready", "string", 0, ready),
    ("Up-to-date", "string", 0, |o| {
        number(o, "/status/updatedReplicas").into()
    }),
    ("Available", "string", 0, |o| {
        number(o, "/status/availableReplicas").into()
    }),
    ("Containers", "string", WIDE, containers),
    ("Images", "string", WIDE, images),
    ("Selector", "string", WIDE, selector),
];
const STATEFUL_SET: &[ColumnSpec] = &[
    ("Ready", "string", 0, ready),
    ("Containers", "string", WIDE, containers),
    ("Images", "string", WIDE, images),
];
const REPLICA_SET: &[ColumnSpec] = &[
    ("Desired", "integer", 0, |o| {
        number(o, "/spec/replicas").into()
    }),
    ("Current", "integer", 0, |o| {
        number(o, "/status/replicas").into()
    }),
    ("Ready", "integer", 0, |o| {
        number(o, "/status/readyReplicas").into()
    }),
    ("Containers", "string", WIDE, containers),
    ("Images", "string", WIDE, images),
    ("Selector", "string", WIDE, selector),
];
const DAEMON_SET: &[ColumnSpec] = &[
    ("Desired", "integer", 0, |o| {
        number(o, "/status/desiredNumberScheduled").into()
    }),
    ("Current", "integer", 0, |o| {
        number(o, "/status/currentNumberScheduled").into()
    }),
    ("Ready", "integer", 0, |o| {
        number(o, "/status/numberReady").into()
    }),
    ("Up-to-date", "integer", 0, |o| {
        number(o, "/status/updatedNumberScheduled").into()
    }),
    ("Available", "integer", 0, |o| {
        number(o, "/status/numberAvailable").into()
    }),
    ("Node Selector", "string", 0, |o| {
        pairs(o.pointer("/spec/template/spec/nodeSelector")).into()
    }),
    ("Containers", "string", WIDE, containers),
    ("Images", "string", WIDE, images),
    ("Selector", "string", WIDE, selector),
];
const ROLE_BINDING: &[ColumnSpec] = &[
    ("Role", "string", 0, role),
    ("Users", "string", WIDE, |o| subjects(o, "User")),
    ("Groups", "string", WIDE, |o| subjects(o, "Group")),
    ("ServiceAccounts", "string", WIDE, |o| {
        subjects(o, "ServiceAccount")
    }),
];
const QUOTA: &[ColumnSpec] = &[
    ("Request", "string", 0, |o| usage(o, false)),
    ("Limit", "string", 0, |o| usage(o, true)),
];
const POD_TEMPLATE: &[ColumnSpec] = &[
    ("Containers", "string", 0, |o| {
        containers_at(o, "/template/spec/containers")
    }),
    ("Images", "string", 0, |o| {
        images_at(o, "/template/spec/containers")
    }),
    ("Pod Labels", "string", 0, |o| {
        pairs(o.pointer("/template/metadata/labels")).into()
    }),
];
const NETWORK_POLICY: &[ColumnSpec] = &[("Pod-Selector", "string", 0, |o| {
    pairs(o.pointer("/spec/podSelector/matchLabels")).into()
})];

/// Returns the columns between the name and the rest; `None` for kinds that show only their
/// creation time.
pub(super) fn columns(resource: &Resource) -> Option<&'static [ColumnSpec]> {
    Some(match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "configmaps") => CONFIG_MAP,
        ("", "secrets") => SECRET,
        ("", "namespaces") => NAMESPACE,
        ("", "serviceaccounts") => ACCOUNT,
        ("", "services") => SERVICE,
        ("apps", "deployments") => DEPLOYMENT,
        ("apps", "statefulsets") => STATEFUL_SET,
        ("apps", "replicasets") | ("", "replicationcontrollers") => REPLICA_SET,
        ("apps", "daemonsets") => DAEMON_SET,
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => ROLE_BINDING,
        ("networking.k8s.io", "networkpolicies") => NETWORK_POLICY,
        ("networking.k8s.io", "ingresses") => INGRESS,
        ("batch", "jobs") => JOB,
        ("", "pods") => POD,
        ("", "resourcequotas") => QUOTA,
        ("", "podtemplates") => POD_TEMPLATE,
        ("", "persistentvolumes") => platform::VOLUME,
        ("", "endpoints") => platform::ENDPOINTS,
        ("" | "events.k8s.io", "events") => platform::EVENT,
        ("batch", "cronjobs") => platform::CRON_JOB,
        ("policy", "poddisruptionbudgets") => platform::DISRUPTION_BUDGET,
        ("autoscaling", "horizontalpodautoscalers") => platform::SCALER,
        ("storage.k8s.io", "storageclasses") => platform::STORAGE_CLASS,
        ("networking.k8s.io", "ingressclasses") => platform::INGRESS_CLASS,
        ("networking.k8s.io", "servicecidrs") => platform::SERVICE_CIDR,
        ("scheduling.k8s.io", "priorityclasses") => platform::PRIORITY_CLASS,
        ("coordination.k8s.io", "leases") => platform::LEASE,
        ("node.k8s.io", "runtimeclasses") => platform::RUNTIME_CLASS,
        ("discovery.k8s.io", "endpointslices") => platform::ENDPOINT_SLICE,
        (
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations" | "validatingwebhookconfigurations",
        ) => platform::WEBHOOKS,
        ("", "persistentvolumeclaims") => CLAIM,
        _ => return None,
    })
}

/// Returns the position of the age column: before the columns of `-o wide`.
pub(super) fn age_at(own: &[ColumnSpec], before: usize) -> usize {
    let narrow = own.iter().position(|(_, _, priority, _)| *priority > 0);
    before + narrow.unwrap_or(own.len())
}
