//! A cache of the files of artifacts that a process has read: many objects build from one source.
//!
//! Pieces are named by their content, so that the revisions of a source share those without a
//! change.

use crate::packed_files::{PackedIndex, Piece};
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most bytes of files and indexes that are kept in total.
pub const MAX_BYTES: u64 = 64 << 20;
/// The bytes that an entry needs in addition to its content.
const OVERHEAD: u64 = 256;

/// Indexes of artifacts and pieces of their files. Those that were used longest ago are dropped
/// first.
#[derive(Debug, Default)]
pub struct FileCache(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    kept: HashMap<Name, Entry>,
    /// The entries by their last use.
    order: BTreeMap<u64, Name>,
    bytes: u64,
    uses: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Name {
    /// The index of the artifact with this hash.
    Index(String),
    /// The piece with this digest.
    Piece([u8; 32]),
}

#[derive(Clone, Debug)]
enum Content {
    Index(Arc<PackedIndex>),
    Piece(Bytes),
}

#[derive(Debug)]
struct Entry {
    content: Content,
    bytes: u64,
    used: u64,
}

impl FileCache {
    /// Returns the index of an artifact, if it is kept.
    pub fn index(&self, hash: &str) -> Option<Arc<PackedIndex>> {
        match self.lock().get(&Name::Index(hash.to_owned()))? {
            Content::Index(index) => Some(index),
            Content::Piece(_) => None,
        }
    }

    /// Keeps the index of an artifact.
    pub fn keep_index(&self, hash: &str, index: &Arc<PackedIndex>) {
        let bytes = index.memory();
        let content = Content::Index(index.clone());
        self.lock()
            .keep(Name::Index(hash.to_owned()), content, bytes);
    }

    /// Returns the contents of a piece, if they are kept.
    pub fn piece(&self, piece: &Piece) -> Option<Bytes> {
        match self.lock().get(&Name::Piece(piece.digest()))? {
            Content::Piece(contents) => Some(contents),
            Content::Index(_) => None,
        }
    }

    /// Keeps the contents of a piece.
    pub fn keep_piece(&self, piece: &Piece, contents: &Bytes) {
        let content = Content::Piece(contents.clone());
        self.lock()
            .keep(Name::Piece(piece.digest()), content, piece.bytes());
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn get(&mut self, name: &Name) -> Option<Content> {
        self.uses += 1;
        let entry = self.kept.get_mut(name)?;
        self.order.remove(&entry.used);
        self.order.insert(self.uses, name.clone());
        entry.used = self.uses;
        Some(entry.content.clone())
    }

    fn keep(&mut self, name: Name, content: Content, bytes: u64) {
        let bytes = bytes.saturating_add(OVERHEAD);
        self.remove(&name);
        if bytes > MAX_BYTES {
            return;
        }
        while self.bytes + bytes > MAX_BYTES
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.remove(&oldest);
        }
        self.uses += 1;
        let used = self.uses;
        self.bytes += bytes;
        self.order.insert(used, name.clone());
        let entry = Entry {
            content,
            bytes,
            used,
        };
        self.kept.insert(name, entry);
    }

    fn remove(&mut self, name: &Name) {
        if let Some(entry) = self.kept.remove(name) {
            self.bytes -= entry.bytes;
            self.order.remove(&entry.used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: u8) -> Name {
        Name::Piece([number; 32])
    }

    fn keep(cache: &FileCache, number: u8, bytes: u64) {
        let content = Content::Piece(Bytes::new());
        cache.lock().keep(name(number), content, bytes);
    }

    fn has(cache: &FileCache, number: u8) -> bool {
        cache.lock().get(&name(number)).is_some()
    }

    #[test]
    fn the_entry_that_was_used_longest_ago_is_dropped_first() {
        let cache = FileCache::default();
        keep(&cache, 0, 10);
        keep(&cache, 1, MAX_BYTES / 2);
        assert!(has(&cache, 0));
        keep(&cache, 2, MAX_BYTES / 2);
        assert_eq!([0, 1, 2].map(|at| has(&cache, at)), [true, false, true]);
        keep(&cache, 3, MAX_BYTES);
        assert!(!has(&cache, 3), "an entry above the limit is not kept");
        keep(&cache, 2, 10);
        let entries = cache.lock();
        assert_eq!(entries.bytes, 2 * (10 + OVERHEAD));
        assert_eq!((entries.kept.len(), entries.order.len()), (2, 2));
    }
}
