//! The files of one revision, in memory, with their Git ids.

use crate::{PathError, TreePath};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// Returns Git's id of an object of this kind: SHA-1 over `KIND LENGTH\0CONTENT`.
pub fn git_object_id(kind: &str, content: &[u8]) -> [u8; 20] {
    let mut hash = Sha1::new();
    hash.update(format!("{kind} {}\0", content.len()));
    hash.update(content);
    hash.finalize().into()
}

/// Git's id of a file's content: SHA-1 over `blob LENGTH\0CONTENT`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BlobId([u8; 20]);

impl BlobId {
    /// Returns Git's id of a file with this content.
    pub fn of(content: &[u8]) -> Self {
        Self(git_object_id("blob", content))
    }

    /// Returns the 20 bytes of the id.
    pub fn bytes(&self) -> [u8; 20] {
        self.0
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl TryFrom<String> for BlobId {
    type Error = hex::FromHexError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        let mut id = [0; 20];
        hex::decode_to_slice(text, &mut id)?;
        Ok(Self(id))
    }
}

impl From<BlobId> for String {
    fn from(id: BlobId) -> String {
        id.to_string()
    }
}

/// The kind of an entry of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    /// An ordinary file.
    File,
    /// A file with the executable bit.
    Executable,
    /// A symbolic link; its content is the target, relative to the link's directory.
    Link,
}

/// One file or link of a tree, without its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The kind: file, executable file or link.
    pub kind: EntryKind,
    /// Git's id of the content.
    pub id: BlobId,
    /// The size of the content in bytes.
    pub size: u64,
}

/// The paths of a tree with their entries, without the contents: enough to decide whether a build
/// would read the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TreeIndex(BTreeMap<TreePath, Entry>);

/// The error of a file that cannot be added to a tree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// The path is not valid inside a tree.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The path exists already, or one of its parents is a file.
    #[error("duplicate path '{0}' in the tree")]
    Duplicate(TreePath),
}

impl TreeIndex {
    /// Returns the entry at `path`, without following links.
    pub fn get(&self, path: &TreePath) -> Option<&Entry> {
        self.0.get(path)
    }

    /// Returns every file and link, in order of path.
    pub fn iter(&self) -> impl Iterator<Item = (&TreePath, &Entry)> {
        self.0.iter()
    }

    /// Returns every file and link from a path on, in order of path.
    pub fn from_path<'a>(
        &'a self,
        first: &TreePath,
    ) -> impl Iterator<Item = (&'a TreePath, &'a Entry)> + use<'a> {
        self.0
            .range::<str, _>((Bound::Included(first.as_str()), Bound::Unbounded))
    }

    /// Returns the number of files and links.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the tree has no files.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether `path` is a directory: the root, or a path with entries below it.
    pub fn is_dir(&self, path: &TreePath) -> bool {
        path.is_root() || self.below(path).next().is_some()
    }

    /// Returns every file and link below a directory, in order of path.
    pub fn below<'a>(
        &'a self,
        dir: &TreePath,
    ) -> impl Iterator<Item = (&'a TreePath, &'a Entry)> + use<'a> {
        let prefix = if dir.is_root() {
            String::new()
        } else {
            format!("{}/", dir.as_str())
        };
        // Paths that sort between `dir` and `dir/`, such as `dir-2` and everything below it, are
        // skipped.
        self.0
            .range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded))
            .take_while(move |(path, _)| path.as_str().starts_with(&prefix))
    }

    /// Returns the names directly in a directory, in order; `true` marks a directory.
    pub fn children(&self, dir: &TreePath) -> Vec<(String, bool)> {
        let skip = if dir.is_root() {
            0
        } else {
            dir.as_str().len() + 1
        };
        let mut names: Vec<(String, bool)> = Vec::new();
        for (path, _) in self.below(dir) {
            let rest = &path.as_str()[skip..];
            let (name, is_dir) = rest
                .split_once('/')
                .map_or((rest, false), |(name, _)| (name, true));
            if names.last().is_none_or(|(last, _)| last != name) {
                names.push((name.to_owned(), is_dir));
            }
        }
        names.sort();
        names.dedup();
        names
    }
}

impl FromIterator<(TreePath, Entry)> for TreeIndex {
    fn from_iter<I: IntoIterator<Item = (TreePath, Entry)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

/// The files of one revision, in memory, without reference to a disk. A tree that is read by need
/// has all paths, and the contents that were [filled in](Self::fill).
#[derive(Clone, Debug, Default)]
pub struct FileTree {
    index: Arc<TreeIndex>,
    contents: HashMap<TreePath, Bytes>,
}

impl FileTree {
    /// Returns an empty tree.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a tree with the paths of an index and without contents.
    pub fn without_contents(index: Arc<TreeIndex>) -> Self {
        Self {
            index,
            contents: HashMap::new(),
        }
    }

