//! The Flux objects of a hub, as its watches see them.

use driftless_core::sweep::drift_watch::{Watched, watched};
use driftless_core::sweep::edits::{LastSeen, needs_step};
use driftless_flux::{FluxKind, ObjectRef, Reference, references};
use driftless_kernel::ports::{Change, FollowEvent};
use driftless_manifest::Object;
use std::collections::{BTreeMap, BTreeSet};

/// The state of each Flux object, and the objects by what they refer to.
#[derive(Default)]
pub(super) struct FluxObjects {
    known: BTreeMap<ObjectRef, Known>,
    referrers: BTreeMap<Reference, BTreeSet<ObjectRef>>,
    /// The objects that the current LIST of a kind has returned until now.
    listed: BTreeMap<FluxKind, BTreeSet<ObjectRef>>,
    /// The kinds that were listed once.
    synced: BTreeSet<FluxKind>,
}

struct Known {
    last_seen: LastSeen,
    references: BTreeSet<Reference>,
    watched: BTreeSet<Watched>,
}

/// The consequences of an event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Effect {
    /// The object that needs a step.
    pub(super) step: Option<ObjectRef>,
    /// True if a kind was listed for the first time: what was changed before is not known.
    pub(super) is_first_list: bool,
    /// The watches that one more object needs.
    pub(super) added: Vec<Watched>,
    /// The watches that one object no longer needs.
    pub(super) removed: Vec<Watched>,
}

impl FluxObjects {
    /// Returns whether an object exists.
    pub(super) fn contains(&self, id: &ObjectRef) -> bool {
        self.known.contains_key(id)
    }

    /// Returns the objects that refer to a Secret or ConfigMap.
    pub(super) fn referrers(&self, reference: &Reference) -> Option<&BTreeSet<ObjectRef>> {
        self.referrers.get(reference)
    }

    /// Handles an event of the watch of a kind.
    pub(super) fn event(&mut self, kind: FluxKind, event: FollowEvent) -> Effect {
        match event {
            FollowEvent::Restarted => {
                self.listed.insert(kind, BTreeSet::new());
                Effect::default()
            }
            FollowEvent::Listed(object) => {
                let is_first = !self.synced.contains(&kind);
                let mut effect = self.written(kind, &object);
                // The first sweep finds what was changed before.
                effect.step = effect.step.filter(|_| !is_first);
                effect
            }
            FollowEvent::Synced => {
                let listed = self.listed.remove(&kind).unwrap_or_default();
                let known = self.known.keys().filter(|id| id.kind == kind);
                let gone: Vec<ObjectRef> =
                    known.filter(|id| !listed.contains(*id)).cloned().collect();
                let removed = gone.iter().flat_map(|id| self.forget(id)).collect();
                Effect {
                    is_first_list: self.synced.insert(kind),
                    removed,
                    ..Effect::default()
                }
            }
            FollowEvent::Changed(Change::Written(object)) => self.written(kind, &object),
            FollowEvent::Changed(Change::Deleted(object)) => {
                let id = ObjectRef::of(&object);
                let removed = id.map(|id| self.forget(&id)).unwrap_or_default();
                Effect {
                    removed,
                    ..Effect::default()
                }
            }
        }
    }

    fn written(&mut self, kind: FluxKind, object: &Object) -> Effect {
        let Some(id) = ObjectRef::of(object) else {
            return Effect::default();
        };
        if let Some(listed) = self.listed.get_mut(&kind) {
            listed.insert(id.clone());
        }
        let before = self.known.get(&id);
        let needs_step = needs_step(before.map(|known| &known.last_seen), object);
        let now = Known {
            last_seen: LastSeen::of(object),
            references: references(object),
            watched: watched(object),
        };
        let none = BTreeSet::new();
        let watched = before.map_or(&none, |known| &known.watched);
        let effect = Effect {
            step: needs_step.then(|| id.clone()),
            added: now.watched.difference(watched).cloned().collect(),
            removed: watched.difference(&now.watched).cloned().collect(),
            ..Effect::default()
        };
        if before.is_none_or(|known| known.references != now.references) {
            self.forget_references(&id);
            for reference in &now.references {
                let referrers = self.referrers.entry(reference.clone()).or_default();
                referrers.insert(id.clone());
            }
        }
        self.known.insert(id, now);
        effect
    }

