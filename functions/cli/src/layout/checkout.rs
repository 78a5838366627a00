//! The files of a checkout, which are changed in memory and then written together.

use crate::error::Error;
use driftless_kustomize::{Build, FILE_NAMES};
use driftless_manifest::{EntryKind, FileTree, Object, Reader, TreePath};
use serde_json::json;
use similar::TextDiff;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The file with the name of the environment, at the top of the repository.
pub const ENV_NAME: &str = "ENV_NAME";
/// The directories of the layout, at the top of the repository.
const DIRECTORIES: [&str; 3] = ["clusters", "infra", "tenants"];
/// The maximum depth of nested directories.
const DEPTH: usize = 32;

/// The files of a checkout before and after the changes.
pub struct Checkout {
    root: PathBuf,
    before: BTreeMap<String, Vec<u8>>,
    files: BTreeMap<String, Vec<u8>>,
}

/// The change of a file.
pub struct Change {
    /// The path of the file in the repository.
    pub path: String,
    before: Option<Vec<u8>>,
    after: Option<Vec<u8>>,
}

impl Change {
    /// Returns the kind of the change: created, removed or changed.
    pub fn word(&self) -> &'static str {
        match (&self.before, &self.after) {
            (None, _) => "created",
            (_, None) => "removed",
            _ => "changed",
        }
    }

    /// Returns the change as a unified diff.
    pub fn diff(&self) -> String {
        let text = |content: &Option<Vec<u8>>| {
            String::from_utf8_lossy(content.as_deref().unwrap_or_default()).into_owned()
        };
        let (before, after) = (text(&self.before), text(&self.after));
        let name = |content: &Option<Vec<u8>>, side: &str| match content {
            Some(_) => format!("{side}/{}", self.path),
            None => "/dev/null".to_owned(),
        };
        TextDiff::from_lines(&before, &after)
            .unified_diff()
            .header(&name(&self.before, "a"), &name(&self.after, "b"))
            .to_string()
    }
}

impl Checkout {
    /// Reads the files of the layout.
    ///
    /// # Errors
    /// Fails for a directory or file that cannot be read.
    pub fn read(root: &Path) -> Result<Self, Error> {
        if !root.is_dir() {
            return Err(Error::new(format!("{} is not a directory", root.display()))
                .next("give the checkout with --dir"));
        }
        let mut files = BTreeMap::new();
        let name = root.join(ENV_NAME);
        if name.is_file() {
            files.insert(ENV_NAME.to_owned(), read(&name)?);
        }
        for directory in DIRECTORIES {
            walk(&root.join(directory), directory, DEPTH, &mut files)?;
        }
        Ok(Self {
            root: root.to_owned(),
            before: files.clone(),
            files,
        })
    }

    /// Returns the content of a file; `None` if it does not exist.
    ///
    /// # Errors
    /// Fails for a file that is not UTF-8.
    pub fn text(&self, path: &str) -> Result<Option<String>, Error> {
        let Some(content) = self.files.get(path) else {
            return Ok(None);
        };
        let text = String::from_utf8(content.clone());
        text.map(Some)
            .map_err(|_| Error::new(format!("{path}: the file is not UTF-8")))
    }

