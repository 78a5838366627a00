//! The error of a failed build: the file, and what is wrong with it.

use crate::remote::Remote;
use driftless_fuel::Span;
use driftless_manifest::yaml::{YamlError, YamlErrorKind};
use driftless_manifest::{ReadError, TreePath};
use std::fmt;

/// The reason why a directory could not be rendered.
///
/// Shown as `file: what is wrong, and what to do`. The message names files, fields and objects,
/// never a value of a Secret or the content of a foreign file.
#[derive(Debug, thiserror::Error)]
#[error("{}{kind}", Place(.file))]
#[non_exhaustive]
pub struct Error {
    /// The file or directory with the error, if known.
    pub file: Option<TreePath>,
    /// The kind of the error, with its details.
    #[source]
    pub kind: ErrorKind,
}

/// The kinds of errors of a build.
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
    /// A kustomization that is empty, of another kind, or has a field that is unknown or of another
    /// type.
    #[error("not a valid kustomization: {0}")]
    Kustomization(String),
    /// An entry that leads to another host.
    #[error(
        "{field} entry '{entry}' is remote: only files and directories of this repository are read. Copy it into the repository, make it a separate source, or allow remote bases"
    )]
    Remote {
        /// The name of the field.
        field: &'static str,
        /// The entry, without credentials.
        entry: String,
    },
    /// A remote file or repository that the tree does not have yet: see [`Remote`].
    #[error("{0} has not been fetched yet")]
    Needs(Remote),
    /// Something that driftless leaves out on purpose.
    #[error("{field} is not supported: {reason}")]
    Unsupported {
        /// The name of the field or plugin.
        field: String,
        /// The reason why it is not supported.
        reason: String,
    },
    /// A file outside the directory of the kustomization that names it.
    #[error("'{file}' is not in or below '{root}': the load restrictor allows no other files")]
    Restricted {
        /// The path of the file.
        file: TreePath,
        /// The directory of the kustomization.
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
        /// The name of the generated object.
        name: String,
        /// The reason of the failure.
        reason: String,
    },
    /// A transformer that failed.
    #[error("{transformer}: {reason}")]
    Transform {
        /// The name of the transformer or field.
        transformer: &'static str,
        /// The reason of the failure.
        reason: String,
    },
    /// A regular expression or selector that is not valid.
    #[error("selector '{selector}': {reason}")]
    Selector {
        /// The expression as written.
        selector: String,
        /// The reason why it is not valid.
        reason: String,
    },
    /// A reference that matches more than one object.
    #[error("the reference to '{name}' in {referrer} matches more than one object: {candidates}")]
    Ambiguous {
        /// The name in the reference.
        name: String,
        /// The object with the reference.
        referrer: String,
        /// The objects that match.
        candidates: String,
    },
    /// A budget of [`Limits`](crate::Limits) is used up, or the tank from which they take their
    /// fuel.
    #[error("more than {limit} {unit}: the limit of {scope}")]
    Budget {
        /// The unit that was counted.
        unit: &'static str,
        /// The limit of that unit.
        limit: usize,
        /// The work that has this limit: `one build`, or `all work of one step` with a tank.
        scope: &'static str,
    },
}

/// A path as `file: `, or nothing.
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
            // The limit of the build was reached, not one of the file.
            YamlErrorKind::Fuel(out) => out.into(),
            _ => ErrorKind::from(error).into(),
        }
    }
}

impl Error {
    /// Returns the place that the error names: with a line and a column for a file that is not
    /// YAML, otherwise only the file. `None` if no file is known.
    pub fn span(&self) -> Option<Span> {
        match &self.kind {
            ErrorKind::Yaml(error) => Some(error.span.clone()),
            _ => self
                .file
                .as_ref()
                .map(|file| Span::new(file.as_str(), 0, 0)),
        }
    }

    /// Checks whether a budget is used up: such an error ends the build in any case.
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

    /// Adds the file, unless an inner function has set it or the message names it already.
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
