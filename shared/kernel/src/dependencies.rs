//! Checks of `dependsOn`: every dependency must be ready, at this revision.

use crate::context::Context;
use crate::failure::Failure;
use crate::schedule;
use driftless_flux::{Conditions, FieldError, FluxKind, ObjectRef, READY, reason};
use driftless_manifest::Object;
use driftless_plans::health::ReadyExpr;
use serde_json::{Value, json};

/// Appended to the message of an expression if the hub refuses cross-namespace references, because
/// it then sees fewer fields.
const CROSS_NAMESPACE_NOTE: &str = "; in a dependency of another namespace, readyExpr sees only metadata.name, namespace and generation, \
                    status.observedGeneration and the conditions without their messages, because the hub refuses cross-namespace \
                    references";

/// The dependencies of an object, each with its `readyExpr`.
pub type Dependencies = Vec<(ObjectRef, Option<String>)>;

/// A check whether a ready dependency is at an older revision than its dependent needs.
type IsBehind<'b> = dyn Fn(&Object) -> bool + Sync + 'b;

/// Checks the dependencies of an object.
///
/// # Errors
/// `DependencyNotReady` (waiting: the dependency requeues this object), an invalid expression, or
/// an error of the cluster or the bucket.
pub async fn check(
    context: &Context<'_>,
    own: &Object,
    dependencies: Result<Dependencies, FieldError>,
    is_behind: &IsBehind<'_>,
) -> Result<(), Failure> {
    let dependencies =
        dependencies.map_err(|error| Failure::terminal(reason::FAILED, &error).caused_by(error))?;
    for (id, ready_expr) in dependencies {
        let ready_expr = ready_expr.as_deref();
        let find_unmet = || not_ready_message(context, own, &id, ready_expr, is_behind);
        if find_unmet().await?.is_none() {
            continue;
        }
        schedule::register(context, &id).await?;
        // It may have become ready before the wait was registered.
        if let Some(message) = find_unmet().await? {
            return Err(Failure::waiting(reason::DEPENDENCY_NOT_READY, message));
        }
    }
    Ok(())
}

/// Returns the message that a dependency is not ready, or `None` if it is.
async fn not_ready_message(
    context: &Context<'_>,
    own: &Object,
    id: &ObjectRef,
    ready_expr: Option<&str>,
    is_behind: &IsBehind<'_>,
) -> Result<Option<String>, Failure> {
    let name = format!("{}/{}", id.namespace, id.name);
    let Some(object) = context.hub.get(id).await? else {
        let error = id.not_found();
        return Ok(Some(match context.id.kind {
            FluxKind::HelmRelease => format!("unable to get '{name}' dependency: {error}"),
            _ => format!("dependency '{name}' not found: {error}"),
        }));
    };
    if let Some(expression) = ready_expr {
        let invalid =
            |error| Failure::terminal(reason::INVALID_CEL, format!("dependency '{name}': {error}"));
        let expression = ReadyExpr::parse(expression, &context.fuel).map_err(invalid)?;
        let is_restricted =
            context.hub.settings.no_cross_namespace_refs && id.namespace != context.id.namespace;
        let (dependency, note) = match is_restricted {
            true => (restricted(&object), CROSS_NAMESPACE_NOTE),
            false => (object.to_value(), ""),
        };
        // As in Flux, an expression replaces the built-in check. One that cannot be evaluated, for
        // example because a field does not exist yet, counts as not ready.
        let is_ready = expression
            .is_ready(&own.to_value(), &dependency)
            .unwrap_or(false);
        if !is_ready || !context.hub.settings.additive_dependency_check {
            return Ok((!is_ready).then(|| {
                format!("dependency '{name}' is not ready according to readyExpr eval{note}")
            }));
        }
    }
    if !is_ready(&object) {
        return Ok(Some(format!("dependency '{name}' is not ready")));
    }
    Ok(is_behind(&object).then(|| format!("dependency '{name}' revision is not up to date")))
}

/// Returns the fields of an object of another namespace that an expression may see if
/// cross-namespace references are refused: enough to decide whether it is ready. Expressions could
/// otherwise reveal any field that they see, character by character.
fn restricted(object: &Object) -> Value {
    let conditions = object
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let condition = |condition: &Value| {
        let fields = ["type", "status", "reason", "observedGeneration"];
        let seen = fields
            .into_iter()
            .filter_map(|field| Some((field.to_owned(), condition.get(field)?.clone())));
        Value::Object(seen.collect())
    };
    let conditions: Vec<Value> = conditions.into_iter().flatten().map(condition).collect();
    let mut status = json!({"conditions": conditions});
    if let Some(observed) = object.pointer("/status/observedGeneration") {
        status["observedGeneration"] = observed.clone();
    }
    json!({
        "apiVersion": object.api_version(),
        "kind": object.kind(),
        "metadata": {
            "name": object.name(),
            "namespace": object.namespace(),
            "generation": driftless_flux::generation(object),
        },
        "status": status,
    })
}

/// Checks whether the object is ready at its current generation.
fn is_ready(object: &Object) -> bool {
    let observed = object
        .pointer("/status/observedGeneration")
        .and_then(Value::as_i64)
        .unwrap_or(-1);
    observed == driftless_flux::generation(object) && Conditions::of(object).is_true(READY)
}
