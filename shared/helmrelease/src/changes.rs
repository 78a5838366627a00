//! Records the objects that a release's action created, configured or deleted, for the journal and
//! the audit log.

use super::attempt::Attempt;
use super::objects;
use driftless_kernel::target::objects::Item;
use driftless_manifest::{Object, ObjectId};
use driftless_plans::apply::plan::Action;
use serde_json::Value;
use std::collections::BTreeMap;

impl Attempt<'_> {
    /// Reads the live objects that an apply will change, for the differences in the journal. They
    /// decide nothing, so an error leaves only the differences out.
    pub async fn live_before(&self, wanted: &[Item]) -> BTreeMap<ObjectId, Object> {
        let live = objects::live(&self.target, &self.release, wanted).await;
        live.unwrap_or_else(|error| {
            tracing::debug!(object = %self.release.id, %error, "the journal has no differences");
            BTreeMap::new()
        })
    }

    /// Records that an object was applied; `before` is the live object that was read earlier.
    pub fn record_applied(&self, before: Option<&Object>, applied: &Object) {
        let action = match before {
            Some(before) if is_same_version(before, applied) => Action::Unchanged,
            None if is_new(applied) => Action::Created,
            _ => Action::Configured,
        };
        let changes = &self.context.events.changes;
        changes.change(&applied.id(), action, before, Some(applied));
    }

    /// Records that an object was deleted, or marked for deletion.
    pub fn record_deleted(&self, live: &Object) {
        let changes = &self.context.events.changes;
        changes.change(&live.id(), Action::Deleted, None, None);
    }
}

fn is_same_version(before: &Object, applied: &Object) -> bool {
    before.meta("uid") == applied.meta("uid")
        && before.meta("resourceVersion") == applied.meta("resourceVersion")
}

/// Returns whether no client has written an object since it was created.
fn is_new(applied: &Object) -> bool {
    let created = applied.meta("creationTimestamp");
    let writes = applied.pointer("/metadata/managedFields");
    let mut writes = writes.and_then(Value::as_array).into_iter().flatten();
    !created.is_empty() && writes.all(|write| write["time"] == *created)
}
