//! The files of a source, and places in them.

use driftless_manifest::yaml::{self, Limits, Node};
use driftless_manifest::{FileTree, TreePath};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A file or directory, and a line of it. Displayed as `FILE:LINE`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The path, relative to the working directory if it is below it.
    pub file: PathBuf,
    /// The line, from 1, if it is known.
    pub line: Option<usize>,
    /// The excerpt of the file that shows the column, if the message has one and the file has no
    /// secret values: see [`excerpt`](super::excerpt()).
    pub excerpt: Option<String>,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        match self.line {
            Some(line) => write!(f, ":{line}"),
            None => Ok(()),
        }
    }
}

/// The files of one source. Each is parsed as YAML once.
pub struct Files {
    pub(super) root: PathBuf,
    pub(super) tree: Arc<FileTree>,
    read: Mutex<BTreeMap<TreePath, Arc<Vec<Node>>>>,
}

impl Files {
    /// Wraps the files of the directory `root`.
    pub fn new(root: &Path, tree: Arc<FileTree>) -> Self {
        Self {
            root: relative(root),
            tree,
            read: Mutex::default(),
        }
    }

    /// Returns whether these are the files of that tree.
    pub fn are_of(&self, tree: &Arc<FileTree>) -> bool {
        Arc::ptr_eq(&self.tree, tree)
    }

    /// Returns the documents of a file; an empty list if it cannot be parsed.
    pub fn documents(&self, path: &TreePath) -> Arc<Vec<Node>> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = read.get(path) {
            return known.clone();
        }
        let documents = self
            .tree
            .content(path)
            .and_then(|content| yaml::parse(content, path.as_str(), &Limits::default()).ok());
        let documents = Arc::new(documents.unwrap_or_default());
        read.insert(path.clone(), documents.clone());
        documents
    }

    /// Returns the place of a file or directory.
    pub fn place_in(root: &Path, path: &TreePath) -> Location {
        Location {
            file: relative(root).join(path.as_str()),
            line: None,
            excerpt: None,
        }
    }
}

/// Shortens a path to one relative to the working directory, if possible.
fn relative(root: &Path) -> PathBuf {
    let here = std::env::current_dir().and_then(|here| here.canonicalize());
    let short = here.ok().and_then(|here| root.strip_prefix(here).ok());
    short.unwrap_or(root).to_owned()
}
