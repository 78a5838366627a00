//! The Alerts of a hub: each step with events reads them.

use driftless_flux::{FluxKind, ObjectRef};
use driftless_kernel::ports::{self, Change, FollowEvent};
use driftless_manifest::Object;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most Alerts that are kept. If there are more, each step lists them.
const MAX_ALERTS: usize = 1_000;

/// The Alerts that a watch has seen.
#[derive(Default)]
pub(super) struct Alerts {
    known: BTreeMap<ObjectRef, Object>,
    /// True if `known` is complete.
    is_synced: bool,
}

impl Alerts {
    /// Handles an event of the watch of a kind. Returns true if the Alerts may have changed.
    pub(super) fn event(&mut self, kind: FluxKind, event: &FollowEvent) -> bool {
        if kind != FluxKind::Alert {
            return false;
        }
        match event {
            FollowEvent::Restarted => {
                *self = Self::default();
            }
            FollowEvent::Synced => self.is_synced = true,
            FollowEvent::Listed(alert) | FollowEvent::Changed(Change::Written(alert)) => {
                // One more than the limit is enough to know that there are too many.
                if let Some(id) = ObjectRef::of(alert)
                    && (self.known.len() <= MAX_ALERTS || self.known.contains_key(&id))
                {
                    self.known.insert(id, alert.clone());
                }
            }
            FollowEvent::Changed(Change::Deleted(alert)) => {
                if self.known.len() > MAX_ALERTS {
                    // Some of the others are not known.
                    return false;
                }
                if let Some(id) = ObjectRef::of(alert) {
                    self.known.remove(&id);
                }
            }
        }
        true
    }

    /// Forgets all of them until the next LIST.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Returns all Alerts; `None` if they are not known.
    pub(super) fn all(&self) -> Option<ports::Alerts> {
        let is_known = self.is_synced && self.known.len() <= MAX_ALERTS;
        is_known.then(|| Arc::new(self.known.values().cloned().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn alert(name: &str) -> Object {
        Object::new(
            json!({"apiVersion": "notification.toolkit.fluxcd.io/v1beta3",
            "kind": "Alert", "metadata": {"name": name, "namespace": "team"}}),
        )
        .unwrap()
    }

    fn listed(alerts: &mut Alerts, count: usize) {
        alerts.event(FluxKind::Alert, &FollowEvent::Restarted);
        for number in 0..count {
            let event = FollowEvent::Listed(alert(&number.to_string()));
            alerts.event(FluxKind::Alert, &event);
        }
        assert!(alerts.all().is_none(), "the LIST is not complete");
        alerts.event(FluxKind::Alert, &FollowEvent::Synced);
    }

    #[test]
    fn alerts_are_known_after_a_list_and_until_an_interruption() {
        let mut alerts = Alerts::default();
        let count = |alerts: &Alerts| alerts.all().map(|all| all.len());
        listed(&mut alerts, 2);
        assert_eq!(count(&alerts), Some(2));
        let written = FollowEvent::Changed(Change::Written(alert("new")));
        assert!(!alerts.event(FluxKind::Provider, &written));
        assert!(alerts.event(FluxKind::Alert, &written));
        assert_eq!(count(&alerts), Some(3));
        let deleted = FollowEvent::Changed(Change::Deleted(alert("0")));
        assert!(alerts.event(FluxKind::Alert, &deleted));
        assert_eq!(count(&alerts), Some(2));
        alerts.forget();
        assert_eq!(count(&alerts), None);
    }

    #[test]
    fn too_many_alerts_are_not_kept() {
        let mut alerts = Alerts::default();
        listed(&mut alerts, MAX_ALERTS + 5);
        assert!(alerts.all().is_none());
        let deleted = FollowEvent::Changed(Change::Deleted(alert("0")));
        alerts.event(FluxKind::Alert, &deleted);
        assert!(alerts.all().is_none(), "others are not known");
    }
}
