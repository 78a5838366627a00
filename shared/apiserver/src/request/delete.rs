//! The verbs delete and deletecollection.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::error::{ApiError, FieldError};
use crate::objects::selector::Selector;
use crate::registry::deletion;
use crate::registry::deletion::{DeleteOptions, Outcome, answers_object};
use crate::request::call::Call;
use crate::request::message::Response;
use crate::resources::Resource;
use crate::store::Name;
use crate::store::state::State;
use crate::values::text;
use crate::{admission, objects};

fn read_options(call: &Call<'_>) -> Result<DeleteOptions, ApiError> {
    let body: Value = if call.request.body.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(&call.request.body).map_err(|error| {
            ApiError::bad_request(format!("error decoding delete options: {error}"))
        })?
    };
    let query = &call.query;
    let or = |key: &str| {
        body.get(key)
            .and_then(Value::as_str)
            .map_or_else(|| query.get(key).to_owned(), str::to_owned)
    };
    let mut dry: Vec<String> = crate::values::texts(&body["dryRun"]);
    dry.extend(query.all("dryRun").map(str::to_owned));
    let mut problems = Vec::new();
    if let Some(other) = dry.iter().find(|value| *value != "All") {
        problems.push(FieldError::unsupported("dryRun", &json!([other]), &["All"]));
    }
    let mut propagation = or("propagationPolicy");
    if !matches!(
        propagation.as_str(),
        "" | "Foreground" | "Background" | "Orphan"
    ) {
        problems.push(FieldError::unsupported(
            "propagationPolicy",
            &propagation.as_str().into(),
            &["Foreground", "Background", "Orphan", "nil"],
        ));
    }
    if propagation.is_empty() && body["orphanDependents"] == true {
        propagation = "Orphan".to_owned();
    }
    if !problems.is_empty() {
        return Err(ApiError::invalid(
            "meta.k8s.io",
            "DeleteOptions",
            "",
            &problems,
        ));
    }
    let precondition = |key: &str| {
        body["preconditions"]
            .get(key)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let grace = body["gracePeriodSeconds"]
        .as_i64()
        .or_else(|| query.get("gracePeriodSeconds").parse().ok());
    Ok(DeleteOptions {
        dry_run: !dry.is_empty(),
        uid: precondition("uid"),
        version: precondition("resourceVersion"),
        propagation,
        grace,
    })
}

fn check_preconditions(
    resource: &Resource,
    name: &str,
    live: &Value,
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    let refused = |detail: String| {
        let of = if resource.group.is_empty() {
            resource.kind.clone()
        } else {
            format!("{}.{}", resource.kind, resource.group)
        };
        let message = format!("Operation cannot be fulfilled on {of} {name:?}: {detail}");
        let mut error = ApiError::new(409, "Conflict", message);
        error.details.insert("name".into(), name.into());
        if !resource.group.is_empty() {
            error
                .details
                .insert("group".into(), resource.group.clone().into());
        }
        error
            .details
            .insert("kind".into(), resource.kind.clone().into());
        error
    };
    let uid = text(live, "/metadata/uid");
    if let Some(wanted) = options.uid.as_deref().filter(|wanted| *wanted != uid) {
        return Err(refused(format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
        )));
    }
    let version = text(live, "/metadata/resourceVersion");
    if let Some(wanted) = options
        .version
        .as_deref()
        .filter(|wanted| *wanted != version)
    {
        return Err(refused(format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). The object might have been modified"
        )));
    }
    Ok(())
}

/// Evaluates the admission policies for a deletion.
fn admit(
    state: &State,
    call: &mut Call<'_>,
    name: &str,
    live: &Value,
    dry_run: bool,
) -> Result<(), ApiError> {
    let old = objects::in_version(&call.target.resource, live);
    let request = admission::Request {
        user: &call.user,
        resource: &call.target.resource,
        subresource: call.target.sub(),
        namespace: text(live, "/metadata/namespace"),
        name,
        operation: "DELETE",
        object: None,
        old: Some(&old),
        dry_run,
    };
    admission::validate(state, &request, &mut call.warnings)
}

/// Deletes an object.
///
/// # Errors
/// Options that are not valid, preconditions that do not hold, an object that does not exist.
pub(crate) fn delete(state: &mut State, call: &mut Call<'_>) -> Result<Response, ApiError> {
    let options = read_options(call)?;
    let resource = Arc::clone(&call.target.resource);
    let key = call.target.key();
    let name = call.target.name.clone();
    let live = state
        .store
        .get(&resource.key(), &key)
        .cloned()
        .ok_or_else(|| ApiError::not_found(&resource, &name))?;
    admission::delete(&resource, &name)?;
    check_preconditions(&resource, &name, &live, &options)?;
    admit(state, call, &name, &live, options.dry_run)?;
    let now = call.clock.stamp();
    let outcome = deletion::delete(state, &resource, &key, &live, &options, &now);
    match outcome {
        Outcome::Marked(object) => {
            call.object(&resource, 200, objects::in_version(&resource, &object))
        }
        Outcome::Deleted(last) if answers_object(&resource) => {
            call.object(&resource, 200, objects::in_version(&resource, &last))
        }
        Outcome::Deleted(last) => {
            let mut details =
                json!({"name": name, "kind": resource.plural, "uid": last["metadata"]["uid"]});
            if !resource.group.is_empty() {
                details["group"] = resource.group.clone().into();
            }
            Ok(Response::json(
                200,
                json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
                }),
            ))
        }
    }
}

/// Deletes the objects of a list.
///
/// # Errors
/// Options and selectors that are not valid.
pub(crate) fn delete_collection(
    state: &mut State,
    call: &mut Call<'_>,
) -> Result<Response, ApiError> {
    let options = read_options(call)?;
    let resource = Arc::clone(&call.target.resource);
    let query = &call.query;
    let selector = Selector::parse(query.get("labelSelector"), query.get("fieldSelector"))?
        .of(&resource, "")?;
    let namespace = call.target.namespace.clone();
    let chosen: Vec<(Name, Arc<Value>)> = state
        .store
        .list(&resource.key(), &namespace, None)
        .filter(|(_, object)| selector.matches(object))
        .map(|(name, object)| (name.clone(), Arc::clone(object)))
        .collect();
    let at = state.store.version();
    let now = call.clock.stamp();
    let mut items = Vec::new();
    for (name, live) in chosen {
        admit(state, call, &name.1, &live, options.dry_run)?;
        let object = match deletion::delete(state, &resource, &name, &live, &options, &now) {
            Outcome::Deleted(_) => Value::clone(&live),
            Outcome::Marked(object) => object,
        };
        items.push(objects::in_version(&resource, &object));
    }
    call.list(&resource, json!({"resourceVersion": at.to_string()}), items)
}
