//! The tree that transformers work on.
//!
//! A JSON value is not enough: kustomize keeps the style of a scalar, and three of its rules depend
//! on it. A value that overwrites a quoted one stays a string; a patch treats `key:` and
//! `key: null` differently; and numbers that are copied into strings keep their spelling.

mod map;
mod path;
mod read;
mod shared_scalars;
mod typing;
mod write;

pub(crate) use map::Map;
pub(crate) use path::{first_part, is_list_item, lookup, lookup_mut, parts, smart_split, split};
pub(crate) use read::{documents, first_document, from_value, has_only_named_objects};
pub(crate) use shared_scalars::{SharedScalars, unshare};
pub(crate) use typing::resolve;
pub(crate) use write::{into_value, to_text, to_value};

use driftless_fuel::{MAP_NODES, text_nodes};

/// A map, list or scalar.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Scalar(Scalar),
    Seq(Vec<Node>),
    Map(Map),
}

/// A scalar with its original style.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scalar {
    pub tag: Tag,
    /// The value after YAML's unquoting, with the spelling of numbers kept.
    pub text: String,
    pub style: Style,
    /// The mark that scalars share which are one node in kustomize; 0 for all others.
    pub share: u32,
}

/// The style of a scalar. A value that overwrites it takes over the style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    /// With double quotes, or as a literal block.
    Quoted,
    /// Written in single quotes.
    SingleQuoted,
    /// As a folded block.
    Folded,
}

impl Style {
    /// Returns the style of a string that kustomize creates: a block for several lines, quotes for
    /// one that would not be a string without them.
    pub fn of_new(text: &str) -> Self {
        if text.contains('\n') || typing::needs_quotes(text) {
            Self::Quoted
        } else {
            Self::Plain
        }
    }
}

/// The type of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    Null,
    Bool,
    Int,
    Float,
    Str,
    /// An unquoted timestamp, which is printed as RFC 3339.
    Time,
    /// Not decided yet: a string if quoted, otherwise the type that YAML resolves.
    Auto,
}

impl Scalar {
    pub fn new(tag: Tag, text: impl Into<String>, style: Style) -> Self {
        Self {
            tag,
            text: text.into(),
            style,
            share: 0,
        }
    }

    pub fn str(text: impl Into<String>) -> Self {
        Self::new(Tag::Str, text, Style::Plain)
    }

    /// Checks whether the value and the style are the same.
    pub fn is_like(&self, other: &Self) -> bool {
        (self.tag, self.style, &self.text) == (other.tag, other.style, &other.text)
    }

    /// Creates an unquoted scalar whose type is resolved when it is printed.
    pub fn plain(text: impl Into<String>) -> Self {
        Self::new(Tag::Auto, text, Style::Plain)
    }

    /// Creates an unquoted scalar with the type that YAML resolves.
    pub fn typed(text: impl Into<String>) -> Self {
        let text = text.into();
        Self::new(resolve(&text), text, Style::Plain)
    }

    /// Sets the value and keeps the style: a quoted one stays a string, a plain one is resolved
    /// again.
    pub fn set_plain(&mut self, text: impl Into<String>) {
        self.text = text.into();
        self.tag = Tag::Auto;
    }

    pub fn is_string(&self) -> bool {
        matches!(self.tag, Tag::Str | Tag::Auto)
    }

    /// Checks whether quotes that the scalar has taken over from a replaced value make it a string
    /// when it is printed. They do not if the value has since been replaced by one of another type.
    pub fn is_quoted_away(&self) -> bool {
        !self.is_string()
            && self.tag != Tag::Null
            && self.style != Style::Plain
            && self.tag == resolve(&self.text)
    }

    /// Quotes a plain string that would not be a string without quotes, as kyaml does whenever it
    /// puts a value into a map, including into its own place, which a patch does with the values
    /// that it does not name. Returns the steps that it took.
    pub fn quote_if_ambiguous(&mut self) -> usize {
        if !self.is_string() || self.style != Style::Plain || !typing::needs_reading(&self.text) {
            return 0;
        }
        if typing::needs_quotes(&self.text) {
            self.style = Style::Quoted;
        }
        self.text.len()
    }

    /// Sets the value as a string.
    pub fn set_str(&mut self, text: impl Into<String>) {
        self.text = text.into();
        self.tag = Tag::Str;
    }
}

impl Node {
    pub fn str(text: impl Into<String>) -> Self {
        Node::Scalar(Scalar::str(text))
    }

    pub fn map() -> Self {
        Node::Map(Map::default())
    }

    /// Creates an explicit null, which a patch keeps.
    pub fn null() -> Self {
        Node::Scalar(Scalar::new(Tag::Null, "null", Style::Plain))
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Node::Scalar(Scalar { tag: Tag::Null, .. }))
    }

    /// Checks for null, an empty map or an empty list.
    pub fn is_empty(&self) -> bool {
        match self {
            Node::Scalar(scalar) => scalar.tag == Tag::Null,
            Node::Seq(items) => items.is_empty(),
            Node::Map(map) => map.is_empty(),
        }
    }

    /// Returns the value of a scalar of any type; empty for maps and lists.
    pub fn text(&self) -> &str {
        match self {
            Node::Scalar(scalar) => &scalar.text,
            _ => "",
        }
    }

    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Node::Map(map) => Some(map),
            _ => None,
        }
    }

    pub fn as_map_mut(&mut self) -> Option<&mut Map> {
        match self {
            Node::Map(map) => Some(map),
            _ => None,
        }
    }

    pub fn as_seq(&self) -> Option<&[Node]> {
        match self {
            Node::Seq(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the style of a scalar; plain for maps and lists.
    pub fn style(&self) -> Style {
        match self {
            Node::Scalar(scalar) => scalar.style,
            _ => Style::Plain,
        }
    }

    /// Returns the mark that a scalar shares with others.
    pub fn share(&self) -> u32 {
        match self {
            Node::Scalar(scalar) => scalar.share,
            _ => 0,
        }
    }

    /// Returns a field of a map.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.as_map()?.get(key)
    }

    /// Returns a mutable field of a map.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Node> {
        self.as_map_mut()?.get_mut(key)
    }

    /// Returns the description of the node's kind for errors.
    pub fn description(&self) -> &'static str {
        match self {
            Node::Scalar(_) => "a scalar",
            Node::Seq(_) => "a list",
            Node::Map(_) => "a map",
        }
    }

    /// Returns the number of values, including the node itself: long strings count as several, and
    /// so do maps.
    pub fn size(&self) -> usize {
        match self {
            Node::Scalar(scalar) => text_nodes(scalar.text.len()),
            Node::Seq(items) => 1 + items.iter().map(Node::size).sum::<usize>(),
            Node::Map(map) => {
                let field =
                    |(key, value): &(String, Node)| text_nodes(key.len()) - 1 + value.size();
                1 + MAP_NODES + map.fields().iter().map(field).sum::<usize>()
            }
        }
    }
}
