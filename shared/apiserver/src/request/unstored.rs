//! Objects that are returned as if they had been created, and are not stored.

use serde_json::{Value, json};

use crate::merge::managers;
use crate::objects;
use crate::registry::ownership::{versions, writer};
use crate::request::call::Call;
use crate::resources::Resource;
use crate::store::state::State;
use crate::user::User;
use crate::values::{set, take};

/// Returns a user in the form of the authentication API.
pub(crate) fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        info["uid"] = user.uid.clone().into();
    }
    if !user.extra.is_empty() {
        let extra = user.extra.iter().map(|(k, v)| (k.clone(), json!(v)));
        info["extra"] = Value::Object(extra.collect());
    }
    info
}

/// Sets the managedFields of an object.
pub(crate) fn with_managers(
    state: &State,
    call: &Call<'_>,
    resource: &Resource,
    mut object: Value,
) -> Value {
    let stamp = call.clock.stamp();
    let agent = call.request.header("user-agent").split('/').next();
    let sub = call.target.sub();
    let writer = writer(resource, sub, agent.unwrap_or_default(), &stamp);
    let without_status = |mut object: Value| {
        take(&mut object, &["status"]);
        object
    };
    let (old, new) = (objects::new_object(resource), object.clone());
    let (old, new) = (without_status(old), without_status(new));
    let versions = versions(state, resource, sub);
    let known = managers::update(&versions, &old, &new, Vec::new(), &writer);
    set(
        &mut object,
        "metadata",
        "managedFields",
        managers::encode(known),
    );
    object
}
