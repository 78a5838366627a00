//! kstatus' rules for built-in kinds.

use super::fields::{conditions, integer, integer_or, list, text_or};
use super::{Assessment, HealthError};
use driftless_manifest::Object;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// Time that a pod may be without a node before it counts as failed.
const SCHEDULE_WINDOW: SignedDuration = SignedDuration::from_secs(15);

/// The deadline that stands for "none": such a Deployment never gets the condition `Progressing`.
const NO_DEADLINE: i64 = i32::MAX as i64;

/// Applies the rule of a kind; returns `None` for a kind without a rule.
pub(super) fn built_in(object: &Object, now: Timestamp) -> Result<Option<Assessment>, HealthError> {
    Ok(Some(match (object.group(), object.kind()) {
        ("", "ConfigMap" | "Secret") | ("batch", "CronJob") => {
            Assessment::current("Resource is always ready")
        }
        ("", "Service") => service(object),
        ("", "Pod") => pod(object, now)?,
        ("", "PersistentVolumeClaim") => volume_claim(object),
        ("apps", "StatefulSet") => stateful_set(object),
        ("apps" | "extensions", "DaemonSet") => daemon_set(object)?,
        ("apps" | "extensions", "Deployment") => deployment(object)?,
        ("apps" | "extensions", "ReplicaSet") => replica_set(object)?,
        ("policy", "PodDisruptionBudget") => {
            Assessment::current("AllowedDisruptions has been computed.")
        }
        ("batch", "Job") => job(object)?,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(object)?,
        _ => return Ok(None),
    }))
}

fn spec(object: &Object, field: &str, default: i64) -> i64 {
    integer_or(object, &["spec", field], default)
}

fn status(object: &Object, field: &str) -> i64 {
    integer_or(object, &["status", field], 0)
}

/// Returns `Word: have/want` if `have` is less than `want`.
fn assess_missing(word: &str, have: i64, want: i64) -> Option<Assessment> {
    (want > have).then(|| Assessment::in_progress(format!("{word}: {have}/{want}")))
}

fn assess_surplus(have: i64, want: i64) -> Option<Assessment> {
    (have > want).then(|| {
        Assessment::in_progress(format!(
            "Pending termination: {}",
            have.saturating_sub(want)
        ))
    })
}

fn stateful_set(object: &Object) -> Assessment {
    if text_or(object, &["spec", "updateStrategy", "type"], "") == "OnDelete" {
        return Assessment::current("StatefulSet is using the ondelete update strategy");
    }
    let want = spec(object, "replicas", 1);
    let have = status(object, "replicas");
    let updated = status(object, "updatedReplicas");
    let partition = integer_or(
        object,
        &["spec", "updateStrategy", "rollingUpdate", "partition"],
        -1,
    );
    assess_missing("Replicas", have, want)
        .or_else(|| assess_missing("Ready", status(object, "readyReplicas"), want))
        .or_else(|| assess_surplus(have, want))
        .or_else(|| {
            (partition != -1).then(|| {
                assess_missing("updated", updated, want.saturating_sub(partition)).unwrap_or_else(
                    || {
                        Assessment::current(format!(
                            "Partition rollout complete. updated: {updated}"
                        ))
                    },
                )
            })
        })
        .or_else(|| assess_missing("current", status(object, "currentReplicas"), want))
        .or_else(|| {
            let revision = |field| text_or(object, &["status", field], "");
            (revision("currentRevision") != revision("updateRevision"))
                .then(|| Assessment::in_progress("Waiting for updated revision to match current"))
        })
        .unwrap_or_else(|| {
            Assessment::current(format!(
                "All replicas scheduled as expected. Replicas: {have}"
            ))
        })
}

fn deployment(object: &Object) -> Result<Assessment, HealthError> {
    let mut progressing = spec(object, "progressDeadlineSeconds", NO_DEADLINE) == NO_DEADLINE;
    let mut available = false;
    for condition in conditions(object)? {
        match (
            condition.kind.as_str(),
            condition.reason.as_str(),
            condition.status.as_str(),
        ) {
            ("Progressing", "ProgressDeadlineExceeded", _) => {
                return Ok(Assessment::failed("Progress deadline exceeded"));
            }
            ("Progressing", "NewReplicaSetAvailable", "True") => progressing = true,
            ("Available", _, "True") => available = true,
            _ => {}
        }
    }
    let want = spec(object, "replicas", 1);
    let have = status(object, "replicas");
    let updated = status(object, "updatedReplicas");
    Ok(assess_missing("Replicas", have, want)
        .or_else(|| assess_missing("Updated", updated, want))
        .or_else(|| assess_surplus(have, want))
        .or_else(|| assess_missing("Available", status(object, "availableReplicas"), updated))
        .or_else(|| assess_missing("Ready", status(object, "readyReplicas"), want))
        .or_else(|| (!progressing).then(|| Assessment::in_progress("ReplicaSet not Available")))
        .or_else(|| (!available).then(|| Assessment::in_progress("Deployment not Available")))
        .unwrap_or_else(|| {
            Assessment::current(format!("Deployment is available. Replicas: {have}"))
        }))
}