    /// Returns whether the file exists.
    pub fn has(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// Returns the sorted paths, from the directory, of all files below it.
    pub fn below(&self, directory: &str) -> impl Iterator<Item = &str> {
        let prefix = format!("{directory}/");
        let paths = self.files.keys();
        paths.filter_map(move |path| path.strip_prefix(&prefix))
    }

    /// Returns the sorted names of the directories in a directory.
    pub fn directories(&self, directory: &str) -> BTreeSet<String> {
        self.below(directory)
            .filter_map(|rest| Some(rest.split_once('/')?.0.to_owned()))
            .collect()
    }

    /// Creates a file or replaces its content.
    pub fn put(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.files.insert(path.into(), text.into().into_bytes());
    }

    /// Creates a file, unless it exists.
    pub fn add(&mut self, path: impl Into<String>, text: impl Into<String>) {
        let text: String = text.into();
        self.files
            .entry(path.into())
            .or_insert_with(|| text.into_bytes());
    }

    /// Removes a file. Returns whether it existed.
    pub fn remove(&mut self, path: &str) -> bool {
        self.files.remove(path).is_some()
    }

    /// Removes a directory. Returns whether it existed.
    pub fn remove_directory(&mut self, directory: &str) -> bool {
        let prefix = format!("{directory}/");
        let count = self.files.len();
        self.files.retain(|path, _| !path.starts_with(&prefix));
        self.files.len() < count
    }

    /// Returns the objects of a directory as the hub builds it: those of its kustomization, or else
    /// all in its files.
    ///
    /// # Errors
    /// Fails with the errors of the build.
    pub fn build(&self, directory: &str) -> Result<Vec<Object>, Error> {
        let mut tree = FileTree::new();
        for (path, content) in &self.files {
            let path = TreePath::new(path).map_err(Error::caused_by)?;
            tree.insert(path, EntryKind::File, content.clone())
                .map_err(Error::caused_by)?;
        }
        let reader = Reader::new(&tree);
        let place = TreePath::new(directory).map_err(Error::caused_by)?;
        let build = Build::new(&reader, &place);
        let has_own = |name: &&str| self.has(&format!("{directory}/{name}"));
        let files: Vec<&str> = self.below(directory).collect();
        let files = json!({"resources": files});
        let build = match FILE_NAMES.iter().any(has_own) {
            true => build,
            false => build.kustomization(&files),
        };
        let objects = build.objects().map_err(|error| {
            Error::caused_by(error)
                .context(format!("build of {directory}"))
                .next(format!(
                    "correct the file, and check it with driftless build {directory}"
                ))
        })?;
        Ok(objects)
    }

    /// Returns the objects of a directory as [`Checkout::build`] does; none if it does not exist.
    ///
    /// # Errors
    /// Fails with the errors of the build.
    pub fn build_existing(&self, directory: &str) -> Result<Vec<Object>, Error> {
        match self.below(directory).next() {
            Some(_) => self.build(directory),
            None => Ok(Vec::new()),
        }
    }

    /// Returns the changes, sorted by path.
    pub fn changes(&self) -> Vec<Change> {
        let paths: BTreeSet<&String> = self.before.keys().chain(self.files.keys()).collect();
        let change = |path: &String| Change {
            path: path.clone(),
            before: self.before.get(path).cloned(),
            after: self.files.get(path).cloned(),
        };
        let all = paths.into_iter().map(change);
        all.filter(|change| change.before != change.after).collect()
    }

    /// Writes all changes. If one fails, those before it are undone.
    ///
    /// # Errors
    /// Fails for a file that cannot be written or removed.
    pub fn write(&self, changes: &[Change]) -> Result<(), Error> {
        for (at, change) in changes.iter().enumerate() {
            if let Err(error) = self.set(&change.path, change.after.as_deref()) {
                let mut message = format!("{}: {error}", self.root.join(&change.path).display());
                for done in &changes[..at] {
                    if let Err(error) = self.set(&done.path, done.before.as_deref()) {
                        message
                            .push_str(&format!("; {} could not be restored: {error}", done.path));
                    }
                }
                return Err(
                    Error::new(message).next("correct the cause, and run the command again")
                );
            }
        }
        Ok(())
    }

    fn set(&self, path: &str, content: Option<&[u8]>) -> std::io::Result<()> {
        let file = self.root.join(path);
        match content {
            Some(content) => {
                if let Some(directory) = file.parent() {
                    fs::create_dir_all(directory)?;
                }
                fs::write(&file, content)
            }
            None => {
                fs::remove_file(&file)?;
                // Git has no empty directories. A directory that is not empty stays.
                let directories = Path::new(path).ancestors().skip(1);
                for directory in directories.filter(|directory| !directory.as_os_str().is_empty()) {
                    if fs::remove_dir(self.root.join(directory)).is_err() {
                        break;
                    }
                }
                Ok(())
            }
        }
    }
}

fn walk(
    directory: &Path,
    path: &str,
    depth: usize,
    files: &mut BTreeMap<String, Vec<u8>>,
) -> Result<(), Error> {
    let failed = |error| Error::caused_by(error).context(directory.display());
    if !directory.is_dir() {
        return Ok(());
    }
    if depth == 0 {
        return Err(Error::new(format!(
            "{path}: more than {DEPTH} nested directories"
        )));
    }
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let name = name
            .to_str()
            .ok_or_else(|| Error::new(format!("{path}: a file's name is not UTF-8")))?;
        let path = format!("{path}/{name}");
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() {
            walk(&entry.path(), &path, depth - 1, files)?;
        } else if kind.is_symlink() {
            return Err(Error::new(format!(
                "{path}: symbolic links are not supported in this layout"
            ))
            .next("replace it by a file"));
        } else {
            files.insert(path, read(&entry.path())?);
        }
    }
    Ok(())
}

fn read(file: &Path) -> Result<Vec<u8>, Error> {
    fs::read(file).map_err(|error| Error::caused_by(error).context(file.display()))
}
