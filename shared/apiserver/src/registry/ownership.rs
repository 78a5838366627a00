//! Field managers of an object, in all of its versions.

use serde_json::{Map, Value};

use crate::merge::managers;
use crate::merge::managers::{Versions, Writer};
use crate::merge::set::Set;
use crate::merge::typed::TypeRef;
use crate::objects::convert;
use crate::registry::strategy;
use crate::resources::Resource;
use crate::store::state::State;
use crate::values::{set, take};

/// The types of a resource's versions, for field managers.
pub(crate) struct OwnVersions<'a> {
    resource: &'a Resource,
    others: Vec<(String, std::sync::Arc<Resource>)>,
    subresource: &'a str,
}

impl Versions for OwnVersions<'_> {
    fn at(&self, api_version: &str) -> Option<TypeRef<'_>> {
        let own = self.resource.api_version() == api_version;
        let resource = if own {
            self.resource
        } else {
            &self.others.iter().find(|(v, _)| v == api_version)?.1
        };
        Some(TypeRef {
            schema: &resource.schema,
            id: resource.id,
        })
    }

    fn convert(&self, object: &Value, api_version: &str) -> Value {
        let other = self.others.iter().find(|(v, _)| v == api_version);
        let kept = convert::to_stored(self.resource, object.clone());
        match other {
            Some((_, other)) => convert::from_stored(other, kept),
            None => kept,
        }
    }

    fn reset(&self, _: &str) -> Set {
        strategy::reset_fields(self.resource, self.subresource)
    }
}

/// Returns the types of a resource's versions for a write of the object, or of one of its
/// subresources.
pub(crate) fn versions<'a>(
    state: &State,
    resource: &'a Resource,
    subresource: &'a str,
) -> OwnVersions<'a> {
    let others = state
        .resources()
        .filter(|r| r.key() == resource.key())
        .map(|r| (r.api_version(), std::sync::Arc::clone(r)))
        .collect();
    OwnVersions {
        resource,
        others,
        subresource,
    }
}

/// Sets the managedFields after an update or a patch.
pub(crate) fn own_update(
    state: &State,
    resource: &Resource,
    writer: &Writer<'_>,
    live: &Value,
    new: &mut Value,
) {
    let sub = writer.subresource;
    let before = decode_managers(live);
    let given = take(new, &["metadata", "managedFields"]);
    let reset = given
        .as_ref()
        .and_then(Value::as_array)
        .is_some_and(|list| {
            list.is_empty() || (list.len() == 1 && list[0].as_object().is_some_and(Map::is_empty))
        });
    let known = if !sub.is_empty() {
        before
    } else if reset {
        Vec::new()
    } else {
        managers::decode(given.as_ref())
            .filter(|known| !known.is_empty())
            .unwrap_or(before)
    };
    // An object without managers stays without them until the next apply.
    if known.is_empty() {
        return;
    }
    let mut old = live.clone();
    take(&mut old, &["metadata", "managedFields"]);
    let known = managers::update(&versions(state, resource, sub), &old, new, known, writer);
    set(new, "metadata", "managedFields", managers::encode(known));
}

/// Returns the writer of an object, or of one of its subresources.
pub(crate) fn writer<'a>(
    resource: &'a Resource,
    subresource: &'a str,
    name: &'a str,
    now: &'a str,
) -> Writer<'a> {
    Writer {
        name,
        api_version: resource.api_version_ref(),
        subresource,
        now,
    }
}

/// Returns the managers of an object; none when its managedFields are not valid.
pub(crate) fn decode_managers(object: &Value) -> Vec<managers::Manager> {
    managers::decode(object["metadata"].get("managedFields")).unwrap_or_default()
}
