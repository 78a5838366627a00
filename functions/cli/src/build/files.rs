//! The files of a build, read from the disk on demand.
//!
//! The engine renders a tree in memory. The directory may be in a repository of any size. So the
//! tree starts with the files that the kustomizations name, and grows by what a build requested and
//! did not find, until a build requests nothing new.

use super::charts::DiskCharts;
use super::remote::Client;
use crate::error::Error;
use driftless_kustomize::{Build, ErrorKind, FILE_NAMES, Options};
use driftless_manifest::{EntryKind, FileTree, ReadError, Reader, TreePath};
use serde_json::Value;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The maximum size of all files of a build, in bytes; the engine's own limit.
const FILES_LIMIT: u64 = 64 << 20;
/// The maximum number of words that are looked up before the first build. The builds find what
/// later words name.
const MAX_WORDS: usize = 100_000;
/// The maximum number of links in one path; Linux's limit.
const MAX_LINKS: usize = 40;

/// A directory below a root directory.
pub struct BuildRoot {
    /// The absolute path of the root, with links resolved.
    pub root: PathBuf,
    /// The path of the directory from the root.
    pub dir: TreePath,
}

impl BuildRoot {
    /// Finds the root of a directory: its Git work tree, or else the working directory if that
    /// contains it, or else `/`.
    pub fn of(dir: &Path) -> Result<Self, Error> {
        let real = dir.canonicalize().map_err(|error| {
            let reason = match error.kind() {
                io::ErrorKind::NotFound => "no such file or directory".to_owned(),
                _ => error.to_string(),
            };
            Error::new(format!(
                "must build at a directory: '{}': {reason}",
                dir.display()
            ))
        })?;
        if !real.is_dir() {
            return Err(Error::new(format!(
                "must build at a directory: '{}' is a file",
                dir.display()
            ))
            .next("name the directory that the kustomization is in"));
        }
        let work_tree = real
            .ancestors()
            .find(|directory| directory.join(".git").exists())
            .map(Path::to_owned);
        let here = || {
            std::env::current_dir()
                .ok()?
                .canonicalize()
                .ok()
                .filter(|here| real.starts_with(here))
        };
        Self::below(
            work_tree
                .or_else(here)
                .unwrap_or_else(|| PathBuf::from("/")),
            &real,
        )
    }

    /// Returns the same directory with `/` as its root.
    pub fn of_the_disk(&self) -> Result<Self, Error> {
        Self::below(PathBuf::from("/"), &self.root.join(self.dir.as_str()))
    }

    fn below(root: PathBuf, real: &Path) -> Result<Self, Error> {
        let unusable = || Error::new(format!("'{}' is not a UTF-8 path", real.display()));
        let rest = real
            .strip_prefix(&root)
            .ok()
            .and_then(Path::to_str)
            .ok_or_else(unusable)?;
        let dir = TreePath::new(rest).map_err(Error::caused_by)?;
        Ok(Self { root, dir })
    }
}

/// The error of a build.
pub enum BuildError {
    /// An error of the engine.
    Engine(driftless_kustomize::Error),
    /// A file that cannot be read from the disk.
    Disk(Error),
}

impl BuildError {
    /// Returns whether a path or link led out of the root.
    pub fn leaves_the_tree(&self) -> bool {
        matches!(self, Self::Engine(error) if matches!(error.kind, ErrorKind::Read(ReadError::Path(_))))
    }

    /// Converts to an error for the user, with a next step if one is known.
    pub fn into_error(self, place: &BuildRoot) -> Error {
        let error = match self {
            Self::Disk(error) => return error,
            Self::Engine(error) => error,
        };
        let text = match &error.file {
            // The name of the root is clearer than a dot.
            Some(file) if file.is_root() => {
                Error::new(format!("{}: {}", place.root.display(), error.kind))
            }
            _ => Error::new(&error),
        };
        let text = text.at_line(&place.root, error.span().as_ref());
        let directory = place.root.join(place.dir.as_str());
        match error.kind {
            // The directory exists, but the tree of the engine has no file in it.
            ErrorKind::Read(ReadError::Missing(missing)) if missing == place.dir => {
                Error::new(format!("{}: {}", directory.display(), ErrorKind::NoKustomization))
                    .next("write a kustomization.yaml, or build another directory")
            }
            ErrorKind::Remote { .. } => text.next("give --allow-remote to fetch it"),
            ErrorKind::NoKustomization => {
                text.next(format!("write a kustomization.yaml, or build one of the directories below {}", directory.display()))
            }
            ErrorKind::Restricted { .. } => {
                text.next("move the file, make its directory a base, or give --load-restrictor LoadRestrictionsNone")
            }
            _ => text,
        }
    }
}

