//! One copy operation: its files, their destinations, and the strategies.

use super::glob::{BAD_PATTERN, glob, is_glob};
use super::pattern::{Pattern, check_alternatives};
use super::staging::Staging;
use super::{Budget, Kind, Source, clean, joined, merge};
use crate::archive;
use bytes::Bytes;
use driftless_flux::{CopyOperation, Invalid};
use driftless_manifest::{EntryKind, TreePath};
use std::collections::BTreeMap;

/// The endings of archives that `Extract` unpacks.
const ARCHIVES: [&str; 2] = [".tar.gz", ".tgz"];

/// The treatment of files.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strategy {
    Overwrite,
    Merge,
    Extract,
}

/// An operation whose fields are valid.
struct Copy<'a> {
    source: &'a Source,
    exclude: Vec<Pattern>,
    strategy: Strategy,
    staging: &'a mut Staging,
    budget: &'a mut Budget,
}

/// Applies an operation.
///
/// # Errors
/// A field is not valid, no file is found, or a limit is exceeded.
pub(super) fn apply(
    operation: &CopyOperation,
    sources: &BTreeMap<String, Source>,
    staging: &mut Staging,
    budget: &mut Budget,
) -> Result<(), Invalid> {
    let CopyOperation {
        from, to, optional, ..
    } = operation;
    let invalid_source =
        |error: Invalid| Invalid::from(format!("invalid copy source '{from}': {error}"));
    let (alias, pattern) = parse_source(from).map_err(invalid_source)?;
    check_alternatives(pattern).map_err(invalid_source)?;
    let destination = parse_destination(to)
        .map_err(|error| Invalid::from(format!("invalid copy destination '{to}': {error}")))?;
    let source = sources
        .get(alias)
        .ok_or_else(|| Invalid::from(format!("source alias '{alias}' not found")))?;
    let exclude = operation.exclude.iter().map(|text| exclude(text));
    let mut copy = Copy {
        source,
        exclude: exclude.collect::<Result<_, _>>()?,
        strategy: strategy(operation.strategy.as_deref())?,
        staging,
        budget,
    };
    if !is_glob(pattern) {
        let is_directory = to.ends_with('/');
        return copy.one(&clean(pattern), &destination, is_directory, *optional);
    }
    let matches = copy.matches(pattern);
    let matches = matches
        .map_err(|error| Invalid::from(format!("invalid glob pattern '{pattern}': {error}")))?;
    if matches.is_empty() && !optional {
        return Err(format!("no files match pattern '{pattern}' in source '{alias}'").into());
    }
    let is_matched = !matches.is_empty();
    let base = selection_root(pattern);
    let mut selected = Vec::with_capacity(matches.len());
    for path in matches {
        if path != "." && path != ".." && !copy.is_excluded(&path, &base)? {
            selected.push(path);
        }
    }
    if selected.is_empty() && is_matched && !optional {
        return Err(format!(
            "all files matching pattern '{pattern}' in source '{alias}' were excluded"
        )
        .into());
    }
    for path in selected {
        copy.matched(pattern, &path, &destination, &base)?;
    }
    Ok(())
}

