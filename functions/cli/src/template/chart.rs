//! Loads a chart from the disk.

use crate::error::Error;
use driftless_helm::{Chart, ChartFile, Compat, IgnoreRules, LoadLimits};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Loads a chart from a directory or a .tgz file.
pub fn load(path: &Path, compat: Compat) -> Result<Chart, Error> {
    let limits = LoadLimits::of(compat);
    let name = path.display().to_string();
    if name.contains("://") {
        return Err(Error::new(format!(
            "chart '{name}' is remote, and only local charts can be rendered"
        ))
        .next("download it with helm pull, and name the directory or the .tgz file"));
    }
    let meta = fs::metadata(path).map_err(|error| {
        Error::caused_by(error)
            .context(format!("chart '{name}'"))
            .next("name a directory or a .tgz file")
    })?;
    if !meta.is_dir() {
        if meta.len() > limits.bytes {
            return Err(Error::new(format!("chart '{name}' is too large")));
        }
        let data = fs::read(path)
            .map_err(|error| Error::caused_by(error).context(format!("read '{name}'")))?;
        return Chart::from_archive(&data, &name, compat, &limits).map_err(Error::caused_by);
    }
    let ignore = match fs::read(path.join(".helmignore")) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(Error::new(format!("read '{name}/.helmignore': {error}"))),
    };
    let mut walk = Walk {
        rules: IgnoreRules::parse(&ignore).map_err(Error::caused_by)?,
        limits: &limits,
        bytes: 0,
        files: Vec::new(),
    };
    walk.directory(path, "", 0)?;
    Chart::from_files(walk.files, compat, &limits).map_err(Error::caused_by)
}

/// The maximum depth of nested directories; links may form a cycle.
const MAX_DEPTH: usize = 64;

struct Walk<'a> {
    rules: IgnoreRules,
    limits: &'a LoadLimits,
    bytes: u64,
    files: Vec<ChartFile>,
}

impl Walk<'_> {
    /// Reads a directory, sorted by name. Links are followed, as in Helm.
    fn directory(&mut self, directory: &Path, inside: &str, depth: usize) -> Result<(), Error> {
        let fail = |error: &dyn std::fmt::Display| {
            Error::new(format!("read '{}': {error}", directory.display()))
        };
        if depth > MAX_DEPTH {
            return Err(fail(
                &"directories are nested too deeply, or link to each other",
            ));
        }
        let mut names = Vec::new();
        for entry in fs::read_dir(directory).map_err(|error| fail(&error))? {
            let name = entry.map_err(|error| fail(&error))?.file_name();
            match name.into_string() {
                Ok(name) => names.push(name),
                Err(_) => return Err(fail(&"a file's name is not UTF-8")),
            }
        }
        names.sort();
        for name in names {
            let path = directory.join(&name);
            let inner = match inside {
                "" => name,
                inside => format!("{inside}/{name}"),
            };
            let meta = fs::metadata(&path).map_err(|error| {
                Error::caused_by(error).context(format!("read '{}'", path.display()))
            })?;
            if self.rules.ignores(&inner, meta.is_dir()) {
                continue;
            }
            if meta.is_dir() {
                self.directory(&path, &inner, depth + 1)?;
            } else {
                self.file(&path, inner, &meta)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, name: String, meta: &fs::Metadata) -> Result<(), Error> {
        let fail = |error: &dyn std::fmt::Display| {
            Error::new(format!("read '{}': {error}", path.display()))
        };
        if !meta.is_file() {
            return Err(fail(&"not a regular file"));
        }
        self.bytes += meta.len();
        if self.limits.is_large_file(meta.len()) {
            return Err(fail(&self.limits.large_file(&name)));
        }
        if self.bytes > self.limits.bytes || self.files.len() >= self.limits.files {
            return Err(fail(&"the chart has more files or bytes than are allowed"));
        }
        let data = fs::read(path).map_err(|error| fail(&error))?;
        self.files.push(ChartFile {
            name,
            data: Arc::from(data),
        });
        Ok(())
    }
}
