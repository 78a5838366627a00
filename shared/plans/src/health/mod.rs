//! The health of an object: a pure function of the object, with the rules of kustomize-controller
//! v1.9.
//!
//! [`kstatus`] is `status.Compute` of fluxcd/cli-utils v1.2. [`assess`] adds Flux's rule: a Job
//! counts as current only when it is complete. [`assess_with_pods`] also checks a controller's
//! pods. [`HealthExprs`], [`ReadyExpr`] and [`ResourceFilter`] are the CEL expressions of
//! `healthCheckExprs`, of `dependsOn[].readyExpr` and of the filters of a Receiver.

mod cel;
mod expr;
mod fields;
mod kinds;
pub mod legacy;

pub use expr::{
    ClaimsCheck, CommitStatusExpr, ExprError, HealthCheck, HealthExprs, ReadyExpr, ResourceFilter,
};

use driftless_manifest::Object;
use fields::{conditions, integer, nested, text};
use jiff::Timestamp;
use serde_json::Value;
use std::fmt;

/// The health of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Health {
    /// The object is as desired.
    Current,
    /// The object is not yet as desired.
    InProgress,
    /// The controller of the object has given up.
    Failed,
    /// The object is being deleted.
    Terminating,
    /// The object does not exist in the cluster.
    NotFound,
    /// The health could not be determined.
    Unknown,
}

/// Renders kstatus' terms: `Current`, `InProgress`, `Failed`, `Terminating`, `NotFound`, `Unknown`.
impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Current => "Current",
            Self::InProgress => "InProgress",
            Self::Failed => "Failed",
            Self::Terminating => "Terminating",
            Self::NotFound => "NotFound",
            Self::Unknown => "Unknown",
        })
    }
}

/// An object's health and the reason for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessment {
    /// The health of the object.
    pub status: Health,
    /// kstatus' message, or the message of the condition that decided. Empty for CEL expressions.
    pub message: String,
}

impl Assessment {
    fn new(status: Health, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    fn current(message: impl Into<String>) -> Self {
        Self::new(Health::Current, message)
    }

    fn in_progress(message: impl Into<String>) -> Self {
        Self::new(Health::InProgress, message)
    }

    fn failed(message: impl Into<String>) -> Self {
        Self::new(Health::Failed, message)
    }
}

/// The error of a field whose value Kubernetes would not set. The health of such an object is
/// [`Health::Unknown`] for Flux.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HealthError {
    /// A field has the wrong type.
    #[error("{path} is not {expected}")]
    Field {
        /// The path of the field, such as `.status.observedGeneration`.
        path: String,
        /// The expected type with its article, such as `a list`.
        expected: &'static str,
    },
    /// A pod phase that Kubernetes does not have.
    #[error("unknown phase {0}")]
    Phase(String),
}

/// Returns the health of an object by Flux's rules without `healthCheckExprs`. `now` is needed for
/// the waiting time of a pod.
///
/// # Errors
/// Those of [`kstatus`].
pub fn assess(object: &Object, now: Timestamp) -> Result<Assessment, HealthError> {
    if object.group() == "batch" && object.kind() == "Job" {
        kinds::flux_job(object)
    } else {
        kstatus(object, now)
    }
}

/// Returns the health like [`assess`], but a StatefulSet or ReplicaSet that is in progress has
/// failed if one of its pods has, unless that pod is being deleted or only waits for a node. `pods`
/// are those that its `spec.selector` selects. A pod of unknown health does not count.
///
/// # Errors
/// Those of [`kstatus`], for the object itself.
pub fn assess_with_pods(
    object: &Object,
    pods: &[Object],
    now: Timestamp,
) -> Result<Assessment, HealthError> {
    let own = assess(object, now)?;
    if own.status != Health::InProgress || !controls_pods(object) {
        return Ok(own);
    }
    let failed = pods.iter().filter(|pod| failed_for_good(pod, now)).count();
    Ok(if failed > 0 {
        Assessment::failed(format!("{failed} pods have failed"))
    } else {
        own
    })
}

