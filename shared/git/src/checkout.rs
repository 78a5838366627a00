//! Checks out the files of a commit from the objects of a pack.

use crate::error::{Error, Limit, Result};
use crate::limits::{Deadline, Limits};
use crate::pack::Objects;
use bytes::Bytes;
use driftless_fuel::{Fuel, FuelKind, OutOfFuel};
use driftless_manifest::{EntryKind, FileTree, TreePath};
use gix_hash::{Kind as Hash, ObjectId};
use gix_object::{Kind, TreeRefIter};

/// An entry of a tree that names the commit of a submodule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gitlink {
    pub path: TreePath,
    pub commit: ObjectId,
}

/// The files of a commit, and of its submodules below them.
pub(crate) struct Checkout {
    pub files: FileTree,
    fuel: Fuel,
    deadline: Deadline,
    /// The directories to read, with the files at the top; an empty list means all of them.
    directories: Vec<TreePath>,
}

impl Checkout {
    pub fn new(limits: &Limits, deadline: Deadline, directories: Vec<TreePath>) -> Self {
        Self {
            files: FileTree::new(),
            fuel: limits.fuel.part(limits.of_checkout()),
            deadline,
            directories,
        }
    }

    /// Adds a tree's files below a path and returns the submodules that the tree names.
    ///
    /// # Errors
    /// Fails if a limit is exceeded, a file name is not valid, an entry is duplicated, or an object
    /// is missing.
    pub fn add(
        &mut self,
        objects: &Objects,
        tree: ObjectId,
        at: &TreePath,
    ) -> Result<Vec<Gitlink>> {
        let mut links = Vec::new();
        self.directory(objects, tree, at, 0, &mut links)?;
        Ok(links)
    }

    /// Returns the content of a file at the top of a tree, regardless of the directories to read.
    pub fn file_of<'a>(objects: &'a Objects, tree: ObjectId, name: &str) -> Option<&'a Bytes> {
        let bytes = objects.get(&tree, Kind::Tree).ok()?;
        let mut entries = TreeRefIter::from_bytes(bytes, Hash::Sha1).flatten();
        let found = entries.find(|entry| entry.filename == name && entry.mode.is_blob())?;
        objects.get(&found.oid.to_owned(), Kind::Blob).ok()
    }

    fn directory(
        &mut self,
        objects: &Objects,
        tree: ObjectId,
        at: &TreePath,
        depth: usize,
        links: &mut Vec<Gitlink>,
    ) -> Result<()> {
        self.deadline.check()?;
        self.fuel.depth(depth).map_err(over)?;
        // Git knows the empty tree without an object for it, and a pack need not contain one.
        if tree == ObjectId::empty_tree(Hash::Sha1) {
            return Ok(());
        }
        let bytes = objects.get(&tree, Kind::Tree)?;
        let mut names = std::collections::HashSet::new();
        for entry in TreeRefIter::from_bytes(bytes, Hash::Sha1) {
            let entry = entry.map_err(|_| Error::Content(format!("tree {tree} is damaged")))?;
            let name = name(entry.filename.as_ref(), at)?;
            let path = at
                .join(name)
                .map_err(|error| Error::Content(error.to_string()))?;
            if !names.insert(name) {
                return Err(Error::Content(format!(
                    "duplicate entry '{path}' in a tree"
                )));
            }
            self.fuel.nodes(1).map_err(over)?;
            self.fuel.steps(1).map_err(over)?;
            let is_file = !entry.mode.is_tree() && !entry.mode.is_commit();
            let is_top = is_file && at.is_root();
            if !is_top && !self.is_wanted(&path) {
                continue;
            }
            let id = entry.oid.to_owned();
            let kind = match entry.mode.value() {
                0o040_000 => {
                    self.directory(objects, id, &path, depth + 1, links)?;
                    continue;
                }
                0o160_000 => {
                    links.push(Gitlink { path, commit: id });
                    continue;
                }
                // Old versions of git wrote 100664.
                0o100_644 | 0o100_664 => EntryKind::File,
                0o100_755 => EntryKind::Executable,
                0o120_000 => EntryKind::Link,
                mode => {
                    let message =
                        format!("'{path}' has the mode {mode:06o}, which git does not use");
                    return Err(Error::Content(message));
                }
            };
            if is_top || self.is_inside(&path) {
                self.file(objects, id, path, kind)?;
            }
        }
        Ok(())
    }

    fn file(
        &mut self,
        objects: &Objects,
        id: ObjectId,
        path: TreePath,
        kind: EntryKind,
    ) -> Result<()> {
        let content = objects.get(&id, Kind::Blob)?.clone();
        self.fuel.bytes(content.len()).map_err(over)?;
        let put = self.files.insert(path, kind, content);
        put.map_err(|error| Error::Content(error.to_string()))
    }

    /// Returns whether a path is in one of the directories to read, or is a parent of one.
    fn is_wanted(&self, path: &TreePath) -> bool {
        self.is_inside(path)
            || self
                .directories
                .iter()
                .any(|directory| directory.is_within(path))
    }

    fn is_inside(&self, path: &TreePath) -> bool {
        self.directories.is_empty()
            || self
                .directories
                .iter()
                .any(|directory| path.is_within(directory))
    }
}

/// Returns the limit of a checkout that is exceeded.
fn over(out: OutOfFuel) -> Error {
    Error::Limit(match out.which {
        FuelKind::Steps => Limit::Steps(out.limit),
        FuelKind::Bytes => Limit::Unpacked(out.limit as u64),
        FuelKind::Nodes => Limit::Files(out.limit),
        FuelKind::Depth => Limit::Depth(out.limit),
    })
}

/// Checks that an entry's name is a valid file name and not `.git`.
fn name<'a>(name: &'a [u8], at: &TreePath) -> Result<&'a str> {
    let refuse = |name: &str, reason: &str| {
        let shown = crate::error::quoted(name.as_bytes());
        Err(Error::Content(format!("'{shown}' in '{at}' {reason}")))
    };
    let Ok(name) = std::str::from_utf8(name) else {
        return refuse(&String::from_utf8_lossy(name), "is not UTF-8");
    };
    if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
        return refuse(name, "is not a valid file name");
    }
    match name.eq_ignore_ascii_case(".git") {
        true => refuse(name, "has the name of Git's own directory"),
        false => Ok(name),
    }
}