fn replica_set(object: &Object) -> Result<Assessment, HealthError> {
    if conditions(object)?
        .iter()
        .any(|c| c.kind == "ReplicaFailure" && c.status == "True")
    {
        return Ok(Assessment::in_progress(
            "Replica Failure condition. Check Pods",
        ));
    }
    let want = spec(object, "replicas", 1);
    let have = status(object, "replicas");
    Ok(
        assess_missing("Labelled", status(object, "fullyLabeledReplicas"), want)
            .or_else(|| assess_missing("Available", status(object, "availableReplicas"), want))
            .or_else(|| assess_missing("Ready", status(object, "readyReplicas"), want))
            .or_else(|| assess_surplus(have, want))
            .unwrap_or_else(|| {
                Assessment::current(format!("ReplicaSet is available. Replicas: {have}"))
            }),
    )
}

fn daemon_set(object: &Object) -> Result<Assessment, HealthError> {
    for path in [["metadata", "generation"], ["status", "observedGeneration"]] {
        if integer(object, &path)?.is_none() {
            return Ok(Assessment::in_progress(format!(
                "{} {} not found",
                object.kind(),
                path.join(".")
            )));
        }
    }
    let want = integer_or(object, &["status", "desiredNumberScheduled"], -1);
    if want == -1 {
        return Ok(Assessment::in_progress(
            "Missing .status.desiredNumberScheduled",
        ));
    }
    Ok(
        assess_missing("Current", status(object, "currentNumberScheduled"), want)
            .or_else(|| assess_missing("Updated", status(object, "updatedNumberScheduled"), want))
            .or_else(|| assess_missing("Available", status(object, "numberAvailable"), want))
            .or_else(|| assess_missing("Ready", status(object, "numberReady"), want))
            .unwrap_or_else(|| {
                Assessment::current(format!(
                    "All replicas scheduled as expected. Replicas: {want}"
                ))
            }),
    )
}

fn volume_claim(object: &Object) -> Assessment {
    match text_or(object, &["status", "phase"], "unknown") {
        "Bound" => Assessment::current("PVC is Bound"),
        phase => Assessment::in_progress(format!("PVC is not Bound. phase: {phase}")),
    }
}

fn service(object: &Object) -> Assessment {
    let waits = text_or(object, &["spec", "type"], "ClusterIP") == "LoadBalancer"
        && text_or(object, &["spec", "clusterIP"], "").is_empty();
    if waits {
        Assessment::in_progress("ClusterIP not set. Service type: LoadBalancer")
    } else {
        Assessment::current("Service is ready")
    }
}

fn pod(object: &Object, now: Timestamp) -> Result<Assessment, HealthError> {
    let conditions = conditions(object)?;
    match text_or(object, &["status", "phase"], "") {
        "Succeeded" => Ok(Assessment::current("Pod has completed successfully")),
        "Failed" => Ok(Assessment::current(
            "Pod has completed, but not successfully",
        )),
        "Running"
            if conditions
                .iter()
                .any(|c| c.kind == "Ready" && c.status == "True") =>
        {
            Ok(Assessment::current("Pod is Ready"))
        }
        "Running" => {
            let looping = crash_looping(object)?;
            Ok(if looping.is_empty() {
                Assessment::in_progress("Pod is running but is not Ready")
            } else {
                Assessment::failed(format!(
                    "Containers in CrashLoop state: {}",
                    looping.join(",")
                ))
            })
        }
        "Pending" => {
            let unscheduled = conditions
                .iter()
                .find(|c| c.kind == "PodScheduled" && c.status == "False");
            Ok(
                if unscheduled.is_some_and(|c| c.reason == "Unschedulable") {
                    unschedulable(object, now)
                } else {
                    Assessment::in_progress("Pod is in the Pending phase")
                },
            )
        }
        "" => Ok(Assessment::in_progress("Pod phase not available")),
        phase => Err(HealthError::Phase(phase.to_owned())),
    }
}

