//! Go's maps with string keys: shared, and dropped without recursion.

use super::cycles::Emptied;
use super::{Str, TypeInfo, Value};
use std::cell::{Cell, Ref, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

pub(super) struct Data {
    nil: bool,
    /// True if the map is recorded in [`super::cycles`] because it has received a map or list.
    noted: Cell<bool>,
    entries: RefCell<BTreeMap<Str, Value>>,
}

impl Emptied for Data {
    fn mark_noted(&self) -> bool {
        !self.noted.replace(true)
    }

    fn clear(&self) {
        let entries = self.entries.try_borrow_mut();
        drop(entries.map(|mut entries| std::mem::take(&mut *entries)));
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        let entries = self.entries.get_mut();
        if entries.values().any(Value::holds_values) {
            let entries = std::mem::take(entries).into_values();
            super::dismantle(entries.filter(Value::holds_values).collect());
        }
    }
}

/// A Go map with string keys, in order of key as Go's templates walk it; shared by its clones.
#[derive(Clone)]
pub struct Map {
    info: &'static TypeInfo,
    data: Rc<Data>,
}

impl Default for Map {
    fn default() -> Self {
        Self::new()
    }
}

impl Map {
    /// Creates an empty `map[string]interface {}`.
    pub fn new() -> Self {
        Self::typed(&TypeInfo::MAP, BTreeMap::new())
    }

    /// Creates a map of a given type.
    pub fn typed(info: &'static TypeInfo, entries: BTreeMap<Str, Value>) -> Self {
        Map {
            info,
            data: Rc::new(Data {
                nil: false,
                noted: Cell::new(false),
                entries: RefCell::new(entries),
            }),
        }
    }

    /// Creates the nil map of a type.
    pub fn nil(info: &'static TypeInfo) -> Self {
        Map {
            info,
            data: Rc::new(Data {
                nil: true,
                noted: Cell::new(false),
                entries: RefCell::default(),
            }),
        }
    }

    /// Creates a `map[string]interface {}` with these pairs.
    pub fn from_pairs<K: Into<Str>>(pairs: impl IntoIterator<Item = (K, Value)>) -> Self {
        Self::typed(
            &TypeInfo::MAP,
            pairs.into_iter().map(|(k, v)| (k.into(), v)).collect(),
        )
    }

    /// Returns the type of the map.
    pub fn info(&self) -> &'static TypeInfo {
        self.info
    }

    /// Checks whether it is the nil map, which cannot be written.
    pub fn is_nil(&self) -> bool {
        self.data.nil
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.data.entries.borrow().len()
    }

    /// Checks whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.data.entries.borrow().is_empty()
    }

    /// Returns the value of a key.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<Value> {
        self.data.entries.borrow().get(key.as_ref()).cloned()
    }

    /// Sets a key; every clone sees it.
    pub fn insert(&self, key: impl Into<Str>, value: Value) {
        if value.holds_values() {
            super::cycles::note(&self.data);
        }
        self.data
            .entries
            .borrow_mut()
            .insert(key.into(), value.or_nil());
    }

    /// Deletes a key; every clone sees it.
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Option<Value> {
        self.data.entries.borrow_mut().remove(key.as_ref())
    }

    /// Returns the entries in order of key. The borrow must end before the map changes.
    pub fn entries(&self) -> Ref<'_, BTreeMap<Str, Value>> {
        self.data.entries.borrow()
    }

    /// Returns a copy of the entries in order of key.
    pub fn pairs(&self) -> Vec<(Str, Value)> {
        self.data
            .entries
            .borrow()
            .iter()
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect()
    }

    /// Returns the same map under another type; the entries stay shared.
    pub fn retyped(&self, info: &'static TypeInfo) -> Map {
        Map {
            info,
            data: self.data.clone(),
        }
    }

    /// Moves the lists and maps in it to `values`, if this is the only reference to the map.
    pub(super) fn move_nested(self, values: &mut Vec<Value>) {
        if let Some(mut data) = Rc::into_inner(self.data) {
            let entries = std::mem::take(data.entries.get_mut()).into_values();
            values.extend(entries.filter(Value::holds_values));
        }
    }

    /// Checks whether both are the same map in memory.
    pub fn same(&self, other: &Map) -> bool {
        Rc::ptr_eq(&self.data, &other.data)
    }
}
