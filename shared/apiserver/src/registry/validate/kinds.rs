//! Validation of single kinds.

use serde_json::{Value, json};

use crate::error::FieldError;
use crate::registry::policy;
use crate::resources::Resource;
use crate::values::{is_zero, text, texts};
use driftless_manifest::labels::LabelSelector;
use driftless_manifest::names;

/// Returns the errors of a new or changed object.
pub(super) fn create(resource: &Resource, object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "configmaps") => data_keys(object, &["data", "binaryData"], &mut out),
        ("", "secrets") => data_keys(object, &["data"], &mut out),
        ("apps", "deployments" | "statefulsets" | "daemonsets" | "replicasets") => {
            workload(object, resource, &mut out);
        }
        ("batch", "jobs") => pod_template(object, "spec.template", "Job", &mut out),
        ("", "pods") => pod_spec(&object["spec"], "spec", &mut out),
        ("", "services") => service(object, &mut out),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            binding(object, resource, &mut out);
        }
        ("rbac.authorization.k8s.io", "roles" | "clusterroles") => role(object, resource, &mut out),
        ("networking.k8s.io", "ingresses") => ingress(object, &mut out),
        ("apiextensions.k8s.io", "customresourcedefinitions") => definition(object, &mut out),
        ("autoscaling", "horizontalpodautoscalers") => scaler(object, &mut out),
        ("events.k8s.io", "events") => event(object, &mut out),
        ("", "endpoints") => endpoints(object, &mut out),
        ("admissionregistration.k8s.io", plural) => match plural {
            "validatingadmissionpolicies" => policy::validating(object, &mut out),
            "mutatingadmissionpolicies" => policy::mutating(object, &mut out),
            "validatingadmissionpolicybindings" => policy::binding(object, true, &mut out),
            "mutatingadmissionpolicybindings" => policy::binding(object, false, &mut out),
            _ => {}
        },
        _ => {}
    }
    out
}

fn scaler(object: &Value, out: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    let most = spec["maxReplicas"].as_i64().unwrap_or_default();
    let least = spec["minReplicas"].as_i64();
    if least.is_some_and(|least| least < 1) {
        let detail = "must be greater than or equal to 1";
        out.push(FieldError::invalid(
            "spec.minReplicas",
            &spec["minReplicas"],
            detail,
        ));
    }
    if most < 1 {
        let detail = "must be set and greater than 0";
        out.push(FieldError::required("spec.maxReplicas", detail));
    }
    if least.is_some_and(|least| most < least) {
        let detail = "must be greater than or equal to `minReplicas`";
        out.push(FieldError::invalid(
            "spec.maxReplicas",
            &most.into(),
            detail,
        ));
    }
    let target = &spec["scaleTargetRef"];
    for field in ["kind", "name"] {
        if is_zero(&target[field]) {
            out.push(FieldError::required(
                &format!("spec.scaleTargetRef.{field}"),
                "",
            ));
        }
    }
    if is_zero(&target["apiVersion"]) {
        let detail = "apiVersion must specify API group";
        out.push(FieldError::invalid(
            "spec.scaleTargetRef.apiVersion",
            &"".into(),
            detail,
        ));
    }
}

fn event(object: &Value, out: &mut Vec<FieldError>) {
    if is_zero(&object["eventTime"]) {
        // The real server checks nothing else then.
        out.push(FieldError::required("eventTime", ""));
        return;
    }
    for field in [
        "reportingController",
        "reportingInstance",
        "action",
        "reason",
    ] {
        if is_zero(&object[field]) {
            out.push(FieldError::required(field, ""));
        }
    }
}

fn endpoints(object: &Value, out: &mut Vec<FieldError>) {
    for (at, subset) in object["subsets"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let ports = subset["ports"].as_array();
        let several = ports.is_some_and(|ports| ports.len() > 1);
        for (index, port) in ports.into_iter().flatten().enumerate() {
            if several && is_zero(&port["name"]) {
                out.push(FieldError::required(
                    &format!("subsets[{at}].ports[{index}].name"),
                    "",
                ));
            }
        }
    }
}

