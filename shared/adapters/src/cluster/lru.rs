//! A map with a limit of entries: the least recently used one is evicted first.

use std::collections::{BTreeMap, HashMap};

/// A map from texts to values that are cheap to clone.
pub(super) struct Lru<V> {
    entries: HashMap<String, (u64, V)>,
    /// The keys, the least recently used first.
    order: BTreeMap<u64, String>,
    uses: u64,
    capacity: usize,
}

impl<V: Clone> Lru<V> {
    /// Creates an empty map for this many entries.
    pub fn new(capacity: usize) -> Self {
        Self {
            entries: HashMap::new(),
            order: BTreeMap::new(),
            uses: 0,
            capacity,
        }
    }

    /// Returns the value of a key, which becomes the most recently used one.
    pub fn get(&mut self, key: &str) -> Option<V> {
        let (used, value) = self.entries.get_mut(key)?;
        self.uses += 1;
        let key = self.order.remove(used);
        *used = self.uses;
        self.order.extend(key.map(|key| (self.uses, key)));
        Some(value.clone())
    }

    /// Adds a value, and evicts the least recently used one if there are too many.
    pub fn insert(&mut self, key: String, value: V) {
        self.uses += 1;
        self.order.insert(self.uses, key.clone());
        if let Some((used, _)) = self.entries.insert(key, (self.uses, value)) {
            self.order.remove(&used);
        }
        if self.entries.len() > self.capacity
            && let Some((_, key)) = self.order.pop_first()
        {
            self.entries.remove(&key);
        }
    }

    /// Keeps only the values that pass.
    pub fn retain(&mut self, passes: impl Fn(&V) -> bool) {
        self.entries.retain(|_, (_, value)| passes(value));
        self.order.retain(|_, key| self.entries.contains_key(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_entry_is_evicted() {
        let mut lru = Lru::new(2);
        lru.insert("a".to_owned(), 1);
        lru.insert("b".to_owned(), 2);
        assert_eq!(lru.get("a"), Some(1));
        lru.insert("c".to_owned(), 3);
        let values = |lru: &mut Lru<i32>| ["a", "b", "c"].map(|key| lru.get(key));
        assert_eq!(values(&mut lru), [Some(1), None, Some(3)]);
        lru.insert("a".to_owned(), 4);
        assert_eq!(values(&mut lru), [Some(4), None, Some(3)]);
        lru.retain(|value| *value != 4);
        lru.insert("b".to_owned(), 5);
        assert_eq!(values(&mut lru), [None, Some(5), Some(3)]);
        assert_eq!((lru.entries.len(), lru.order.len()), (2, 2));
    }
}
