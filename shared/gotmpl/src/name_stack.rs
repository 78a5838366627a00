//! Names in scope: a stack in which the topmost entry of a name counts.

use crate::Table;
use std::borrow::Borrow;
use std::hash::Hash;

/// The number of entries up to which they are compared one by one. Further ones have a table, in
/// which an entry takes longer to add.
pub(crate) const FEW: usize = 64;

/// A stack of named values. A lookup takes the same time for any number of entries.
#[derive(Default)]
pub(crate) struct Scope<K, V> {
    stack: Vec<(K, V)>,
    /// The index of the topmost entry of each name; empty while there are few.
    top: Table<K, usize>,
    /// The index of the next lower entry of the same name, by entry; an entry without one has its
    /// own. Empty while there are few.
    below: Vec<usize>,
}

impl<K: Clone + Eq + Hash, V> Scope<K, V> {
    /// Creates a scope with one entry.
    pub fn of(name: K, value: V) -> Self {
        Scope {
            stack: vec![(name, value)],
            top: Table::default(),
            below: Vec::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.stack.len()
    }

    pub fn push(&mut self, name: K, value: V) {
        self.stack.push((name, value));
        if self.stack.len() <= FEW {
            return;
        }
        for at in self.below.len()..self.stack.len() {
            let (name, _) = &self.stack[at];
            let below = self.top.insert(name.clone(), at);
            self.below.push(below.unwrap_or(at));
        }
    }

    /// Removes all entries above the first `length`.
    pub fn truncate(&mut self, length: usize) {
        if length <= FEW {
            self.stack.truncate(length);
            if !self.below.is_empty() {
                self.top = Table::default();
                self.below = Vec::new();
            }
            return;
        }
        while self.stack.len() > length {
            let (Some((name, _)), Some(below)) = (self.stack.pop(), self.below.pop()) else {
                return;
            };
            if below == self.stack.len() {
                self.top.remove(&name);
            } else if let Some(top) = self.top.get_mut(&name) {
                *top = below;
            }
        }
    }

    fn place<Q>(&self, name: &Q) -> Option<usize>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        if self.stack.len() <= FEW {
            return self.stack.iter().rposition(|(n, _)| n.borrow() == name);
        }
        self.top.get(name).copied()
    }

    /// Returns the topmost entry of a name.
    pub fn get<Q>(&self, name: &Q) -> Option<&(K, V)>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.stack.get(self.place(name)?)
    }

    /// Returns the value of the topmost entry of a name.
    pub fn get_mut<Q>(&mut self, name: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let at = self.place(name)?;
        self.stack.get_mut(at).map(|(_, value)| value)
    }

    /// Returns the value at distance `n` from the top.
    pub fn nth_from_top(&mut self, n: usize) -> Option<&mut V> {
        let at = self.stack.len().checked_sub(n)?;
        self.stack.get_mut(at).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::Scope;

    #[test]
    fn the_topmost_entry_counts() {
        let mut scope = Scope::of("a".to_owned(), 0);
        for round in 0..3 {
            for number in 1..200 {
                let name = format!("{}", number % 50);
                scope.push(name.clone(), number);
                assert_eq!(scope.get(&*name).map(|(_, value)| *value), Some(number));
                assert_eq!(scope.get("a").map(|(_, value)| *value), Some(round));
            }
            assert_eq!(scope.get("7").map(|(_, value)| *value), Some(157));
            scope.truncate(100);
            assert_eq!(scope.get("7").map(|(_, value)| *value), Some(57));
            scope.truncate(50);
            assert_eq!(scope.get("7").map(|(_, value)| *value), Some(7));
            assert_eq!(scope.get("0").map(|(_, value)| *value), None);
            scope.truncate(1);
            assert_eq!((scope.len(), scope.get("7")), (1, None));
            if let Some(value) = scope.get_mut("a") {
                *value += 1;
            }
        }
        assert_eq!(scope.nth_from_top(1), Some(&mut 3));
    }
}
