//! The files of an artifact while it is built.

use bytes::Bytes;
use driftless_flux::Invalid;
use driftless_kernel::ports::FetchLimits;
use driftless_manifest::{EntryKind, FileTree, TreePath};
use std::collections::{BTreeMap, BTreeSet};

/// The files and directories of an artifact; paths have no `.`, `..` and empty parts.
pub(super) struct Staging {
    files: BTreeMap<TreePath, (bool, Bytes)>,
    directories: BTreeSet<TreePath>,
    bytes: u64,
    limits: FetchLimits,
}

impl Staging {
    pub fn new(limits: FetchLimits) -> Self {
        Self {
            files: BTreeMap::new(),
            directories: BTreeSet::new(),
            bytes: 0,
            limits,
        }
    }

    pub fn is_directory(&self, path: &TreePath) -> bool {
        path.is_root() || self.directories.contains(path)
    }

    pub fn file(&self, path: &TreePath) -> Option<&Bytes> {
        self.files.get(path).map(|(_, content)| content)
    }

    /// Creates a directory and those above it. A file at its path stays.
    ///
    /// # Errors
    /// A directory above it is a file.
    pub fn create_directory(&mut self, path: &TreePath) -> Result<(), Invalid> {
        if path.is_root() || self.directories.contains(path) || self.files.contains_key(path) {
            return Ok(());
        }
        let parent = path.parent();
        self.create_directory(&parent)?;
        if self.files.contains_key(&parent) {
            return Err(format!("mkdirat {path}: not a directory").into());
        }
        self.directories.insert(path.clone());
        Ok(())
    }

    /// Writes a file, with the directories above it. `is_executable` is that of the old file if it
    /// is `None`.
    ///
    /// # Errors
    /// The path is a directory, a directory above it is a file, or the artifact is too large.
    pub fn write(
        &mut self,
        path: &TreePath,
        is_executable: Option<bool>,
        content: Bytes,
    ) -> Result<(), Invalid> {
        if self.is_directory(path) {
            return Err(format!("openat {path}: is a directory").into());
        }
        let parent = path.parent();
        self.create_directory(&parent)?;
        if self.files.contains_key(&parent) {
            return Err(format!("openat {path}: not a directory").into());
        }
        self.bytes = self.bytes.saturating_add(content.len() as u64);
        let old = self.files.get(path);
        let is_executable =
            is_executable.unwrap_or_else(|| old.is_some_and(|(executable, _)| *executable));
        let old = self.files.insert(path.clone(), (is_executable, content));
        let old = old.map_or(0, |(_, content)| content.len() as u64);
        self.bytes = self.bytes.saturating_sub(old);
        if self.bytes > self.limits.bytes || self.files.len() > self.limits.files {
            let FetchLimits { bytes, files, .. } = &self.limits;
            return Err(format!(
                "the artifact has more than {} MiB or {files} files, which is the limit: copy less, or make several artifacts",
                bytes >> 20
            ).into());
        }
        Ok(())
    }

    /// Returns the files.
    ///
    /// # Errors
    /// A name has a line break, as in Flux.
    pub fn into_tree(self) -> Result<FileTree, Invalid> {
        let mut tree = FileTree::new();
        for (path, (is_executable, content)) in self.files {
            if path.as_str().contains('\n') {
                let message =
                    "failed to hash staging dir: filenames with newlines are not supported";
                return Err(message.into());
            }
            let kind = match is_executable {
                true => EntryKind::Executable,
                false => EntryKind::File,
            };
            let added = tree.insert(path, kind, content);
            added.map_err(Invalid::new)?;
        }
        Ok(tree)
    }
}
