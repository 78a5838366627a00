//! Readiness by the rules of Helm 3, and of Helm 4 with the strategy `legacy`: rules for some
//! built-in kinds; any other object is ready if it exists. Pure.

use driftless_flux::Invalid;
use driftless_manifest::{Gvk, Object};
use serde_json::Value;

/// The objects that must be listed to determine whether an object is ready, by kind and labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Helpers {
    /// The kind of the objects to list.
    pub gvk: Gvk,
    /// The label selector `key=value,…`.
    pub selector: String,
}

/// Returns how to list the ReplicaSets of a Deployment, or the Pods of a ReplicaSet or
/// ReplicationController.
pub fn helpers(live: &Object) -> Option<Helpers> {
    let (gvk, labels) = match (live.api_version(), live.kind()) {
        ("apps/v1", "Deployment") => (
            Gvk::new("apps/v1", "ReplicaSet"),
            "/spec/selector/matchLabels",
        ),
        ("apps/v1", "ReplicaSet") => (Gvk::new("v1", "Pod"), "/spec/selector/matchLabels"),
        ("v1", "ReplicationController") => (Gvk::new("v1", "Pod"), "/spec/selector"),
        _ => return None,
    };
    let labels = live.pointer(labels)?.as_object()?.iter();
    let pairs = labels.filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    let selector = pairs.collect::<Vec<_>>().join(",");
    Some(Helpers { gvk, selector })
}

/// Checks whether an object is ready. `listed` are its [`helpers`]; a Job counts only with `jobs`.
///
/// # Errors
/// The object failed for good; the message is Helm's.
pub fn is_ready(live: &Object, listed: &[Object], jobs: bool) -> Result<bool, Invalid> {
    Ok(match (live.api_version(), live.kind()) {
        ("v1", "Pod") => is_pod_ready(live),
        ("batch/v1", "Job") if jobs => return is_job_done(live),
        ("apps/v1", "Deployment") => is_deployment_ready(live, listed),
        ("apps/v1", "DaemonSet") => is_daemon_set_ready(live),
        ("apps/v1", "StatefulSet") => is_stateful_set_ready(live),
        ("apps/v1", "ReplicaSet") | ("v1", "ReplicationController") => {
            is_observed(live) && listed.iter().all(is_pod_ready)
        }
        ("v1", "PersistentVolumeClaim") => text(live, "/status/phase") == "Bound",
        ("v1", "Service") => is_service_ready(live),
        (_, "CustomResourceDefinition") => {
            // As in Helm, a conflict of names is left to later errors.
            holds(live, "Established", "True") || holds(live, "NamesAccepted", "False")
        }
        _ => true,
    })
}

fn text<'o>(object: &'o Object, path: &str) -> &'o str {
    let found = object.pointer(path).and_then(Value::as_str);
    found.unwrap_or_default()
}

fn number(object: &Object, path: &str) -> Option<i64> {
    object.pointer(path).and_then(Value::as_i64)
}

fn count(object: &Object, path: &str) -> i64 {
    number(object, path).unwrap_or(0)
}

fn holds(object: &Object, kind: &str, status: &str) -> bool {
    let all = object
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let mut all = all.into_iter().flatten();
    all.any(|one| one["type"] == kind && one["status"] == status)
}

fn is_observed(object: &Object) -> bool {
    count(object, "/status/observedGeneration") == count(object, "/metadata/generation")
}

fn is_pod_ready(pod: &Object) -> bool {
    holds(pod, "Ready", "True")
}

fn is_job_done(job: &Object) -> Result<bool, Invalid> {
    if count(job, "/status/failed") > number(job, "/spec/backoffLimit").unwrap_or(6) {
        return Err(format!("job is failed: {}/{}", job.namespace(), job.name()).into());
    }
    let completions = number(job, "/spec/completions");
    Ok(completions.is_none_or(|completions| count(job, "/status/succeeded") >= completions))
}

fn is_service_ready(service: &Object) -> bool {
    let has_some = |path: &str| {
        let list = service.pointer(path).and_then(Value::as_array);
        list.is_some_and(|list| !list.is_empty())
    };
    match text(service, "/spec/type") {
        "ExternalName" => true,
        _ if text(service, "/spec/clusterIP").is_empty() => false,
        "LoadBalancer" => has_some("/spec/externalIPs") || has_some("/status/loadBalancer/ingress"),
        _ => true,
    }
}

/// Checks whether enough Pods of the ReplicaSet with the Deployment's current template are ready.
fn is_deployment_ready(deployment: &Object, sets: &[Object]) -> bool {
    if deployment.pointer("/spec/paused") == Some(&Value::Bool(true)) {
        return true;
    }
    let Some(newest) = newest_set(deployment, sets) else {
        return false;
    };
    let replicas = number(deployment, "/spec/replicas").unwrap_or(1);
    let expected = replicas - may_be_unavailable(deployment, replicas);
    is_observed(newest)
        && is_observed(deployment)
        && count(newest, "/status/readyReplicas") >= expected
}

