//! Artifacts that are composed of the files of other artifacts, as source-watcher 2.3 builds them.
//! Pure.
//!
//! The operations have the semantics of `cp`. All patterns and paths are the tenant's: a path
//! leaves neither its source nor the artifact, links are neither read nor written, and a [`Budget`]
//! bounds the work of all artifacts of a generator.

mod copy;
mod glob;
mod merge;
pub mod path_pattern;
mod pattern;
mod staging;

pub use merge::load as load_yaml;

use crate::ignore;
use bytes::Bytes;
use driftless_flux::{CopyOperation, Invalid};
use driftless_fuel::{Fuel, FuelLimits, Tank};
use driftless_kernel::ports::FetchLimits;
use driftless_manifest::{EntryKind, FileTree, TreePath};
use staging::Staging;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most comparisons of characters and copies of files for all artifacts of a generator.
const CEILINGS: FuelLimits = FuelLimits {
    steps: 200_000_000,
    ..FuelLimits::NONE
};

/// The bound of the work for all artifacts of a generator.
#[derive(Debug)]
pub struct Budget {
    work: Fuel,
    limits: FetchLimits,
}

impl Default for Budget {
    /// Returns the budget of a generator that is not part of a step.
    fn default() -> Self {
        Self::of_step(&Tank::default())
    }
}

impl Budget {
    /// Returns the budget of the generator of a step.
    pub fn of_step(fuel: &Tank) -> Self {
        Self {
            work: fuel.part(CEILINGS),
            limits: FetchLimits::of_step(fuel),
        }
    }

    /// Charges work.
    ///
    /// # Errors
    /// The budget is used up.
    fn spend(&mut self, work: usize) -> Result<(), Invalid> {
        let spent = self.work.steps(work);
        spent.map_err(|_| {
            Invalid::from(
                "the copy operations of all artifacts need more work than a generator may: use fewer or simpler patterns, or several generators",
            )
        })
    }
}

/// The kind of a path of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    File,
    Directory,
}

/// The files of a source, without links, and its directories.
pub struct Source {
    tree: Arc<FileTree>,
    /// The names in each directory, in order; the root is `.`.
    directories: BTreeMap<String, Vec<String>>,
}

impl Source {
    /// Returns a source of these files.
    pub fn new(tree: Arc<FileTree>) -> Self {
        let mut directories = BTreeMap::from([(".".to_owned(), Vec::new())]);
        for (path, entry) in tree.index().iter() {
            if entry.kind != EntryKind::Link {
                add_to_directories(&mut directories, path.as_str());
            }
        }
        directories.values_mut().for_each(|names| names.sort());
        Self { tree, directories }
    }

    /// Returns the paths of the directories, parents first, without the root.
    pub fn directories(&self) -> impl Iterator<Item = &str> {
        let mut open: Vec<&str> = vec!["."];
        std::iter::from_fn(move || {
            let next = open.pop()?;
            let children = self.children(next).iter().rev();
            let paths = children.filter_map(|name| {
                let path = joined(next, name);
                self.directories.get_key_value(&path).map(|(key, _)| key)
            });
            open.extend(paths.map(String::as_str));
            Some(next)
        })
        .skip(1)
    }

    /// Returns the content of a file; `None` if the path is not that of a file.
    pub fn content(&self, path: &str) -> Option<&Bytes> {
        let path = TreePath::new(path).ok()?;
        let entry = self.tree.index().get(&path)?;
        let content = self.tree.content(&path);
        content.filter(|_| entry.kind != EntryKind::Link)
    }

    fn is_executable(&self, path: &str) -> bool {
        let path = TreePath::new(path).ok();
        let entry = path.and_then(|path| self.tree.index().get(&path));
        entry.is_some_and(|entry| entry.kind == EntryKind::Executable)
    }

    /// Returns the kind of a path that is written without `.`, `..` and empty parts.
    fn kind(&self, path: &str) -> Option<Kind> {
        if self.directories.contains_key(path) {
            return Some(Kind::Directory);
        }
        let (directory, name) = path.rsplit_once('/').unwrap_or((".", path));
        let names = self.children(directory);
        names
            .binary_search_by(|one| one.as_str().cmp(name))
            .ok()
            .map(|_| Kind::File)
    }

    /// Returns the names in a directory, in order; none if it does not exist.
    fn children(&self, directory: &str) -> &[String] {
        self.directories
            .get(directory)
            .map_or(&[], |names| names.as_slice())
    }
}

/// Adds a path and the directories above it.
fn add_to_directories(directories: &mut BTreeMap<String, Vec<String>>, path: &str) {
    let mut below = path;
    loop {
        let (directory, name) = below.rsplit_once('/').unwrap_or((".", below));
        let is_known = directories.contains_key(directory);
        let names = directories.entry(directory.to_owned()).or_default();
        names.push(name.to_owned());
        if is_known || directory == "." {
            return;
        }
        below = directory;
    }
}

fn joined(directory: &str, name: &str) -> String {
    match directory {
        "." => name.to_owned(),
        directory => format!("{directory}/{name}"),
    }
}

/// Builds an artifact from the sources by alias.
///
/// # Errors
/// An operation is not valid, finds no file or exceeds a limit; the message is Flux's where Flux
/// has the same error.
pub fn build(
    operations: &[CopyOperation],
    sources: &BTreeMap<String, Source>,
    budget: &mut Budget,
) -> Result<FileTree, Invalid> {
    let mut staging = Staging::new(budget.limits.clone());
    for operation in operations {
        copy::apply(operation, sources, &mut staging, budget).map_err(|error| {
            let CopyOperation { from, to, .. } = operation;
            format!(
                "failed to apply copy operations: failed to apply copy operation from '{from}' to '{to}': {error}"
            )
        })?;
    }
    let mut tree = staging.into_tree()?;
    ignore::apply_defaults(&mut tree, &budget.limits.fuel).map_err(Invalid::new)?;
    Ok(tree)
}

/// Cleans a path as Go's `path.Clean` does.
fn clean(path: &str) -> String {
    let is_absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => match parts.last() {
                Some(&last) if last != ".." => drop(parts.pop()),
                _ if is_absolute => {}
                _ => parts.push(part),
            },
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    match (is_absolute, joined.as_str()) {
        (true, joined) => format!("/{joined}"),
        (false, "") => ".".to_owned(),
        (false, _) => joined,
    }
}

#[cfg(test)]
mod tests;
