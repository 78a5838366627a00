//! Keys and values in source order, with an index for large maps.

use super::{Node, Scalar};
use std::cell::OnceCell;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

/// The number of keys up to which keys are compared one by one.
const FEW: usize = 64;

/// Keys and values in source order.
#[derive(Debug, Default)]
pub(crate) struct Map {
    fields: Vec<(String, Node)>,
    /// Built at the first lookup in a large map, so that a thousand lookups in a map of a thousand
    /// keys stay cheap.
    index: OnceCell<Box<Index>>,
}

impl Clone for Map {
    fn clone(&self) -> Self {
        Self::new(self.fields.clone())
    }
}

impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        self.fields == other.fields
    }
}

impl FromIterator<(String, Node)> for Map {
    fn from_iter<I: IntoIterator<Item = (String, Node)>>(fields: I) -> Self {
        Self::new(fields.into_iter().collect())
    }
}

impl Map {
    pub fn new(fields: Vec<(String, Node)>) -> Self {
        Self {
            fields,
            index: OnceCell::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.fields.len()
    }

    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    pub fn fields(&self) -> &[(String, Node)] {
        &self.fields
    }

    pub fn into_fields(self) -> Vec<(String, Node)> {
        self.fields
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Node> {
        self.fields.iter_mut().map(|(_, value)| value)
    }

    /// Iterates over keys and mutable values.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&str, &mut Node)> {
        self.fields
            .iter_mut()
            .map(|(key, value)| (key.as_str(), value))
    }

    fn position(&self, key: &str) -> Option<usize> {
        let is_it = |(name, _): &(String, Node)| name == key;
        if self.fields.len() <= FEW {
            return self.fields.iter().position(is_it);
        }
        let index = self.index.get_or_init(|| Box::new(Index::of(&self.fields)));
        let at = index.place(key)?;
        match self.fields.get(at) {
            Some(field) if is_it(field) => Some(at),
            // Another key with the same hash comes before it.
            _ => self.fields.iter().position(is_it),
        }
    }

    pub fn get(&self, key: &str) -> Option<&Node> {
        let at = self.position(key)?;
        self.fields.get(at).map(|(_, value)| value)
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        let at = self.position(key)?;
        self.fields.get_mut(at).map(|(_, value)| value)
    }

    pub fn remove(&mut self, key: &str) -> Option<Node> {
        let at = self.position(key)?;
        self.index.take();
        Some(self.fields.remove(at).1)
    }

    /// Appends a field.
    pub fn push(&mut self, key: impl Into<String>, value: Node) {
        let key = key.into();
        if let Some(index) = self.index.get_mut() {
            index.add(&key, self.fields.len());
        }
        self.fields.push((key, value));
    }

    /// Replaces a value without kyaml's rules for quotes.
    pub fn insert(&mut self, key: &str, value: Node) {
        match self.get_mut(key) {
            Some(slot) => *slot = value,
            None => self.push(key, value),
        }
    }

    /// kyaml's `SetField`: a value that overwrites a quoted scalar becomes a string, one that
    /// overwrites a plain scalar loses its quotes. A new plain string that YAML would not read as a
    /// string is quoted.
    pub fn set(&mut self, key: &str, mut value: Node) {
        match self.get_mut(key) {
            Some(old) => {
                if let Node::Scalar(new) = &mut value {
                    new.style = old.style();
                    new.share = old.share();
                }
                *old = value;
            }
            None => self.push(key, value),
        }
    }

    /// Sets a plain string whose type is decided by its spelling, as kyaml does for names and
    /// kinds.
    pub fn set_plain(&mut self, key: &str, text: &str) {
        match self.get_mut(key) {
            Some(Node::Scalar(old)) => old.set_plain(text),
            Some(other) => *other = Node::Scalar(Scalar::plain(text)),
            None => self.push(key, Node::str(text)),
        }
    }

    /// Returns the map at `key`, created if it is absent or null.
    pub fn map_at(&mut self, key: &str) -> Option<&mut Map> {
        if self.get(key).is_none_or(Node::is_null) {
            self.insert(key, Node::map());
        }
        self.get_mut(key)?.as_map_mut()
    }
}

/// The first position of each key, by hash.
#[derive(Debug)]
struct Index {
    hasher: RandomState,
    places: HashMap<u32, u32>,
}

impl Index {
    fn of(fields: &[(String, Node)]) -> Self {
        let mut index = Self {
            hasher: RandomState::new(),
            places: HashMap::with_capacity(fields.len()),
        };
        for (at, (key, _)) in fields.iter().enumerate() {
            index.add(key, at);
        }
        index
    }

    fn hash(&self, key: &str) -> u32 {
        // Half of a hash is enough: the key at the position is compared.
        (self.hasher.hash_one(key) >> 32) as u32
    }

    fn add(&mut self, key: &str, at: usize) {
        let at = u32::try_from(at).unwrap_or(u32::MAX);
        self.places.entry(self.hash(key)).or_insert(at);
    }

    fn place(&self, key: &str) -> Option<usize> {
        let at = self.places.get(&self.hash(key))?;
        usize::try_from(*at).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_map_answers_as_a_small_one() {
        let mut map = Map::default();
        for number in 0..1_000 {
            map.push(format!("k{number}"), Node::str(number.to_string()));
            let text = |key: &str| map.get(key).map(Node::text);
            assert_eq!(
                text(&format!("k{}", number / 2)),
                Some(&*(number / 2).to_string())
            );
        }
        assert_eq!(map.remove("k500"), Some(Node::str("500")));
        assert_eq!(map.get("k500"), None);
        assert_eq!(map.get("k999"), Some(&Node::str("999")));
        // The first of two duplicates counts.
        map.push("k1", Node::str("other"));
        assert_eq!(map.get("k1"), Some(&Node::str("1")));
        assert_eq!(map.get("k1000"), None);
        assert_eq!((map.len(), map.clone()), (1_000, map));
    }
}
