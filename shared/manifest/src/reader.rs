//! One build's view of a file tree: it follows links inside the tree, and records every read.

use crate::{BlobId, EntryKind, FileTree, PathError, TreeIndex, TreePath};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// The most links that one path may go through, as in Linux.
const MAX_LINKS: usize = 40;

/// The kind of a path's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file, after links.
    File,
    /// A directory, after links.
    Dir,
}

/// The error of a path that cannot be read. It names the path, and never has any content.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The path, or a link on the way, is absolute or leaves the tree.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The path does not exist.
    #[error("'{0}' does not exist")]
    Missing(TreePath),
    /// A directory where a file was expected.
    #[error("'{0}' is a directory, not a file")]
    IsDir(TreePath),
    /// A file where a directory was expected.
    #[error("'{0}' is a file, not a directory")]
    NotDir(TreePath),
    /// Links that form a loop.
    #[error("'{0}' goes through too many symbolic links")]
    LinkLoop(TreePath),
    /// A link to an absolute path.
    #[error("'{0}' goes through a symbolic link to an absolute path")]
    AbsoluteLink(TreePath),
    /// The tree has no content of the file yet: see [`Reader::missing`].
    #[error("the content of '{0}' is not loaded")]
    NotLoaded(TreePath),
    /// The filter refused the file (an encrypted file that cannot be decrypted).
    #[error("'{path}': {source}")]
    Filter {
        /// The path of the file.
        path: TreePath,
        /// The error of the filter.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Converts a file's bytes before a build reads them: decryption.
pub trait ReadFilter {
    /// Converts the content of a file; `None` leaves it unchanged.
    ///
    /// # Errors
    /// The reason why the file cannot be read; the message must not repeat its content.
    fn filter(
        &self,
        path: &TreePath,
        content: &Bytes,
    ) -> Result<Option<Bytes>, Box<dyn std::error::Error + Send + Sync>>;
}

/// The state of a path when a build read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fingerprint {
    /// A file or link with this content.
    File(BlobId),
    /// A directory whose names were not listed.
    Dir,
    /// A directory whose names were listed: the id of the listing.
    List(BlobId),
    /// The path did not exist.
    Absent,
}

/// All reads of one build. A tree for which all of them have the same result renders the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReadSet(BTreeMap<TreePath, Fingerprint>);

impl ReadSet {
    /// Returns whether every read of the build has the same result in `tree`.
    pub fn is_unchanged_in(&self, tree: &TreeIndex) -> bool {
        self.0.iter().all(|(path, then)| {
            *then
                == match then {
                    Fingerprint::List(_) if tree.is_dir(path) => listing(tree, path),
                    _ => fingerprint(tree, path),
                }
        })
    }

    /// Returns the paths, in order.
    pub fn paths(&self) -> impl Iterator<Item = &TreePath> {
        self.0.keys()
    }

    fn record(&mut self, path: &TreePath, found: Fingerprint) {
        match self.0.get(path) {
            Some(Fingerprint::List(_)) => {}
            _ => {
                self.0.insert(path.clone(), found);
            }
        }
    }
}

fn fingerprint(tree: &TreeIndex, path: &TreePath) -> Fingerprint {
    match tree.get(path) {
        Some(entry) => Fingerprint::File(entry.id),
        None if tree.is_dir(path) => Fingerprint::Dir,
        None => Fingerprint::Absent,
    }
}

fn listing(tree: &TreeIndex, dir: &TreePath) -> Fingerprint {
    let mut names = String::new();
    for (name, is_dir) in tree.children(dir) {
        names.push_str(&name);
        names.push_str(if is_dir { "/\0" } else { "\0" });
    }
    Fingerprint::List(BlobId::of(names.as_bytes()))
}

/// One build's view of a tree: it follows links inside the tree, passes files through a filter, and
/// records every read.
pub struct Reader<'t> {
    tree: &'t FileTree,
    filter: Option<&'t dyn ReadFilter>,
    seen: RefCell<ReadSet>,
    missing: RefCell<BTreeSet<TreePath>>,
}

impl<'t> Reader<'t> {
    /// Returns a reader without a filter.
    pub fn new(tree: &'t FileTree) -> Self {
        Self {
            tree,
            filter: None,
            seen: RefCell::default(),
            missing: RefCell::default(),
        }
    }

