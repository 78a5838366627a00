//! The parsed form of a YAML file, with order, styles, tags and positions, and the limits of
//! parsing one.

use driftless_fuel::{Fuel, FuelLimits};

/// The limits of one YAML file. Tenants may be hostile, so every parse has limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the file, and bytes of scalars and tags after aliases are expanded.
    pub bytes: usize,
    /// Levels of nesting.
    pub depth: usize,
    /// Nodes of all documents together, after aliases are expanded. A mapping counts as five,
    /// because its table takes most of the memory. An anchored node counts as two in a file with
    /// aliases.
    pub nodes: usize,
    /// Documents in the file, including empty ones.
    pub documents: usize,
}

impl Limits {
    /// Returns the fuel of one file. Steps are not limited here: the caller's fuel counts them.
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
    /// Returns 16 MiB, 1,000 levels, 1,000,000 nodes and 50,000 documents: many times the size that
    /// a cluster accepts for one object (1.5 MiB), or Helm for the manifest of a release.
    fn default() -> Self {
        Limits {
            bytes: 16 << 20,
            depth: 1_000,
            nodes: 1_000_000,
            documents: 50_000,
        }
    }
}

/// A YAML node with its written order, styles and tags; aliases are replaced by a copy of their
/// anchor's node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The line, from 1. A copy for an alias has the position of its anchor's node.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The tag in its long form (`tag:yaml.org,2002:str`, `!local`, `!` for the non-specific tag),
    /// if one was written.
    pub tag: Option<String>,
    /// The kind of the node, with its content.
    pub kind: NodeKind,
}

/// The content of a [`Node`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeKind {
    /// A scalar, not yet typed.
    Scalar {
        /// The string after YAML's unquoting and folding.
        text: String,
        /// The style of the scalar; only plain scalars can be other than strings.
        style: ScalarStyle,
    },
    /// A sequence of nodes.
    Seq(Vec<Node>),
    /// A mapping in document order, not yet checked for duplicate keys.
    Map(Vec<(Node, Node)>),
}

/// The way in which a scalar is written, which decides its type and its output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalarStyle {
    /// A plain scalar: `text`.
    Plain,
    /// A scalar in single quotes: `'text'`.
    SingleQuoted,
    /// A scalar in double quotes: `"text"`.
    DoubleQuoted,
    /// A literal block scalar, which begins with `|`.
    Literal,
    /// A folded block scalar, which begins with `>`.
    Folded,
}

/// A comment, with its position, not attached to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    /// The line, from 1.
    pub line: usize,
    /// The column of the `#` in characters, from 1.
    pub column: usize,
    /// The characters after the `#`.
    pub text: String,
    /// True if only blanks are before it on its line.
    pub own_line: bool,
}

impl Node {
    /// Returns whether the node is an empty document, or the missing value in `key:`.
    pub fn is_empty(&self) -> bool {
        self.tag.is_none()
            && matches!(&self.kind, NodeKind::Scalar { text, style: ScalarStyle::Plain } if text.is_empty())
    }

    /// Returns the value of a key of a mapping.
    pub fn get(&self, key: &str) -> Option<&Node> {
        match &self.kind {
            NodeKind::Map(pairs) => pairs
                .iter()
                .find(|(k, _)| k.text() == Some(key))
                .map(|(_, v)| v),
            _ => None,
        }
    }

    /// Returns the string of a scalar.
    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            NodeKind::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }
}
