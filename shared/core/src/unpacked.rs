//! The files of artifacts that a process unpacked last. Many objects build from one source: each of them would unpack all
//! of its files again.
//!
//! What is kept is found by the digest of the packed bytes, so it is the same for whoever asks.

use driftless_manifest::FileTree;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of files that are kept in all, with [`OVERHEAD`] for each of them.
const MOST: u64 = 64 << 20;
/// What a file costs beside its content: its name, twice, and its id.
const OVERHEAD: u64 = 256;

/// Trees by digest, the one used last at the end.
#[derive(Debug, Default)]
pub struct Unpacked(Mutex<Vec<Kept>>);

#[derive(Debug)]
struct Kept {
    digest: String,
    tree: Arc<FileTree>,
    size: u64,
}

impl Unpacked {
    /// The files of an artifact, if they are kept.
    pub fn get(&self, digest: &str) -> Option<Arc<FileTree>> {
        let mut kept = self.lock();
        let at = kept.iter().position(|one| one.digest == digest)?;
        let used = kept.remove(at);
        let tree = used.tree.clone();
        kept.push(used);
        Some(tree)
    }

    /// Keeps the files of an artifact, and drops those that were used longest ago when they become too many.
    pub fn keep(&self, digest: &str, tree: &Arc<FileTree>) {
        let files = tree.index().iter().map(|(_, entry)| entry.size + OVERHEAD);
        let size = files.sum::<u64>();
        if size > MOST {
            return;
        }
        let mut kept = self.lock();
        kept.retain(|one| one.digest != digest);
        kept.push(Kept {
            digest: digest.to_owned(),
            tree: tree.clone(),
            size,
        });
        let mut all: u64 = kept.iter().map(|one| one.size).sum();
        while all > MOST {
            all -= kept.remove(0).size;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_when_there_are_too_many() {
        let half = "x".repeat(usize::try_from(MOST / 2).unwrap() - 1000);
        let tree = |text: &str| Arc::new(FileTree::from_files([("a", text)]).unwrap());
        let unpacked = Unpacked::default();
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