impl Copy<'_> {
    /// Returns the paths that match a pattern. Only `Extract` knows `**` and alternatives.
    fn matches(&mut self, pattern: &str) -> Result<Vec<String>, Invalid> {
        if self.strategy != Strategy::Extract {
            return glob(self.source, pattern, self.budget);
        }
        let compiled = Pattern::parse(pattern)?.ok_or(BAD_PATTERN)?;
        let mut found = Vec::new();
        let mut open = vec![".".to_owned()];
        while let Some(path) = open.pop() {
            if compiled.matches(&path, self.budget)? {
                found.push(path.clone());
            }
            let children = self.source.children(&path).iter().rev();
            open.extend(children.map(|name| joined(&path, name)));
        }
        Ok(found)
    }

    /// Copies a path that a pattern matched.
    fn matched(
        &mut self,
        pattern: &str,
        path: &str,
        destination: &TreePath,
        base: &str,
    ) -> Result<(), Invalid> {
        if self.strategy == Strategy::Extract {
            if !is_archive(path) {
                return Ok(());
            }
            return self.extract(path, destination).map_err(|error| {
                let to = path_text(destination);
                Invalid::from(format!(
                    "failed to extract tarball '{path}' to '{to}': {error}"
                ))
            });
        }
        let stripped = pattern
            .strip_suffix("/**")
            .and_then(|directory| path.strip_prefix(directory)?.strip_prefix('/'));
        let to = place(destination, stripped.unwrap_or(path))?;
        self.copy(path, &to, base).map_err(|error| {
            Invalid::from(format!(
                "failed to copy file '{path}' to '{}': {error}",
                path_text(&to)
            ))
        })
    }

    /// Copies the file or directory at a path without a pattern.
    fn one(
        &mut self,
        path: &str,
        destination: &TreePath,
        is_directory: bool,
        is_optional: bool,
    ) -> Result<(), Invalid> {
        if path == ".." || path.starts_with("../") || path.starts_with('/') {
            return Err(format!(
                "failed to stat source '{path}': statat {path}: path escapes from parent"
            )
            .into());
        }
        match self.source.kind(path) {
            None if self.is_below_file(path) => Err(format!(
                "failed to stat source '{path}': statat {path}: not a directory"
            )
            .into()),
            None if is_optional => Ok(()),
            None => Err(format!("source '{path}' does not exist").into()),
            Some(Kind::Directory) if self.strategy == Strategy::Extract => Err(format!(
                "extract strategy is not supported for directories, got '{path}'"
            )
            .into()),
            Some(Kind::Directory) => {
                let to = place(destination, base_name(path))?;
                self.copy(path, &to, path)
            }
            Some(Kind::File) if self.is_excluded(path, ".")? => Ok(()),
            Some(Kind::File) if self.strategy == Strategy::Extract => match is_archive(path) {
                true => self.extract(path, destination),
                false => Err(format!(
                    "extract strategy requires tarball file (.tar.gz or .tgz), got '{path}'"
                )
                .into()),
            },
            Some(Kind::File) => {
                let to = match is_directory || self.staging.is_directory(destination) {
                    true => place(destination, base_name(path))?,
                    false => destination.clone(),
                };
                self.copy(path, &to, ".")
            }
        }
    }

    fn is_below_file(&self, path: &str) -> bool {
        let mut above = path;
        while let Some((parent, _)) = above.rsplit_once('/') {
            if self.source.kind(parent) == Some(Kind::File) {
                return true;
            }
            above = parent;
        }
        false
    }

    /// Copies a file, or a directory with all that is not excluded.
    fn copy(&mut self, path: &str, to: &TreePath, base: &str) -> Result<(), Invalid> {
        match self.source.kind(path) {
            Some(Kind::File) => return self.file(path, to),
            Some(Kind::Directory) => self.staging.create_directory(to)?,
            None => return Err(format!("'{path}' does not exist").into()),
        }
        let mut open = vec![(path.to_owned(), to.clone())];
        while let Some((directory, to)) = open.pop() {
            let mut below = Vec::new();
            for name in self.source.children(&directory) {
                self.budget.spend(1)?;
                let from = joined(&directory, name);
                if self.is_excluded(&from, base)? {
                    continue;
                }
                let to = place(&to, name)?;
                match self.source.kind(&from) {
                    Some(Kind::Directory) => {
                        self.staging.create_directory(&to)?;
                        below.push((from, to));
                    }
                    _ => self.file(&from, &to)?,
                }
            }
            open.extend(below.into_iter().rev());
        }
        Ok(())
    }

    fn file(&mut self, path: &str, to: &TreePath) -> Result<(), Invalid> {
        self.budget.spend(1)?;
        let content = self.source.content(path).cloned().unwrap_or_default();
        if self.strategy == Strategy::Merge {
            if self.staging.is_directory(to) {
                let to = path_text(to);
                return Err(format!("error reading YAML document: {to}: is a directory").into());
            }
            if let Some(old) = self.staging.file(to).cloned() {
                self.budget.spend(old.len() + content.len())?;
                let merged = merge::merge((to.as_str(), &old), (path, &content))?;
                return self.staging.write(to, None, Bytes::from(merged));
            }
        }
        let is_executable = self.source.is_executable(path);
        self.staging.write(to, Some(is_executable), content)
    }

    /// Unpacks an archive of the source into a directory.
    fn extract(&mut self, path: &str, destination: &TreePath) -> Result<(), Invalid> {
        let to = path_text(destination);
        let failed = |error: &dyn std::fmt::Display| {
            format!("failed to extract tarball {path:?} to {to:?}: {error}")
        };
        if self.staging.file(destination).is_some() {
            return Err(format!(
                "failed to create destination directory {to:?}: mkdirat {to}: file exists"
            )
            .into());
        }
        self.staging.create_directory(destination)?;
        if self.source.kind(path) == Some(Kind::Directory) {
            return Err(failed(&"is a directory").into());
        }
        let packed = self.source.content(path).cloned().unwrap_or_default();
        let memory = archive::memory_of(packed.len() as u64, &self.budget.limits);
        self.budget
            .spend(usize::try_from(memory / 64).unwrap_or(usize::MAX))?;
        let tree =
            archive::unpack(&packed, false, &self.budget.limits).map_err(|error| failed(&error))?;
        for (name, entry) in tree.index().iter() {
            self.budget.spend(1)?;
            if entry.kind == EntryKind::Link {
                let message = format!(
                    "tar file entry {name} is a symlink, which is not allowed in this context"
                );
                return Err(failed(&message).into());
            }
            let content = tree.content(name).cloned().unwrap_or_default();
            let to = place(destination, name.as_str())?;
            let is_executable = entry.kind == EntryKind::Executable;
            let is_new = self.staging.file(&to).is_none();
            let written = self
                .staging
                .write(&to, is_new.then_some(is_executable), content);
            written.map_err(|error| failed(&error))?;
        }
        Ok(())
    }

    /// Returns whether a path is excluded: as a path of the source, as a path of the selection, or
    /// by its name.
    fn is_excluded(&mut self, path: &str, base: &str) -> Result<bool, Invalid> {
        if self.exclude.is_empty() {
            return Ok(false);
        }
        if self.is_listed(path)? {
            return Ok(true);
        }
        let below = path
            .strip_prefix(base)
            .and_then(|rest| rest.strip_prefix('/'));
        match below {
            Some(below) => self.is_listed(below),
            None => Ok(false),
        }
    }

    fn is_listed(&mut self, path: &str) -> Result<bool, Invalid> {
        for pattern in &self.exclude {
            if pattern.matches(path, self.budget)?
                || pattern.is_of_name && pattern.matches(base_name(path), self.budget)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn strategy(name: Option<&str>) -> Result<Strategy, Invalid> {
    match name.unwrap_or_default() {
        "" | "Overwrite" => Ok(Strategy::Overwrite),
        "Merge" => Ok(Strategy::Merge),
        "Extract" => Ok(Strategy::Extract),
        other => Err(format!(
            "unknown strategy '{}': expected Overwrite, Merge or Extract",
            other.escape_debug()
        )
        .into()),
    }
}

fn exclude(text: &str) -> Result<Pattern, Invalid> {
    let parsed = check_alternatives(text).and_then(|()| Pattern::parse(text));
    let parsed = parsed
        .map_err(|error| Invalid::from(format!("invalid exclude pattern '{text}': {error}")))?;
    parsed.ok_or_else(|| Invalid::from(format!("invalid exclude pattern '{text}'")))
}

/// Returns the alias and the pattern of `@alias/pattern`.
fn parse_source(from: &str) -> Result<(&str, &str), Invalid> {
    let rest = from.strip_prefix('@').ok_or("source must start with '@'")?;
    let parts = rest.split_once('/');
    parts.ok_or_else(|| Invalid::from("source format must be '@alias/pattern'"))
}

/// Returns the path of `@artifact/path`.
fn parse_destination(to: &str) -> Result<TreePath, Invalid> {
    let path = to
        .strip_prefix("@artifact/")
        .ok_or("destination must start with '@artifact/'")?;
    let cleaned = clean(path);
    if cleaned == ".." || cleaned.starts_with("../") || cleaned.starts_with('/') {
        return Err("destination path must stay within the artifact root".into());
    }
    if path.split('/').any(|part| part == "..") {
        return Err("destination path must not contain '..'".into());
    }
    TreePath::new(&cleaned).map_err(Invalid::new)
}

/// Returns the directory of the source that a pattern begins with.
fn selection_root(pattern: &str) -> String {
    let pattern = clean(pattern);
    let parts: Vec<&str> = pattern
        .split('/')
        .take_while(|part| !is_glob(part))
        .collect();
    match parts.is_empty() {
        true => ".".to_owned(),
        false => parts.join("/"),
    }
}

fn place(directory: &TreePath, relative: &str) -> Result<TreePath, Invalid> {
    match relative {
        "." => Ok(directory.clone()),
        relative => directory.join(relative).map_err(Invalid::new),
    }
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns a path for messages: the root is `.`.
fn path_text(path: &TreePath) -> &str {
    match path.is_root() {
        true => ".",
        false => path.as_str(),
    }
}

fn is_archive(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    ARCHIVES.iter().any(|ending| path.ends_with(ending))
}