fn data_keys(object: &Value, fields: &[&str], out: &mut Vec<FieldError>) {
    let valid = |key: &str| {
        !key.is_empty()
            && key
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    for field in fields {
        for key in object[*field]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, _)| key)
        {
            let path = format!("{field}[{key}]");
            let problem = |detail: &str| FieldError::invalid(&path, &key.as_str().into(), detail);
            if key.len() > 253 {
                out.push(problem("must be no more than 253 bytes"));
            }
            if !valid(key) {
                out.push(problem("a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"));
            } else if key == "." || key == ".." {
                out.push(problem(&format!("must not be '{key}'")));
            }
        }
    }
}

fn workload(object: &Value, resource: &Resource, out: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    for field in ["replicas", "minReadySeconds"] {
        if spec[field].as_i64().is_some_and(|n| n < 0) {
            out.push(FieldError::invalid(
                &format!("spec.{field}"),
                &spec[field],
                "must be greater than or equal to 0",
            ));
        }
    }
    if is_zero(&spec["selector"]) && spec.get("selector").is_none_or(Value::is_null) {
        out.push(FieldError::required("spec.selector", ""));
    } else if is_zero(&spec["selector"]) {
        out.push(FieldError::invalid_raw(
            "spec.selector",
            "{}",
            "empty selector is invalid for deployment",
        ));
    }
    let labels = &spec["template"]["metadata"]["labels"];
    let selected = spec
        .get("selector")
        .is_some_and(|selector| !selector.is_null());
    let matches = selected
        && spec["selector"]["matchLabels"]
            .as_object()
            .into_iter()
            .flatten()
            .all(|(key, value)| labels.get(key) == Some(value));
    if !matches {
        out.push(FieldError::invalid_raw(
            "spec.template.metadata.labels",
            &if labels.is_null() {
                "null".to_owned()
            } else {
                labels.to_string()
            },
            "`selector` does not match template `labels`",
        ));
    }
    pod_template(object, "spec.template", &resource.kind, out);
}

fn pod_template(object: &Value, path: &str, kind: &str, out: &mut Vec<FieldError>) {
    let spec = &object["spec"]["template"]["spec"];
    pod_spec(spec, &format!("{path}.spec"), out);
    let policy = text(spec, "/restartPolicy");
    if kind == "Job" {
        if policy == "Always" || policy.is_empty() {
            out.push(FieldError::required(
                &format!("{path}.spec.restartPolicy"),
                "valid values: \"OnFailure\", \"Never\"",
            ));
        }
    } else if !matches!(policy, "Always" | "") {
        out.push(FieldError::unsupported(
            &format!("{path}.spec.restartPolicy"),
            &policy.into(),
            &["Always"],
        ));
    }
}

fn pod_spec(spec: &Value, path: &str, out: &mut Vec<FieldError>) {
    let volumes: Vec<&str> = spec["volumes"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|volume| text(volume, "/name"))
        .collect();
    let containers = spec["containers"].as_array().cloned().unwrap_or_default();
    if containers.is_empty() {
        out.push(FieldError::required(&format!("{path}.containers"), ""));
    }
    let mut seen: Vec<String> = Vec::new();
    for (index, container) in containers.iter().enumerate() {
        let at = format!("{path}.containers[{index}]");
        let name = text(container, "/name");
        if name.is_empty() {
            out.push(FieldError::required(&format!("{at}.name"), ""));
        } else {
            for detail in names::label(name) {
                out.push(FieldError::invalid(
                    &format!("{at}.name"),
                    &name.into(),
                    &detail,
                ));
            }
        }
        if seen.iter().any(|known| known == name) {
            out.push(FieldError::duplicate(&format!("{at}.name"), &name.into()));
        }
        seen.push(name.to_owned());
        if text(container, "/image").is_empty() {
            out.push(FieldError::required(&format!("{at}.image"), ""));
        }
        ports(container, &at, out);
        for (index, mount) in container["volumeMounts"]
            .as_array()
            .into_iter()
            .flatten()
            .enumerate()
        {
            let name = text(mount, "/name");
            if !volumes.contains(&name) {
                out.push(FieldError {
                    kind: "FieldValueNotFound",
                    message: format!("Not found: {name:?}"),
                    field: format!("{at}.volumeMounts[{index}].name"),
                });
            }
        }
        resources(container, &at, out);
    }
}