    /// Sets the contents of files that the index has.
    pub fn fill(&mut self, contents: impl IntoIterator<Item = (TreePath, Bytes)>) {
        self.contents.extend(contents);
    }

    /// Adds a file or link at `path`.
    ///
    /// # Errors
    /// The path exists already, or one of its parents is a file.
    pub fn insert(
        &mut self,
        path: TreePath,
        kind: EntryKind,
        content: impl Into<Bytes>,
    ) -> Result<(), TreeError> {
        let content = content.into();
        let entry = Entry {
            kind,
            id: BlobId::of(&content),
            size: content.len() as u64,
        };
        let mut below = path.as_str();
        while let Some((parent, _)) = below.rsplit_once('/') {
            if self.index.0.contains_key(parent) {
                return Err(TreeError::Duplicate(path));
            }
            below = parent;
        }
        if path.is_root() || self.index.0.contains_key(&path) || self.index.is_dir(&path) {
            return Err(TreeError::Duplicate(path));
        }
        Arc::make_mut(&mut self.index).0.insert(path.clone(), entry);
        self.contents.insert(path, content);
        Ok(())
    }

    /// Removes every file for which `keep` returns false.
    pub fn retain(&mut self, mut keep: impl FnMut(&TreePath) -> bool) {
        Arc::make_mut(&mut self.index)
            .0
            .retain(|path, _| keep(path));
        let index = &self.index;
        self.contents.retain(|path, _| index.0.contains_key(path));
    }

    /// Returns the paths and ids, without contents.
    pub fn index(&self) -> &TreeIndex {
        &self.index
    }

    /// Returns the paths and ids, to be shared with other trees.
    pub fn shared_index(&self) -> Arc<TreeIndex> {
        self.index.clone()
    }

    /// Returns the bytes at `path`, without following links; the bytes of a link are its target.
    pub fn content(&self, path: &TreePath) -> Option<&Bytes> {
        self.contents.get(path)
    }

    /// Returns a tree of ordinary files, for tests and for small generated inputs.
    ///
    /// # Errors
    /// A path is not valid inside a tree, or is a duplicate.
    pub fn from_files<'a>(
        files: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, TreeError> {
        let mut tree = Self::new();
        for (path, content) in files {
            tree.insert(TreePath::new(path)?, EntryKind::File, content.to_owned())?;
        }
        Ok(tree)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_blob_id() {
        assert_eq!(
            BlobId::of(b"hello\n").to_string(),
            "ce013625030ba8dba906f756967f9e9ca394464a"
        );
    }

    #[test]
    fn children_and_below() {
        let tree = FileTree::from_files([
            ("a/x.yaml", ""),
            ("a/y/z.yaml", ""),
            ("a.yaml", ""),
            ("a-b/q", ""),
        ])
        .unwrap();
        let a = TreePath::new("a").unwrap();
        assert_eq!(
            tree.index().children(&a),
            [("x.yaml".into(), false), ("y".into(), true)]
        );
        assert_eq!(tree.index().children(&TreePath::root()).len(), 3);
        assert_eq!(tree.index().below(&a).count(), 2);
        assert_eq!(tree.index().below(&TreePath::root()).count(), 4);
        assert!(tree.index().is_dir(&a));
        assert!(!tree.index().is_dir(&TreePath::new("a.yaml").unwrap()));
    }

    /// Paths that sort between a directory's name and its files were walked for each query.
    #[test]
    fn a_directory_is_found_among_names_with_its_prefix() {
        const MANY: usize = 20_000;
        let mut tree = FileTree::new();
        for number in 0..MANY {
            let path = TreePath::new(&format!("apps-{number}/x")).unwrap();
            tree.insert(path, EntryKind::File, "").unwrap();
        }
        let apps = TreePath::new("apps").unwrap();
        assert!((0..MANY).all(|_| !tree.index().is_dir(&apps)));
        let inside = TreePath::new("apps/x").unwrap();
        tree.insert(inside, EntryKind::File, "").unwrap();
        assert!((0..MANY).all(|_| tree.index().is_dir(&apps)));
        assert_eq!(tree.index().children(&apps), [("x".into(), false)]);
    }

    #[test]
    fn a_file_is_no_directory() {
        let mut tree = FileTree::from_files([("a", "")]).unwrap();
        let below = TreePath::new("a/b").unwrap();
        assert_eq!(
            tree.insert(below.clone(), EntryKind::File, ""),
            Err(TreeError::Duplicate(below))
        );
    }
}