/// Returns the health of a pod without a node: failed after [`SCHEDULE_WINDOW`], or if its age
/// cannot be read.
fn unschedulable(object: &Object, now: Timestamp) -> Assessment {
    let created: Option<Timestamp> = object.meta("creationTimestamp").parse().ok();
    let is_new = created.is_some_and(|created| now.duration_since(created) < SCHEDULE_WINDOW);
    if is_new {
        Assessment::in_progress("Pod has not been scheduled")
    } else {
        Assessment::failed("Pod could not be scheduled")
    }
}

fn crash_looping(object: &Object) -> Result<Vec<&str>, HealthError> {
    const PATH: &str = ".status.containerStatuses[]";
    let wrong = |field: &str, expected| HealthError::Field {
        path: format!("{PATH}{field}"),
        expected,
    };
    let mut looping = Vec::new();
    for container in list(object, &["status", "containerStatuses"])? {
        let container = container.as_object().ok_or_else(|| wrong("", "a map"))?;
        let Some(name) = container.get("name") else {
            continue;
        };
        let name = name.as_str().ok_or_else(|| wrong(".name", "a string"))?;
        let mut value = container.get("state");
        for (field, next) in [(".state", "waiting"), (".state.waiting", "reason")] {
            value = match value {
                None => break,
                Some(Value::Object(map)) => map.get(next),
                Some(_) => return Err(wrong(field, "a map")),
            };
        }
        match value {
            None => {}
            Some(Value::String(reason)) if reason == "CrashLoopBackOff" => looping.push(name),
            Some(Value::String(_)) => {}
            Some(_) => return Err(wrong(".state.waiting.reason", "a string")),
        }
    }
    Ok(looping)
}

/// The numbers of a Job.
struct Job {
    succeeded: i64,
    active: i64,
    failed: i64,
    completions: i64,
    parallelism: i64,
    started: bool,
}

impl Job {
    fn of(object: &Object) -> Self {
        let parallelism = spec(object, "parallelism", 1);
        Self {
            succeeded: status(object, "succeeded"),
            active: status(object, "active"),
            failed: status(object, "failed"),
            completions: spec(object, "completions", parallelism),
            parallelism,
            started: !text_or(object, &["status", "startTime"], "").is_empty(),
        }
    }

    /// Returns the result of the Job if it is finished.
    fn end(&self, object: &Object) -> Result<Option<Assessment>, HealthError> {
        let Self {
            succeeded,
            failed,
            completions,
            ..
        } = self;
        Ok(conditions(object)?
            .iter()
            .filter(|c| c.status == "True")
            .find_map(|c| match c.kind.as_str() {
                "Complete" => Some(Assessment::current(format!(
                    "Job Completed. succeeded: {succeeded}/{completions}"
                ))),
                "Failed" => Some(Assessment::failed(format!(
                    "Job Failed. failed: {failed}/{completions}"
                ))),
                _ => None,
            }))
    }

    fn progress(&self) -> String {
        let Self {
            succeeded,
            active,
            failed,
            ..
        } = self;
        format!("Job in progress. success:{succeeded}, active: {active}, failed: {failed}")
    }
}

fn job(object: &Object) -> Result<Assessment, HealthError> {
    let job = Job::of(object);
    Ok(match job.end(object)? {
        Some(end) => end,
        None if job.started => Assessment::current(job.progress()),
        None => Assessment::in_progress("Job not started"),
    })
}

/// Returns the health of a Job by Flux's own rule (fluxcd/pkg runtime v0.110 `statusreaders`): it
/// is current when it is complete or suspended, and the rules for all objects do not apply.
pub(super) fn flux_job(object: &Object) -> Result<Assessment, HealthError> {
    if object.pointer("/spec/suspend") == Some(&Value::Bool(true)) {
        return Ok(Assessment::current("Job is suspended"));
    }
    let job = Job::of(object);
    Ok(match job.end(object)? {
        Some(end) => end,
        None if job.started => Assessment::in_progress(job.progress()),
        None => Assessment::in_progress(format!("Job not started. active: 0/{}", job.parallelism)),
    })
}

fn definition(object: &Object) -> Result<Assessment, HealthError> {
    for condition in conditions(object)? {
        match (condition.kind.as_str(), condition.status.as_str()) {
            ("NamesAccepted", "False") => return Ok(Assessment::failed(condition.message)),
            ("Established", "False") if condition.reason != "Installing" => {
                return Ok(Assessment::failed(condition.message));
            }
            ("Established", "True") => return Ok(Assessment::current("CRD is established")),
            _ => {}
        }
    }
    Ok(Assessment::in_progress("Install in progress"))
}
