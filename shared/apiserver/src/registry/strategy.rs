//! The strategies of kinds: the fields that the API server sets and keeps in a write, such as
//! status, generation and addresses.

use serde_json::{Value, json};

use crate::merge::set::Set;
use crate::objects::codec::empty;
use crate::objects::convert;
use crate::resources::Resource;
use crate::store::state::State;
use crate::values::clock::Clock;
use crate::values::{is_zero, set, take, text};

/// Returns the fields that a write of the object, or of one of its subresources, does not own.
pub(crate) fn reset_fields(resource: &Resource, subresource: &str) -> Set {
    if resource.custom.is_some() {
        return match subresource {
            "status" => {
                let custom = resource.schema.structure(resource.id);
                let mut set = Set::of(&[&["metadata", "deletionGracePeriodSeconds"]]);
                for name in custom.into_iter().flat_map(|s| s.fields.keys()) {
                    if name != "status" && name != "metadata" {
                        set.add_member(&crate::merge::set::field(name));
                    }
                }
                set.add_member("f:spec");
                set.add_member("f:metadata");
                set
            }
            _ if resource.has_status() => Set::of(&[&["status"]]),
            _ => Set::default(),
        };
    }
    match subresource {
        "status" => match resource.plural.as_str() {
            "deployments" | "replicasets" | "replicationcontrollers" => {
                Set::of(&[&["spec"], &["metadata", "labels"]])
            }
            "customresourcedefinitions" => Set::of(&[&["spec"], &["metadata"]]),
            "pods" => Set::of(&[
                &["spec"],
                &["metadata", "deletionTimestamp"],
                &["metadata", "ownerReferences"],
            ]),
            _ => Set::of(&[&["spec"]]),
        },
        "" | "finalize" if resource.has_status() => Set::of(&[&["status"]]),
        _ => Set::default(),
    }
}

/// Returns whether objects of a resource have `metadata.generation`.
fn has_generation(resource: &Resource) -> bool {
    resource.custom.is_some()
        || matches!(
            (resource.group.as_str(), resource.plural.as_str()),
            (
                "apps",
                "deployments" | "daemonsets" | "statefulsets" | "replicasets"
            ) | ("batch", "jobs" | "cronjobs")
                | (
                    "networking.k8s.io",
                    "ingresses" | "ingressclasses" | "networkpolicies"
                )
                | ("policy", "poddisruptionbudgets")
                | ("", "replicationcontrollers" | "pods")
                | ("apiextensions.k8s.io", "customresourcedefinitions")
                | ("admissionregistration.k8s.io", _)
                | ("flowcontrol.apiserver.k8s.io", _)
                | ("scheduling.k8s.io", "priorityclasses")
                | ("discovery.k8s.io", "endpointslices")
                | ("", "podtemplates")
        )
}

/// Prepares a new object, whose defaults are set.
pub(crate) fn prepare_create(
    state: &mut State,
    resource: &Resource,
    object: &mut Value,
    clock: &mut Clock,
) {
    if resource.has_status() {
        reset_status(resource, object);
    }
    if has_generation(resource) {
        object["metadata"]["generation"] = 1.into();
    }
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "namespaces") => {
            if is_zero(&object["spec"]["finalizers"]) {
                object["spec"]["finalizers"] = json!(["kubernetes"]);
            }
            object["status"] = json!({"phase": "Active"});
            let name = object["metadata"]["name"].clone();
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
        }
        ("", "services") => allocate(state, object),
        ("", "persistentvolumeclaims") => {
            object["status"] = json!({"phase": "Pending"});
            add_finalizer(object, "kubernetes.io/pvc-protection");
        }
        ("", "persistentvolumes") => {
            object["status"] =
                json!({"phase": "Pending", "lastPhaseTransitionTime": clock.stamp()});
            add_finalizer(object, "kubernetes.io/pv-protection");
        }
        ("apps", "daemonsets") => {
            object["metadata"]["annotations"][convert::TEMPLATE_GENERATION] = "1".into();
        }
        ("", "pods") => {
            object["status"] = json!({"phase": "Pending", "qosClass": qos_class(object)});
            priority(object);
        }
        ("batch", "jobs") => job(object),
        ("policy", "poddisruptionbudgets") => {
            object["status"] = empty(&resource.schema, resource.id)["status"].clone();
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            object["status"] = json!({
                "conditions": null, "acceptedNames": {"plural": "", "kind": ""},
                "storedVersions": stored_versions(object),
            });
        }
        _ => {}
    }
}

fn add_finalizer(object: &mut Value, name: &str) {
    let mut list = crate::values::texts(&object["metadata"]["finalizers"]);
    if !list.iter().any(|known| known == name) {
        list.push(name.to_owned());
    }
    object["metadata"]["finalizers"] = json!(list);
}

