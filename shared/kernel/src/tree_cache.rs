//! A cache of the files of artifacts that a process unpacked last. Many objects build from one
//! source: without it, each of them would unpack all files again.
//!
//! The key is the digest of the packed bytes, so an entry is the same for every object.

use driftless_manifest::FileTree;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most bytes of files that are kept in total, with [`OVERHEAD`] for each file.
const MAX_BYTES: u64 = 64 << 20;
/// The bytes that a file needs in addition to its content: two copies of its name, and its id.
const OVERHEAD: u64 = 256;

/// File trees by digest, the most recently used one at the end.
#[derive(Debug, Default)]
pub struct TreeCache(Mutex<Vec<CachedTree>>);

#[derive(Debug)]
struct CachedTree {
    digest: String,
    tree: Arc<FileTree>,
    size: u64,
}

impl TreeCache {
    /// Returns the files of an artifact, if they are cached.
    pub fn get(&self, digest: &str) -> Option<Arc<FileTree>> {
        let mut kept = self.lock();
        let at = kept.iter().position(|one| one.digest == digest)?;
        let used = kept.remove(at);
        let tree = used.tree.clone();
        kept.push(used);
        Some(tree)
    }

    /// Caches the files of an artifact, and drops those that were used longest ago if there are too
    /// many.
    pub fn keep(&self, digest: &str, tree: &Arc<FileTree>) {
        let files = tree.index().iter().map(|(_, entry)| entry.size + OVERHEAD);
        let size = files.sum::<u64>();
        if size > MAX_BYTES {
            return;
        }
        let mut kept = self.lock();
        kept.retain(|one| one.digest != digest);
        kept.push(CachedTree {
            digest: digest.to_owned(),
            tree: tree.clone(),
            size,
        });
        let mut all: u64 = kept.iter().map(|one| one.size).sum();
        while all > MAX_BYTES {
            all -= kept.remove(0).size;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<CachedTree>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_is_dropped() {
        let half = "x".repeat(usize::try_from(MAX_BYTES / 2).unwrap() - 1000);
        let tree = |text: &str| Arc::new(FileTree::from_files([("a", text)]).unwrap());
        let unpacked = TreeCache::default();
        let (small, large) = (tree("x"), tree(&half));
        unpacked.keep("small", &small);
        unpacked.keep("first", &large);
        assert!(Arc::ptr_eq(&unpacked.get("small").unwrap(), &small));
        unpacked.keep("second", &large);
        let names = || {
            unpacked
                .lock()
                .iter()
                .map(|one| one.digest.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(), ["first", "small", "second"]);
        assert!(unpacked.get("first").is_some());
        unpacked.keep("third", &large);
        assert_eq!(names(), ["first", "third"], "small was used before first");
        unpacked.keep("too large", &tree(&half.repeat(3)));
        assert_eq!(names(), ["first", "third"]);
    }
}
