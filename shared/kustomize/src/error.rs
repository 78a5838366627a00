//! Why a build failed: the file, and what is wrong with it.

use crate::remote::Remote;
use driftless_manifest::yaml::{YamlError, YamlErrorKind};
use driftless_manifest::{ReadError, TreePath};
use std::fmt;

/// Why a directory could not be rendered.
///
/// Shown as `file: what is wrong, and what to do`. The text names files, fields and objects, never a value of a Secret or
/// the content of a foreign file.
#[derive(Debug, thiserror::Error)]
#[error("{}{kind}", Place(.file))]
pub struct Error {
    /// The file or directory that is to blame, where known.
    pub file: Option<TreePath>,
    /// What is wrong.
    #[source]
    pub kind: ErrorKind,
}

/// What is wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A file could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A file is not YAML. Names the file and the line.
    #[error(transparent)]
    Yaml(#[from] YamlError),
    /// A directory without `kustomization.yaml`, `kustomization.yml` or `Kustomization`.
    #[error("the directory has no kustomization.yaml, kustomization.yml or Kustomization")]
    NoKustomization,
    /// A directory with more than one of them.
    #[error("found multiple kustomization files ({0}): keep one")]
    ManyKustomizations(String),
    /// A kustomization that is empty, of another kind, or has a field that is unknown or of another type.
    #[error("not a valid kustomization: {0}")]
    Kustomization(String),
    /// An entry that leads to another host.
    #[error(
        "{field} entry '{entry}' is remote: only files and directories of this repository are read. Copy it into the repository, make it a source of its own, or allow remote bases"
    )]
    Remote {
        /// The field.
        field: &'static str,
        /// The entry, without credentials.
        entry: String,
    },
    /// Something of another host that the tree does not have yet: see [`Remote`].
    #[error("{0} is not fetched yet")]
    Needs(Remote),
    /// Something that driftless leaves out on purpose.
    #[error("{field} is not supported: {reason}")]
    Unsupported {
        /// The field or plugin.
        field: String,
        /// Why.
        reason: String,
    },
    /// A file outside of the directory of the kustomization that names it.
    #[error("'{file}' is not in or below '{root}': the load restrictor allows no other files")]
    Restricted {
        /// The file.
        file: TreePath,
        /// The kustomization's directory.
        root: TreePath,
    },
    /// Directories that lead to each other.
    #[error("cycle: {}", .0.iter().map(|dir| format!("'{dir}'")).collect::<Vec<_>>().join(" -> "))]
    Cycle(Vec<TreePath>),
    /// A document that is not a Kubernetes object.
    #[error("not a Kubernetes object: {0}")]
    Object(String),
    /// Two objects with one id.
    #[error("the object {0} already exists: rename one of them, or remove one")]
    Duplicate(String),
    /// A patch that could not be applied.
    #[error("patch: {0}")]
    Patch(String),
    /// A generator that could not produce its object.
    #[error("generator '{name}': {reason}")]
    Generator {
        /// The generated object.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// A transformer that could not do its work.
    #[error("{transformer}: {reason}")]
    Transform {
        /// The transformer or field.
        transformer: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A regular expression or selector that cannot be read.
    #[error("selector '{selector}': {reason}")]
    Selector {
        /// The expression.
        selector: String,
        /// What is wrong.
        reason: String,
    },
    /// A reference that fits more than one object.
    #[error("the reference to '{name}' in {referrer} matches more than one object: {candidates}")]
    Ambiguous {
        /// The name that is referred to.
        name: String,
        /// The object that refers.
        referrer: String,
        /// What it could mean.
        candidates: String,
    },
    /// A budget of [`Limits`](crate::Limits) is used up.
    #[error("more than {limit} {what}: the limit of one build")]
    Budget {
        /// What was counted.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}

/// `file: `, or nothing.
struct Place<'a>(&'a Option<TreePath>);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(path) => write!(f, "{path}: "),
            None => Ok(()),
        }
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self { file: None, kind }
    }
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        ErrorKind::from(error).into()
    }
}

impl From<YamlError> for Error {
    fn from(error: YamlError) -> Self {
        match error.kind {
            // What ran out is the build's, not the file's share.
            YamlErrorKind::Fuel(out) => out.into(),
            _ => ErrorKind::from(error).into(),
        }
    }
}

impl Error {
    /// Whether a budget is used up: the build ends with it, whatever was tried.
    pub(crate) fn is_budget(&self) -> bool {
        match &self.kind {
            ErrorKind::Budget { .. } => true,
            ErrorKind::Yaml(error) => {
                matches!(
                    error.kind,
                    YamlErrorKind::Budget { .. } | YamlErrorKind::Fuel(_)
                )
            }
            _ => false,
        }
    }

    /// Puts the file in, unless an inner function knew it better or the text has it already.
    pub(crate) fn in_file(mut self, path: &TreePath) -> Self {
        let named = matches!(self.kind, ErrorKind::Yaml(_) | ErrorKind::Cycle(_));
        if self.file.is_none() && !named {
            self.file = Some(path.clone());
        }
        self
    }
}

/// Adds the file to an error on its way out.
pub(crate) trait InFile<T> {
    fn in_file(self, path: &TreePath) -> Result<T, Error>;
}

impl<T, E: Into<Error>> InFile<T> for Result<T, E> {
    fn in_file(self, path: &TreePath) -> Result<T, Error> {
        self.map_err(|error| error.into().in_file(path))
    }
}
