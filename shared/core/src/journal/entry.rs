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
}

impl Journal {
    /// Adds an entry, and drops the oldest ones that are too many.
    pub(super) fn add(&mut self, entry: Entry) {
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