    /// Returns a reader whose files go through `filter`.
    pub fn with_filter(tree: &'t FileTree, filter: &'t dyn ReadFilter) -> Self {
        Self {
            tree,
            filter: Some(filter),
            seen: RefCell::default(),
            missing: RefCell::default(),
        }
    }

    /// Reads the file at `path`: follows links, and applies the filter.
    ///
    /// # Errors
    /// The path does not exist, is a directory, or has a link that leaves the tree, or the filter
    /// refuses the file.
    pub fn read(&self, path: &TreePath) -> Result<Bytes, ReadError> {
        let (real, kind) = self
            .resolve(path)?
            .ok_or_else(|| ReadError::Missing(path.clone()))?;
        if kind == Kind::Dir {
            return Err(ReadError::IsDir(path.clone()));
        }
        let content = self.content(&real)?;
        let filtered = match self.filter {
            Some(filter) => filter
                .filter(path, content)
                .map_err(|source| ReadError::Filter {
                    path: path.clone(),
                    source,
                })?,
            None => None,
        };
        Ok(filtered.unwrap_or_else(|| content.clone()))
    }

    /// Returns the kind of the target of `path`, after links; `None` if it does not exist.
    ///
    /// # Errors
    /// A link leaves the tree, or links form a loop.
    pub fn kind(&self, path: &TreePath) -> Result<Option<Kind>, ReadError> {
        Ok(self.resolve(path)?.map(|(_, kind)| kind))
    }

    /// Lists the names in a directory with the kinds of their targets, in order of name; dangling
    /// links are left out.
    ///
    /// # Errors
    /// The path does not exist, is a file, or has a link that leaves the tree.
    pub fn list(&self, path: &TreePath) -> Result<Vec<(String, Kind)>, ReadError> {
        let (real, kind) = self
            .resolve(path)?
            .ok_or_else(|| ReadError::Missing(path.clone()))?;
        if kind == Kind::File {
            return Err(ReadError::NotDir(path.clone()));
        }
        let index = self.tree.index();
        self.seen
            .borrow_mut()
            .0
            .insert(real.clone(), listing(index, &real));
        let mut names = Vec::new();
        for (name, is_dir) in index.children(&real) {
            if is_dir {
                names.push((name, Kind::Dir));
            } else if let Some(kind) = self.kind(&real.join(&name)?)? {
                names.push((name, kind));
            }
        }
        Ok(names)
    }

    /// Returns `path` with every link resolved; `None` if it does not exist. Two paths to the same
    /// file have the same real path.
    ///
    /// # Errors
    /// A link leaves the tree, or links form a loop.
    pub fn real_path(&self, path: &TreePath) -> Result<Option<TreePath>, ReadError> {
        Ok(self.resolve(path)?.map(|(real, _)| real))
    }

    /// Returns the files that were read and whose contents the tree does not have. The result of a
    /// build with such reads is void: it runs again when the tree has them.
    pub fn missing(&self) -> Vec<TreePath> {
        self.missing.borrow().iter().cloned().collect()
    }

