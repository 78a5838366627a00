//! Edits of Flux objects, as a process with a watch sees them: the same that a sweep would find,
//! without the schedule.

use super::due::{is_observed, is_ours, is_prune_approved};
use driftless_flux::{
    FluxKind, HELM_CONTROLLER, KUSTOMIZE_CONTROLLER, NOTIFICATION_CONTROLLER, ObjectRef,
    REQUESTED_AT, SOURCE_CONTROLLER, SOURCE_WATCHER, generation,
};
use driftless_manifest::Object;
use serde_json::Value;

/// The field managers of steps.
const STEPS: [&str; 5] = [
    KUSTOMIZE_CONTROLLER,
    HELM_CONTROLLER,
    SOURCE_CONTROLLER,
    NOTIFICATION_CONTROLLER,
    SOURCE_WATCHER,
];

/// The fields of an object that change with its spec or the request of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectVersion {
    uid: String,
    generation: i64,
    requested_at: String,
    deleted_at: String,
    /// True if a user has approved a prune that is held.
    is_approved: bool,
}

impl ObjectVersion {
    /// Returns the version of a live object.
    pub fn of(object: &Object) -> Self {
        Self {
            uid: object.meta("uid").to_owned(),
            generation: generation(object),
            requested_at: object
                .annotation(REQUESTED_AT)
                .unwrap_or_default()
                .to_owned(),
            deleted_at: object.meta("deletionTimestamp").to_owned(),
            is_approved: is_prune_approved(object),
        }
    }
}

/// Returns whether a live object needs a step because a user has created, changed, requested or
/// deleted it since the version before. What a step of another object has written is queued by that
/// step.
pub fn needs_step(before: Option<&ObjectVersion>, object: &Object) -> bool {
    let Some(id) = ObjectRef::of(object) else {
        return false;
    };
    // Its generator or another controller writes it.
    if id.kind == FluxKind::ExternalArtifact {
        return false;
    }
    let now = ObjectVersion::of(object);
    if before == Some(&now) {
        return false;
    }
    if !now.deleted_at.is_empty() {
        let was_deleted = before.is_some_and(|before| !before.deleted_at.is_empty());
        return !was_deleted && is_ours(object, id.kind);
    }
    let was_approved = before.is_none_or(|before| before.is_approved);
    let is_edited = !is_observed(object) && !is_written_by_step(object);
    is_edited || (now.is_approved && !was_approved)
}

/// Returns whether the last write of an object, except of its status, was a step's. Times have a
/// resolution of a second: of several writes in it, none may be a user's.
fn is_written_by_step(object: &Object) -> bool {
    let entries = object.pointer("/metadata/managedFields");
    let entries = entries.and_then(Value::as_array).into_iter().flatten();
    let writes = entries.filter(|entry| entry.get("subresource").is_none());
    let writes: Vec<(&str, &str)> = writes
        .filter_map(|entry| Some((entry["time"].as_str()?, entry["manager"].as_str()?)))
        .collect();
    // All times have the same form, which sorts as text.
    let last = writes.iter().map(|(time, _)| *time).max();
    let is_step = |(time, manager): &(&str, &str)| Some(*time) != last || STEPS.contains(manager);
    last.is_some() && writes.iter().all(is_step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(metadata: Value, status: Value) -> Object {
        let mut all = json!({"name": "apps", "namespace": "team", "uid": "u", "generation": 2});
        for (field, value) in metadata.as_object().unwrap() {
            all[field] = value.clone();
        }
        Object::new(
            json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": all, "status": status}),
        )
        .unwrap()
    }

    fn ready(generation: i64) -> Value {
        json!({"observedGeneration": generation, "conditions": [
            {"type": "Ready", "status": "True", "observedGeneration": generation}]})
    }

    fn written_by(manager: &str, time: &str) -> Value {
        json!([
            {"manager": KUSTOMIZE_CONTROLLER, "time": "2026-01-01T00:00:05Z"},
            {"manager": "us", "subresource": "status", "time": "2026-01-01T00:00:09Z"},
            {"manager": manager, "time": time},
        ])
    }

    #[test]
    fn a_new_status_is_not_an_edit() {
        let first = ObjectVersion::of(&object(json!({"resourceVersion": "1"}), json!({})));
        let status = object(json!({"resourceVersion": "2"}), ready(2));
        assert_eq!(first, ObjectVersion::of(&status));
        assert!(!needs_step(Some(&first), &status));
        for (field, value) in [
            ("generation", json!(3)),
            ("uid", json!("v")),
            ("deletionTimestamp", json!("2026-01-01T00:00:00Z")),
            ("annotations", json!({REQUESTED_AT: "now"})),
        ] {
            let changed = object(json!({field: value}), json!({}));
            assert_ne!(first, ObjectVersion::of(&changed), "{field}");
        }
    }

    #[test]
    fn an_edit_needs_a_step_until_one_has_observed_it() {
        let before = ObjectVersion::of(&object(json!({"generation": 1}), json!({})));
        assert!(needs_step(Some(&before), &object(json!({}), ready(1))));
        assert!(!needs_step(Some(&before), &object(json!({}), ready(2))));
        assert!(needs_step(None, &object(json!({}), json!({}))));
        let requested = object(json!({"annotations": {REQUESTED_AT: "now"}}), ready(2));
        assert!(needs_step(Some(&before), &requested));
    }

    #[test]
    fn what_a_step_has_written_is_left_to_it() {
        let edited = |manager: &str, time: &str| {
            let metadata = json!({"managedFields": written_by(manager, time)});
            needs_step(None, &object(metadata, json!({})))
        };
        assert!(edited("kubectl-edit", "2026-01-01T00:00:06Z"));
        assert!(
            edited("kubectl-edit", "2026-01-01T00:00:05Z"),
            "same second"
        );
        assert!(!edited("kubectl-edit", "2026-01-01T00:00:04Z"));
        assert!(!edited(HELM_CONTROLLER, "2026-01-01T00:00:06Z"));
    }

    #[test]
    fn a_deletion_needs_one_step_of_the_owner_of_a_finalizer() {
        let before = ObjectVersion::of(&object(json!({}), json!({})));
        let gone = |finalizers: Value| {
            object(
                json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers}),
                ready(2),
            )
        };
        let ours = gone(json!(["finalizers.fluxcd.io"]));
        assert!(needs_step(Some(&before), &ours));
        assert!(!needs_step(Some(&before), &gone(json!(["other"]))));
        assert!(!needs_step(Some(&ObjectVersion::of(&ours)), &ours));
    }
}
