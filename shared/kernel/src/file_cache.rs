//! A cache of the files of artifacts that a process has read: many objects build from one source.
//!
//! Pieces are named by their content, so that the revisions of a source share those without a
//! change.

use crate::bounded_cache::BoundedCache;
use crate::packed_files::{PackedIndex, Piece};
use bytes::Bytes;
use std::sync::Arc;

/// The most bytes of files and indexes that are kept in total.
pub const MAX_BYTES: u64 = 64 << 20;
/// The bytes that an entry needs in addition to its content.
const OVERHEAD: u64 = 256;

/// Indexes of artifacts and pieces of their files. Those that were used longest ago are dropped
/// first.
#[derive(Debug)]
pub struct FileCache(BoundedCache<Name, Content>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

impl Default for FileCache {
    fn default() -> Self {
        Self(BoundedCache::with_limit(MAX_BYTES))
    }
}

impl FileCache {
    /// Returns the index of an artifact, if it is kept.
    pub fn index(&self, hash: &str) -> Option<Arc<PackedIndex>> {
        match self.0.get(&Name::Index(hash.to_owned()))? {
            Content::Index(index) => Some(index),
            Content::Piece(_) => None,
        }
    }

    /// Keeps the index of an artifact.
    pub fn keep_index(&self, hash: &str, index: &Arc<PackedIndex>) {
        let bytes = index.memory();
        let content = Content::Index(index.clone());
        self.keep(Name::Index(hash.to_owned()), content, bytes);
    }

    /// Returns the contents of a piece, if they are kept.
    pub fn piece(&self, piece: &Piece) -> Option<Bytes> {
        match self.0.get(&Name::Piece(piece.digest()))? {
            Content::Piece(contents) => Some(contents),
            Content::Index(_) => None,
        }
    }

    /// Keeps the contents of a piece.
    pub fn keep_piece(&self, piece: &Piece, contents: &Bytes) {
        let content = Content::Piece(contents.clone());
        self.keep(Name::Piece(piece.digest()), content, piece.bytes());
    }

    fn keep(&self, name: Name, content: Content, bytes: u64) {
        self.0.keep(name, content, bytes.saturating_add(OVERHEAD));
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
        cache.keep(name(number), content, bytes);
    }

    fn has(cache: &FileCache, number: u8) -> bool {
        cache.0.get(&name(number)).is_some()
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
        let (names, bytes) = cache.0.contents();
        assert_eq!(bytes, 2 * (10 + OVERHEAD));
        assert_eq!(names.len(), 2);
    }
}
