//! `--autodetect`: the manifests below a directory.

use super::paths::{Directory, list, reason};
use crate::error::Error;
use crate::progress::Progress;
use driftless_kustomize::{FILE_NAMES, is_resource_file};
use std::fs;

/// The maximum size of a manifest, in bytes; the limit of a build.
const MANIFEST_LIMIT: u64 = 64 << 20;

/// Returns the files of the directory whose documents are Kubernetes objects, and with `recursive`
/// those below it, in the order of kustomize: names sorted, each directory in its place. A
/// directory below that has a kustomization is returned itself. A file without documents is also
/// returned.
///
/// # Errors
/// Fails for files and directories that cannot be read.
pub fn resources(dir: &Directory, recursive: bool) -> Result<Vec<String>, Error> {
    let progress = Progress::new("reading manifests");
    let mut found = Vec::new();
    // The last entry is the next one.
    let mut todo = names(dir, "")?;
    while let Some(path) = todo.pop() {
        let full = dir.path.join(&path);
        let failed = |verb: &str, error: &std::io::Error| {
            Error::new(format!("{verb} {path}: {}", reason(error)))
        };
        let kind = fs::symlink_metadata(&full).map_err(|error| failed("lstat", &error))?;
        if kind.is_dir() {
            let is_base = FILE_NAMES.iter().any(|name| full.join(name).exists());
            match recursive {
                true if is_base => found.push(path),
                true => {
                    progress.say(format!("reading manifests: {path}"));
                    todo.extend(names(dir, &path)?);
                }
                false => {}
            }
            continue;
        }
        // Unlike the entry itself, its target decides how it is read.
        let target = fs::metadata(&full).map_err(|error| failed("open", &error))?;
        if target.is_dir() {
            return Err(Error::new(format!("read {path}: is a directory")).next(format!(
                "remove the link {path}, or leave --autodetect out and list the files with --resources"
            )));
        }
        if !target.is_file() || target.len() > MANIFEST_LIMIT {
            continue;
        }
        let content = fs::read(&full).map_err(|error| failed("open", &error))?;
        if std::str::from_utf8(&content).is_ok_and(is_resource_file) {
            found.push(path);
        }
    }
    Ok(found)
}

/// Returns the paths of the entries of a directory, in reverse order.
fn names(dir: &Directory, below: &str) -> Result<Vec<String>, Error> {
    let names = list(&dir.path.join(below)).map_err(|error| {
        let shown = if below.is_empty() { "." } else { below };
        Error::new(format!("open {shown}: {}", reason(&error)))
    })?;
    let paths = names.into_iter().rev().map(|name| match below {
        "" => name,
        _ => format!("{below}/{name}"),
    });
    Ok(paths.collect())
}
