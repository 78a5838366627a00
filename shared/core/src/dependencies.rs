//! `dependsOn`: is every dependency ready, for this revision?

use crate::failure::Failure;
use crate::flux::{self, Conditions, FluxKind, ObjectRef, READY, reason};
use crate::health::ReadyExpr;
use crate::kernel::Context;
use crate::schedule;
use driftless_manifest::Object;
use serde_json::{Value, json};

/// What is said of an expression that sees less than it would elsewhere.
const SHUT: &str = "; of a dependency in another namespace it sees metadata.name, namespace and generation, \
                    status.observedGeneration and the conditions without their messages, because the hub refuses cross-namespace \
                    references";

/// What an object depends on, each with its `readyExpr`.
pub type Dependencies = Vec<(ObjectRef, Option<String>)>;

/// Whether a dependency that is ready is so for something older than what waits for it.
type IsBehind<'b> = dyn Fn(&Object) -> bool + Sync + 'b;

/// Checks the dependencies of an object.
///
/// # Errors
/// `DependencyNotReady` (waiting: the dependency wakes us), an expression that is none, or the cluster's and the bucket's.
pub async fn check(
    context: &Context<'_>,
    own: &Object,
    dependencies: Result<Dependencies, String>,
    is_behind: &IsBehind<'_>,
) -> Result<(), Failure> {
    let dependencies = dependencies.map_err(|what| Failure::terminal(reason::FAILED, what))?;
    for (id, ready_expr) in dependencies {
        let ready_expr = ready_expr.as_deref();
        let look = || unmet(context, own, &id, ready_expr, is_behind);
        if look().await?.is_none() {
            continue;
        }
        schedule::register(context, &id).await?;
        // It may have become ready before it was known that somebody waits.
        if let Some(what) = look().await? {
            return Err(Failure::waiting(reason::DEPENDENCY_NOT_READY, what));
        }
    }
    Ok(())
}

/// Why a dependency is not ready, if it is not.
async fn unmet(
    context: &Context<'_>,
    own: &Object,
    id: &ObjectRef,
    ready_expr: Option<&str>,
    is_behind: &IsBehind<'_>,
) -> Result<Option<String>, Failure> {
    let name = format!("{}/{}", id.namespace, id.name);
    let Some(object) = context.hub.get(id).await? else {
        let what = id.not_found();
        return Ok(Some(match context.id.kind {
            FluxKind::HelmRelease => format!("unable to get '{name}' dependency: {what}"),
            _ => format!("dependency '{name}' not found: {what}"),
        }));
    };
    if let Some(expression) = ready_expr {
        let invalid =
            |error| Failure::terminal(reason::INVALID_CEL, format!("dependency '{name}': {error}"));
        let expression = ReadyExpr::parse(expression).map_err(invalid)?;
        let is_shut =
            context.hub.settings.no_cross_namespace_refs && id.namespace != context.id.namespace;
        let (dependency, note) = match is_shut {
            true => (public(&object), SHUT),
            false => (object.to_value(), ""),
        };
        // As in Flux, an expression takes the place of the built-in check. One that cannot be evaluated, for example because a
        // field does not exist yet, counts as not ready.
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

/// What an expression sees of an object of another namespace where references into other namespaces are refused: enough to tell
/// whether it is ready. An expression answers about whatever it sees, letter by letter.
fn public(object: &Object) -> Value {
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
            "generation": flux::generation(object),
        },
        "status": status,
    })
}

/// Ready, and for the generation that the object has now.
fn is_ready(object: &Object) -> bool {
    let observed = object
        .pointer("/status/observedGeneration")
        .and_then(Value::as_i64)
        .unwrap_or(-1);
    observed == flux::generation(object) && Conditions::of(object).is_true(READY)
}
