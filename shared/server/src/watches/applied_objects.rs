//! The watches of the objects that were applied, and their states.

use super::digests::{Digests, Seen};
use driftless_core::sweep::drift_watch::Watched;
use driftless_flux::ObjectRef;
use driftless_kernel::ports::{Change, FollowEvent};
use driftless_manifest::{Object, ObjectId};
use std::collections::BTreeMap;
use tokio::task::AbortHandle;

/// The most watches. What they would see beyond is left to the sweep.
const MAX_WATCHES: usize = 2_000;

/// The watches of applied objects.
#[derive(Default)]
pub(super) struct AppliedObjects {
    watches: BTreeMap<Watched, Watch>,
    is_full: bool,
}

struct Watch {
    /// The number of owners of such objects.
    owners: usize,
    digests: Digests,
    task: AbortHandle,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An applied object that another state than before, or that is gone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Changed {
    pub(super) owner: ObjectRef,
    pub(super) id: ObjectId,
    /// The fingerprint of what its owner has applied; `None` if the object is gone.
    pub(super) now: Option<String>,
}

impl AppliedObjects {
    /// Adds an owner of such objects. `start` starts their watch.
    pub(super) fn add(&mut self, watched: Watched, start: impl FnOnce(Watched) -> AbortHandle) {
        if let Some(watch) = self.watches.get_mut(&watched) {
            watch.owners += 1;
            return;
        }
        if self.watches.len() >= MAX_WATCHES {
            if !self.is_full {
                tracing::warn!("drift of more than {MAX_WATCHES} kinds is found by sweeps alone");
            }
            self.is_full = true;
            return;
        }
        let watch = Watch {
            owners: 1,
            digests: Digests::default(),
            task: start(watched.clone()),
        };
        self.watches.insert(watched, watch);
    }

    /// Removes an owner of such objects; after the last one, they are no longer watched.
    pub(super) fn remove(&mut self, watched: &Watched) {
        if let Some(watch) = self.watches.get_mut(watched) {
            watch.owners -= 1;
            if watch.owners == 0 {
                self.watches.remove(watched);
            }
        }
    }

    /// Handles an event. Returns the object that may have drifted.
    pub(super) fn event(&mut self, watched: &Watched, event: FollowEvent) -> Option<Changed> {
        let digests = &mut self.watches.get_mut(watched)?.digests;
        match event {
            FollowEvent::Restarted => digests.begin_list(),
            // Only the digest of an object that is gone meanwhile is known: the sweep finds it.
            FollowEvent::Synced => {
                digests.end_list();
            }
            FollowEvent::Listed(live) | FollowEvent::Changed(Change::Written(live)) => {
                let now = watched.fingerprint(&live);
                if digests.see(&live.id(), &now) == Seen::Changed {
                    return changed(watched, &live, Some(now));
                }
            }
            FollowEvent::Changed(Change::Deleted(live)) => {
                digests.forget(&live.id());
                return changed(watched, &live, None);
            }
        }
        None
    }
}

fn changed(watched: &Watched, live: &Object, now: Option<String>) -> Option<Changed> {
    Some(Changed {
        owner: watched.owner_of(live)?,
        id: live.id(),
        now,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_core::sweep::drift_watch::watched;
    use driftless_flux::KUSTOMIZE_CONTROLLER;
    use serde_json::{Value, json};

    fn kind() -> Watched {
        let owner = Object::new(json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1",
            "kind": "Kustomization", "metadata": {"name": "apps", "namespace": "team"},
            "status": {"inventory": {"entries": [{"id": "team_a__ConfigMap", "v": "v1"}]}}}));
        watched(&owner.unwrap()).pop_first().unwrap()
    }

    fn live(fields: Value, others: Value) -> Object {
        let managed = json!([
            {"manager": KUSTOMIZE_CONTROLLER, "operation": "Apply", "fieldsV1": fields},
            {"manager": "other", "operation": "Update", "fieldsV1": others}]);
        let labels = json!({"kustomize.toolkit.fluxcd.io/name": "apps",
            "kustomize.toolkit.fluxcd.io/namespace": "team"});
        Object::new(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata":
            {"name": "a", "namespace": "team", "labels": labels, "managedFields": managed}}))
        .unwrap()
    }

    #[tokio::test]
    async fn only_changes_of_our_fields_count() {
        let mut applied = AppliedObjects::default();
        let kind = kind();
        let task = tokio::spawn(std::future::pending::<()>());
        applied.add(kind.clone(), |_| task.abort_handle());
        let ours = json!({"f:data": {"f:a": {}, "f:b": {}}});
        let mut event = |event: FollowEvent| applied.event(&kind, event);
        let written = |live: Object| FollowEvent::Changed(Change::Written(live));
        assert_eq!(event(FollowEvent::Restarted), None);
        assert_eq!(
            event(FollowEvent::Listed(live(ours.clone(), json!({})))),
            None
        );
        assert_eq!(event(FollowEvent::Synced), None);
        let status = live(ours.clone(), json!({"f:status": {}}));
        assert_eq!(event(written(status)), None, "a status write");
        let edited = live(
            json!({"f:data": {"f:a": {}}}),
            json!({"f:data": {"f:b": {}}}),
        );
        let found = event(written(edited.clone())).unwrap();
        assert_eq!(found.owner.to_string(), "Kustomization/team/apps");
        assert!(found.now.is_some());
        let found = event(FollowEvent::Changed(Change::Deleted(edited))).unwrap();
        assert_eq!(found.now, None);
        applied.remove(&kind);
        assert!(applied.watches.is_empty());
        assert!(task.await.unwrap_err().is_cancelled());
    }
}
