//! The namespace controller and the garbage collector, which run only when called: namespaces are
//! emptied, objects whose owners are gone are deleted.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::store::state::State;
use crate::store::{Key, Name};
use crate::values::clock::Clock;
use crate::values::{set, text};

/// Runs the namespace controller and the garbage collector until nothing is left for them. Returns
/// the number of objects that they changed.
pub(crate) fn settle(state: &mut State, clock: &Clock) -> usize {
    let mut touched = 0;
    while !state.store.is_settled() {
        let step = empty_namespaces(state, clock) + collect(state, clock);
        touched += step;
        if step == 0 {
            state.store.mark_settled();
        }
    }
    touched
}

fn empty_namespaces(state: &mut State, clock: &Clock) -> usize {
    let key = (String::new(), "namespaces".to_owned());
    let ending: Vec<Name> = state
        .store
        .list(&key, "", None)
        .filter(|(_, object)| object["metadata"].get("deletionTimestamp").is_some())
        .map(|(name, _)| name.clone())
        .collect();
    let mut touched = 0;
    for name in ending {
        let namespace = name.1.clone();
        let mut left = false;
        for of in state.store.keys() {
            let inside: Vec<Name> = state
                .store
                .list(&of, &namespace, None)
                .map(|(name, _)| name.clone())
                .collect();
            for object in inside.into_iter().filter(|name| !name.0.is_empty()) {
                left = true;
                touched += delete_or_mark(state, &of, &object, clock);
            }
        }
        if !left && state.store.delete(&key, &name).is_some() {
            touched += 1;
        }
    }
    touched
}

/// Deletes an object, or marks it when finalizers hold it.
fn delete_or_mark(state: &mut State, key: &Key, name: &Name, clock: &Clock) -> usize {
    let Some(object) = state.store.get(key, name) else {
        return 0;
    };
    let held = object["metadata"]["finalizers"]
        .as_array()
        .is_some_and(|list| !list.is_empty());
    if !held {
        state.store.delete(key, name);
        return 1;
    }
    if object["metadata"].get("deletionTimestamp").is_some() {
        return 0;
    }
    let mut object = Value::clone(object);
    object["metadata"]["deletionTimestamp"] = clock.stamp().into();
    object["metadata"]["deletionGracePeriodSeconds"] = 0.into();
    state.store.put(key, name, object);
    1
}

/// Deletes objects whose owners are all gone, and removes the finalizers that wait for dependents.
fn collect(state: &mut State, clock: &Clock) -> usize {
    let mut alive: BTreeSet<String> = BTreeSet::new();
    let mut orphans: Vec<(Key, Name)> = Vec::new();
    let mut waiting: Vec<(Key, Name, String)> = Vec::new();
    for key in state.store.keys() {
        for (_, object) in state.store.list(&key, "", None) {
            alive.insert(text(object, "/metadata/uid").to_owned());
        }
    }
    let mut owned: BTreeSet<String> = BTreeSet::new();
    for key in state.store.keys() {
        for (name, object) in state.store.list(&key, "", None) {
            let owners = object["metadata"]["ownerReferences"].as_array();
            let mut known = false;
            for owner in owners.into_iter().flatten() {
                let uid = text(owner, "/uid");
                known |= alive.contains(uid);
                if owner["blockOwnerDeletion"] == true {
                    owned.insert(uid.to_owned());
                }
            }
            if owners.is_some_and(|owners| !owners.is_empty()) && !known {
                orphans.push((key.clone(), name.clone()));
            }
            for finalizer in crate::values::texts(&object["metadata"]["finalizers"]) {
                if matches!(
                    finalizer.as_str(),
                    "foregroundDeletion"
                        | "orphan"
                        | "kubernetes.io/pvc-protection"
                        | "kubernetes.io/pv-protection"
                ) && object["metadata"].get("deletionTimestamp").is_some()
                {
                    waiting.push((key.clone(), name.clone(), finalizer));
                }
            }
        }
    }
    let mut touched = 0;
    for (key, name) in orphans {
        touched += delete_or_mark(state, &key, &name, clock);
    }
    for (key, name, finalizer) in waiting {
        touched += release(state, &key, &name, &finalizer, &owned, clock);
    }
    touched
}

fn release(
    state: &mut State,
    key: &Key,
    name: &Name,
    finalizer: &str,
    owned: &BTreeSet<String>,
    clock: &Clock,
) -> usize {
    let Some(object) = state.store.get(key, name).cloned() else {
        return 0;
    };
    let uid = text(&object, "/metadata/uid").to_owned();
    let mut touched = 0;
    for of in state.store.keys() {
        let dependents: Vec<(Name, Value)> = state
            .store
            .list(&of, "", None)
            .filter(|(_, other)| owns(other, &uid))
            .map(|(name, other)| (name.clone(), Value::clone(other)))
            .collect();
        for (dependent, mut other) in dependents {
            if finalizer == "orphan" {
                let left: Vec<Value> = other["metadata"]["ownerReferences"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter(|owner| owner["uid"] != uid.as_str())
                    .cloned()
                    .collect();
                let left = (!left.is_empty()).then_some(Value::Array(left));
                set(&mut other, "metadata", "ownerReferences", left);
                state.store.put(&of, &dependent, other);
                touched += 1;
            } else if finalizer == "foregroundDeletion" {
                touched += delete_or_mark(state, &of, &dependent, clock);
            }
        }
    }
    if finalizer == "foregroundDeletion" && touched > 0 && owned.contains(&uid) {
        return touched;
    }
    let mut object = Value::clone(&object);
    let left: Vec<Value> = object["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|known| *known != finalizer)
        .cloned()
        .collect();
    if left.is_empty() {
        state.store.delete(key, name);
    } else {
        set(
            &mut object,
            "metadata",
            "finalizers",
            Some(Value::Array(left)),
        );
        state.store.put(key, name, object);
    }
    touched + 1
}

fn owns(object: &Value, uid: &str) -> bool {
    object["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|owner| owner["uid"] == uid)
}
