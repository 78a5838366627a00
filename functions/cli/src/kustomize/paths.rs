//! The entries of `--resources`: patterns of files, and the errors for entries that do not exist.
//! Patterns and paths follow `path/filepath` of Go, and errors those of kustomize.

use crate::error::Error;
use driftless_go::glob::{Glob, has_meta};
use driftless_go::path::clean;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The directory that a kustomization is written in.
pub struct Directory {
    /// The path, as the user has given it.
    pub path: PathBuf,
}

/// The error of a pattern.
enum GlobError {
    /// The pattern is not valid.
    Syntax,
    /// A name is not UTF-8.
    Name(String),
}

impl Directory {
    /// Finds a directory.
    ///
    /// # Errors
    /// Fails if it does not exist or is not a directory.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let wrong = |problem: &str| {
            Error::new(format!("the directory {}: {problem}", path.display()))
                .next("name a directory that exists")
        };
        match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => Ok(Self {
                path: path.to_owned(),
            }),
            Ok(_) => Err(wrong("not a directory")),
            Err(error) => Err(wrong(&reason(&error))),
        }
    }

    /// Returns the path of a file in the directory, for messages.
    pub fn display(&self, file: &str) -> String {
        let path = self.path.join(file);
        let path = path.strip_prefix(".").unwrap_or(&path);
        path.display().to_string()
    }

    /// Returns the paths that an entry of `--resources` names: those that match it as a pattern, or
    /// else the entry itself, if it is a remote base.
    ///
    /// # Errors
    /// Fails for a pattern that is not valid, and for an entry without a match.
    pub fn entry(&self, entry: &str) -> Result<Vec<String>, Error> {
        let found = self.glob(entry).map_err(|error| match error {
            GlobError::Syntax => {
                Error::new("error checking the filesystem: syntax error in pattern").next(format!(
                    "write '{entry}' as a path, or as a pattern of *, ? and [a-z]"
                ))
            }
            GlobError::Name(name) => {
                Error::new(format!("{entry}: the name {name} is not UTF-8")).next("rename the file")
            }
        })?;
        // Names that begin with a dot must be named, as in a shell.
        let found: Vec<String> = match is_hidden(entry) {
            true => found,
            false => found.into_iter().filter(|path| !is_hidden(path)).collect(),
        };
        if !found.is_empty() {
            return Ok(found);
        }
        match driftless_kustomize::is_remote_base(entry) {
            true => Ok(vec![entry.to_owned()]),
            false => Err(self.no_match(entry)),
        }
    }

    fn no_match(&self, entry: &str) -> Error {
        if entry.is_empty() {
            return Error::new(" has no match: new root cannot be empty")
                .next("remove the empty entry from --resources");
        }
        let here = std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
        let full = clean(&here.join(entry).display().to_string());
        let problem = match first_missing(Path::new(&full)) {
            None => format!("'{full}': file is not directory"),
            Some((at, error)) if error.kind() == io::ErrorKind::NotFound => format!(
                "not a valid directory: evalsymlink failure on '{full}' : lstat {}: no such file or directory",
                at.display()
            ),
            Some((_, error)) => format!(
                "not a valid directory: evalsymlink failure on '{full}' : {}",
                reason(&error)
            ),
        };
        let next = match entry.contains("://") {
            true => {
                "add the URL of a file to resources by hand: driftless build --allow-remote fetches it"
            }
            false => {
                "name files and directories that exist, from the directory of the kustomization"
            }
        };
        Error::new(format!(
            "{entry} has no match: must build at directory: {problem}"
        ))
        .next(next)
    }

    /// Returns the paths that match a pattern, sorted in each directory.
    fn glob(&self, pattern: &str) -> Result<Vec<String>, GlobError> {
        if Glob::new(pattern).is_none() {
            return Err(GlobError::Syntax);
        }
        if !has_meta(pattern) {
            let exists = fs::symlink_metadata(self.path.join(pattern)).is_ok();
            let is_given = exists && !pattern.is_empty();
            return Ok(is_given.then(|| pattern.to_owned()).into_iter().collect());
        }
        let at = pattern.rfind('/').map_or(0, |at| at + 1);
        let (parent, name) = pattern.split_at(at);
        let parent = match parent {
            "" => ".",
            "/" => "/",
            more => more.strip_suffix('/').unwrap_or(more),
        };
        let parents = match has_meta(parent) {
            false => vec![parent.to_owned()],
            true => self.glob(parent)?,
        };
        let glob = Glob::new(name).ok_or(GlobError::Syntax)?;
        let mut found = Vec::new();
        for parent in parents {
            // As in Go, a directory that cannot be read has no match.
            let names = match list(&self.path.join(&parent)) {
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    return Err(GlobError::Name(error.to_string()));
                }
                names => names.unwrap_or_default(),
            };
            let names = names.iter().filter(|name| glob.matches(name));
            found.extend(names.map(|name| clean(&format!("{parent}/{name}"))));
        }
        Ok(found)
    }
}

fn is_hidden(path: &str) -> bool {
    let name = path.trim_end_matches('/').rsplit('/').next();
    name.is_some_and(|name| name.starts_with('.')) || path.is_empty()
}

/// Returns the names in a directory, sorted.
///
/// # Errors
/// Fails if the directory cannot be read, and with [`io::ErrorKind::InvalidData`] for a name that
/// is not UTF-8.
pub fn list(directory: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name().into_string();
        names.push(name.map_err(|name| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                name.to_string_lossy().into_owned(),
            )
        })?);
    }
    names.sort_unstable();
    Ok(names)
}

/// Returns the first part of a path that cannot be read, and the reason.
fn first_missing(path: &Path) -> Option<(PathBuf, io::Error)> {
    let mut parts: Vec<&Path> = path.ancestors().collect();
    parts.reverse();
    parts.into_iter().find_map(|part| {
        let error = fs::metadata(part).err()?;
        Some((part.to_owned(), error))
    })
}

/// Returns the reason of an error of the disk, in the words of Go.
pub fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        io::ErrorKind::NotADirectory => "not a directory".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::IsADirectory => "is a directory".to_owned(),
        io::ErrorKind::InvalidData => format!("the name {error} is not UTF-8"),
        _ => error.to_string(),
    }
}
