//! The health of a live object.

use super::Target;
use crate::failure::Failure;
use crate::ports::ListRequest;
use driftless_flux::{HealthCheckExpr, reason, timestamp};
use driftless_fuel::Tank;
use driftless_manifest::{Gvk, Object};
use driftless_plans::health::{self, Assessment, Health as Status, HealthExprs};
use serde_json::Value;
use std::time::Duration;

/// Lists the pods of a controller; empty if they may not be listed, so that only the controller
/// counts, as in Flux.
async fn pods_of(target: &Target, live: &Object) -> Vec<Object> {
    let labels = live
        .pointer("/spec/selector/matchLabels")
        .and_then(Value::as_object);
    let Some(labels) = labels.filter(|labels| !labels.is_empty()) else {
        return Vec::new();
    };
    let pairs = labels
        .iter()
        .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    let selector = pairs.collect::<Vec<_>>().join(",");
    match target.cluster.resource(&Gvk::new("v1", "Pod")).await {
        Ok(Some(pods)) => {
            let request = ListRequest {
                resource: &pods,
                namespace: live.namespace(),
                selector: &selector,
            };
            target.cluster.list(&request).await.unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

/// Assesses an object by the expression for its kind, else by kstatus, which includes a
/// controller's pods.
pub async fn health_of(
    target: &Target,
    live: &Object,
    exprs: &HealthExprs,
    now: Duration,
) -> Assessment {
    if let Some(assessed) = exprs.assess(live) {
        return assessed.unwrap_or_else(|error| unknown(&error));
    }
    let now = timestamp(now);
    match health::assess(live, now) {
        Ok(own) if own.status == Status::InProgress && health::controls_pods(live) => {
            let pods = pods_of(target, live).await;
            health::assess_with_pods(live, &pods, now).unwrap_or(own)
        }
        assessed => assessed.unwrap_or_else(|error| unknown(&error)),
    }
}

fn unknown(error: &dyn std::fmt::Display) -> Assessment {
    Assessment {
        status: Status::Unknown,
        message: error.to_string(),
    }
}

/// Parses the expressions of `spec.healthCheckExprs`, whose evaluations charge the fuel of a step.
///
/// # Errors
/// An expression is not valid.
pub fn expressions(checks: &[HealthCheckExpr], step: &Tank) -> Result<HealthExprs, Failure> {
    let checks = checks.iter().map(|check| health::HealthCheck {
        api_version: check.api_version.clone(),
        kind: check.kind.clone(),
        in_progress: check.in_progress.clone(),
        failed: check.failed.clone(),
        current: check.current.clone(),
    });
    let checks: Vec<_> = checks.collect();
    HealthExprs::parse(&checks, step)
        .map_err(|error| Failure::terminal(reason::INVALID_CEL, &error).caused_by(error))
}
