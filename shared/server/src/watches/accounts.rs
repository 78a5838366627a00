//! The objects that Capsule's accounts depend on.

use super::digests::{Digests, Seen};
use driftless_core::capsule::{self, Followed};
use driftless_kernel::ports::{Change, FollowEvent};

/// The states of the objects, by what is followed.
#[derive(Default)]
pub(super) struct Accounts(Vec<(Followed, Digests)>);

impl Accounts {
    /// Returns the accounts of a hub with a Capsule proxy.
    pub(super) fn followed() -> Self {
        let followed = capsule::followed().into_iter();
        Self(followed.map(|one| (one, Digests::default())).collect())
    }

    /// Returns what is followed.
    pub(super) fn all(&self) -> impl Iterator<Item = &Followed> {
        self.0.iter().map(|(followed, _)| followed)
    }

    /// Handles an event. Returns whether accounts may have changed.
    pub(super) fn event(&mut self, followed: &Followed, event: FollowEvent) -> bool {
        let Some((_, digests)) = self.0.iter_mut().find(|(one, _)| one == followed) else {
            return false;
        };
        match event {
            FollowEvent::Restarted => {
                digests.begin_list();
                false
            }
            FollowEvent::Synced => digests.end_list(),
            FollowEvent::Listed(live) => {
                digests.see(&live.id(), &followed.state(&live)) == Seen::Changed
            }
            FollowEvent::Changed(Change::Written(live)) => {
                digests.see(&live.id(), &followed.state(&live)) != Seen::Same
            }
            FollowEvent::Changed(Change::Deleted(live)) => {
                digests.forget(&live.id());
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_manifest::Object;
    use serde_json::json;

    #[test]
    fn an_account_changes_with_its_annotations_alone() {
        let mut accounts = Accounts::followed();
        let followed = accounts
            .all()
            .find(|one| one.gvk().kind == "ServiceAccount");
        let followed = followed.cloned().unwrap();
        let account = |version: &str, enabled: &str| {
            let annotations = json!({"capsule.addon.fluxcd/enabled": enabled, "other": version});
            let metadata = json!({"name": "gitops", "namespace": "team", "uid": "u",
                "resourceVersion": version, "annotations": annotations});
            let object =
                json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata});
            Object::new(object).unwrap()
        };
        let mut event = |event: FollowEvent| accounts.event(&followed, event);
        assert!(!event(FollowEvent::Restarted));
        assert!(!event(FollowEvent::Listed(account("1", "false"))));
        assert!(!event(FollowEvent::Synced));
        let written = |account: Object| FollowEvent::Changed(Change::Written(account));
        assert!(!event(written(account("2", "false"))));
        assert!(event(written(account("3", "true"))));
        assert!(event(FollowEvent::Changed(Change::Deleted(account(
            "4", "true"
        )))));
    }
}