fn ports(container: &Value, at: &str, out: &mut Vec<FieldError>) {
    for (index, port) in container["ports"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let number = port["containerPort"].as_i64().unwrap_or_default();
        let field = format!("{at}.ports[{index}].containerPort");
        if number == 0 {
            out.push(FieldError::required(&field, ""));
        } else if !(1..=65535).contains(&number) {
            out.push(FieldError::invalid(
                &field,
                &number.into(),
                "must be between 1 and 65535, inclusive",
            ));
        }
    }
}

fn resources(container: &Value, at: &str, out: &mut Vec<FieldError>) {
    let own = &container["resources"];
    for (name, request) in own["requests"].as_object().into_iter().flatten() {
        let Some(limit) = own["limits"].get(name) else {
            continue;
        };
        let number = |value: &Value| {
            value
                .as_str()
                .and_then(crate::values::quantity::thousandths)
        };
        if number(request) > number(limit) {
            out.push(FieldError::invalid(
                &format!("{at}.resources.requests"),
                request,
                &format!(
                    "must be less than or equal to {name} limit of {}",
                    limit.as_str().unwrap_or_default()
                ),
            ));
        }
    }
}

fn service(object: &Value, out: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    let kind = text(spec, "/type");
    let known = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if !known.contains(&kind) {
        out.push(FieldError::unsupported("spec.type", &kind.into(), &known));
    }
    let ports = spec["ports"].as_array().cloned().unwrap_or_default();
    let headless = text(spec, "/clusterIP") == "None";
    if ports.is_empty() && kind != "ExternalName" && !headless {
        out.push(FieldError::required("spec.ports", ""));
    }
    for (index, port) in ports.iter().enumerate() {
        let at = format!("spec.ports[{index}]");
        let name = text(port, "/name");
        if ports.len() > 1 && name.is_empty() {
            out.push(FieldError::required(&format!("{at}.name"), ""));
        }
        let number = port["port"].as_i64().unwrap_or_default();
        if !(1..=65535).contains(&number) {
            out.push(FieldError::invalid(
                &format!("{at}.port"),
                &number.into(),
                "must be between 1 and 65535, inclusive",
            ));
        }
        if let Some(target) = port["targetPort"]
            .as_i64()
            .filter(|n| !(1..=65535).contains(n))
        {
            out.push(FieldError::invalid(
                &format!("{at}.targetPort"),
                &target.into(),
                "must be between 1 and 65535, inclusive",
            ));
        }
        let duplicate = ports[..index]
            .iter()
            .any(|p| p["port"] == port["port"] && p["protocol"] == port["protocol"]);
        if duplicate {
            out.push(FieldError::duplicate(
                &at,
                &json!({"port": port["port"], "protocol": port["protocol"]}),
            ));
        }
    }
}

