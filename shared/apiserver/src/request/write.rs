//! The verbs create and update.

use crate::error::{ApiError, FieldError};
use crate::merge::managers;
use crate::objects;
use crate::registry::ownership::{decode_managers, own_update, versions, writer};
use crate::request::body::{body_object, check_duplicate_fields};
use crate::request::call::Call;
use crate::request::checks::{
    dedup_owners, keep_reset, match_namespace, name_of_url, topology_spread_warnings,
};
use crate::request::message::Response;
use crate::request::options::Options;
use crate::request::scale;
use crate::resources::Resource;
use crate::store::state::State;
use crate::values::json::Document;
use crate::values::{set, take, text};
use serde_json::Value;

/// Creates an object.
///
/// # Errors
/// A refusal because of the body, admission, RBAC or the kind's rules.
pub(crate) fn create(state: &mut State, call: &mut Call<'_>) -> Result<Response, ApiError> {
    let options = Options::read(call, "CreateOptions", None)?;
    let resource = std::sync::Arc::clone(&call.target.resource);
    let (_, mut object) = read_object(call, &resource, &options)?;
    let now = call.clock.stamp();
    dedup_owners(&mut object, &mut call.warnings);
    call.warnings
        .extend(topology_spread_warnings(&resource, &object));
    for key in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "uid",
        "creationTimestamp",
    ] {
        take(&mut object, &["metadata", key]);
    }
    let mut known = decode_managers(&object);
    take(&mut object, &["metadata", "managedFields"]);
    match_namespace(&call.target.namespace, &mut object)?;
    let writer = writer(&resource, "", &options.manager, &now);
    let fresh = objects::new_object(&resource);
    known = managers::update(
        &versions(state, &resource, ""),
        &fresh,
        &object,
        known,
        &writer,
    );
    set(
        &mut object,
        "metadata",
        "managedFields",
        managers::encode(known),
    );
    let object = call.store_new(state, &resource, object, options.dry_run)?;
    let object = objects::in_version(&resource, &object);
    call.object(&resource, 201, object)
}

/// Reads the object in the body; returns it as the client sent it, and as the kind has it.
fn read_object(
    call: &mut Call<'_>,
    resource: &Resource,
    options: &Options,
) -> Result<(Value, Value), ApiError> {
    let Document {
        value,
        duplicate_fields,
    } = body_object(call, resource)?;
    let (validation, warnings) = (options.validation, &mut call.warnings);
    check_duplicate_fields(&duplicate_fields, resource, validation, warnings)?;
    let object = objects::read(resource, &value, validation, warnings)?;
    Ok((value, object))
}

/// Replaces an object.
///
/// # Errors
/// The errors of [`create`], and conflicts.
pub(crate) fn update(state: &mut State, call: &mut Call<'_>) -> Result<Response, ApiError> {
    let options = Options::read(call, "UpdateOptions", None)?;
    let resource = std::sync::Arc::clone(&call.target.resource);
    if call.target.sub() == "scale" {
        return scale::update(state, call, &options);
    }
    let (value, mut new) = read_object(call, &resource, &options)?;
    match_namespace(&call.target.namespace, &mut new)?;
    let name = name_of_url(&call.target.name, &new)?;
    let live = call.live(state)?;
    let given = text(&new, "/metadata/resourceVersion").to_owned();
    keep_reset(&value, &mut new);
    let now = call.clock.stamp();
    let writer = writer(&resource, call.target.sub(), &options.manager, &now);
    own_update(state, &resource, &writer, &live, &mut new);
    let uid = text(&new, "/metadata/uid");
    if !uid.is_empty() && uid != text(&live, "/metadata/uid") {
        let detail = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/{}/{}/{name}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            resource.plural,
            call.target.namespace,
            text(&live, "/metadata/uid")
        );
        return Err(ApiError::conflict(&resource, &name, &detail));
    }
    if given.is_empty() && resource.custom.is_some() {
        return Err(ApiError::invalid(
            &resource.group,
            &resource.plural,
            &name,
            &[FieldError::invalid_raw(
                "metadata.resourceVersion",
                "0",
                "must be specified for an update",
            )],
        ));
    }
    let object = call.store_changed(state, &resource, &live, new, options.dry_run)?;
    call.object(&resource, 200, object)
}
