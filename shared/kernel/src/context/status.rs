//! Writes to an object's status: only the fields that changed, and only over the version that was
//! read.

use crate::context::Context;
use crate::failure::{Class, Failure};
use crate::ports::{ErrorKind, Patch, PatchRequest, PortError};
use driftless_flux::{
    Condition, ConditionStatus, Conditions, FluxKind, KUSTOMIZE_CONTROLLER, ObjectRef, READY,
    RECONCILING, REQUESTED_AT, STALLED, generation, reason, rfc3339,
};
use driftless_manifest::Object;
use serde_json::{Map, Value, json};

/// Returns the field manager of a controller's writes to its own objects. kustomize-controller
/// writes status and finalizers under a separate name, because it takes over updates under the name
/// that it applies with.
fn own_manager(controller: &str) -> &str {
    match controller {
        KUSTOMIZE_CONTROLLER => "gotk-kustomize-controller",
        other => other,
    }
}

/// The most tries of a write to an object that was changed meanwhile.
const TRIES: usize = 5;

/// Writes `status` over the object's current one, if it differs. Returns the updated object.
///
/// If people edit or annotate the object while a step works, its status is still the one that the
/// step read, and the write is repeated. A different status is from another worker, and is not
/// overwritten.
///
/// # Errors
/// The errors of the cluster; a conflict means that the object is gone or that another worker wrote
/// its status: read it again.
pub async fn write(
    context: &Context<'_>,
    object: &Object,
    status: &Value,
    manager: &str,
) -> Result<Object, PortError> {
    let old = status_of(object);
    let changes = merge_patch(&old, status);
    if changes.as_object().is_some_and(Map::is_empty) {
        return Ok(object.clone());
    }
    let mut written = patch(context, object, &changes, manager).await;
    for _ in 1..TRIES {
        let Err(conflict) = &written else { break };
        if conflict.kind != ErrorKind::Conflict {
            break;
        }
        let Some(live) = context.hub.get(&context.id).await? else {
            break;
        };
        if live.meta("uid") != object.meta("uid") || status_of(&live) != old {
            break;
        }
        written = patch(context, &live, &changes, manager).await;
    }
    written
}

fn status_of(object: &Object) -> Value {
    let status = object.as_map().get("status").cloned();
    status.unwrap_or_else(|| json!({}))
}

async fn patch(
    context: &Context<'_>,
    object: &Object,
    changes: &Value,
    manager: &str,
) -> Result<Object, PortError> {
    patch_of(context, &context.id, object, changes, manager).await
}

/// Changes the status of any Flux object by a merge patch, over the version that was read.
///
/// # Errors
/// The errors of the cluster; a conflict if the object was changed meanwhile.
pub async fn patch_of(
    context: &Context<'_>,
    id: &ObjectRef,
    object: &Object,
    changes: &Value,
    manager: &str,
) -> Result<Object, PortError> {
    let patch =
        json!({"metadata": {"resourceVersion": object.meta("resourceVersion")}, "status": changes});
    let resource = context.hub.resource(id.kind).await?;
    let (namespace, name) = (&id.namespace, &id.name);
    context
        .hub
        .cluster
        .patch(&PatchRequest {
            resource: &resource,
            namespace,
            name,
            subresource: Some("status"),
            patch: &Patch::Merge(patch),
            manager: own_manager(manager),
        })
        .await
}

