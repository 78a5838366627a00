//! The values of a file, in the order of the file.

use std::collections::HashSet;
use std::fmt;

use driftless_fuel::{Fuel, Span};
use driftless_manifest::yaml::{
    self, Dialect, Document, Limits, Node, NodeKind, View, YamlError, YamlErrorKind,
};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};
use zeroize::Zeroize;

use crate::SopsError;

/// A value, or a comment in formats that have comments among the values.
pub(crate) enum Tree {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    /// A decrypted value that is not UTF-8.
    Bytes(Vec<u8>),
    Comment(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

impl Drop for Tree {
    fn drop(&mut self) {
        match self {
            Tree::Text(text) => text.zeroize(),
            Tree::Bytes(bytes) => bytes.zeroize(),
            _ => {}
        }
    }
}

impl Tree {
    pub(crate) fn get(&self, key: &str) -> Option<&Tree> {
        match self {
            Tree::Map(entries) => entries
                .iter()
                .find(|(k, _)| k == key)
                .map(|(_, value)| value),
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Tree::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the items of a list; an empty slice for another value.
    pub(crate) fn items(&self) -> &[Tree] {
        match self {
            Tree::List(items) => items,
            _ => &[],
        }
    }
}

impl Document for Tree {
    fn view(&self) -> View<'_, Self> {
        match self {
            Tree::Null => View::Null,
            Tree::Bool(b) => View::Bool(*b),
            Tree::Number(n) => View::Number(n),
            Tree::Text(text) | Tree::Comment(text) => View::String(text),
            // Such a value is refused before anything is written.
            Tree::Bytes(_) => View::Null,
            Tree::List(items) => View::List(items),
            Tree::Map(entries) => View::Map(
                entries
                    .iter()
                    .map(|(key, value)| (key.as_str(), value))
                    .collect(),
            ),
        }
    }
}

/// Removes the `sops` mapping from the first document and returns it; sops repeats it in the
/// others, where it is ignored.
pub(crate) fn take_metadata(branches: &mut [Tree]) -> Option<Tree> {
    let mut found = None;
    for (i, branch) in branches.iter_mut().enumerate() {
        if let Tree::Map(entries) = branch
            && let Some(at) = entries.iter().position(|(key, _)| key == "sops")
        {
            let (_, value) = entries.remove(at);
            if i == 0 {
                found = Some(value);
            }
        }
    }
    found
}

pub(crate) fn from_yaml(bytes: &[u8], file: &str, fuel: &Fuel) -> Result<Vec<Tree>, SopsError> {
    let most = fuel.limits();
    let limits = Limits {
        bytes: most.bytes,
        depth: most.depth,
        nodes: most.nodes,
        ..Limits::default()
    };
    let nodes = yaml::parse_within(bytes, file, &limits, fuel)?;
    nodes
        .iter()
        .map(|node| match &node.kind {
            NodeKind::Map(pairs) => mapping(pairs, file),
            _ if matches!(yaml::node_to_value(node, file, Dialect::V3)?, Value::Null) => {
                Ok(Tree::Map(Vec::new()))
            }
            _ => {
                let problem = "expected a mapping at the top of the document";
                Err(SopsError::syntax(file, node.line, problem))
            }
        })
        .collect()
}

fn from_node(node: &Node, file: &str) -> Result<Tree, SopsError> {
    match &node.kind {
        NodeKind::Seq(items) => Ok(Tree::List(
            items
                .iter()
                .map(|item| from_node(item, file))
                .collect::<Result<_, _>>()?,
        )),
        NodeKind::Map(pairs) => mapping(pairs, file),
        NodeKind::Scalar { .. } => Ok(match yaml::node_to_value(node, file, Dialect::V3)? {
            Value::Bool(b) => Tree::Bool(b),
            Value::Number(n) => Tree::Number(n),
            Value::String(text) => Tree::Text(text),
            _ => Tree::Null,
        }),
    }
}

/// Converts a YAML node. A merge key is an ordinary key, as in sops.
fn mapping(pairs: &[(Node, Node)], file: &str) -> Result<Tree, SopsError> {
    let mut seen = HashSet::new();
    let mut entries = Vec::with_capacity(pairs.len());
    for (key, value) in pairs {
        let fault = |kind| YamlError::new(kind, Span::new(file, key.line, key.column));
        let Value::String(name) = yaml::node_to_value(key, file, Dialect::V3)? else {
            return Err(fault(YamlErrorKind::Key("not a string (quote it)")).into());
        };
        if !seen.insert(name.clone()) {
            let first = pairs
                .iter()
                .find(|(k, _)| k.text() == Some(&name))
                .map_or(key.line, |(k, _)| k.line);
            return Err(fault(YamlErrorKind::DuplicateKey { key: name, first }).into());
        }
        entries.push((name, from_node(value, file)?));
    }
    Ok(Tree::Map(entries))
}

pub(crate) fn from_json(bytes: &[u8], file: &str, fuel: &Fuel) -> Result<Tree, SopsError> {
    // Every value begins with one of these.
    let begins = |byte: &&u8| matches!(byte, b',' | b'[' | b'{');
    let values = bytes.iter().filter(begins).count();
    let paid = fuel.nodes(values).and_then(|()| fuel.steps(values));
    paid.map_err(|out| SopsError::Fuel {
        file: file.to_owned(),
        out,
    })?;
    let fault = |line, problem| SopsError::syntax(file, line, problem);
    match serde_json::from_slice::<Tree>(bytes) {
        Ok(tree @ Tree::Map(_)) => Ok(tree),
        Ok(_) => Err(fault(1, "expected a JSON object")),
        Err(e) if e.to_string().starts_with(DUPLICATE) => Err(fault(e.line(), DUPLICATE)),
        Err(e) => Err(fault(e.line(), "not valid JSON")),
    }
}

const DUPLICATE: &str = "duplicate key in one object";

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, b: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(b))
    }

    fn visit_i64<E>(self, i: i64) -> Result<Tree, E> {
        Ok(Tree::Number(i.into()))
    }

    fn visit_u64<E>(self, u: u64) -> Result<Tree, E> {
        Ok(Tree::Number(u.into()))
    }

    fn visit_f64<E>(self, f: f64) -> Result<Tree, E> {
        Ok(Number::from_f64(f).map_or(Tree::Null, Tree::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Tree::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Tree, A::Error> {
        let mut seen = HashSet::new();
        let mut entries = Vec::new();
        while let Some((key, value)) = access.next_entry::<String, Tree>()? {
            if !seen.insert(key.clone()) {
                return Err(A::Error::custom(DUPLICATE));
            }
            entries.push((key, value));
        }
        Ok(Tree::Map(entries))
    }
}
