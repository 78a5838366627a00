//! Writes of objects. For each kind: what the server sets, what it refuses, what it stores.

pub(crate) mod definitions;
pub(crate) mod deletion;
pub(crate) mod ownership;
pub(crate) mod policy;
mod strategy;
mod validate;

use serde_json::Value;

use crate::error::ApiError;
use crate::objects;
use crate::objects::{codec, convert};
use crate::resources::Resource;
use crate::store::state::State;
use crate::values::clock::Clock;
use crate::values::{is_zero, set, take, text};

/// Checks before an object is stored; implemented above the registry, which does not know users.
pub(crate) trait Admission {
    /// Admits a new object, and may complete it.
    ///
    /// # Errors
    /// A refusal.
    fn create(
        &self,
        state: &State,
        write: &Write<'_>,
        name: &str,
        object: &mut Value,
    ) -> Result<(), ApiError>;

    /// Admits a changed object, and may complete it.
    ///
    /// # Errors
    /// A refusal.
    fn update(
        &self,
        state: &State,
        write: &Write<'_>,
        live: &Value,
        object: &mut Value,
    ) -> Result<(), ApiError>;

    /// Validates an object that is otherwise ready to be stored; `live` is the object before.
    ///
    /// # Errors
    /// A refusal.
    fn validate(
        &self,
        state: &State,
        write: &Write<'_>,
        object: &Value,
        live: Option<&Value>,
    ) -> Result<(), ApiError>;

    /// Checks that the user holds the rights that a role or a binding grants; `live` is the object
    /// before.
    ///
    /// # Errors
    /// A refusal.
    fn check_grants(
        &self,
        state: &State,
        resource: &Resource,
        object: &Value,
        live: Option<&Value>,
    ) -> Result<(), ApiError>;
}

/// A write of an object.
pub(crate) struct Write<'a> {
    pub resource: &'a Resource,
    /// The namespace, or empty.
    pub namespace: &'a str,
    /// The subresource, or empty.
    pub subresource: &'a str,
    pub clock: &'a mut Clock,
    /// True if everything is checked and nothing is stored.
    pub dry_run: bool,
    pub admit: &'a dyn Admission,
}

/// Stores a new object, once it is admitted and checked. A name is generated, uid and creation time
/// are set.
///
/// # Errors
/// A refusal by admission; 422 for invalid fields; 409 for a name that exists.
pub(crate) fn create(
    state: &mut State,
    write: &mut Write<'_>,
    mut object: Value,
) -> Result<Value, ApiError> {
    let resource = write.resource;
    let namespace = write.namespace.to_owned();
    if !text(&object, "/metadata/resourceVersion").is_empty() {
        return Err(ApiError::unknown(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    let generate = text(&object, "/metadata/generateName").to_owned();
    if text(&object, "/metadata/name").is_empty() && !generate.is_empty() {
        let base: String = generate.chars().take(58).collect();
        object["metadata"]["name"] = format!("{base}{}", write.clock.suffix()).into();
    }
    let name = text(&object, "/metadata/name").to_owned();
    write.admit.create(state, write, &name, &mut object)?;
    write.admit.check_grants(state, resource, &object, None)?;
    object["metadata"]["uid"] = write.clock.uid().into();
    object["metadata"]["creationTimestamp"] = write.clock.stamp().into();
    strategy::prepare_create(state, resource, &mut object, write.clock);
    let mut problems = validate::metadata(resource, &object);
    problems.extend(validate::create(resource, &object));
    if !problems.is_empty() {
        return Err(ApiError::invalid(
            resource.home_group(),
            &resource.kind,
            &name,
            &problems,
        ));
    }
    write.admit.validate(state, write, &object, None)?;
    let key = (namespace, name.clone());
    if state.store.get(&resource.key(), &key).is_some() {
        return Err(ApiError::already_exists(resource, &name));
    }
    if write.dry_run {
        take(&mut object, &["metadata", "resourceVersion"]);
        return Ok(object);
    }
    if resource.custom.is_none() {
        codec::from_store(&resource.schema, resource.id, &mut object);
    }
    let stored = state
        .store
        .put(&resource.key(), &key, to_stored(resource, object));
    definitions::after_write(state, resource, &stored, &write.clock.stamp());
    Ok(Value::clone(&stored))
}

/// Stores an updated object. An object that is marked for deletion is deleted with its last
/// finalizer.
///
/// # Errors
/// 409 for another version than the live one; 422 for invalid fields; 403 for a role that grants
/// too much.
pub(crate) fn change(
    state: &mut State,
    write: &mut Write<'_>,
    name: &str,
    live: &Value,
    mut new: Value,
) -> Result<Value, ApiError> {
    let resource = write.resource;
    write.admit.update(state, write, live, &mut new)?;
    let given = text(&new, "/metadata/resourceVersion").to_owned();
    let current = text(live, "/metadata/resourceVersion").to_owned();
    if !given.is_empty() && given != current {
        return Err(ApiError::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        ));
    }
    strategy::prepare_update(resource, write.subresource, live, &mut new);
    write
        .admit
        .check_grants(state, resource, &new, Some(live))?;
    let mut problems = validate::metadata_update(resource, live, &new);
    problems.extend(validate::update(resource, write.subresource, live, &new));
    if !problems.is_empty() {
        return Err(ApiError::invalid(
            &resource.group,
            &resource.kind,
            name,
            &problems,
        ));
    }
    write.admit.validate(state, write, &new, Some(live))?;
    set(
        &mut new,
        "metadata",
        "resourceVersion",
        Some(current.into()),
    );
    if resource.custom.is_none() {
        codec::from_store(&resource.schema, resource.id, &mut new);
    }
    let gone = new["metadata"].get("deletionTimestamp").is_some()
        && is_zero(&new["metadata"]["finalizers"])
        && !strategy::holds_finalizers(resource, &new);
    if write.dry_run || (new == *live && !gone) {
        return Ok(new);
    }
    let key = (write.namespace.to_owned(), name.to_owned());
    if gone {
        deletion::remove(state, resource, &key);
        return Ok(new);
    }
    if let Some(stored) = state.store.get(&resource.key(), &key) {
        convert::check(resource, stored)?;
    }
    let stored = state
        .store
        .put(&resource.key(), &key, to_stored(resource, new));
    definitions::after_write(state, resource, &stored, &write.clock.stamp());
    Ok(objects::in_version(resource, &stored))
}

/// Converts an object to its stored form.
fn to_stored(resource: &Resource, mut object: Value) -> Value {
    if let Some(custom) = &resource.custom {
        object["apiVersion"] = custom.storage_version().into();
    }
    convert::to_stored(resource, object)
}
