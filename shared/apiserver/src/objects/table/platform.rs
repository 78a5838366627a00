//! The columns of built-in kinds of scaling, storage, scheduling, endpoints and events.

use serde_json::Value;

use super::cells::{ColumnSpec, WIDE, containers_at, count, images_at, number, pairs, text};

/// Returns a list in a cell, shortened to three items.
fn shortened(all: &[String], none: &str) -> Value {
    match all {
        [] => none.into(),
        [a, b, c, more @ ..] if !more.is_empty() => {
            format!("{a},{b},{c} + {} more...", more.len()).into()
        }
        few => few.join(",").into(),
    }
}

fn list<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    let list = object.pointer(pointer).and_then(Value::as_array);
    list.into_iter().flatten()
}

fn texts(object: &Value, pointer: &str) -> Vec<String> {
    object
        .pointer(pointer)
        .map(crate::values::texts)
        .unwrap_or_default()
}

fn truth(object: &Value, pointer: &str, default: bool) -> bool {
    object
        .pointer(pointer)
        .and_then(Value::as_bool)
        .unwrap_or(default)
}

/// Returns the string or number at a pointer; `none` if it is absent.
fn value_or(object: &Value, pointer: &str, none: &str) -> Value {
    match object.pointer(pointer) {
        Some(Value::String(text)) => text.clone().into(),
        Some(Value::Number(number)) => number.to_string().into(),
        _ => none.into(),
    }
}

/// Returns the current and the target value of each metric: `cpu: <unknown>/60%`.
fn metrics(object: &Value) -> Value {
    let mut all: Vec<String> = list(object, "/spec/metrics")
        .enumerate()
        .map(|(index, spec)| metric(spec, &object["status"]["currentMetrics"][index]))
        .collect();
    let more = all.len().saturating_sub(2);
    all.truncate(2);
    match (all.is_empty(), more) {
        (true, _) => "<none>".into(),
        (false, 0) => all.join(", ").into(),
        (false, more) => format!("{} + {more} more...", all.join(", ")).into(),
    }
}

fn metric(spec: &Value, status: &Value) -> String {
    let key = match spec["type"].as_str().unwrap_or_default() {
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        "Pods" => "pods",
        "Object" => "object",
        "External" => "external",
        _ => return "<unknown type>".to_owned(),
    };
    let (target, current) = (&spec[key]["target"], &status[key]["current"]);
    let value = |name: &str| {
        let of = |from: &Value| from[name].as_str().map(str::to_owned);
        (
            of(current).unwrap_or_else(|| "<unknown>".into()),
            of(target),
        )
    };
    let utilization = |from: &Value| from["averageUtilization"].as_i64().map(|n| format!("{n}%"));
    let named =
        |text: String| format!("{}: {text}", spec[key]["name"].as_str().unwrap_or_default());
    let (average, wanted) = value("averageValue");
    match (key, wanted) {
        ("resource" | "containerResource", Some(wanted)) => named(format!("{average}/{wanted}")),
        ("resource" | "containerResource", None) => named(format!(
            "{}/{}",
            utilization(current).unwrap_or_else(|| "<unknown>".into()),
            utilization(target).unwrap_or_else(|| "<auto>".into())
        )),
        ("pods", Some(wanted)) => format!("{average}/{wanted}"),
        (_, Some(wanted)) => format!("{average}/{wanted} (avg)"),
        (_, None) => {
            let (current, wanted) = value("value");
            format!("{current}/{}", wanted.unwrap_or_default())
        }
    }
}

fn modes(object: &Value, pointer: &str) -> Value {
    let short = |mode: &String| match mode.as_str() {
        "ReadWriteOnce" => "RWO",
        "ReadOnlyMany" => "ROX",
        "ReadWriteMany" => "RWX",
        "ReadWriteOncePod" => "RWOP",
        _ => "",
    };
    let all: Vec<&str> = texts(object, pointer).iter().map(short).collect();
    all.join(",").into()
}

/// Returns the name, and whether it is the default of its kind.
fn default_marked(object: &Value, annotation: &str) -> Value {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    if object["metadata"]["annotations"][annotation] == "true" {
        format!("{name} (default)").into()
    } else {
        name.into()
    }
}

fn parameters(object: &Value) -> Value {
    let of = &object["spec"]["parameters"];
    let part = |key: &str| of[key].as_str().unwrap_or_default();
    match (of.is_object(), part("apiGroup")) {
        (false, _) => "<none>".into(),
        (true, "") => format!("{}/{}", part("kind"), part("name")).into(),
        (true, group) => format!("{}.{group}/{}", part("kind"), part("name")).into(),
    }
}

