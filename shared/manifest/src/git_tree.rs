//! Git's id of a tree of files.

use crate::{BlobId, EntryKind, TreeIndex, git_object_id};
use std::collections::BTreeMap;

/// Returns Git's id of the tree object for these files, which a commit contains: SHA-1 over
/// `tree LENGTH\0` and the entries, in which directories sort as if their names ended with `/`.
///
/// Git has no empty directories, and neither has this index. Submodules are not files, so a commit
/// with one has another id.
///
/// ```
/// use driftless_manifest::{TreeIndex, git_tree_id};
/// assert_eq!(git_tree_id(&TreeIndex::default()), "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
/// ```
pub fn git_tree_id(index: &TreeIndex) -> String {
    let mut root = Directory::default();
    for (path, entry) in index.iter() {
        let mode = match entry.kind {
            EntryKind::File => "100644",
            EntryKind::Executable => "100755",
            EntryKind::Link => "120000",
        };
        let mut parts = path.parts();
        let Some(name) = parts.next_back() else {
            continue;
        };
        let directory = parts.fold(&mut root, |directory, part| {
            directory.directories.entry(format!("{part}/")).or_default()
        });
        directory.files.insert(name.to_owned(), (mode, entry.id));
    }
    hex::encode(root.id())
}

#[derive(Default)]
struct Directory {
    /// The files, by name.
    files: BTreeMap<String, (&'static str, BlobId)>,
    /// The directories, by name with a trailing `/`, which is Git's order.
    directories: BTreeMap<String, Directory>,
}

impl Directory {
    fn id(&self) -> [u8; 20] {
        let mut entries: BTreeMap<&str, (&str, [u8; 20])> = BTreeMap::new();
        entries.extend(
            self.files
                .iter()
                .map(|(name, (mode, id))| (name.as_str(), (*mode, id.bytes()))),
        );
        entries.extend(
            self.directories
                .iter()
                .map(|(name, directory)| (name.as_str(), ("40000", directory.id()))),
        );
        let mut body = Vec::new();
        for (name, (mode, id)) in entries {
            body.extend_from_slice(format!("{mode} {}\0", name.trim_end_matches('/')).as_bytes());
            body.extend_from_slice(&id);
        }
        git_object_id("tree", &body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileTree, TreePath};

    /// The expected id is from `git write-tree` (2.39) for the same files.
    #[test]
    fn directories_sort_with_a_slash() {
        let mut tree = FileTree::from_files([
            ("a.yaml", "1\n"),
            ("a/b", "2\n"),
            ("a/c/d", "3\n"),
            ("a-b", "4\n"),
            ("z/é", "5\n"),
        ])
        .unwrap();
        let path = |text| TreePath::new(text).unwrap();
        tree.insert(path("run.sh"), EntryKind::Executable, "#!/bin/sh\n")
            .unwrap();
        tree.insert(path("link"), EntryKind::Link, "a/b").unwrap();
        assert_eq!(
            git_tree_id(tree.index()),
            "a56e2c7010139b83c480556d2b9953bb8facdcd6"
        );
    }
}