/// The files read so far.
pub struct Files<'r> {
    root: PathBuf,
    remote: Option<&'r Client>,
    tree: FileTree,
    /// The directories that are known to exist on the disk.
    directories: HashSet<TreePath>,
    /// The paths that were already looked up on the disk.
    looked_up: HashSet<TreePath>,
    /// The size of the files in the tree, in bytes.
    bytes: u64,
}

impl<'r> Files<'r> {
    /// Starts with an empty tree. With a client, remote bases and files are fetched.
    pub fn new(root: PathBuf, remote: Option<&'r Client>) -> Self {
        Self {
            root,
            remote,
            tree: FileTree::new(),
            directories: HashSet::new(),
            looked_up: HashSet::new(),
            bytes: 0,
        }
    }

    /// Renders a directory, and reads the files for it.
    pub fn build(&mut self, dir: &TreePath, options: &Options) -> Result<Vec<Value>, BuildError> {
        self.read_likely_files(dir).map_err(BuildError::Disk)?;
        let charts = DiskCharts {
            root: self.root.clone(),
        };
        let mut fetched = 0;
        loop {
            let reader = Reader::new(&self.tree);
            let build = Build::new(&reader, dir).options(options);
            let done = build.charts(&charts).documents();
            let index = self.tree.index();
            let read = reader.into_read_set();
            let missed = read
                .paths()
                .filter(|path| index.get(path).is_none() && !index.is_dir(path));
            let mut grown = false;
            for path in missed.cloned().collect::<Vec<_>>() {
                grown |= self.load_path(&path).map_err(BuildError::Disk)?;
            }
            // The result of a build that missed a file may be wrong, even if the build succeeded.
            if grown {
                continue;
            }
            let error = match done {
                Ok(documents) => return Ok(documents),
                Err(error) => error,
            };
            let (ErrorKind::Needs(wanted), Some(client)) = (&error.kind, self.remote) else {
                return Err(BuildError::Engine(error));
            };
            let done = client.fetch(wanted, &mut self.tree, fetched);
            done.map_err(BuildError::Disk)?;
            fetched += 1;
        }
    }

    /// Reads the kustomization of a directory and all files that its words may name, recursively. A
    /// word that is not a path costs one lookup on the disk, a missed file one more build.
    fn read_likely_files(&mut self, dir: &TreePath) -> Result<(), Error> {
        let mut directories = vec![dir.clone()];
        let mut done = HashSet::new();
        let mut left = MAX_WORDS;
        while let Some(directory) = directories.pop() {
            if !done.insert(directory.clone()) {
                continue;
            }
            for path in FILE_NAMES
                .iter()
                .filter_map(|name| directory.join(name).ok())
            {
                self.load_path(&path)?;
                let Some(content) = self.tree.content(&path).cloned() else {
                    continue;
                };
                let text = String::from_utf8_lossy(&content);
                for word in text.lines().flat_map(words).take(left) {
                    left -= 1;
                    let Ok(path) = directory.join(word) else {
                        continue;
                    };
                    // A file that is too large is refused when a build requests it: the word may
                    // not mean this file.
                    if !directory.is_within(&path) && !self.is_too_large(&path) {
                        self.load_path(&path)?;
                        directories.extend(self.directories.get(&path).cloned());
                    }
                }
            }
        }
        Ok(())
    }

    fn is_too_large(&self, path: &TreePath) -> bool {
        let meta = fs::metadata(self.root.join(path.as_str()));
        meta.is_ok_and(|meta| meta.is_file() && !self.has_room(meta.len()))
    }

    fn has_room(&self, bytes: u64) -> bool {
        self.bytes.saturating_add(bytes) <= FILES_LIMIT
    }

    /// Reads the file or link at a path into the tree. Returns whether the tree has grown.
    fn load_path(&mut self, path: &TreePath) -> Result<bool, Error> {
        let before = self.tree.index().len();
        if self.looked_up.insert(path.clone()) {
            self.walk(path)?;
        }
        Ok(self.tree.index().len() > before)
    }

