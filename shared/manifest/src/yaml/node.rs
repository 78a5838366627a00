//! The parsed form of a YAML text, with order, styles, tags and positions, and the limits of parsing one.

use crate::fuel::{Fuel, FuelLimits};

/// What one text may cost. Tenants are hostile, so every parse has a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the text, and bytes of scalars and tags once aliases are expanded.
    pub bytes: usize,
    /// Levels of nesting.
    pub depth: usize,
    /// Nodes of all documents together, after aliases are expanded. A mapping counts as five: its table is what takes
    /// memory. An anchored node counts twice in a text that has aliases.
    pub nodes: usize,
    /// Documents in the text, empty ones included.
    pub documents: usize,
}

impl Limits {
    /// The fuel of one text. Its steps are the caller's.
    pub(super) fn fuel(&self) -> Fuel {
        Fuel::new(FuelLimits {
            bytes: self.bytes,
            nodes: self.nodes,
            depth: self.depth,
            ..FuelLimits::NONE
        })
    }
}

impl Default for Limits {
    /// 16 MiB, 1,000 levels, 1,000,000 nodes, 50,000 documents: many times what a cluster accepts as one object (1.5 MiB)
    /// or a release as one manifest.
    fn default() -> Self {
        Limits {
            bytes: 16 << 20,
            depth: 1_000,
            nodes: 1_000_000,
            documents: 50_000,
        }
    }
}

/// A YAML node as it stands in the text: order, styles and tags kept, aliases replaced by a copy of what they name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The line, from 1. A copy made for an alias has the place of its anchor's node.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The tag in its long form (`tag:yaml.org,2002:str`, `!local`, `!` for the non-specific tag), if one was written.
    pub tag: Option<String>,
    /// What the node is.
    pub kind: NodeKind,
}

/// The content of a [`Node`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeKind {
    /// A scalar, not yet typed.
    Scalar {
        /// The text after YAML's unquoting and folding.
        text: String,
        /// How it was written; only plain scalars are ever anything but strings.
        style: ScalarStyle,
    },
    /// A sequence.
    Seq(Vec<Node>),
    /// A mapping in document order. Keys are not yet checked for duplicates.
    Map(Vec<(Node, Node)>),
}

/// How a scalar was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalarStyle {
    /// `text`
    Plain,
    /// `'text'`
    SingleQuoted,
    /// `"text"`
    DoubleQuoted,
    /// `|`
    Literal,
    /// `>`
    Folded,
}

/// A comment, with its place but not attached to any node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    /// The line, from 1.
    pub line: usize,
    /// The column of the `#` in characters, from 1.
    pub column: usize,
    /// What stands after the `#`.
    pub text: String,
    /// Whether nothing but blanks stands before it on its line.
    pub own_line: bool,
}

impl Node {
    /// Whether nothing was written at all: an empty document, or the missing value in `key:`.
    pub fn is_empty(&self) -> bool {
        self.tag.is_none()
            && matches!(&self.kind, NodeKind::Scalar { text, style: ScalarStyle::Plain } if text.is_empty())
    }

    /// The value of a key of a mapping, by its text.
    pub fn get(&self, key: &str) -> Option<&Node> {
        match &self.kind {
            NodeKind::Map(pairs) => pairs
                .iter()
                .find(|(k, _)| k.text() == Some(key))
                .map(|(_, v)| v),
            _ => None,
        }
    }

    /// The text of a scalar.
    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            NodeKind::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }
}
