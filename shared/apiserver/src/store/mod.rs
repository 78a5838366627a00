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

/// What a change did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new object.
    Added,
    /// A new state of an object.
    Modified,
    /// The object was deleted; the event has its last state.
    Deleted,
}

/// One change.
#[derive(Clone, Debug)]
pub struct Event {
    /// The version it made.
    pub version: u64,
    /// Of which resource.
    pub key: Key,
    /// Of which object.
    pub name: Name,
    /// What a change did.
    pub change: Change,
    /// The new state, or the last one.
    pub object: Arc<Value>,
    /// The state before.
    pub before: Option<Arc<Value>>,
}

/// How many changes the history keeps for watches and exact lists. An older position is answered with 410 Gone.
pub const HISTORY: usize = 1000;

/// All objects of one server.
#[derive(Clone, Debug, Default)]
pub struct Store {
    objects: BTreeMap<Key, Objects>,
    version: u64,
    history: VecDeque<Event>,
    /// The newest version that is no longer in the history.
    forgotten: u64,
    /// Whether controllers may have something to do: see [`Store::is_settled`].
    unsettled: bool,
}

impl Store {
    /// The newest version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The newest version that a watch can no longer start from.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Whether nothing happened since [`Store::settled`] that a controller would react to: a deletion, a mark for deletion, or
    /// an object with owners.
    pub fn is_settled(&self) -> bool {
        !self.unsettled
    }

    /// Records that the controllers have nothing left to do.
    pub fn settled(&mut self) {
        self.unsettled = false;
    }

    /// One object.
    pub fn get(&self, key: &Key, name: &Name) -> Option<&Arc<Value>> {
        self.objects.get(key)?.get(name)
    }

    /// Objects of a resource in order of namespace and name; all namespaces when it is empty.
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

    /// All objects of a resource as they were at a version; `None` when the history does not reach back that far.
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

    /// The resources that have objects.
    pub fn keys(&self) -> Vec<Key> {
        self.objects.keys().cloned().collect()
    }

    /// The history after a version, oldest first.
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

    /// Deletes an object and returns its last state. The state in the history has the version of the deletion.
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

/// Objects in order of namespace and name; of all namespaces when it is empty.
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
