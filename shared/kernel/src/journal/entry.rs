//! The record of what the steps of an object changed.

use super::fields::FieldChange;
use crate::ports::Cause;
use serde::{Deserialize, Serialize};

/// The most entries of a journal.
const MAX_ENTRIES: usize = 30;
/// The most bytes of a journal.
const MAX_BYTES: usize = 48 << 10;

/// The changes of the last steps of an object, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Journal {
    /// The entries, the newest first.
    pub entries: Vec<Entry>,
}

/// The changes of one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The time at which the webhook received the delivery that the step was for, in milliseconds
    /// since 1970; `None` if it was not for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<u64>,
    /// The start of the step, in milliseconds since 1970.
    pub started: u64,
    /// The end of the step, in milliseconds since 1970.
    pub ended: u64,
    /// The cause of the step.
    pub cause: Cause,
    /// The revision that the step worked on; empty before the first.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// The state of the object after the step.
    pub result: StepResult,
    /// The reason of the condition `Ready`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The message of the condition `Ready`, shortened.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The objects that the step created, configured or deleted, in that order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ObjectChange>,
    /// The number of further changed objects, which are left out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted: usize,
    /// True if the values of the step, or those of the earlier one that it replaced, may come from
    /// a Secret, so that `changes` has none of them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub withheld: bool,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The state of an object after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StepResult {
    /// The source has a new revision.
    NewRevision,
    /// The object is ready.
    Ready,
    /// The work of the object continues.
    Progressing,
    /// The step failed.
    Failed,
}

/// An object that a step created, configured or deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectChange {
    /// The object, as `Kind/namespace/name`.
    pub object: String,
    /// The action: `created`, `configured` or `deleted`.
    pub action: String,
    /// The fields that a configured object has otherwise than before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldChange>,
}

impl Entry {
    /// Returns the number of objects that the step changed.
    pub fn changed(&self) -> usize {
        self.changes.len() + self.omitted
    }

    /// Leaves the earlier values out of an entry that follows one whose values were left out. The
    /// values of that one may be live until a step has ended well.
    fn follow_withheld(&mut self) {
        let fields = self
            .changes
            .iter_mut()
            .flat_map(|change| &mut change.fields);
        fields.for_each(|field| field.from = None);
        self.withheld |= self.result != StepResult::Ready;
    }
}

impl Journal {
    /// Adds an entry, and drops the oldest ones that are too many.
    pub(super) fn add(&mut self, mut entry: Entry) {
        if self.entries.first().is_some_and(|newest| newest.withheld) {
            entry.follow_withheld();
        }
        self.entries.insert(0, entry);
        self.entries.truncate(MAX_ENTRIES);
        let size = |entry: &Entry| serde_json::to_vec(entry).map_or(0, |bytes| bytes.len() + 1);
        let mut bytes = 0;
        let fits = self.entries.iter().take_while(|entry| {
            bytes += size(entry);
            bytes <= MAX_BYTES
        });
        // The newest entry stays in any case: the recorder bounds it.
        let fits = fits.count().max(1);
        self.entries.truncate(fits);
    }
}
