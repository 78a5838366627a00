//! Server-side apply.

use serde_json::{Value, json};

use crate::authorization::{Attributes, authorize};
use crate::error::ApiError;
use crate::merge::managers;
use crate::merge::managers::{Apply, ApplyError, Versions};
use crate::objects;
use crate::objects::{Validation, crd};
use crate::registry::ownership::{OwnVersions, decode_managers, versions, writer};
use crate::request::body::apply_document;
use crate::request::call::Call;
use crate::request::checks::{match_namespace, name_of_url, topology_spread_warnings};
use crate::request::message::Response;
use crate::request::options::Options;
use crate::resources::Resource;
use crate::store::state::State;
use crate::values::{set, take, text};

/// Handles a server-side apply.
///
/// # Errors
/// Conflicts unless forced, a configuration that does not fit, and the errors of a write.
pub(crate) fn apply(
    state: &mut State,
    call: &mut Call<'_>,
    resource: &Resource,
    options: &Options,
) -> Result<Response, ApiError> {
    let config = read_config(&call.request.body, resource)?;
    let key = call.target.key();
    let stored = state.store.get(&resource.key(), &key).cloned();
    let empty = objects::new_object(resource);
    let live = stored
        .as_ref()
        .map(|stored| objects::in_version(resource, stored));
    if live.is_none() && call.target.subresource.is_some() {
        return Err(ApiError::not_found(resource, &call.target.name));
    }
    let known = live.as_ref().map(decode_managers).unwrap_or_default();
    let mut base = live.clone().unwrap_or_else(|| empty.clone());
    take(&mut base, &["metadata", "managedFields"]);
    let now = call.clock.stamp();
    let writer = writer(resource, call.target.sub(), &options.manager, &now);
    let versions = versions(state, resource, call.target.sub());
    let run = |force: bool| {
        let request = Apply {
            live: &base,
            config: &config,
            empty: &empty,
            writer: &writer,
            force,
        };
        managers::apply(&versions, &request, known.clone())
    };
    let mut applied = run(options.force);
    if options.manager == "kubectl"
        && let Err(ApplyError::Conflicts(conflicts)) = &applied
        && last_applied_allows(&versions, resource, &base, conflicts)
    {
        applied = run(true);
    }
    let mut applied = applied.map_err(|refusal| apply_error(resource, &config, refusal))?;
    if options.manager == "kubectl" {
        let object = applied.object.get_or_insert_with(|| base.clone());
        renew_last_applied(object, &config);
    }
    let mut new = match &applied.object {
        Some(object) => {
            let mut ignored = Vec::new();
            objects::read(resource, object, Validation::Merged, &mut ignored)?
        }
        None => base,
    };
    set(
        &mut new,
        "metadata",
        "managedFields",
        managers::encode(applied.managers),
    );
    name_of_url(&call.target.name, &new)?;
    new["metadata"]["name"] = call.target.name.clone().into();
    match_namespace(&call.target.namespace, &mut new)?;
    let Some(live) = live else {
        return create(state, call, resource, new, options);
    };
    let object = call.store_changed(state, resource, &live, new, options.dry_run)?;
    call.object(resource, 200, object)
}

/// Reads the applied configuration, which must be of the resource's kind.
fn read_config(body: &[u8], resource: &Resource) -> Result<Value, ApiError> {
    let mut config = apply_document(body)?;
    let (api_version, kind) = (text(&config, "/apiVersion"), text(&config, "/kind"));
    if api_version != resource.api_version() || kind != resource.kind {
        return Err(ApiError::bad_request(format!(
            "invalid object type: {}, Kind={kind}",
            go_version(api_version)
        )));
    }
    if config["metadata"]
        .get("managedFields")
        .is_some_and(|list| !list.is_null())
    {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    if resource.custom.is_some() {
        crd::drop_nulls(&mut config);
    }
    Ok(config)
}

/// Creates the object of an apply.
fn create(
    state: &mut State,
    call: &mut Call<'_>,
    resource: &Resource,
    mut new: Value,
    options: &Options,
) -> Result<Response, ApiError> {
    if !text(&new, "/metadata/uid").is_empty() {
        let detail = format!(
            "uid mismatch: the provided object specified uid {}, and no existing object was found",
            text(&new, "/metadata/uid")
        );
        return Err(ApiError::conflict(resource, &call.target.name, &detail));
    }
    // An apply that creates an object needs the right to create it.
    let target = &call.target;
    let attributes = Attributes {
        verb: "create",
        group: &target.resource.group,
        resource: &target.resource.plural,
        namespace: &target.namespace,
        name: &target.name,
        ..Attributes::default()
    };
    authorize(state, &call.user, &attributes)?;
    take(&mut new, &["metadata", "resourceVersion"]);
    call.warnings
        .extend(topology_spread_warnings(resource, &new));
    let object = call.store_new(state, resource, new, options.dry_run)?;
    let object = objects::in_version(resource, &object);
    call.object(resource, 201, object)
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns whether all conflicts are about fields that a client-side `kubectl apply` set.
fn last_applied_allows(
    versions: &OwnVersions<'_>,
    resource: &Resource,
    live: &Value,
    conflicts: &[managers::Conflict],
) -> bool {
    let annotation = live["metadata"]["annotations"][LAST_APPLIED]
        .as_str()
        .unwrap_or_default();
    let Ok(last) = serde_json::from_str::<Value>(annotation) else {
        return false;
    };
    if last["apiVersion"] != resource.api_version_ref() {
        return false;
    }
    let Some(of) = versions.at(resource.api_version_ref()) else {
        return false;
    };
    let owned = crate::merge::typed::field_set(of, &last).paths();
    conflicts.iter().all(|conflict| {
        owned
            .iter()
            .any(|path| crate::merge::set::display(path) == conflict.field)
    })
}

/// Updates the last-applied annotation of client-side apply, if the object has it.
fn renew_last_applied(object: &mut Value, config: &Value) {
    let place = object
        .pointer_mut("/metadata/annotations")
        .and_then(Value::as_object_mut)
        .and_then(|annotations| annotations.get_mut(LAST_APPLIED));
    if let Some(place) = place {
        let mut config = config.clone();
        take(&mut config, &["metadata", "annotations", LAST_APPLIED]);
        *place = format!("{config}\n").into();
    }
}

fn apply_error(resource: &Resource, config: &Value, error: ApplyError) -> ApiError {
    let message = error.to_string();
    match error {
        ApplyError::Version(detail) => ApiError::unknown(&detail),
        ApplyError::Invalid(detail) => {
            let or = |text: &str| text.to_owned();
            ApiError::unknown(&format!(
                "failed to create typed patch object ({}/{}; {}, Kind={}): {detail}",
                or(text(config, "/metadata/namespace")),
                or(text(config, "/metadata/name")),
                go_version(resource.api_version_ref()),
                resource.kind
            ))
        }
        ApplyError::Conflicts(conflicts) => {
            let mut error = ApiError::new(409, "Conflict", message);
            let causes: Vec<Value> = conflicts
                .iter()
                .map(|c| {
                    json!({
                        "reason": "FieldManagerConflict",
                        "message": format!("conflict with {}", c.manager),
                        "field": c.field,
                    })
                })
                .collect();
            error.details.insert("causes".into(), Value::Array(causes));
            error
        }
    }
}

/// Formats a group and version as Go does, with a slash in the core group.
fn go_version(api_version: &str) -> String {
    if api_version.contains('/') {
        api_version.to_owned()
    } else {
        format!("/{api_version}")
    }
}