fn stored_versions(object: &Value) -> Value {
    let versions = object["spec"]["versions"].as_array();
    versions
        .into_iter()
        .flatten()
        .filter(|version| version["storage"] == true)
        .map(|version| version["name"].clone())
        .collect()
}

fn reset_status(resource: &Resource, object: &mut Value) {
    let status = match resource.custom {
        Some(_) => None,
        None => empty(&resource.schema, resource.id).get("status").cloned(),
    };
    set(object, "", "status", status);
}

fn allocate(state: &mut State, object: &mut Value) {
    let kind = text(object, "/spec/type").to_owned();
    if kind == "ExternalName" {
        return;
    }
    let headless = text(object, "/spec/clusterIP") == "None";
    let spec = &mut object["spec"];
    if headless {
        spec["clusterIPs"] = json!(["None"]);
    } else {
        if is_zero(&spec["clusterIP"]) {
            state.next_address = state.next_address % 65_000 + 1;
            let n = state.next_address;
            spec["clusterIP"] = format!("10.96.{}.{}", n / 250, n % 250 + 2).into();
        }
        spec["clusterIPs"] = json!([spec["clusterIP"]]);
    }
    if spec.get("ipFamilies").is_none() {
        spec["ipFamilies"] = json!(["IPv4"]);
    }
    if spec.get("ipFamilyPolicy").is_none() {
        spec["ipFamilyPolicy"] = "SingleStack".into();
    }
    let wants_ports = kind == "NodePort"
        || (kind == "LoadBalancer" && spec["allocateLoadBalancerNodePorts"] != false);
    if wants_ports {
        for port in spec["ports"].as_array_mut().into_iter().flatten() {
            if is_zero(&port["nodePort"]) {
                state.next_port = (state.next_port + 1) % 2768;
                port["nodePort"] = (30_000 + state.next_port).into();
            }
        }
    }
    for key in ["clusterIP"] {
        if is_zero(&spec[key]) {
            take(spec, &[key]);
        }
    }
}

fn qos_class(object: &Value) -> &'static str {
    let of = |list: &str| object["spec"][list].as_array().cloned().unwrap_or_default();
    let containers = [of("containers"), of("initContainers")];
    let mut any = false;
    let mut all = true;
    for container in containers.into_iter().flatten() {
        let resources = &container["resources"];
        any |= !is_zero(&resources["limits"]) || !is_zero(&resources["requests"]);
        for name in ["cpu", "memory"] {
            let limit = resources["limits"].get(name);
            all &= limit.is_some() && limit == resources["requests"].get(name);
        }
    }
    match (any, all) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn priority(object: &mut Value) {
    let spec = &mut object["spec"];
    spec["priority"] = 0.into();
    if spec.get("preemptionPolicy").is_none() {
        spec["preemptionPolicy"] = "PreemptLowerPriority".into();
    }
    if spec.get("tolerations").is_none() {
        let toleration = |key: &str| {
            json!({
                "key": format!("node.kubernetes.io/{key}"), "operator": "Exists",
                "effect": "NoExecute", "tolerationSeconds": 300,
            })
        };
        spec["tolerations"] = json!([toleration("not-ready"), toleration("unreachable")]);
    }
}

/// Sets the selector and labels that a Job gets from its uid.
fn job(object: &mut Value) {
    if object["spec"]["manualSelector"] == true {
        return;
    }
    let uid = object["metadata"]["uid"].clone();
    let name = object["metadata"]["name"].clone();
    let labels = &mut object["spec"]["template"]["metadata"]["labels"];
    labels["batch.kubernetes.io/controller-uid"] = uid.clone();
    labels["batch.kubernetes.io/job-name"] = name.clone();
    labels["controller-uid"] = uid.clone();
    labels["job-name"] = name;
    if is_zero(&object["metadata"]["labels"]) {
        object["metadata"]["labels"] = object["spec"]["template"]["metadata"]["labels"].clone();
    }
    object["spec"]["selector"] =
        json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}});
}

