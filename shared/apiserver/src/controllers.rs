//! What controllers do in a real cluster, done when asked: namespaces are
//! emptied, objects without owners are collected.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::request::Moment;
use crate::server::Server;
use crate::store::{Key, Name};
use crate::write::{set, text};

impl Server {
    /// Lets the namespace controller and the garbage collector work until
    /// nothing is left for them. Returns how many objects they touched.
    pub fn settle(&mut self, moment: &Moment) -> usize {
        let mut touched = 0;
        while !self.store.is_settled() {
            let step = self.empty_namespaces(moment) + self.collect(moment);
            touched += step;
            if step == 0 {
                self.store.settled();
            }
        }
        touched
    }

    fn empty_namespaces(&mut self, moment: &Moment) -> usize {
        let key = (String::new(), "namespaces".to_owned());
        let ending: Vec<Name> = self
            .store
            .list(&key, "", None)
            .filter(|(_, object)| object["metadata"].get("deletionTimestamp").is_some())
            .map(|(name, _)| name.clone())
            .collect();
        let mut touched = 0;
        for name in ending {
            let namespace = name.1.clone();
            let mut left = false;
            for of in self.store.keys() {
                let inside: Vec<Name> = self
                    .store
                    .list(&of, &namespace, None)
                    .map(|(name, _)| name.clone())
                    .collect();
                for object in inside.into_iter().filter(|name| !name.0.is_empty()) {
                    left = true;
                    touched += self.begin_end(&of, &object, moment);
                }
            }
            if !left && self.store.delete(&key, &name).is_some() {
                touched += 1;
            }
        }
        touched
    }

    /// Deletes an object, or marks it when finalizers hold it.
    fn begin_end(&mut self, key: &Key, name: &Name, moment: &Moment) -> usize {
        let Some(object) = self.store.get(key, name) else {
            return 0;
        };
        let held = object["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|list| !list.is_empty());
        if !held {
            self.store.delete(key, name);
            return 1;
        }
        if object["metadata"].get("deletionTimestamp").is_some() {
            return 0;
        }
        let mut object = Value::clone(object);
        object["metadata"]["deletionTimestamp"] = moment.stamp().into();
        object["metadata"]["deletionGracePeriodSeconds"] = 0.into();
        self.store.put(key, name, object);
        1
    }

    /// Ends what has lost all its owners, and what waits for its dependents.
    fn collect(&mut self, moment: &Moment) -> usize {
        let mut alive: BTreeSet<String> = BTreeSet::new();
        let mut orphans: Vec<(Key, Name)> = Vec::new();
        let mut waiting: Vec<(Key, Name, String)> = Vec::new();
        for key in self.store.keys() {
            for (_, object) in self.store.list(&key, "", None) {
                alive.insert(text(object, "/metadata/uid").to_owned());
            }
        }
        let mut owned: BTreeSet<String> = BTreeSet::new();
        for key in self.store.keys() {
            for (name, object) in self.store.list(&key, "", None) {
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
                for finalizer in crate::registry::texts(&object["metadata"]["finalizers"]) {
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
            touched += self.begin_end(&key, &name, moment);
        }
        for (key, name, finalizer) in waiting {
            touched += self.release(&key, &name, &finalizer, &owned, moment);
        }
        touched
    }

    fn release(
        &mut self,
        key: &Key,
        name: &Name,
        finalizer: &str,
        owned: &BTreeSet<String>,
        moment: &Moment,
    ) -> usize {
        let Some(object) = self.store.get(key, name).cloned() else {
            return 0;
        };
        let uid = text(&object, "/metadata/uid").to_owned();
        let mut touched = 0;
        for of in self.store.keys() {
            let dependents: Vec<(Name, Value)> = self
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
                    self.store.put(&of, &dependent, other);
                    touched += 1;
                } else if finalizer == "foregroundDeletion" {
                    touched += self.begin_end(&of, &dependent, moment);
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
            self.store.delete(key, name);
        } else {
            set(
                &mut object,
                "metadata",
                "finalizers",
                Some(Value::Array(left)),
            );
            self.store.put(key, name, object);
        }
        touched + 1
    }
}

fn owns(object: &Value, uid: &str) -> bool {
    object["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|owner| owner["uid"] == uid)
}
