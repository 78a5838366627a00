//! The Secrets and ConfigMaps of a hub that Flux objects refer to.

use super::digests::{Digests, Seen};
use super::flux_objects::FluxObjects;
use driftless_flux::{ObjectRef, Reference};
use driftless_kernel::ports::{Change, FollowEvent};
use driftless_manifest::Object;
use std::collections::{BTreeMap, BTreeSet};

/// The states of what Flux objects refer to, by kind.
#[derive(Default)]
pub(super) struct References(BTreeMap<&'static str, Digests>);

impl References {
    /// Handles an event. Returns the objects that refer to what has changed.
    pub(super) fn event(
        &mut self,
        kind: &'static str,
        event: FollowEvent,
        objects: &FluxObjects,
    ) -> BTreeSet<ObjectRef> {
        let digests = self.0.entry(kind).or_default();
        let (live, is_listed, is_gone) = match event {
            FollowEvent::Restarted => {
                digests.begin_list();
                return BTreeSet::new();
            }
            FollowEvent::Synced => {
                digests.end_list();
                return BTreeSet::new();
            }
            FollowEvent::Listed(live) => (live, true, false),
            FollowEvent::Changed(Change::Written(live)) => (live, false, false),
            FollowEvent::Changed(Change::Deleted(live)) => (live, false, true),
        };
        let reference = Reference {
            kind,
            namespace: live.namespace().to_owned(),
            name: live.name().to_owned(),
        };
        let Some(referrers) = objects.referrers(&reference) else {
            return BTreeSet::new();
        };
        let is_changed = match digests.see(&live.id(), &version(&live)) {
            Seen::Changed => true,
            Seen::Same => is_gone,
            // Before the first LIST of the objects, the first sweep finds the change.
            Seen::New => !is_listed,
        };
        match is_changed {
            true => referrers.clone(),
            false => BTreeSet::new(),
        }
    }
}

/// Returns what changes with each write of an object.
fn version(live: &Object) -> String {
    format!("{} {}", live.meta("uid"), live.meta("resourceVersion"))
}