/// Prepares an update: keeps the fields that the object, or its subresource, cannot change.
pub(crate) fn prepare_update(
    resource: &Resource,
    subresource: &str,
    live: &Value,
    new: &mut Value,
) {
    let managed = new["metadata"].get("managedFields").cloned();
    match subresource {
        "status" => {
            let status = new.get("status").cloned();
            let annotations = new["metadata"].get("annotations").cloned();
            let finalizers = new["metadata"].get("finalizers").cloned();
            let labels = new["metadata"].get("labels").cloned();
            let given = new["metadata"].get("resourceVersion").cloned();
            *new = live.clone();
            set(new, "", "status", status);
            set(new, "metadata", "managedFields", managed);
            set(new, "metadata", "resourceVersion", given);
            if resource.custom.is_none() && resource.plural != "customresourcedefinitions" {
                set(new, "metadata", "annotations", annotations);
                set(new, "metadata", "finalizers", finalizers);
                if !matches!(resource.plural.as_str(), "deployments" | "replicasets") {
                    set(new, "metadata", "labels", labels);
                }
            }
        }
        "finalize" => {
            let finalizers = new["spec"].get("finalizers").cloned();
            *new = live.clone();
            set(new, "spec", "finalizers", finalizers);
            set(new, "metadata", "managedFields", managed);
        }
        _ => {
            if resource.has_status() {
                set(new, "", "status", live.get("status").cloned());
            }
            prepare_object(resource, live, new);
        }
    }
    if new["metadata"].get("uid").is_none_or(is_zero) {
        set(new, "metadata", "uid", live["metadata"].get("uid").cloned());
    }
    for key in [
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "selfLink",
    ] {
        set(new, "metadata", key, live["metadata"].get(key).cloned());
    }
    if subresource.is_empty()
        && has_generation(resource)
        && increments_generation(resource, live, new)
    {
        let generation = live["metadata"]["generation"].as_i64().unwrap_or_default() + 1;
        new["metadata"]["generation"] = generation.into();
    }
}

fn prepare_object(resource: &Resource, live: &Value, new: &mut Value) {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "namespaces") => {
            set(
                new,
                "spec",
                "finalizers",
                live["spec"].get("finalizers").cloned(),
            );
            let name = new["metadata"]["name"].clone();
            new["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
        }
        ("", "services") => keep_addresses(live, new),
        ("apps", "daemonsets") => {
            let key = convert::TEMPLATE_GENERATION;
            let old: i64 = text(&live["metadata"]["annotations"], &format!("/{key}"))
                .parse()
                .unwrap_or_default();
            let changed = live["spec"]["template"] != new["spec"]["template"];
            new["metadata"]["annotations"][key] = (old + i64::from(changed)).to_string().into();
        }
        ("", "pods") => {
            for key in ["priority", "preemptionPolicy", "tolerations"] {
                if new["spec"].get(key).is_none() {
                    set(new, "spec", key, live["spec"].get(key).cloned());
                }
            }
        }
        ("batch", "jobs") if new["spec"].get("selector").is_none() => {
            set(
                new,
                "spec",
                "selector",
                live["spec"].get("selector").cloned(),
            );
            let labels = live.pointer("/spec/template/metadata/labels").cloned();
            if let Some(labels) = labels {
                for (key, value) in labels.as_object().into_iter().flatten() {
                    let own = &mut new["spec"]["template"]["metadata"]["labels"];
                    if own.get(key).is_none() {
                        own[key] = value.clone();
                    }
                }
            }
        }
        _ => {}
    }
}

fn keep_addresses(live: &Value, new: &mut Value) {
    let same = live["spec"]["type"] == new["spec"]["type"];
    if text(new, "/spec/type") == "ExternalName" && !same {
        for key in [
            "clusterIP",
            "clusterIPs",
            "ipFamilies",
            "ipFamilyPolicy",
            "internalTrafficPolicy",
        ] {
            take(new, &["spec", key]);
        }
    }
    for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if new["spec"].get(key).is_none_or(is_zero) && text(new, "/spec/type") != "ExternalName" {
            set(new, "spec", key, live["spec"].get(key).cloned());
        }
    }
    if !same {
        return;
    }
    let old = live["spec"]["ports"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    for port in new["spec"]["ports"].as_array_mut().into_iter().flatten() {
        let known = old
            .iter()
            .find(|o| o["port"] == port["port"] && o["protocol"] == port["protocol"]);
        if let Some(known) = known
            && port.get("nodePort").is_none()
            && let Some(number) = known.get("nodePort")
        {
            port["nodePort"] = number.clone();
        }
    }
}

/// Returns whether a change increments `metadata.generation`.
fn increments_generation(resource: &Resource, live: &Value, new: &Value) -> bool {
    if resource.custom.is_some() {
        let content = |object: &Value| {
            let mut object = object.clone();
            take(&mut object, &["metadata"]);
            if resource.has_status() {
                take(&mut object, &["status"]);
            }
            object
        };
        return content(live) != content(new);
    }
    match resource.plural.as_str() {
        "deployments" => {
            live["spec"] != new["spec"]
                || live["metadata"]["annotations"] != new["metadata"]["annotations"]
        }
        "validatingwebhookconfigurations" | "mutatingwebhookconfigurations" => {
            live["webhooks"] != new["webhooks"]
        }
        _ => live["spec"] != new["spec"],
    }
}

/// Returns whether an object has finalizers outside of `metadata.finalizers`.
pub(crate) fn holds_finalizers(resource: &Resource, object: &Value) -> bool {
    resource.is("", "namespaces") && !is_zero(&object["spec"]["finalizers"])
}
