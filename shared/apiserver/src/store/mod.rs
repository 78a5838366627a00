//! Objects by resource and name, one counter of versions, a bounded history.

pub(crate) mod state;

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use serde_json::Value;

/// `group` and plural: the same for all versions of a resource.
pub type Key = (String, String);

/// Namespace (empty for cluster-scoped objects) and name.
pub type Name = (String, String);

/// The objects of a resource.
pub type Objects = BTreeMap<Name, Arc<Value>>;

/// The type of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new object.
    Added,
    /// A new state of an object.
    Modified,
    /// The object was deleted; the event has its last state.
    Deleted,
}

/// One change of an object.
#[derive(Clone, Debug)]
pub struct Event {
    /// The version that the change made.
    pub version: u64,
    /// The resource of the object.
    pub key: Key,
    /// The namespace and name of the object.
    pub name: Name,
    /// The type of the change.
    pub change: Change,
    /// The new state, or the last one.
    pub object: Arc<Value>,
    /// The state before the change.
    pub before: Option<Arc<Value>>,
}

/// The number of changes that the history keeps for watches and exact lists. A request for an older
/// version gets 410 Gone.
pub const HISTORY: usize = 1000;

/// All objects of one server.
#[derive(Clone, Debug, Default)]
pub struct Store {
    objects: BTreeMap<Key, Objects>,
    version: u64,
    history: VecDeque<Event>,
    /// The newest version that is no longer in the history.
    forgotten: u64,
    /// True if controllers may have something to do: see [`Store::is_settled`].
    unsettled: bool,
}

impl Store {
    /// Returns the newest version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the newest version that a watch can no longer start from.
    pub fn compacted_version(&self) -> u64 {
        self.forgotten
    }

    /// Returns whether the controllers have nothing to do: since [`Store::settled`], no object was
    /// deleted or marked for deletion, and none with owners was written.
    pub fn is_settled(&self) -> bool {
        !self.unsettled
    }

    /// Records that the controllers have nothing left to do.
    pub fn mark_settled(&mut self) {
        self.unsettled = false;
    }

    /// Returns an object, if it exists.
    pub fn get(&self, key: &Key, name: &Name) -> Option<&Arc<Value>> {
        self.objects.get(key)?.get(name)
    }

    /// Returns the objects of a resource in order of namespace and name; those of all namespaces if
    /// `namespace` is empty.
    pub fn list<'a>(
        &'a self,
        key: &Key,
        namespace: &'a str,
        after: Option<&Name>,
    ) -> impl Iterator<Item = (&'a Name, &'a Arc<Value>)> + use<'a> {
        let after = after.cloned();
        let all = self.objects.get(key).into_iter();
        all.flat_map(move |all| range(all, namespace, after.as_ref()))
    }

    /// Returns all objects of a resource at a version; `None` if the history does not reach back
    /// that far.
    pub fn at(&self, key: &Key, version: u64) -> Option<Cow<'_, Objects>> {
        static NONE: Objects = Objects::new();
        let now = self.objects.get(key).unwrap_or(&NONE);
        if version >= self.version {
            return Some(Cow::Borrowed(now));
        }
        if version < self.forgotten {
            return None;
        }
        let mut then = now.clone();
        let mut undone: Vec<&Event> = self.since(version).filter(|e| e.key == *key).collect();
        while let Some(event) = undone.pop() {
            match &event.before {
                Some(before) => then.insert(event.name.clone(), Arc::clone(before)),
                None => then.remove(&event.name),
            };
        }
        Some(Cow::Owned(then))
    }

    /// Returns the resources that have objects.
    pub fn keys(&self) -> Vec<Key> {
        self.objects.keys().cloned().collect()
    }

    /// Returns the history after a version, oldest first.
    pub fn since(&self, version: u64) -> impl Iterator<Item = &Event> {
        let start = self
            .history
            .partition_point(|event| event.version <= version);
        self.history.range(start..)
    }

    /// Writes an object; its resourceVersion is set.
    pub fn put(&mut self, key: &Key, name: &Name, mut object: Value) -> Arc<Value> {
        self.version += 1;
        let metadata = &mut object["metadata"];
        metadata["resourceVersion"] = self.version.to_string().into();
        self.unsettled |= metadata.get("deletionTimestamp").is_some()
            || metadata.get("ownerReferences").is_some();
        let object = Arc::new(object);
        let all = self.objects.entry(key.clone()).or_default();
        let before = all.insert(name.clone(), Arc::clone(&object));
        let change = if before.is_some() {
            Change::Modified
        } else {
            Change::Added
        };
        self.remember(key, name, change, Arc::clone(&object), before);
        object
    }

    /// Deletes an object and returns its last state. The state in the history has the version of
    /// the deletion.
    pub fn delete(&mut self, key: &Key, name: &Name) -> Option<Arc<Value>> {
        let all = self.objects.get_mut(key)?;
        let before = all.remove(name)?;
        if all.is_empty() {
            self.objects.remove(key);
        }
        self.version += 1;
        self.unsettled = true;
        let mut object = before.as_ref().clone();
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let object = Arc::new(object);
        self.remember(
            key,
            name,
            Change::Deleted,
            object,
            Some(Arc::clone(&before)),
        );
        Some(before)
    }

    fn remember(
        &mut self,
        key: &Key,
        name: &Name,
        change: Change,
        object: Arc<Value>,
        before: Option<Arc<Value>>,
    ) {
        self.history.push_back(Event {
            version: self.version,
            key: key.clone(),
            name: name.clone(),
            change,
            object,
            before,
        });
        if self.history.len() > HISTORY
            && let Some(oldest) = self.history.pop_front()
        {
            self.forgotten = oldest.version;
        }
    }
}

/// Returns the objects in order of namespace and name; those of all namespaces if `namespace` is
/// empty.
pub fn range<'a>(
    all: &'a Objects,
    namespace: &'a str,
    after: Option<&Name>,
) -> impl Iterator<Item = (&'a Name, &'a Arc<Value>)> + use<'a> {
    let start = match after {
        Some(name) => Bound::Excluded(name.clone()),
        None => Bound::Included((namespace.to_owned(), String::new())),
    };
    all.range((start, Bound::Unbounded))
        .take_while(move |((of, _), _)| namespace.is_empty() || of == namespace)
}
