//! `dependsOn`: is every dependency ready, for this revision?

use crate::failure::Failure;
use crate::flux::{ArtifactStatus, FluxKind, Kustomization, ObjectRef, reason};
use crate::health::ReadyExpr;
use crate::ports::{Cause, Request};
use crate::status;
use crate::step::Context;
use driftless_manifest::Object;
use serde_json::Value;
use std::time::Duration;

/// Checks the dependencies.
///
/// # Errors
/// `DependencyNotReady` (waiting: the dependency wakes us), or an expression that is none.
pub async fn check(
    context: &Context<'_>,
    owner: &Kustomization,
    artifact: &ArtifactStatus,
) -> Result<(), Failure> {
    let dependencies = owner
        .dependencies()
        .map_err(|what| Failure::terminal(reason::FAILED, what))?;
    for (id, ready_expr) in dependencies {
        let name = format!("{}/{}", id.namespace, id.name);
        let wait = |what: String| Failure::waiting(reason::DEPENDENCY_NOT_READY, what);
        let found = context.hub.get(&id).await?;
        let Some(object) = found else {
            return Err(wait(format!("dependency '{name}' not found")));
        };
        if let Some(expression) = ready_expr {
            let invalid = |error| {
                Failure::terminal(reason::INVALID_CEL, format!("dependency '{name}': {error}"))
            };
            let expression = ReadyExpr::parse(&expression).map_err(invalid)?;
            // No answer, such as for a field that is not there yet, is no readiness.
            if !expression
                .is_ready(&owner.object.to_value(), &object.to_value())
                .unwrap_or(false)
            {
                return Err(wait(format!(
                    "dependency '{name}' is not ready according to readyExpr eval"
                )));
            }
            // As in Flux, an expression takes the place of the built-in check.
            continue;
        }
        if !is_ready(&object) {
            return Err(wait(format!("dependency '{name}' is not ready")));
        }
        if is_behind(owner, &object, artifact) {
            return Err(wait(format!(
                "dependency '{name}' revision is not up to date"
            )));
        }
    }
    Ok(())
}

/// Ready, and for the generation that the object has now.
fn is_ready(object: &Object) -> bool {
    let observed = object
        .pointer("/status/observedGeneration")
        .and_then(Value::as_i64)
        .unwrap_or(-1);
    let ready = object
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    observed == status::generation(object)
        && ready
            .into_iter()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Whether a dependency with the same source has not applied the revision that we are about to apply.
fn is_behind(owner: &Kustomization, dependency: &Object, artifact: &ArtifactStatus) -> bool {
    let Ok(dependency) = Kustomization::from_object(dependency.clone()) else {
        return false;
    };
    match (owner.source(), dependency.source()) {
        (Ok(ours), Ok(theirs)) if ours == theirs => {
            dependency.status.last_applied_revision != artifact.revision
        }
        _ => false,
    }
}

/// A request for every Kustomization that depends on this object.
///
/// # Errors
/// The cluster's.
pub async fn dependents(
    context: &Context<'_>,
    id: &ObjectRef,
) -> Result<Vec<(Request, Duration)>, Failure> {
    let mut next = Vec::new();
    for object in context.hub.list(FluxKind::Kustomization).await? {
        let Ok(one) = Kustomization::from_object(object) else {
            continue;
        };
        let depends = one
            .dependencies()
            .is_ok_and(|dependencies| dependencies.iter().any(|(on, _)| on == id));
        if depends {
            next.push(context.request(one.id, Cause::Dependency));
        }
    }
    Ok(next)
}
