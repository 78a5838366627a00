//! Objects that wait forever: for an object that nothing creates, for themselves, or in a cycle.

use super::assumed::AssumedReady;
use super::missing_objects::MadeUp;
use crate::embedded::{Objects, Row, State, World};
use driftless_flux::{FluxKind, ObjectRef};
use driftless_manifest::Object;
use serde_json::Value;
use std::collections::BTreeSet;

/// The final state of a world, and what may create more objects.
pub struct Dependencies<'a> {
    /// The servers and the files.
    pub world: &'a World,
    /// The state of the objects.
    pub rows: &'a [Row],
    /// The Flux objects of all hubs.
    pub objects: &'a Objects,
    /// The objects that were not checked.
    pub assumed: &'a AssumedReady,
    /// Everything that the check has made up.
    pub made: &'a MadeUp,
}

impl Dependencies<'_> {
    /// Returns the message of each dependency of an object that never becomes ready.
    pub fn errors(&self, row: &Row) -> Vec<String> {
        let mut messages = Vec::new();
        for dependency in self.dependencies(&row.hub, &row.id) {
            let name = name(&dependency);
            if dependency == row.id {
                messages.push(format!(
                    "spec.dependsOn: '{name}' is the object itself, which never becomes ready: remove the entry"
                ));
            } else if let Some(way) = self.path_between(&row.hub, &dependency, &row.id) {
                messages.push(format!(
                    "spec.dependsOn: '{name}' depends on this object ({way}), so that none of them is ever applied: remove one \
                     of the entries"
                ));
            } else if self.is_never_created(&row.hub, &dependency) {
                messages.push(format!(
                    "spec.dependsOn: '{name}' is not found, and no applied object creates a {} of this name: correct the name, \
                     or add the object to the hub",
                    dependency.kind
                ));
            }
        }
        messages
    }

    /// Checks whether an object is absent, and no unchecked object may create it.
    fn is_never_created(&self, hub: &str, id: &ObjectRef) -> bool {
        if self.objects.contains_key(&(hub.to_owned(), id.clone())) {
            return false;
        }
        if self.assumed.brings_objects(hub) || self.made.definitions.bring_objects(hub) {
            return false;
        }
        let fails = |row: &Row| {
            row.hub == hub
                && row.id.kind == FluxKind::Kustomization
                && !matches!(row.state, State::Ready)
        };
        // An object that fails or waits may be the one that creates it, if a file contains it at
        // all.
        !(self.rows.iter().any(fails) && self.world.has_object(id))
    }

    /// Returns the dependencies of an object.
    fn dependencies(&self, hub: &str, id: &ObjectRef) -> Vec<ObjectRef> {
        let object = self.objects.get(&(hub.to_owned(), id.clone()));
        object
            .map(|object| depends_on(id, object))
            .unwrap_or_default()
    }

    /// Returns the path of dependencies between two objects, such as `A -> B -> A`, if there is
    /// one.
    fn path_between(&self, hub: &str, from: &ObjectRef, to: &ObjectRef) -> Option<String> {
        let mut open = vec![vec![from.clone()]];
        let mut seen = BTreeSet::from([from.clone()]);
        while let Some(way) = open.pop() {
            for next in self.dependencies(hub, way.last()?) {
                if next == *to {
                    let inner = way.iter().map(name);
                    let all = std::iter::once(name(to)).chain(inner).chain([name(to)]);
                    return Some(all.collect::<Vec<_>>().join(" -> "));
                }
                if seen.insert(next.clone()) {
                    open.push([&way[..], &[next]].concat());
                }
            }
        }
        None
    }
}

fn name(id: &ObjectRef) -> String {
    format!("{}/{}", id.namespace, id.name)
}

fn depends_on(id: &ObjectRef, object: &Object) -> Vec<ObjectRef> {
    let entries = object.pointer("/spec/dependsOn").and_then(Value::as_array);
    let text = |entry: &Value, field: &str| {
        let text = entry.get(field).and_then(Value::as_str);
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let entries = entries.into_iter().flatten().filter_map(|entry| {
        let namespace = text(entry, "namespace").unwrap_or_else(|| id.namespace.clone());
        Some(ObjectRef::new(id.kind, &namespace, &text(entry, "name")?))
    });
    entries.collect()
}
