//! `dependsOn`: is every dependency ready, for this revision?

use crate::failure::Failure;
use crate::flux::{ArtifactStatus, FluxKind, HelmRelease, Kustomization, ObjectRef, reason};
use crate::health::ReadyExpr;
use crate::ports::{Cause, Request};
use crate::status;
use crate::step::Context;
use driftless_manifest::Object;
use serde_json::Value;
use std::time::Duration;

/// Checks the dependencies of a Kustomization.
///
/// # Errors
/// `DependencyNotReady` (waiting: the dependency wakes us), or an expression that is none.
pub async fn check(
    context: &Context<'_>,
    owner: &Kustomization,
    artifact: &ArtifactStatus,
) -> Result<(), Failure> {
    let dependencies = owner.dependencies();
    check_all(context, &owner.object, dependencies, &|dependency| {
        is_behind(owner, dependency, artifact)
    })
    .await
}

/// What an object depends on, each with its `readyExpr`.
pub type Dependencies = Vec<(ObjectRef, Option<String>)>;

/// Whether a dependency that is ready is so for something older than what waits for it.
type IsBehind<'b> = dyn Fn(&Object) -> bool + Sync + 'b;

/// Checks the dependencies of an object.
///
/// # Errors
/// As [`check`].
pub async fn check_all(
    context: &Context<'_>,
    own: &Object,
    dependencies: Result<Dependencies, String>,
    is_behind: &IsBehind<'_>,
) -> Result<(), Failure> {
    let dependencies = dependencies.map_err(|what| Failure::terminal(reason::FAILED, what))?;
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
                .is_ready(&own.to_value(), &object.to_value())
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
        if is_behind(&object) {
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

/// A request for every Kustomization and HelmRelease that depends on this object.
///
/// # Errors
/// The cluster's.
pub async fn dependents(
    context: &Context<'_>,
    id: &ObjectRef,
) -> Result<Vec<(Request, Duration)>, Failure> {
    let mut next = Vec::new();
    for kind in [FluxKind::Kustomization, FluxKind::HelmRelease] {
        for object in context.hub.list(kind).await? {
            let Some((own, dependencies)) = dependencies_of(object) else {
                continue;
            };
            if dependencies.iter().any(|(on, _)| on == id) {
                next.push(context.request(own, Cause::Dependency));
            }
        }
    }
    Ok(next)
}

/// What an object depends on; nothing of one that cannot be read: its own step says why.
fn dependencies_of(object: Object) -> Option<(ObjectRef, Dependencies)> {
    match FluxKind::of(&object.gvk())? {
        FluxKind::Kustomization => {
            let one = Kustomization::from_object(object).ok()?;
            Some((one.id.clone(), one.dependencies().ok()?))
        }
        FluxKind::HelmRelease => {
            let one = HelmRelease::from_object(object).ok()?;
            Some((one.id.clone(), one.dependencies().ok()?))
        }
        _ => None,
    }
}