fn endpoints(object: &Value) -> Value {
    let mut all = Vec::new();
    for subset in list(object, "/subsets") {
        let addresses: Vec<&str> = list(subset, "/addresses")
            .filter_map(|address| address["ip"].as_str())
            .collect();
        if count(subset, "/ports") == 0 {
            all.extend(addresses.iter().map(|ip| (*ip).to_owned()));
        }
        for port in list(subset, "/ports") {
            all.extend(addresses.iter().map(|ip| format!("{ip}:{}", port["port"])));
        }
    }
    shortened(&all, "<none>")
}

fn slice_ports(object: &Value) -> Value {
    let all: Vec<String> = list(object, "/ports")
        .map(
            |port| match (port["port"].as_i64(), port["name"].as_str()) {
                (Some(number), _) => number.to_string(),
                (None, Some(name)) => name.to_owned(),
                (None, None) => "*".to_owned(),
            },
        )
        .collect();
    shortened(&all, "<unset>")
}

fn slice_addresses(object: &Value) -> Value {
    let all: Vec<String> = list(object, "/endpoints")
        .flat_map(|endpoint| texts(endpoint, "/addresses"))
        .collect();
    shortened(&all, "<unset>")
}

fn involved(object: &Value) -> Value {
    let part = |key: &str| object["involvedObject"][key].as_str().unwrap_or_default();
    let kind = part("kind").to_lowercase();
    match part("name") {
        "" => kind.into(),
        name => format!("{kind}/{name}").into(),
    }
}

fn source(object: &Value) -> Value {
    let first = |a: &str, b: &str| match text(object, a) {
        Value::String(found) if !found.is_empty() => found,
        _ => text(object, b).as_str().unwrap_or_default().to_owned(),
    };
    let component = first("/source/component", "/reportingComponent");
    match first("/source/host", "/reportingInstance") {
        host if host.is_empty() => component.into(),
        host => format!("{component}, {host}").into(),
    }
}

fn times(object: &Value) -> Value {
    let of = |pointer: &str| number(object, pointer);
    let count = if object.pointer("/series").is_some_and(Value::is_object) {
        of("/series/count")
    } else {
        of("/count").max(1)
    };
    count.into()
}

pub(super) const SCALER: &[ColumnSpec] = &[
    ("Reference", "string", 0, |o| {
        let part = |key: &str| {
            o["spec"]["scaleTargetRef"][key]
                .as_str()
                .unwrap_or_default()
        };
        format!("{}/{}", part("kind"), part("name")).into()
    }),
    ("Targets", "string", 0, metrics),
    ("MinPods", "string", 0, |o| {
        value_or(o, "/spec/minReplicas", "<unset>")
    }),
    ("MaxPods", "string", 0, |o| {
        number(o, "/spec/maxReplicas").into()
    }),
    ("Replicas", "string", 0, |o| {
        number(o, "/status/currentReplicas").into()
    }),
];
pub(super) const DISRUPTION_BUDGET: &[ColumnSpec] = &[
    ("Min Available", "string", 0, |o| {
        value_or(o, "/spec/minAvailable", "N/A")
    }),
    ("Max Unavailable", "string", 0, |o| {
        value_or(o, "/spec/maxUnavailable", "N/A")
    }),
    ("Allowed Disruptions", "integer", 0, |o| {
        number(o, "/status/disruptionsAllowed").into()
    }),
];
pub(super) const CRON_JOB: &[ColumnSpec] = &[
    ("Schedule", "string", 0, |o| text(o, "/spec/schedule")),
    ("Timezone", "string", 0, |o| {
        value_or(o, "/spec/timeZone", "<none>")
    }),
    ("Suspend", "boolean", 0, |o| {
        match o.pointer("/spec/suspend").and_then(Value::as_bool) {
            Some(true) => "True".into(),
            Some(false) => "False".into(),
            None => "<unset>".into(),
        }
    }),
    ("Active", "integer", 0, |o| {
        count(o, "/status/active").into()
    }),
    ("Last Schedule", "string", 0, |_| "<none>".into()),
    ("Containers", "string", WIDE, |o| {
        containers_at(o, "/spec/jobTemplate/spec/template/spec/containers")
    }),
    ("Images", "string", WIDE, |o| {
        images_at(o, "/spec/jobTemplate/spec/template/spec/containers")
    }),
    ("Selector", "string", WIDE, |o| {
        pairs(o.pointer("/spec/jobTemplate/spec/selector/matchLabels")).into()
    }),
];
pub(super) const VOLUME: &[ColumnSpec] = &[
    ("Capacity", "string", 0, |o| {
        value_or(o, "/spec/capacity/storage", "0")
    }),
    ("Access Modes", "string", 0, |o| {
        modes(o, "/spec/accessModes")
    }),
    ("Reclaim Policy", "string", 0, |o| {
        text(o, "/spec/persistentVolumeReclaimPolicy")
    }),
    ("Status", "string", 0, |o| {
        if o["metadata"].get("deletionTimestamp").is_some() {
            "Terminating".into()
        } else {
            text(o, "/status/phase")
        }
    }),
    ("Claim", "string", 0, |o| {
        let part = |key: &str| o["spec"]["claimRef"][key].as_str().unwrap_or_default();
        match part("name") {
            "" => "".into(),
            name => format!("{}/{name}", part("namespace")).into(),
        }
    }),
    ("StorageClass", "string", 0, |o| {
        text(o, "/spec/storageClassName")
    }),
    ("VolumeAttributesClass", "string", 0, |o| {
        value_or(o, "/spec/volumeAttributesClassName", "<unset>")
    }),
    ("Reason", "string", 0, |o| text(o, "/status/reason")),
    ("VolumeMode", "string", WIDE, |o| {
        value_or(o, "/spec/volumeMode", "<unset>")
    }),
];
pub(super) const STORAGE_CLASS: &[ColumnSpec] = &[
    ("Name", "string", 0, |o| {
        default_marked(o, "storageclass.kubernetes.io/is-default-class")
    }),
    ("Provisioner", "string", 0, |o| text(o, "/provisioner")),
    ("ReclaimPolicy", "string", 0, |o| {
        value_or(o, "/reclaimPolicy", "Delete")
    }),
    ("VolumeBindingMode", "string", 0, |o| {
        value_or(o, "/volumeBindingMode", "Immediate")
    }),
    ("AllowVolumeExpansion", "string", 0, |o| {
        truth(o, "/allowVolumeExpansion", false).into()
    }),
];
pub(super) const INGRESS_CLASS: &[ColumnSpec] = &[
    ("Name", "string", 0, |o| {
        default_marked(o, "ingressclass.kubernetes.io/is-default-class")
    }),
    ("Controller", "string", 0, |o| text(o, "/spec/controller")),
    ("Parameters", "string", 0, parameters),
];
pub(super) const PRIORITY_CLASS: &[ColumnSpec] = &[
    ("Value", "integer", 0, |o| number(o, "/value").into()),
    ("Global-Default", "boolean", 0, |o| {
        truth(o, "/globalDefault", false).into()
    }),
    ("Age", "string", 0, |_| "<unknown>".into()),
    ("PreemptionPolicy", "string", 0, |o| {
        text(o, "/preemptionPolicy")
    }),
];
pub(super) const LEASE: &[ColumnSpec] =
    &[("Holder", "string", 0, |o| text(o, "/spec/holderIdentity"))];
