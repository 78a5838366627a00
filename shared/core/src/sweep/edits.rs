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

/// The state of an object at its last event, for the comparison with the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastSeen {
    version: ObjectVersion,
    /// The time of the last write of a step, except of the status.
    written_by_step: String,
}

impl LastSeen {
    /// Returns the state of a live object.
    pub fn of(object: &Object) -> Self {
        Self {
            version: ObjectVersion::of(object),
            written_by_step: last_writes(object).by_steps.to_owned(),
        }
    }
}

/// Returns whether a live object needs a step because a user has created, changed, requested or
/// deleted it since it was last seen. What a step of another object has written is queued by that
/// step.
pub fn needs_step(before: Option<&LastSeen>, object: &Object) -> bool {
    let Some(id) = ObjectRef::of(object) else {
        return false;
    };
    // Its generator or another controller writes it.
    if id.kind == FluxKind::ExternalArtifact {
        return false;
    }
    let now = ObjectVersion::of(object);
    let version = before.map(|before| &before.version);
    if version == Some(&now) {
        return false;
    }
    if !now.deleted_at.is_empty() {
        let was_deleted = version.is_some_and(|before| !before.deleted_at.is_empty());
        return !was_deleted && is_ours(object, id.kind);
    }
    let was_approved = version.is_none_or(|before| before.is_approved);
    let is_edited = !is_observed(object) && !is_written_by_step(before, object);
    is_edited || (now.is_approved && !was_approved)
}

/// Returns whether what has changed since an object was last seen is the write of a step. A user
/// who only removes fields leaves no trace in the managers: so the generation must be the next one,
/// and a step must have written since. Times have a resolution of a second: of several writes in
/// it, none may be a user's.
fn is_written_by_step(before: Option<&LastSeen>, object: &Object) -> bool {
    let (generation_before, before) = match before {
        Some(before) => (before.version.generation, before.written_by_step.as_str()),
        None => (0, ""),
    };
    let writes = last_writes(object);
    generation(object) == generation_before + 1
        && writes.by_steps > before
        && writes.by_steps > writes.by_others
}

/// The times of the last writes of an object, except of its status; empty before the first.
#[derive(Default)]
struct LastWrites<'a> {
    by_steps: &'a str,
    by_others: &'a str,
}

fn last_writes(object: &Object) -> LastWrites<'_> {
    let entries = object.pointer("/metadata/managedFields");
    let entries = entries.and_then(Value::as_array).into_iter().flatten();
    let mut last = LastWrites::default();
    for entry in entries.filter(|entry| entry.get("subresource").is_none()) {
        let [time, manager] =
            ["time", "manager"].map(|field| entry[field].as_str().unwrap_or_default());
        let writer = match STEPS.contains(&manager) {
            true => &mut last.by_steps,
            false => &mut last.by_others,
        };
        // All times have the same form, which sorts as text.
        *writer = time.max(writer);
    }
    last
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
        let first = LastSeen::of(&object(json!({"resourceVersion": "1"}), json!({})));
        let status = object(json!({"resourceVersion": "2"}), ready(2));
        assert_eq!(first, LastSeen::of(&status));
        assert!(!needs_step(Some(&first), &status));
        for (field, value) in [
            ("generation", json!(3)),
            ("uid", json!("v")),
            ("deletionTimestamp", json!("2026-01-01T00:00:00Z")),
            ("annotations", json!({REQUESTED_AT: "now"})),
        ] {
            let changed = object(json!({field: value}), json!({}));
            assert_ne!(first, LastSeen::of(&changed), "{field}");
        }
    }

    #[test]
    fn an_edit_needs_a_step_until_one_has_observed_it() {
        let before = LastSeen::of(&object(json!({"generation": 1}), json!({})));
        assert!(needs_step(Some(&before), &object(json!({}), ready(1))));
        assert!(!needs_step(Some(&before), &object(json!({}), ready(2))));
        assert!(needs_step(None, &object(json!({}), json!({}))));
        let requested = object(json!({"annotations": {REQUESTED_AT: "now"}}), ready(2));
        assert!(needs_step(Some(&before), &requested));
    }

    #[test]
    fn what_a_step_has_written_is_left_to_it() {
        let version = |generation: i64, manager: &str, time: &str| {
            let managed = written_by(manager, time);
            let metadata = json!({"generation": generation, "managedFields": managed});
            object(metadata, ready(1))
        };
        let kubectl = |time: &str| version(2, "kubectl-edit", time);
        let helm = |generation: i64, time: &str| version(generation, HELM_CONTROLLER, time);
        let before = LastSeen::of(&version(1, "kubectl-create", "2026-01-01T00:00:03Z"));
        let is_edited = |now: &Object| needs_step(Some(&before), now);
        assert!(is_edited(&kubectl("2026-01-01T00:00:06Z")));
        assert!(is_edited(&kubectl("2026-01-01T00:00:05Z")), "same second");
        assert!(!is_edited(&helm(2, "2026-01-01T00:00:06Z")));
        assert!(is_edited(&helm(3, "2026-01-01T00:00:06Z")), "two writes");
        // An object that a step or a user has created.
        assert!(!needs_step(None, &helm(1, "2026-01-01T00:00:06Z")));
        assert!(needs_step(None, &kubectl("2026-01-01T00:00:06Z")));
    }

    /// The API server changes the times of managers only if they get fields.
    #[test]
    fn an_edit_that_removes_a_field_has_no_manager() {
        let managed = written_by("kubectl-create", "2026-01-01T00:00:03Z");
        let version = |generation: i64| {
            let metadata = json!({"generation": generation, "managedFields": managed});
            object(metadata, ready(1))
        };
        let before = LastSeen::of(&version(1));
        assert!(needs_step(Some(&before), &version(2)));
    }

    #[test]
    fn a_deletion_needs_one_step_of_the_owner_of_a_finalizer() {
        let before = LastSeen::of(&object(json!({}), json!({})));
        let gone = |finalizers: Value| {
            object(
                json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers}),
                ready(2),
            )
        };
        let ours = gone(json!(["finalizers.fluxcd.io"]));
        assert!(needs_step(Some(&before), &ours));
        assert!(!needs_step(Some(&before), &gone(json!(["other"]))));
        assert!(!needs_step(Some(&LastSeen::of(&ours)), &ours));
    }
}