fn binding(object: &Value, resource: &Resource, out: &mut Vec<FieldError>) {
    let role = &object["roleRef"];
    let group = text(role, "/apiGroup");
    if group != "rbac.authorization.k8s.io" {
        out.push(FieldError::unsupported(
            "roleRef.apiGroup",
            &group.into(),
            &["rbac.authorization.k8s.io"],
        ));
    }
    let known: &[&str] = if resource.plural == "rolebindings" {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    let kind = text(role, "/kind");
    if !known.contains(&kind) {
        out.push(FieldError::unsupported("roleRef.kind", &kind.into(), known));
    }
    if text(role, "/name").is_empty() {
        out.push(FieldError::required("roleRef.name", ""));
    }
    for (index, subject) in object["subjects"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let at = format!("subjects[{index}]");
        if text(subject, "/name").is_empty() {
            out.push(FieldError::required(&format!("{at}.name"), ""));
        }
        let kind = text(subject, "/kind");
        let everywhere = resource.plural == "clusterrolebindings";
        if kind == "ServiceAccount" && everywhere && text(subject, "/namespace").is_empty() {
            out.push(FieldError::required(&format!("{at}.namespace"), ""));
        }
        if !matches!(kind, "ServiceAccount" | "User" | "Group") {
            out.push(FieldError::unsupported(
                &format!("{at}.kind"),
                &kind.into(),
                &["ServiceAccount", "User", "Group"],
            ));
        }
    }
}

fn role(object: &Value, resource: &Resource, out: &mut Vec<FieldError>) {
    for (index, rule) in object["rules"].as_array().into_iter().flatten().enumerate() {
        let at = format!("rules[{index}]");
        if is_zero(&rule["verbs"]) {
            out.push(FieldError::required(
                &format!("{at}.verbs"),
                "verbs must contain at least one value",
            ));
        }
        if !is_zero(&rule["nonResourceURLs"]) {
            if resource.plural == "roles" {
                out.push(FieldError::invalid(
                    &format!("{at}.nonResourceURLs"),
                    &rule["nonResourceURLs"],
                    "namespaced rules cannot apply to non-resource URLs",
                ));
            }
            let of_resources = ["apiGroups", "resources", "resourceNames"];
            if of_resources.iter().any(|key| !is_zero(&rule[*key])) {
                out.push(FieldError::invalid(
                    &format!("{at}.nonResourceURLs"),
                    &rule["nonResourceURLs"],
                    "rules cannot apply to both regular resources and non-resource URLs",
                ));
            }
            continue;
        }
        if is_zero(&rule["apiGroups"]) {
            out.push(FieldError::required(
                &format!("{at}.apiGroups"),
                "resource rules must supply at least one api group",
            ));
        }
        if is_zero(&rule["resources"]) {
            out.push(FieldError::required(
                &format!("{at}.resources"),
                "resource rules must supply at least one resource",
            ));
        }
    }
    if object["aggregationRule"].is_object() {
        aggregation(&object["aggregationRule"]["clusterRoleSelectors"], out);
    }
}

fn aggregation(selectors: &Value, out: &mut Vec<FieldError>) {
    const AT: &str = "aggregationRule.clusterRoleSelectors";
    if is_zero(selectors) {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        out.push(FieldError::required(AT, detail));
    }
    for (index, selector) in selectors.as_array().into_iter().flatten().enumerate() {
        let at = format!("{AT}[{index}]");
        label_selector(selector, &at, out);
        if LabelSelector::of_object(selector).is_err() {
            let detail = "invalid label selector.";
            out.push(FieldError::invalid(&at, &Value::Null, detail));
        }
    }
}

/// Adds the errors of a `LabelSelector`.
fn label_selector(selector: &Value, at: &str, out: &mut Vec<FieldError>) {
    let mut refuse = |at: &str, value: &str, problems: Vec<String>| {
        let problems = problems.iter();
        out.extend(problems.map(|detail| FieldError::invalid(at, &value.into(), detail)));
    };
    let labels = format!("{at}.matchLabels");
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        refuse(&labels, key, names::label_key(key));
        refuse(&labels, value, names::label_value(value));
    }
    let expressions = selector["matchExpressions"].as_array();
    for (index, expression) in expressions.into_iter().flatten().enumerate() {
        let at = format!("{at}.matchExpressions[{index}]");
        let key = text(expression, "/key");
        refuse(&format!("{at}.key"), key, names::label_key(key));
        for (index, value) in texts(&expression["values"]).iter().enumerate() {
            let at = format!("{at}.values[{index}]");
            refuse(&at, value, names::label_value(value));
        }
    }
    for (index, expression) in expressions.into_iter().flatten().enumerate() {
        let at = format!("{at}.matchExpressions[{index}]");
        let empty = is_zero(&expression["values"]);
        match text(expression, "/operator") {
            "In" | "NotIn" if empty => out.push(FieldError::required(
                &format!("{at}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if !empty => out.push(FieldError::forbidden(
                &format!("{at}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => out.push(FieldError::invalid(
                &format!("{at}.operator"),
                &other.into(),
                "not a valid selector operator",
            )),
        }
    }
}

fn ingress(object: &Value, out: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    if is_zero(&spec["rules"]) && spec.get("defaultBackend").is_none() {
        out.push(FieldError::invalid_raw(
            "spec",
            "null",
            "either `defaultBackend` or `rules` must be specified",
        ));
    }
    for (index, rule) in spec["rules"].as_array().into_iter().flatten().enumerate() {
        let paths = rule.pointer("/http/paths").and_then(Value::as_array);
        for (at, path) in paths.into_iter().flatten().enumerate() {
            if path.get("pathType").is_none_or(Value::is_null) {
                out.push(FieldError::required(
                    &format!("spec.rules[{index}].http.paths[{at}].pathType"),
                    "pathType must be specified",
                ));
            }
        }
    }
}

fn definition(object: &Value, out: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    let wanted = format!("{}.{}", text(spec, "/names/plural"), text(spec, "/group"));
    let name = text(object, "/metadata/name");
    if name != wanted {
        out.push(FieldError::invalid(
            "metadata.name",
            &name.into(),
            "must be spec.names.plural+\".\"+spec.group",
        ));
    }
    let versions = spec["versions"].as_array().cloned().unwrap_or_default();
    for (index, version) in versions.iter().enumerate() {
        if version.pointer("/schema/openAPIV3Schema").is_none() {
            out.push(FieldError::required(
                &format!("spec.versions[{index}].schema.openAPIV3Schema"),
                "",
            ));
        }
    }
    let stored = versions
        .iter()
        .filter(|version| version["storage"] == true)
        .count();
    if stored != 1 {
        out.push(FieldError::invalid(
            "spec.versions",
            &Value::Array(versions),
            "must have exactly one version marked as storage version",
        ));
    }
}

/// Returns the errors of changed fields that are immutable.
pub(super) fn update(resource: &Resource, live: &Value, new: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let mut frozen = |pointer: &str| {
        let (old, now) = (live.pointer(pointer), new.pointer(pointer));
        if old != now {
            let field = pointer.trim_start_matches('/').replace('/', ".");
            let value = now.cloned().unwrap_or_default();
            out.push(FieldError::invalid(&field, &value, "field is immutable"));
        }
    };
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("apps", "deployments" | "daemonsets" | "replicasets") => frozen("/spec/selector"),
        ("batch", "jobs") => {
            frozen("/spec/selector");
            frozen("/spec/template");
            frozen("/spec/completionMode");
        }
        ("", "secrets") => {
            immutable(live, new, "data", &mut out);
            if live["type"] != new["type"] {
                out.push(FieldError::invalid(
                    "type",
                    &new["type"],
                    "field is immutable",
                ));
            }
        }
        ("", "configmaps") => {
            immutable(live, new, "data", &mut out);
            immutable(live, new, "binaryData", &mut out);
        }
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings")
            if live["roleRef"] != new["roleRef"] =>
        {
            let role = &new["roleRef"];
            let shown = format!(
                "{{\"APIGroup\":{},\"Kind\":{},\"Name\":{}}}",
                role["apiGroup"], role["kind"], role["name"]
            );
            out.push(FieldError::invalid_raw(
                "roleRef",
                &shown,
                "cannot change roleRef",
            ));
        }
        ("apps", "statefulsets") => stateful(live, new, &mut out),
        ("", "services") => {
            let (old, now) = (text(live, "/spec/clusterIP"), text(new, "/spec/clusterIP"));
            if !old.is_empty() && old != now && text(new, "/spec/type") != "ExternalName" {
                out.push(FieldError::invalid(
                    "spec.clusterIPs[0]",
                    &json!([now]),
                    "may not change once set",
                ));
            }
        }
        ("", "persistentvolumeclaims") => {
            let spec = |object: &Value| {
                let mut spec = object["spec"].clone();
                if let Some(map) = spec.as_object_mut() {
                    map.remove("resources");
                    map.remove("volumeAttributesClassName");
                }
                spec
            };
            if spec(live) != spec(new) {
                out.push(FieldError::forbidden(
                    "spec",
                    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
                ));
            }
        }
        _ => {}
    }
    out
}

fn immutable(live: &Value, new: &Value, field: &str, out: &mut Vec<FieldError>) {
    if live["immutable"] != true {
        return;
    }
    if new["immutable"] != true && field == "data" {
        out.push(FieldError::forbidden(
            "immutable",
            "field is immutable when `immutable` is set",
        ));
    }
    if live.get(field) != new.get(field) {
        out.push(FieldError::forbidden(
            field,
            "field is immutable when `immutable` is set",
        ));
    }
}

fn stateful(live: &Value, new: &Value, out: &mut Vec<FieldError>) {
    const OPEN: [&str; 8] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
        "paused",
    ];
    let rest = |object: &Value| {
        let mut spec = object["spec"].clone();
        if let Some(map) = spec.as_object_mut() {
            map.retain(|key, _| !OPEN.contains(&key.as_str()));
        }
        spec
    };
    if rest(live) != rest(new) {
        out.push(FieldError::forbidden("spec", "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"));
    }
}
