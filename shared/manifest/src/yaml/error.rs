//! Errors of YAML files, with file, line and column.

use driftless_fuel::{FuelKind, OutOfFuel, Span};
use std::fmt;

/// The error of a YAML file that was refused.
///
/// Displayed as `file:line:column: problem, expectation`. Lines and columns count from 1, columns
/// in characters. The message never repeats content of the document except the name of a key or an
/// anchor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{span}: {kind}")]
#[non_exhaustive]
pub struct YamlError {
    /// The place in the file, whose name the caller gave.
    pub span: Span,
    /// The kind of the problem.
    pub kind: YamlErrorKind,
}

impl YamlError {
    /// Returns the error of a file at a place.
    pub fn new(kind: YamlErrorKind, span: Span) -> Self {
        Self { span, kind }
    }
}

/// The problem of a YAML file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum YamlErrorKind {
    /// The bytes are not UTF-8.
    #[error("the file is not UTF-8 text")]
    NotUtf8,
    /// The file is not valid in YAML's grammar.
    #[error("not valid YAML: {0}")]
    Syntax(String),
    /// A limit of [`Limits`](super::Limits) is exceeded.
    #[error("more than {limit} {unit}, which is the limit for one file")]
    Budget {
        /// The counted unit: bytes, levels, nodes or documents.
        unit: Budget,
        /// The limit that is exceeded.
        limit: usize,
    },
    /// The limit of all of the caller's work is exceeded, not the limit of this file.
    #[error("{0}, which is the limit for all files together")]
    Fuel(OutOfFuel),
    /// A duplicate key in a mapping.
    #[error("duplicate key {key:?} in one mapping (first in line {first})")]
    DuplicateKey {
        /// The duplicate key.
        key: String,
        /// The line of the first one.
        first: usize,
    },
    /// An alias whose anchor is not defined before it.
    #[error("an alias to an anchor that was not defined before it")]
    UnknownAnchor,
    /// A key that cannot be a JSON key.
    #[error("a mapping key that is {0}, expected a string, a number or a boolean")]
    Key(&'static str),
    /// A `<<` with a value that is not a mapping.
    #[error("a merge key (<<) needs a mapping or a list of mappings")]
    Merge,
    /// A tag that does not match its value, or that has no JSON form.
    #[error("the value does not fit its tag {0}")]
    Tag(String),
    /// A number that has no JSON form.
    #[error("infinity or not-a-number, which JSON cannot hold")]
    NotFinite,
}

/// The unit of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Budget {
    /// Bytes, including those that aliases repeat.
    Bytes,
    /// Levels of nesting.
    Depth,
    /// Nodes, including those that aliases repeat.
    Nodes,
    /// Documents in the file.
    Documents,
}

impl From<FuelKind> for Budget {
    fn from(which: FuelKind) -> Self {
        match which {
            FuelKind::Nodes => Budget::Nodes,
            FuelKind::Depth => Budget::Depth,
            // A file has no limit of steps.
            FuelKind::Bytes | FuelKind::Steps => Budget::Bytes,
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Budget::Bytes => "bytes (aliases expanded)",
            Budget::Depth => "levels of nesting",
            Budget::Nodes => "nodes (aliases expanded)",
            Budget::Documents => "documents",
        })
    }
}

/// An error without the name of its file, which the inner functions do not know.
pub(crate) struct LocatedError {
    pub line: usize,
    pub column: usize,
    pub kind: YamlErrorKind,
}

impl LocatedError {
    pub(crate) fn in_file(self, file: &str) -> YamlError {
        YamlError::new(self.kind, Span::new(file, self.line, self.column))
    }
}
