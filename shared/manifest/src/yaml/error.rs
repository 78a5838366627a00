//! Errors of YAML texts, with file, line and column.

use crate::fuel::{FuelKind, OutOfFuel};
use std::fmt;

/// A YAML text that was refused.
///
/// Shown as `file:line:column: what, what was expected`. Lines and columns count from 1, columns in characters. The text
/// never repeats content of the document beyond the name of a key or an anchor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {kind}")]
pub struct YamlError {
    /// The file as the caller named it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub kind: YamlErrorKind,
}

/// What is wrong with a YAML text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum YamlErrorKind {
    /// The bytes are no UTF-8.
    #[error("the file is not UTF-8 text")]
    NotUtf8,
    /// The text breaks YAML's grammar.
    #[error("not valid YAML: {0}")]
    Syntax(String),
    /// A budget of [`Limits`](super::Limits) is used up.
    #[error("more than {limit} {what}, which is the limit for one file")]
    Budget {
        /// What was counted: bytes, levels, nodes, documents.
        what: Budget,
        /// The limit.
        limit: usize,
    },
    /// What the caller has for all its work is used up, not the share of this text.
    #[error("{0}, which is the limit for all that is read here")]
    Fuel(OutOfFuel),
    /// The same key twice in one mapping.
    #[error("duplicate key {key:?} in one mapping (first in line {first})")]
    DuplicateKey {
        /// The key.
        key: String,
        /// The line of the first one.
        first: usize,
    },
    /// An alias to an anchor that no node before it has.
    #[error("an alias to an anchor that was not defined before it")]
    UnknownAnchor,
    /// A key that JSON cannot hold.
    #[error("a mapping key that is {0}, expected a string, a number or a boolean")]
    Key(&'static str),
    /// `<<` with something that is no mapping.
    #[error("a merge key (<<) needs a mapping or a list of mappings")]
    Merge,
    /// A tag that does not fit its value, or that JSON cannot hold.
    #[error("the value does not fit its tag {0}")]
    Tag(String),
    /// A number that JSON cannot hold.
    #[error("infinity or not-a-number, which JSON cannot hold")]
    NotFinite,
}

/// What a budget counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    /// Bytes of text, with what aliases repeat.
    Bytes,
    /// Levels of nesting.
    Depth,
    /// Nodes, with what aliases repeat.
    Nodes,
    /// Documents.
    Documents,
}

impl From<FuelKind> for Budget {
    fn from(which: FuelKind) -> Self {
        match which {
            FuelKind::Nodes => Budget::Nodes,
            FuelKind::Depth => Budget::Depth,
            // A text has no steps of its own.
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

/// An error without its file: the inner functions do not know the name.
pub(crate) struct Fault {
    pub line: usize,
    pub column: usize,
    pub kind: YamlErrorKind,
}

impl Fault {
    pub(crate) fn in_file(self, file: &str) -> YamlError {
        YamlError {
            file: file.to_owned(),
            line: self.line,
            column: self.column,
            kind: self.kind,
        }
    }
}