    /// Forgets an object. Returns what was watched for it.
    fn forget(&mut self, id: &ObjectRef) -> Vec<Watched> {
        self.forget_references(id);
        let known = self.known.remove(id);
        known.into_iter().flat_map(|known| known.watched).collect()
    }

    fn forget_references(&mut self, id: &ObjectRef) {
        let Some(known) = self.known.get(id) else {
            return;
        };
        for reference in &known.references {
            if let Some(referrers) = self.referrers.get_mut(reference) {
                referrers.remove(id);
                if referrers.is_empty() {
                    self.referrers.remove(reference);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const KIND: FluxKind = FluxKind::Kustomization;

    fn object(name: &str, generation: i64, secret: &str, kinds: &[&str]) -> Object {
        let entries: Vec<Value> = kinds
            .iter()
            .map(|kind| json!({"id": format!("team_a__{kind}"), "v": "v1"}))
            .collect();
        Object::new(
            json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"name": name, "namespace": "team", "generation": generation},
            "spec": {"decryption": {"secretRef": {"name": secret}}},
            "status": {"inventory": {"entries": entries}}}),
        )
        .unwrap()
    }

    fn list(objects: &mut FluxObjects, listed: &[Object]) -> Vec<Effect> {
        let mut events = vec![FollowEvent::Restarted];
        events.extend(listed.iter().cloned().map(FollowEvent::Listed));
        events.push(FollowEvent::Synced);
        let effects = events.into_iter().map(|event| objects.event(KIND, event));
        effects.collect()
    }

    fn steps(effects: &[Effect]) -> Vec<&str> {
        let steps = effects.iter().filter_map(|effect| effect.step.as_ref());
        steps.map(|id| id.name.as_str()).collect()
    }

    #[test]
    fn a_second_list_queues_what_has_changed_meanwhile() {
        let mut objects = FluxObjects::default();
        let first = [object("a", 1, "x", &[]), object("b", 1, "x", &[])];
        let effects = list(&mut objects, &first);
        assert!(steps(&effects).is_empty(), "the first sweep finds them");
        assert!(effects.last().unwrap().is_first_list);
        let second = [object("a", 2, "x", &[]), object("c", 1, "x", &[])];
        let effects = list(&mut objects, &second);
        assert_eq!(steps(&effects), ["a", "c"]);
        assert!(!effects.last().unwrap().is_first_list);
        let of = |name: &str| ObjectRef::new(KIND, "team", name);
        assert!(objects.contains(&of("c")) && !objects.contains(&of("b")));
    }

    #[test]
    fn references_follow_the_spec() {
        let mut objects = FluxObjects::default();
        list(
            &mut objects,
            &[object("a", 1, "x", &[]), object("b", 1, "x", &[])],
        );
        let referrers = |objects: &FluxObjects, name: &str| {
            let reference = Reference {
                kind: "Secret",
                namespace: "team".to_owned(),
                name: name.to_owned(),
            };
            objects.referrers(&reference).map_or(0, BTreeSet::len)
        };
        assert_eq!(referrers(&objects, "x"), 2);
        let written = Change::Written(object("a", 2, "y", &[]));
        objects.event(KIND, FollowEvent::Changed(written));
        assert_eq!((referrers(&objects, "x"), referrers(&objects, "y")), (1, 1));
        let deleted = Change::Deleted(object("b", 1, "x", &[]));
        objects.event(KIND, FollowEvent::Changed(deleted));
        assert_eq!(referrers(&objects, "x"), 0);
    }

    #[test]
    fn watched_kinds_follow_the_inventory() {
        let mut objects = FluxObjects::default();
        list(&mut objects, &[object("a", 1, "x", &["ConfigMap"])]);
        let written = Change::Written(object("a", 1, "x", &["Secret"]));
        let effect = objects.event(KIND, FollowEvent::Changed(written));
        let kinds = |all: &[Watched]| -> Vec<String> {
            all.iter().map(|one| one.gvk.kind.clone()).collect()
        };
        assert_eq!(kinds(&effect.added), ["Secret"]);
        assert_eq!(kinds(&effect.removed), ["ConfigMap"]);
        assert_eq!(effect.step, None);
    }
}
