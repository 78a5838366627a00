//! A cache with a limit in bytes, for what a process keeps in memory between its steps.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Values by key. If they need too many bytes, those that were used longest ago are dropped.
#[derive(Debug)]
pub(crate) struct BoundedCache<K, V> {
    limit: u64,
    kept: Mutex<Entries<K, V>>,
}

#[derive(Debug)]
struct Entries<K, V> {
    kept: HashMap<K, Entry<V>>,
    /// The keys by their last use.
    order: BTreeMap<u64, K>,
    bytes: u64,
    /// The number of uses until now.
    uses: u64,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    bytes: u64,
    /// The number of the last use.
    used: u64,
}

impl<K: Clone + Eq + Hash, V: Clone> BoundedCache<K, V> {
    /// Returns an empty cache that keeps at most `limit` bytes.
    pub fn with_limit(limit: u64) -> Self {
        let entries = Entries {
            kept: HashMap::new(),
            order: BTreeMap::new(),
            bytes: 0,
            uses: 0,
        };
        Self {
            limit,
            kept: Mutex::new(entries),
        }
    }

    /// Returns what is kept under a key.
    pub fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let mut entries = self.lock();
        let Entries {
            kept, order, uses, ..
        } = &mut *entries;
        let entry = kept.get_mut(key)?;
        let key = order.remove(&entry.used)?;
        *uses += 1;
        entry.used = *uses;
        order.insert(entry.used, key);
        Some(entry.value.clone())
    }

    /// Keeps a value of this size under a key in place of the one before, and drops others if there
    /// are too many bytes in total. A value above the limit is not kept.
    pub fn keep(&self, key: K, value: V, bytes: u64) {
        let mut entries = self.lock();
        entries.remove(&key);
        if bytes > self.limit {
            return;
        }
        while entries.bytes + bytes > self.limit
            && let Some(oldest) = entries.order.values().next().cloned()
        {
            entries.remove(&oldest);
        }
        entries.uses += 1;
        entries.bytes += bytes;
        let used = entries.uses;
        entries.order.insert(used, key.clone());
        entries.kept.insert(key, Entry { value, bytes, used });
    }

    fn lock(&self) -> MutexGuard<'_, Entries<K, V>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash, V> Entries<K, V> {
    fn remove(&mut self, key: &K) {
        if let Some(entry) = self.kept.remove(key) {
            self.bytes -= entry.bytes;
            self.order.remove(&entry.used);
        }
    }
}

#[cfg(test)]
impl<K: Clone + Ord + Hash, V: Clone> BoundedCache<K, V> {
    /// Returns the keys in order, and the bytes in total.
    pub fn contents(&self) -> (Vec<K>, u64) {
        let entries = self.lock();
        assert_eq!(entries.kept.len(), entries.order.len());
        let mut keys: Vec<K> = entries.kept.keys().cloned().collect();
        keys.sort();
        (keys, entries.bytes)
    }
}