fn newest_set<'s>(deployment: &Object, sets: &'s [Object]) -> Option<&'s Object> {
    let template = |object: &Object| {
        let mut template = object.pointer("/spec/template").cloned()?;
        if let Some(Value::Object(labels)) = template.pointer_mut("/metadata/labels") {
            labels.remove("pod-template-hash");
        }
        Some(template)
    };
    let is_own = |set: &&Object| {
        let owners = set.pointer("/metadata/ownerReferences");
        let mut owners = owners.and_then(Value::as_array).into_iter().flatten();
        owners.any(|one| one["controller"] == true && one["uid"] == deployment.meta("uid"))
            && template(set) == template(deployment)
    };
    let own = sets.iter().filter(is_own);
    own.min_by_key(|set| (set.meta("creationTimestamp"), set.name()))
}

fn may_be_unavailable(deployment: &Object, replicas: i64) -> i64 {
    if replicas == 0 || text(deployment, "/spec/strategy/type") != "RollingUpdate" {
        return 0;
    }
    let of = |field: &str, up| {
        let value = deployment.pointer(&format!("/spec/strategy/rollingUpdate/{field}"));
        scaled(value, replicas, up).unwrap_or(0)
    };
    match (of("maxSurge", true), of("maxUnavailable", false)) {
        (0, 0) => 1,
        (_, unavailable) => unavailable.min(replicas),
    }
}

/// Returns a number, or a percentage of `all`, rounded up if `up`.
fn scaled(value: Option<&Value>, all: i64, up: bool) -> Option<i64> {
    let value = value?;
    if let Some(number) = value.as_i64() {
        return Some(number);
    }
    let percent: i64 = value.as_str()?.strip_suffix('%')?.parse().ok()?;
    let product = percent.checked_mul(all)?;
    Some(match up {
        true => product.div_euclid(100) + i64::from(product.rem_euclid(100) > 0),
        false => product.div_euclid(100),
    })
}

fn is_daemon_set_ready(set: &Object) -> bool {
    let desired = count(set, "/status/desiredNumberScheduled");
    if !is_observed(set) || text(set, "/spec/updateStrategy/type") != "RollingUpdate" {
        return is_observed(set);
    }
    let unavailable = set.pointer("/spec/updateStrategy/rollingUpdate/maxUnavailable");
    let unavailable = scaled(unavailable, desired, true).unwrap_or(desired);
    count(set, "/status/updatedNumberScheduled") == desired
        && count(set, "/status/numberReady") >= desired - unavailable
}