/// Checks whether the pods of an object decide its health while it is in progress.
pub fn controls_pods(object: &Object) -> bool {
    object.group() == "apps" && matches!(object.kind(), "StatefulSet" | "ReplicaSet")
}

fn failed_for_good(pod: &Object, now: Timestamp) -> bool {
    let failed = kstatus(pod, now).is_ok_and(|pod| pod.status == Health::Failed);
    let unschedulable = conditions(pod).is_ok_and(|all| {
        all.iter()
            .any(|c| c.kind == "PodScheduled" && c.status == "False" && c.reason == "Unschedulable")
    });
    failed && !unschedulable && pod.meta("deletionTimestamp").is_empty()
}

/// Returns the health like `status.Compute` of cli-utils: by the rules for all objects first, then
/// by those of built-in kinds, then by a `Ready` condition. An object to which no rule applies is
/// current.
///
/// # Errors
/// A field has the wrong type.
pub fn kstatus(object: &Object, now: Timestamp) -> Result<Assessment, HealthError> {
    if let Some(found) = generic(object)? {
        return Ok(found);
    }
    if let Some(found) = kinds::built_in(object, now)? {
        return Ok(found);
    }
    for condition in conditions(object)?.iter().filter(|c| c.kind == "Ready") {
        match condition.status.as_str() {
            "True" => return Ok(Assessment::current("Resource is Ready")),
            "False" | "Unknown" => return Ok(Assessment::in_progress(&condition.message)),
            _ => {}
        }
    }
    Ok(Assessment::current("Resource is current"))
}

/// Checks whether an object is current by [`kstatus`]: for definitions, namespaces and other kinds
/// whose health does not depend on the time.
pub fn is_current(object: &Object) -> bool {
    kstatus(object, Timestamp::MAX).is_ok_and(|found| found.status == Health::Current)
}

/// Applies the rules for all objects: deletion, a generation that was not observed yet,
/// `Reconciling` and `Stalled`.
fn generic(object: &Object) -> Result<Option<Assessment>, HealthError> {
    if text(object, &["metadata", "deletionTimestamp"])?.is_some_and(|time| !time.is_empty()) {
        return Ok(Some(Assessment::new(
            Health::Terminating,
            "Resource scheduled for deletion",
        )));
    }
    if let Some(generation) = integer(object, &["metadata", "generation"])?
        && let Some(observed) = integer(object, &["status", "observedGeneration"])?
        && observed != generation
    {
        let kind = object.kind();
        return Ok(Some(Assessment::in_progress(format!(
            "{kind} generation is {generation}, but latest observed generation is {observed}"
        ))));
    }
    for condition in conditions(object)?.iter().filter(|c| c.status == "True") {
        match condition.kind.as_str() {
            "Reconciling" => return Ok(Some(Assessment::in_progress(&condition.message))),
            "Stalled" => return Ok(Some(Assessment::failed(&condition.message))),
            _ => {}
        }
    }
    Ok(None)
}

