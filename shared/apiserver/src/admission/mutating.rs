//! MutatingAdmissionPolicies.

use driftless_cel::to_json;
use driftless_go::Error as GoError;
use serde_json::{Value, json};

use super::evaluation::{Evaluation, ignores_failures};
use super::policies::{self, Matched, Request};
use crate::error::ApiError;
use crate::merge::typed::{self, TypeRef};
use crate::objects::{self, Validation, patch};
use crate::resources::Resource;
use crate::store::state::State;
use crate::values::text;

/// Applies the MutatingAdmissionPolicies of a request to its object: first all of them, then again
/// those with `reinvocationPolicy: IfNeeded` if a later one changed the object.
///
/// # Errors
/// The failures of policies that do not ignore them, as the real server answers them.
pub(crate) fn mutate(
    state: &State,
    request: &Request<'_>,
    object: &mut Value,
) -> Result<(), ApiError> {
    let mut problems = Vec::new();
    let mut again = Vec::new();
    let first = pass(
        state,
        request,
        object,
        &mut problems,
        |_, _| true,
        &mut again,
    );
    if first > 0 && problems.is_empty() && !again.is_empty() {
        let wanted = again.clone();
        let chosen = |policy: &str, binding: &str| {
            wanted
                .iter()
                .any(|(known, bound, at)| known == policy && bound == binding && *at < first)
        };
        pass(state, request, object, &mut problems, chosen, &mut again);
    }
    let Some(first) = problems.first() else {
        return Ok(());
    };
    let mut error = ApiError::forbidden(request.resource, request.name, first);
    error.message.clone_from(first);
    error.reason = "Invalid".to_owned();
    let causes: Vec<Value> = problems
        .iter()
        .map(|message| json!({"message": message}))
        .collect();
    error.details.insert("causes".into(), causes.into());
    Err(error)
}

/// Makes one pass over the policies. Returns the number of the last invocation that changed the
/// object, counted from one. Adds to `again` the invocations that must be repeated if a later one
/// changes the object.
fn pass(
    state: &State,
    request: &Request<'_>,
    object: &mut Value,
    problems: &mut Vec<String>,
    chosen: impl Fn(&str, &str) -> bool,
    again: &mut Vec<(String, String, usize)>,
) -> usize {
    let mut count = 0;
    let mut changed = 0;
    let start = Request {
        object: Some(&object.clone()),
        ..*request
    };
    for (policy, matched) in policies::matching(state, &start, "mutating") {
        let name = text(&policy, "/metadata/name");
        let matched = match matched {
            Ok(matched) => matched,
            Err(detail) => {
                if !ignores_failures(&policy) {
                    problems.push(format!(
                        "policy {name:?} denied request: failed to configure policy: {detail}"
                    ));
                }
                continue;
            }
        };
        for binding in &matched.bindings {
            let bound = text(binding, "/metadata/name");
            if !chosen(name, bound) {
                continue;
            }
            let mut refuse = |detail: String| {
                if !ignores_failures(&policy) {
                    problems.push(format!(
                        "policy '{name}' with binding '{bound}' denied request: {detail}"
                    ));
                }
            };
            let params = match policies::params(state, &start, &policy, binding) {
                Ok(params) => params,
                Err(detail) => {
                    refuse(format!("failed to configure binding: {detail}"));
                    continue;
                }
            };
            for param in params {
                count += 1;
                let before = object.clone();
                if let Err(detail) = invoke(state, request, &matched, param.as_deref(), object) {
                    refuse(detail.into());
                }
                if before != *object {
                    changed = count;
                }
                if policy["spec"]["reinvocationPolicy"] == "IfNeeded" {
                    again.push((name.to_owned(), bound.to_owned(), count));
                }
            }
        }
    }
    changed
}

/// Makes the mutations of a policy, each on the result of the one before.
fn invoke(
    state: &State,
    request: &Request<'_>,
    matched: &Matched,
    param: Option<&Value>,
    object: &mut Value,
) -> Result<(), GoError> {
    let start = object.clone();
    let now = Request {
        object: Some(&start),
        ..*request
    };
    if !Evaluation::new(state, &now, matched, param).conditions()? {
        return Ok(());
    }
    for mutation in matched.policy["spec"]["mutations"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let before = object.clone();
        let now = Request {
            object: Some(&before),
            ..*request
        };
        let evaluation = Evaluation::new(state, &now, matched, param);
        let own = policies::to_version(&now, &matched.resource, &before);
        let new = match text(mutation, "/patchType") {
            "JSONPatch" => {
                let made = evaluation.value(text(mutation, "/jsonPatch/expression"))?;
                json_patch(&own, &to_json(&made).map_err(|error| error.to_string())?)?
            }
            _ => {
                let made = evaluation.value(text(mutation, "/applyConfiguration/expression"))?;
                configuration(
                    &matched.resource,
                    &own,
                    to_json(&made).map_err(|error| error.to_string())?,
                )?
            }
        };
        let read = objects::read(&matched.resource, &new, Validation::Merged, &mut Vec::new())
            .map_err(|error| error.message)?;
        let from = Request {
            resource: &matched.resource,
            ..now
        };
        *object = policies::to_version(&from, request.resource, &read);
    }
    Ok(())
}

/// Applies the JSON Patch that an expression made. If a `test` operation fails, the object stays
/// unchanged.
fn json_patch(object: &Value, operations: &Value) -> Result<Value, GoError> {
    let Some(operations) = operations.as_array() else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".into());
    };
    let mut new = object.clone();
    for operation in operations {
        match patch::json_operation(&new, operation) {
            Ok(next) => new = next,
            Err(_) if operation["op"] == "test" => return Ok(object.clone()),
            Err(detail) => return Err(format!("JSON Patch: {detail}").into()),
        }
    }
    Ok(new)
}

/// Merges an object that an expression made, as server-side apply does, without ownership.
fn configuration(resource: &Resource, object: &Value, mut made: Value) -> Result<Value, GoError> {
    if !made.is_object() {
        return Err("unsupported return type from ApplyConfiguration expression".into());
    }
    made["apiVersion"] = resource.api_version().into();
    made["kind"] = resource.kind.clone().into();
    let of = TypeRef {
        schema: &resource.schema,
        id: resource.id,
    };
    typed::check(of, &made, false).map_err(|problems| {
        format!("error applying patch: failed to convert patch object to typed object: {problems}")
    })?;
    let atomics = typed::atomics(of, &made);
    if !atomics.is_empty() {
        return Err(format!(
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
            atomics.join(", ")
        ).into());
    }
    typed::merge(of, object, &made).map_err(|problems| {
        format!("error applying patch: failed to merge patch: {problems}").into()
    })
}