pub(super) const RUNTIME_CLASS: &[ColumnSpec] =
    &[("Handler", "string", 0, |o| text(o, "/handler"))];
pub(super) const WEBHOOKS: &[ColumnSpec] =
    &[("Webhooks", "integer", 0, |o| count(o, "/webhooks").into())];
pub(super) const SERVICE_CIDR: &[ColumnSpec] = &[("CIDRs", "string", 0, |o| {
    texts(o, "/spec/cidrs").join(",").into()
})];
pub(super) const ENDPOINTS: &[ColumnSpec] = &[("Endpoints", "string", 0, endpoints)];
pub(super) const ENDPOINT_SLICE: &[ColumnSpec] = &[
    ("AddressType", "string", 0, |o| text(o, "/addressType")),
    ("Ports", "string", 0, slice_ports),
    ("Endpoints", "string", 0, slice_addresses),
];
pub(super) const EVENT: &[ColumnSpec] = &[
    ("Last Seen", "string", 0, |_| "<unknown>".into()),
    ("Type", "string", 0, |o| text(o, "/type")),
    ("Reason", "string", 0, |o| text(o, "/reason")),
    ("Object", "string", 0, involved),
    ("Subobject", "string", WIDE, |o| {
        text(o, "/involvedObject/fieldPath")
    }),
    ("Source", "string", WIDE, source),
    ("Message", "string", 0, |o| {
        o["message"].as_str().unwrap_or_default().trim().into()
    }),
    ("First Seen", "string", WIDE, |_| "<unknown>".into()),
    ("Count", "string", WIDE, times),
    ("Name", "string", WIDE, |o| text(o, "/metadata/name")),
];

/// Returns the pointers to the times whose age a column shows; the first that is set is used.
pub(super) fn times_of(plural: &str, column: &str) -> &'static [&'static str] {
    match (plural, column) {
        (_, "Age") => &["/metadata/creationTimestamp"],
        ("cronjobs", "Last Schedule") => &["/status/lastScheduleTime"],
        ("events", "Last Seen") => &[
            "/series/lastObservedTime",
            "/lastTimestamp",
            "/firstTimestamp",
            "/eventTime",
        ],
        ("events", "First Seen") => &["/firstTimestamp", "/eventTime"],
        _ => &[],
    }
}
