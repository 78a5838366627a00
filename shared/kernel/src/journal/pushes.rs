//! The last pushes, from journals: when a source had a new revision, and when each object landed.

use super::entry::{Entry, Journal, StepResult};
use driftless_flux::ObjectRef;
use std::collections::BTreeMap;

/// A revision that sources received, and where it landed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Push {
    /// The revision, such as `main@sha1:...`.
    pub revision: String,
    /// The time at which the webhook received its delivery, in milliseconds since 1970; without a
    /// delivery that at which the first source began to read it.
    pub received: u64,
    /// The sources that received it, by hub.
    pub sources: Vec<(String, ObjectRef)>,
    /// The message of the source, with the subject of the commit.
    pub message: String,
    /// The objects that the push changed, or that failed or recovered with it, by the time of
    /// their end.
    pub landings: Vec<Landing>,
}

/// The landing of a push at one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Landing {
    /// The name of the hub.
    pub hub: String,
    /// The object that landed.
    pub object: ObjectRef,
    /// The time of the end, in milliseconds since 1970: of the first step after which the object
    /// was ready, else of the newest step.
    pub ended: u64,
    /// The state after that step.
    pub result: StepResult,
    /// The number of objects that the steps for the push changed.
    pub changed: usize,
    /// The message of that step.
    pub message: String,
}

impl Push {
    /// Returns the time from the push to the end of its last landing, in milliseconds.
    pub fn took(&self) -> Option<u64> {
        let last = self.landings.iter().map(|landing| landing.ended).max()?;
        Some(last.saturating_sub(self.received))
    }
}

/// Returns the pushes that the journals of hubs have, the newest first, at most `most`.
pub fn pushes<'j>(
    journals: impl IntoIterator<Item = (&'j str, &'j ObjectRef, &'j Journal)> + Clone,
    most: usize,
) -> Vec<Push> {
    let mut pushes: BTreeMap<&str, Push> = BTreeMap::new();
    for (hub, object, journal) in journals.clone() {
        let received = journal.entries.iter();
        for entry in received.filter(|entry| entry.result == StepResult::NewRevision) {
            let push = pushes.entry(&entry.revision).or_insert_with(|| Push {
                revision: entry.revision.clone(),
                received: entry.received.unwrap_or(entry.started),
                sources: Vec::new(),
                message: entry.message.clone(),
                landings: Vec::new(),
            });
            push.received = push.received.min(entry.received.unwrap_or(entry.started));
            push.sources.push((hub.to_owned(), object.clone()));
        }
    }
    for (hub, object, journal) in journals {
        let mut by_revision: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
        let steps = journal.entries.iter().rev();
        for entry in steps.filter(|entry| entry.result != StepResult::NewRevision) {
            by_revision.entry(&entry.revision).or_default().push(entry);
        }
        for (revision, steps) in by_revision {
            let Some(push) = pushes.get_mut(revision) else {
                continue;
            };
            push.landings.extend(landing(hub, object, &steps));
        }
    }
    let mut newest: Vec<Push> = pushes.into_values().collect();
    newest.sort_by(|a, b| (b.received, &b.revision).cmp(&(a.received, &a.revision)));
    newest.truncate(most);
    for push in &mut newest {
        push.landings
            .sort_by(|a, b| (a.ended, &a.hub, &a.object).cmp(&(b.ended, &b.hub, &b.object)));
    }
    newest
}

/// Returns the landing of a push at an object, from the steps for its revision in their order.
fn landing(hub: &str, object: &ObjectRef, steps: &[&Entry]) -> Option<Landing> {
    let ready = |entry: &&&Entry| entry.result == StepResult::Ready;
    let end = steps.iter().find(ready).or(steps.last())?;
    Some(Landing {
        hub: hub.to_owned(),
        object: object.clone(),
        ended: end.ended,
        result: end.result,
        changed: steps.iter().map(|entry| entry.changed()).sum(),
        message: end.message.clone(),
    })
}