    /// Follows a path part by part, and adds each link on the way and the file at its end to the
    /// tree.
    fn walk(&mut self, path: &TreePath) -> Result<(), Error> {
        let mut todo: Vec<String> = path.parts().rev().map(str::to_owned).collect();
        let mut at = TreePath::root();
        let mut links = 0;
        while let Some(part) = todo.pop() {
            if part == ".." {
                at = at.parent();
                continue;
            }
            let Ok(next) = at.join(&part) else {
                return Ok(());
            };
            if self.directories.contains(&next) {
                at = next;
                continue;
            }
            if self.tree.index().get(&next).is_none() && !self.take(&next)? {
                return Ok(());
            }
            match self.tree.index().get(&next).map(|entry| &entry.kind) {
                None => at = next,
                Some(EntryKind::Link) => {
                    links += 1;
                    let target = self
                        .tree
                        .content(&next)
                        .map(|bytes| String::from_utf8_lossy(bytes).into_owned());
                    let target = target.unwrap_or_default();
                    // The engine refuses both with an error.
                    if links > MAX_LINKS || target.starts_with('/') {
                        return Ok(());
                    }
                    todo.extend(
                        target
                            .split('/')
                            .rev()
                            .filter(|part| !matches!(*part, "" | "."))
                            .map(str::to_owned),
                    );
                }
                Some(_) => return Ok(()),
            }
        }
        self.show(&at)
    }

    /// Adds a file or link of the disk to the tree, or records that a directory exists. Returns
    /// whether the path exists.
    fn take(&mut self, path: &TreePath) -> Result<bool, Error> {
        let disk = self.root.join(path.as_str());
        let failed =
            |error: io::Error| Error::caused_by(error).context(format!("read {}", disk.display()));
        let meta = match fs::symlink_metadata(&disk) {
            Ok(meta) => meta,
            Err(error) => {
                return is_missing(&error)
                    .then_some(false)
                    .ok_or_else(|| failed(error));
            }
        };
        let kind = meta.file_type();
        if kind.is_dir() {
            self.directories.insert(path.clone());
            return Ok(true);
        }
        let (kind, content) = if kind.is_symlink() {
            (
                EntryKind::Link,
                self.target(path, &fs::read_link(&disk).map_err(failed)?)
                    .into_bytes(),
            )
        } else if !kind.is_file() {
            return Err(Error::new(format!(
                "read {}: not a regular file",
                disk.display()
            )));
        } else if !self.has_room(meta.len()) {
            return Err(Error::new(format!(
                "read {}: the files that the kustomizations name are larger than {FILES_LIMIT} bytes, the limit of one build",
                disk.display()
            )));
        } else {
            self.bytes += meta.len();
            (EntryKind::File, fs::read(&disk).map_err(failed)?)
        };
        self.tree
            .insert(path.clone(), kind, content)
            .map_err(Error::caused_by)?;
        Ok(true)
    }

    /// Returns the target of a link for the tree: an absolute target below the root is made
    /// relative.
    fn target(&self, link: &TreePath, target: &Path) -> String {
        match target.strip_prefix(&self.root) {
            Ok(rest) if target.is_absolute() => {
                let up = "../".repeat(link.parts().count().saturating_sub(1));
                format!("{up}{}", rest.display())
            }
            _ => target.display().to_string(),
        }
    }

    /// Makes a directory exist in the tree, which has only directories with files: adds its
    /// kustomization, or any other file.
    fn show(&mut self, dir: &TreePath) -> Result<(), Error> {
        if self.tree.index().is_dir(dir) {
            return Ok(());
        }
        for name in FILE_NAMES {
            if let Ok(path) = dir.join(name)
                && self.take(&path)?
            {
                return Ok(());
            }
        }
        let mut directories = vec![dir.clone()];
        while let Some(directory) = directories.pop() {
            let disk = self.root.join(directory.as_str());
            let failed = |error: io::Error| {
                Error::caused_by(error).context(format!("list {}", disk.display()))
            };
            for entry in fs::read_dir(&disk).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let (kind, name) = (entry.file_type().map_err(failed)?, entry.file_name());
                let Some(path) = name.to_str().and_then(|name| directory.join(name).ok()) else {
                    continue;
                };
                if kind.is_dir() {
                    directories.push(path);
                } else if kind.is_file() {
                    self.take(&path)?;
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Returns whether an error means that nothing exists at a path: it, or one of its parents, does
/// not exist, or the name is not valid for a file.
fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::InvalidFilename
            | io::ErrorKind::InvalidInput
    )
}

/// Returns the words of a line that may be paths: `- base`, `path: x.yaml`, `files: [key=a.txt]`.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let line = line.split(" #").next().unwrap_or_default();
    line.split(|at: char| at.is_whitespace() || "'\",[]{}=".contains(at))
        .filter(|word| {
            !matches!(*word, "" | "-" | "." | "/")
                && !word.ends_with(':')
                && !word.starts_with(['#', '/'])
        })
        .filter(|word| !word.contains("://") && word.len() < 1024)
}