    /// Returns the bytes of a file or link that the index has.
    fn content(&self, path: &TreePath) -> Result<&'t Bytes, ReadError> {
        self.tree.content(path).ok_or_else(|| {
            self.missing.borrow_mut().insert(path.clone());
            ReadError::NotLoaded(path.clone())
        })
    }

    /// Returns the recorded reads.
    pub fn into_read_set(self) -> ReadSet {
        self.seen.into_inner()
    }

    /// Follows links part by part, like an operating system, and records each read.
    fn resolve(&self, path: &TreePath) -> Result<Option<(TreePath, Kind)>, ReadError> {
        let index = self.tree.index();
        let mut links = 0;
        let mut todo: Vec<String> = path.parts().rev().map(str::to_owned).collect();
        let mut at = TreePath::root();
        while let Some(part) = todo.pop() {
            if part == ".." {
                if at.is_root() {
                    return Err(PathError::Escapes(path.to_string()).into());
                }
                at = at.parent();
                continue;
            }
            let next = at.join(&part)?;
            match index.get(&next) {
                Some(entry) if entry.kind == EntryKind::Link => {
                    self.seen
                        .borrow_mut()
                        .record(&next, Fingerprint::File(entry.id));
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(ReadError::LinkLoop(path.clone()));
                    }
                    let target = String::from_utf8_lossy(self.content(&next)?);
                    if target.starts_with('/') {
                        return Err(ReadError::AbsoluteLink(path.clone()));
                    }
                    todo.extend(
                        target
                            .split('/')
                            .rev()
                            .filter(|p| !p.is_empty() && *p != ".")
                            .map(str::to_owned),
                    );
                }
                Some(entry) => {
                    self.seen
                        .borrow_mut()
                        .record(&next, Fingerprint::File(entry.id));
                    return Ok(todo.is_empty().then_some((next, Kind::File)));
                }
                None if index.is_dir(&next) => at = next,
                None => {
                    self.seen.borrow_mut().record(&next, Fingerprint::Absent);
                    return Ok(None);
                }
            }
        }
        self.seen.borrow_mut().record(&at, Fingerprint::Dir);
        Ok(Some((at, Kind::Dir)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::new(text).unwrap()
    }

    fn tree(files: &[(&str, &str)], links: &[(&str, &str)]) -> FileTree {
        let mut tree = FileTree::from_files(files.iter().copied()).unwrap();
        for (at, target) in links {
            tree.insert(path(at), EntryKind::Link, (*target).to_owned())
                .unwrap();
        }
        tree
    }

    #[test]
    fn follows_links_inside() {
        let tree = tree(
            &[("base/a.yaml", "A")],
            &[("over/base", "../base"), ("l.yaml", "over/base/a.yaml")],
        );
        let reader = Reader::new(&tree);
        assert_eq!(reader.read(&path("l.yaml")).unwrap(), "A");
        assert_eq!(reader.kind(&path("over/base")).unwrap(), Some(Kind::Dir));
        assert_eq!(
            reader.real_path(&path("over/base/a.yaml")).unwrap(),
            Some(path("base/a.yaml"))
        );
    }

    #[test]
    fn refuses_links_that_leave_loop_or_dangle() {
        let tree = tree(
            &[("a/x", "")],
            &[
                ("a/out", "../../etc/passwd"),
                ("abs", "/etc/passwd"),
                ("l1", "l2"),
                ("l2", "l1"),
                ("gone", "nothing"),
            ],
        );
        let reader = Reader::new(&tree);
        assert!(matches!(
            reader.read(&path("a/out")),
            Err(ReadError::Path(PathError::Escapes(_)))
        ));
        assert!(matches!(
            reader.read(&path("abs")),
            Err(ReadError::AbsoluteLink(_))
        ));
        assert!(matches!(
            reader.read(&path("l1")),
            Err(ReadError::LinkLoop(_))
        ));
        assert!(matches!(
            reader.read(&path("gone")),
            Err(ReadError::Missing(_))
        ));
    }

    #[test]
    fn a_read_of_a_file_that_is_not_loaded_is_recorded() {
        let whole = tree(&[("a/x", "X"), ("b", "B")], &[("l", "a")]);
        let mut partial = FileTree::without_contents(whole.shared_index());
        partial.fill([(path("b"), "B".into())]);
        let reader = Reader::new(&partial);
        assert_eq!(reader.read(&path("b")).unwrap(), "B");
        for at in ["a/x", "l/x"] {
            let read = reader.read(&path(at));
            assert!(matches!(read, Err(ReadError::NotLoaded(_))), "{read:?}");
        }
        assert_eq!(reader.missing(), [path("a/x"), path("l")]);
    }

    #[test]
    fn read_set_notices_changes_additions_and_removals() {
        let before = tree(
            &[
                ("app/a.yaml", "1"),
                ("app/b.yaml", "1"),
                ("other/x.yaml", "1"),
            ],
            &[],
        );
        let reader = Reader::new(&before);
        reader.read(&path("app/a.yaml")).unwrap();
        assert!(
            reader
                .kind(&path("app/kustomization.yaml"))
                .unwrap()
                .is_none()
        );
        let read = reader.into_read_set();

        let elsewhere = tree(
            &[
                ("app/a.yaml", "1"),
                ("app/b.yaml", "2"),
                ("other/x.yaml", "2"),
            ],
            &[],
        );
        assert!(read.is_unchanged_in(elsewhere.index()));
        let changed = tree(&[("app/a.yaml", "2")], &[]);
        assert!(!read.is_unchanged_in(changed.index()));
        let added = tree(&[("app/a.yaml", "1"), ("app/kustomization.yaml", "")], &[]);
        assert!(!read.is_unchanged_in(added.index()));

        let reader = Reader::new(&before);
        reader.list(&path("app")).unwrap();
        let listed = reader.into_read_set();
        assert!(!listed.is_unchanged_in(changed.index()));
    }
}