/// Returns the merge patch (RFC 7386) that turns one map into another.
pub fn merge_patch(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return new.clone();
    };
    let mut patch = Map::new();
    for (key, value) in new {
        match old.get(key) {
            Some(same) if same == value => {}
            Some(before @ Value::Object(_)) if value.is_object() => {
                patch.insert(key.clone(), merge_patch(before, value));
            }
            _ => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    Value::Object(patch)
}

/// Changes our fields of the object's status from `before` to `now`, by [`write()`].
///
/// # Errors
/// Those of [`write()`].
pub async fn update(
    context: &Context<'_>,
    object: &Object,
    now: &Value,
    before: &Value,
    manager: &str,
) -> Result<Object, PortError> {
    let merged = overlay(object, now, before);
    write(context, object, &merged, manager).await
}

/// Returns the live status with our fields changed from `before` to `now`; fields that we do not
/// model are unchanged.
fn overlay(object: &Object, now: &Value, before: &Value) -> Value {
    let mut status = status_of(object);
    let (Value::Object(merged), Value::Object(now), Value::Object(before)) =
        (&mut status, now, before)
    else {
        return now.clone();
    };
    merged.retain(|key, _| now.contains_key(key) || !before.contains_key(key));
    merged.extend(now.clone());
    status
}

impl Context<'_> {
    /// Removes Flux's finalizer.
    ///
    /// # Errors
    /// The errors of the cluster.
    pub async fn remove_finalizer(&self, object: &Object, manager: &str) -> Result<(), Failure> {
        let finalizers = object
            .pointer("/metadata/finalizers")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let left: Vec<Value> = finalizers
            .iter()
            .filter(|one| one.as_str() != Some(self.id.kind.finalizer()))
            .cloned()
            .collect();
        if left.len() == finalizers.len() {
            return Ok(());
        }
        self.patch_metadata(object, json!({"finalizers": left}), manager)
            .await?;
        Ok(())
    }

    /// Adds Flux's finalizer; returns the updated object, or `None` if the finalizer was already
    /// there.
    ///
    /// # Errors
    /// The errors of the cluster.
    pub async fn add_finalizer(
        &self,
        object: &Object,
        manager: &str,
    ) -> Result<Option<Object>, Failure> {
        let mut finalizers = object
            .pointer("/metadata/finalizers")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let ours = self.id.kind.finalizer();
        if finalizers.iter().any(|one| one.as_str() == Some(ours)) {
            return Ok(None);
        }
        finalizers.push(ours.into());
        let patched = self.patch_metadata(object, json!({"finalizers": finalizers}), manager);
        Ok(Some(patched.await?))
    }

    async fn patch_metadata(
        &self,
        object: &Object,
        mut metadata: Value,
        manager: &str,
    ) -> Result<Object, Failure> {
        if let Value::Object(metadata) = &mut metadata {
            metadata.insert(
                "resourceVersion".to_owned(),
                object.meta("resourceVersion").into(),
            );
        }
        let resource = self.hub.resource(self.id.kind).await?;
        let patch = Patch::Merge(json!({"metadata": metadata}));
        let patched = self
            .hub
            .cluster
            .patch(&PatchRequest {
                resource: &resource,
                namespace: &self.id.namespace,
                name: &self.id.name,
                subresource: None,
                patch: &patch,
                manager: own_manager(manager),
            })
            .await?;
        Ok(patched)
    }

    /// [Writes a failure](Self::write_failure), and sends an event if the status does not have it
    /// already.
    ///
    /// # Errors
    /// The errors of the cluster.
    pub async fn report_failure(
        &self,
        object: &Object,
        failure: &Failure,
        controller: &str,
    ) -> Result<(), Failure> {
        self.write_failure(object, failure, controller).await?;
        let conditions = Conditions::of(object);
        let is_same =
            |ready: &Condition| ready.reason == failure.reason && ready.message == failure.message;
        if !conditions.ready().is_some_and(is_same) {
            let events = &self.events;
            events.record(true, failure.reason, &failure.message, "");
            self.send_events(object, controller).await;
        }
        Ok(())
    }

    /// Writes a failure to the status of an object without its fields, which could not be read:
    /// `Ready=False`, and `Stalled=True` if only a change can help, otherwise `Reconciling=True`.
    ///
    /// # Errors
    /// The errors of the cluster.
    pub async fn write_failure(
        &self,
        object: &Object,
        failure: &Failure,
        manager: &str,
    ) -> Result<(), Failure> {
        let mut status = object
            .as_map()
            .get("status")
            .cloned()
            .unwrap_or_else(|| json!({}));
        let mut conditions = Conditions::of(object);
        let (generation, now) = (generation(object), rfc3339(self.ports.clock.now()));
        conditions.set(
            READY,
            ConditionStatus::False,
            failure.reason,
            &failure.message,
            generation,
            &now,
        );
        let is_stalled = failure.class == Class::Terminal;
        let (set, removed, reason) = match is_stalled {
            true => (STALLED, RECONCILING, failure.reason),
            false => (RECONCILING, STALLED, reason::PROGRESSING_WITH_RETRY),
        };
        conditions.remove(removed);
        conditions.set(
            set,
            ConditionStatus::True,
            reason,
            &failure.message,
            generation,
            &now,
        );
        if let Value::Object(status) = &mut status {
            status.insert("conditions".to_owned(), to_value(&conditions)?);
            // The status of an ArtifactGenerator does not have the field.
            if is_stalled && self.id.kind != FluxKind::ArtifactGenerator {
                status.insert("observedGeneration".to_owned(), generation.into());
            }
            if let Some(requested) = object.annotation(REQUESTED_AT) {
                status.insert("lastHandledReconcileAt".to_owned(), requested.into());
            }
        }
        write(self, object, &status, manager).await?;
        Ok(())
    }
}

/// Converts a status to JSON. A failure cannot happen with our types, but is returned rather than
/// hidden.
///
/// # Errors
/// The value has no form in JSON.
pub fn to_value<T: serde::Serialize>(status: &T) -> Result<Value, Failure> {
    serde_json::to_value(status)
        .map_err(|error| Failure::terminal(reason::FAILED, format!("status: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_only_what_changed() {
        let old = json!({"a": 1, "b": {"c": 1, "d": 2}, "gone": true, "list": [1]});
        let new = json!({"a": 1, "b": {"c": 1, "d": 3}, "list": [1, 2]});
        assert_eq!(
            merge_patch(&old, &new),
            json!({"b": {"d": 3}, "gone": null, "list": [1, 2]})
        );
        assert_eq!(merge_patch(&old, &old), json!({}));
    }
}