fn is_stateful_set_ready(set: &Object) -> bool {
    if !is_observed(set) || text(set, "/spec/updateStrategy/type") != "RollingUpdate" {
        return is_observed(set);
    }
    let partition = count(set, "/spec/updateStrategy/rollingUpdate/partition");
    let replicas = number(set, "/spec/replicas").unwrap_or(1);
    let is_one = text(set, "/status/currentRevision") == text(set, "/status/updateRevision");
    count(set, "/status/updatedReplicas") >= replicas - partition
        && count(set, "/status/readyReplicas") == replicas
        && (partition != 0 || is_one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(version: &str, kind: &str, spec: Value, status: Value) -> Object {
        Object::new(json!({"apiVersion": version, "kind": kind,
            "metadata": {"name": "a", "namespace": "n", "generation": 2, "uid": "u"},
            "spec": spec, "status": status}))
        .unwrap()
    }

    #[test]
    fn built_in_kinds_are_judged_by_their_status() {
        let ready = |version, kind, spec, status| {
            is_ready(&object(version, kind, spec, status), &[], true).unwrap()
        };
        let seen = |mut status: Value| {
            status["observedGeneration"] = json!(2);
            status
        };
        let rolling = json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}}});
        let stateful = json!({"replicas": 3, "updateStrategy": {"type": "RollingUpdate"}});
        let partial = json!({"replicas": 3, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}});
        let condition =
            |kind: &str, status: &str| json!({"conditions": [{"type": kind, "status": status}]});
        let cases = [
            ("v1", "ConfigMap", json!({}), json!({}), true),
            ("v1", "Pod", json!({}), condition("Ready", "True"), true),
            ("v1", "Pod", json!({}), condition("Ready", "False"), false),
            (
                "v1",
                "PersistentVolumeClaim",
                json!({}),
                json!({"phase": "Pending"}),
                false,
            ),
            (
                "v1",
                "PersistentVolumeClaim",
                json!({}),
                json!({"phase": "Bound"}),
                true,
            ),
            (
                "v1",
                "Service",
                json!({"type": "ExternalName"}),
                json!({}),
                true,
            ),
            ("v1", "Service", json!({"clusterIP": ""}), json!({}), false),
            (
                "v1",
                "Service",
                json!({"clusterIP": "None"}),
                json!({}),
                true,
            ),
            (
                "v1",
                "Service",
                json!({"clusterIP": "1", "type": "LoadBalancer"}),
                json!({}),
                false,
            ),
            (
                "v1",
                "Service",
                json!({"clusterIP": "1", "type": "LoadBalancer"}),
                json!({"loadBalancer": {"ingress": [{"ip": "2"}]}}),
                true,
            ),
            (
                "batch/v1",
                "Job",
                json!({"completions": 2, "backoffLimit": 6}),
                json!({"succeeded": 1}),
                false,
            ),
            (
                "batch/v1",
                "Job",
                json!({"completions": 2, "backoffLimit": 6}),
                json!({"succeeded": 2}),
                true,
            ),
            ("apps/v1", "DaemonSet", rolling.clone(), json!({}), false),
            (
                "apps/v1",
                "DaemonSet",
                rolling.clone(),
                seen(
                    json!({"desiredNumberScheduled": 3, "updatedNumberScheduled": 3, "numberReady": 1}),
                ),
                true,
            ),
            (
                "apps/v1",
                "DaemonSet",
                rolling,
                seen(
                    json!({"desiredNumberScheduled": 4, "updatedNumberScheduled": 4, "numberReady": 1}),
                ),
                false,
            ),
            (
                "apps/v1",
                "DaemonSet",
                json!({"updateStrategy": {"type": "OnDelete"}}),
                seen(json!({})),
                true,
            ),
            (
                "apps/v1",
                "StatefulSet",
                stateful.clone(),
                seen(
                    json!({"updatedReplicas": 3, "readyReplicas": 3, "currentRevision": "a", "updateRevision": "b"}),
                ),
                false,
            ),
            (
                "apps/v1",
                "StatefulSet",
                stateful,
                seen(json!({"updatedReplicas": 3, "readyReplicas": 3})),
                true,
            ),
            (
                "apps/v1",
                "StatefulSet",
                partial,
                seen(
                    json!({"updatedReplicas": 1, "readyReplicas": 3, "currentRevision": "a", "updateRevision": "b"}),
                ),
                true,
            ),
            (
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                json!({}),
                json!({}),
                false,
            ),
            (
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                json!({}),
                condition("Established", "True"),
                true,
            ),
        ];
        for (version, kind, spec, status, expected) in cases {
            let case = format!("{kind} {spec} {status}");
            assert_eq!(ready(version, kind, spec, status), expected, "{case}");
        }
        let failed = object(
            "batch/v1",
            "Job",
            json!({"backoffLimit": 0}),
            json!({"failed": 1}),
        );
        assert_eq!(
            is_ready(&failed, &[], true).unwrap_err().to_string(),
            "job is failed: n/a"
        );
        assert!(is_ready(&failed, &[], false).unwrap());
    }

    #[test]
    fn a_deployment_by_its_newest_set() {
        let spec = json!({"replicas": 4, "selector": {"matchLabels": {"app": "a"}}, "template": {"metadata": {"labels": {"app": "a"}}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}});
        let deployment = object(
            "apps/v1",
            "Deployment",
            spec.clone(),
            json!({"observedGeneration": 2}),
        );
        let found = helpers(&deployment).unwrap();
        assert_eq!(
            (found.gvk.kind.as_str(), found.selector.as_str()),
            ("ReplicaSet", "app=a")
        );
        let set = |labels: Value, ready: i64, owner: &str| {
            let mut set = object(
                "apps/v1",
                "ReplicaSet",
                json!({"template": {"metadata": {"labels": labels}}}),
                json!({"observedGeneration": 2, "readyReplicas": ready}),
            )
            .into_value();
            set["metadata"]["ownerReferences"] = json!([{"controller": true, "uid": owner}]);
            Object::new(set).unwrap()
        };
        let own = json!({"app": "a", "pod-template-hash": "1"});
        let is = |sets: &[Object]| is_ready(&deployment, sets, true).unwrap();
        assert!(!is(&[]));
        assert!(is(&[set(own.clone(), 3, "u")]));
        assert!(!is(&[set(own.clone(), 2, "u")]));
        assert!(!is(&[set(own, 3, "other")]));
        assert!(!is(&[set(json!({"app": "a", "old": "1"}), 4, "u")]));
        let mut paused = spec;
        paused["paused"] = json!(true);
        assert!(
            is_ready(
                &object("apps/v1", "Deployment", paused, json!({})),
                &[],
                true
            )
            .unwrap()
        );
    }
}