/// Checks whether the controller of the object has not observed the newest spec. Fields of other
/// types do not count.
fn is_behind(object: &Object) -> bool {
    let number = |path: &[&str]| nested(object, path).ok().flatten().and_then(Value::as_i64);
    match (
        number(&["status", "observedGeneration"]),
        number(&["metadata", "generation"]),
    ) {
        (Some(observed), Some(generation)) => observed != generation,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_fuel::Tank;
    use serde_json::json;

    fn object(value: Value) -> Object {
        Object::new(value).unwrap()
    }

    fn pod(status: Value, meta: Value) -> Object {
        let mut pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": status});
        if let (Some(all), Some(more)) = (pod["metadata"].as_object_mut(), meta.as_object()) {
            all.extend(more.clone());
        }
        object(pod)
    }

    #[test]
    fn a_controller_fails_with_its_pods() {
        let now = Timestamp::UNIX_EPOCH;
        let looping = json!({"phase": "Running", "containerStatuses": [
            {"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]});
        let unscheduled = json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]});
        let set = |kind: &str, ready: i64| {
            object(
                json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "s"},
                "status": {"replicas": 1, "readyReplicas": ready, "currentReplicas": ready}}),
            )
        };
        for (name, set, pod, expected) in [
            (
                "loops",
                set("StatefulSet", 0),
                pod(looping.clone(), json!({})),
                Health::Failed,
            ),
            (
                "waits",
                set("StatefulSet", 0),
                pod(unscheduled, json!({})),
                Health::InProgress,
            ),
            (
                "goes",
                set("StatefulSet", 0),
                pod(
                    looping.clone(),
                    json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}),
                ),
                Health::InProgress,
            ),
            (
                "is ready",
                set("StatefulSet", 1),
                pod(looping.clone(), json!({})),
                Health::Current,
            ),
            (
                "no controller of pods",
                set("Deployment", 0),
                pod(looping, json!({})),
                Health::InProgress,
            ),
        ] {
            let found = assess_with_pods(&set, &[pod], now).unwrap();
            assert_eq!(found.status, expected, "{name}: {}", found.message);
        }
    }

    #[test]
    fn expressions_are_picked_by_kind_and_then_by_group() {
        let check = |api: &str, kind: &str, current: &str| HealthCheck {
            api_version: api.to_owned(),
            kind: kind.to_owned(),
            current: current.to_owned(),
            ..HealthCheck::default()
        };
        let exprs = HealthExprs::parse(
            &[
                check("example.com/v1", "", "false"),
                check("example.com/v1", "A", "true"),
                check("batch/v1", "", "true"),
            ],
            &Tank::default(),
        )
        .unwrap();
        let health = |api: &str, kind: &str| {
            let object =
                object(json!({"apiVersion": api, "kind": kind, "metadata": {"name": "x"}}));
            exprs.assess(&object).map(|found| found.unwrap().status)
        };
        assert_eq!(health("example.com/v2", "A"), Some(Health::Current));
        assert_eq!(health("example.com/v2", "B"), Some(Health::InProgress));
        assert_eq!(health("other.com/v1", "A"), None);
        assert_eq!(health("batch/v1", "Job"), None);
        let duplicates = [
            check("example.com/v1", "A", "true"),
            check("example.com/v2", "A", "true"),
        ];
        assert_eq!(
            HealthExprs::parse(&duplicates, &Tank::default())
                .unwrap_err()
                .to_string(),
            "duplicate custom health check for GroupKind A.example.com at healthchecks[1]"
        );
    }

    #[test]
    fn hostile_expressions_are_refused_and_no_value_leaks() {
        let items: Vec<i64> = (0..5_000).collect();
        let data = object(
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"},
            "items": items, "text": "s3cret".repeat(20_000)}),
        );
        let long = "1+".repeat(4_000) + "1 > 0";
        let deep = "(".repeat(2_000) + "true" + &")".repeat(2_000);
        let bangs = "!".repeat(5_000) + "true";
        let lists = "[".repeat(3_000) + &"]".repeat(3_000);
        let dots = format!("items{} == 1", ".a".repeat(3_000));
        for expression in [
            long.as_str(),
            &deep,
            &bangs,
            &lists,
            &dots,
            &"x".repeat(10_000),
            "items.all(a, items.all(b, items.all(c, a + b + c >= 0)))",
            "text.replace('', text).size() > 0",
            "text.replace('s', text).replace('s', text).size() > 0",
            "text + 1 == 2",
            "text.matches(text + '[') || int(text) == 1",
        ] {
            let check = HealthCheck {
                api_version: "v1".to_owned(),
                kind: "Secret".to_owned(),
                current: expression.to_owned(),
                ..HealthCheck::default()
            };
            let error = HealthExprs::parse(&[check], &Tank::default())
                .and_then(|exprs| exprs.assess(&data).unwrap());
            let error = error.map(|found| found.status).unwrap_err().to_string();
            assert!(!error.contains("s3cret"), "{error}");
        }
    }
}
