//! What a running step changed, collected for its entry and for the audit log.

use super::entry::{Entry, ObjectChange, StepResult};
use super::fields::{self, FieldChange};
use crate::audit;
use crate::ports::{Cause, PushedCommit};
use driftless_flux::shorten;
use driftless_manifest::{Object, ObjectId};
use driftless_plans::apply::plan::Action;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The most objects of one entry.
const MAX_CHANGES: usize = 60;
/// The most changed fields of one entry.
const MAX_FIELDS: usize = 200;
/// The most bytes of a message.
const MAX_MESSAGE: usize = 2048;

/// The changes of a step, written into the journal at its end.
#[derive(Default)]
pub struct Recorder(Mutex<Collected>);

#[derive(Default)]
struct Collected {
    changes: Vec<ObjectChange>,
    omitted: usize,
    fields: usize,
    withholds_values: bool,
    received: Option<u64>,
    commit: Option<PushedCommit>,
    /// The changes for the audit log, which has all of them.
    audited: Vec<audit::Change>,
}

/// The end of a step.
pub struct End<'a> {
    /// The start of the step, since 1970.
    pub started: Duration,
    /// The end of the step, since 1970.
    pub ended: Duration,
    /// The cause of the step.
    pub cause: Cause,
    /// The revision that the step worked on.
    pub revision: &'a str,
    /// The state of the object.
    pub result: StepResult,
    /// The reason and the message of the condition `Ready`.
    pub ready: (&'a str, &'a str),
}

impl Recorder {
    /// Leaves all values out of this entry, because some may come from a Secret: the step decrypts
    /// files, or substitutes variables of a Secret.
    pub fn withhold_values(&self) {
        self.lock().withholds_values = true;
    }

    /// Sets the time at which the webhook received the delivery that the step is for, in
    /// milliseconds since 1970.
    pub fn set_received(&self, received: Option<u64>) {
        self.lock().received = received;
    }

    /// Sets the commit that the step is for, as a delivery described it.
    pub fn set_commit(&self, commit: Option<PushedCommit>) {
        self.lock().commit = commit;
    }

    /// Returns the commit that the step is for.
    pub fn commit(&self) -> Option<PushedCommit> {
        self.lock().commit.clone()
    }

    /// Records what happened to an object, with the versions before and after it that were read.
    pub fn change(
        &self,
        id: &ObjectId,
        action: Action,
        before: Option<&Object>,
        after: Option<&Object>,
    ) {
        if !action.is_change() {
            return;
        }
        let mut collected = self.lock();
        let with_values = !collected.withholds_values;
        let digest = match (action, before, after) {
            (Action::Created, _, Some(after)) => Some(fields::digest(None, after, with_values)),
            (Action::Configured, before @ Some(_), Some(after)) => {
                Some(fields::digest(before, after, with_values))
            }
            _ => None,
        };
        let change = audit::Change::new(id, action, digest);
        collected.audited.push(change);
        if collected.changes.len() >= MAX_CHANGES {
            collected.omitted += 1;
            return;
        }
        let versions = before.zip(after);
        let versions = versions.filter(|_| action == Action::Configured);
        let mut fields: Vec<FieldChange> = versions
            .map(|(before, after)| fields::changed(before, after, with_values))
            .unwrap_or_default();
        fields.truncate(MAX_FIELDS.saturating_sub(collected.fields));
        collected.fields += fields.len();
        collected.changes.push(ObjectChange {
            object: id.to_string(),
            action: action.to_string(),
            fields,
        });
    }

    /// Returns whether the step changed an object.
    pub fn has_changes(&self) -> bool {
        !self.lock().changes.is_empty()
    }

    /// Takes the changes for the audit log.
    pub fn take_audited(&self) -> Vec<audit::Change> {
        std::mem::take(&mut self.lock().audited)
    }

    /// Takes the changes as the entry of the step.
    pub fn entry(&self, end: End<'_>) -> Entry {
        let mut collected = self.lock();
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Entry {
            received: collected.received,
            started: millis(end.started),
            ended: millis(end.ended),
            cause: end.cause,
            revision: end.revision.to_owned(),
            result: end.result,
            reason: end.ready.0.to_owned(),
            message: shorten(end.ready.1, MAX_MESSAGE),
            changes: std::mem::take(&mut collected.changes),
            omitted: collected.omitted,
            withheld: collected.withholds_values,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Collected> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
