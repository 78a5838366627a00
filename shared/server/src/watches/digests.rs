//! The states of watched objects, as digests: 16 bytes of content for each object.

use driftless_manifest::ObjectId;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The most objects of one watch whose states are kept. A change of another one is seen by the
/// sweep alone.
const MAX_OBJECTS: usize = 50_000;

/// The states of the objects of one watch.
#[derive(Default)]
pub(super) struct Digests {
    known: HashMap<u64, u64>,
    /// The objects that the current LIST has returned until now; `None` outside a LIST.
    listed: Option<HashSet<u64>>,
}

/// The state of an object, compared with what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// The object was not known.
    New,
    /// The object is in the same state.
    Same,
    /// The object is in another state.
    Changed,
}

impl Digests {
    /// Remembers the state of an object.
    pub(super) fn see(&mut self, id: &ObjectId, state: &str) -> Seen {
        let (id, state) = (digest(id), digest(state));
        if let Some(listed) = &mut self.listed {
            listed.insert(id);
        }
        match self.known.get_mut(&id) {
            Some(known) if *known == state => Seen::Same,
            Some(known) => {
                *known = state;
                Seen::Changed
            }
            None => {
                if self.known.len() < MAX_OBJECTS {
                    self.known.insert(id, state);
                }
                Seen::New
            }
        }
    }

    /// Forgets an object that is gone.
    pub(super) fn forget(&mut self, id: &ObjectId) {
        self.known.remove(&digest(id));
    }

    /// Begins a LIST.
    pub(super) fn begin_list(&mut self) {
        self.listed = Some(HashSet::new());
    }

    /// Ends a LIST: forgets the objects that it did not return. Returns whether there were any.
    pub(super) fn end_list(&mut self) -> bool {
        let listed = self.listed.take().unwrap_or_default();
        let before = self.known.len();
        self.known.retain(|id, _| listed.contains(id));
        self.known.len() < before
    }
}

fn digest(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> ObjectId {
        ObjectId {
            namespace: "default".to_owned(),
            name: name.to_owned(),
            group: String::new(),
            kind: "ConfigMap".to_owned(),
        }
    }

    #[test]
    fn a_list_shows_what_has_changed_and_what_is_gone() {
        let mut digests = Digests::default();
        digests.begin_list();
        assert_eq!(digests.see(&id("a"), "1"), Seen::New);
        assert_eq!(digests.see(&id("b"), "1"), Seen::New);
        assert!(!digests.end_list());
        assert_eq!(digests.see(&id("a"), "1"), Seen::Same);
        assert_eq!(digests.see(&id("a"), "2"), Seen::Changed);
        digests.begin_list();
        assert_eq!(digests.see(&id("a"), "3"), Seen::Changed);
        assert!(digests.end_list());
        assert_eq!(digests.see(&id("b"), "1"), Seen::New);
        digests.forget(&id("b"));
        assert_eq!(digests.see(&id("b"), "1"), Seen::New);
    }
}
