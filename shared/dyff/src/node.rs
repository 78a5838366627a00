//! A document as a tree of nodes with the order of keys and the form of values that the YAML of
//! Kubernetes' libraries has.

use driftless_manifest::yaml;
use serde_json::{Map, Value};

/// A node of a document.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// A map, in the order of the document.
    Map(Vec<(String, Node)>),
    /// A list of nodes.
    List(Vec<Node>),
    /// A value, with its text.
    Scalar(Tag, String),
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    /// A string, quoted or not.
    String,
    /// A whole number.
    Int,
    /// A number with a fraction.
    Float,
    /// `true` or `false`.
    Bool,
    /// The missing value, `null`.
    Null,
}

impl From<&Value> for Node {
    fn from(value: &Value) -> Self {
        match value {
            Value::Object(map) => Self::Map(ordered(map)),
            Value::Array(list) => Self::List(list.iter().map(Self::from).collect()),
            Value::String(text) => Self::Scalar(Tag::String, text.clone()),
            Value::Bool(flag) => Self::Scalar(Tag::Bool, flag.to_string()),
            Value::Null => Self::Scalar(Tag::Null, "null".to_owned()),
            Value::Number(number) => {
                let is_whole = number.is_i64() || number.is_u64();
                let tag = if is_whole { Tag::Int } else { Tag::Float };
                Self::Scalar(tag, yaml::to_string(value).trim_end().to_owned())
            }
        }
    }
}

/// Returns the entries of a map in the order in which the YAML writer has them.
fn ordered(map: &Map<String, Value>) -> Vec<(String, Node)> {
    let entries: Vec<(&String, &Value)> = map.iter().collect();
    // A map of the same keys with the position of each: a line for each key.
    let positions = entries.iter().enumerate();
    let positions = positions.map(|(at, (key, _))| ((*key).clone(), at.into()));
    let text = yaml::to_string(&Value::Object(positions.collect()));
    let order: Option<Vec<usize>> = text
        .lines()
        .map(|line| line.rsplit_once(": ")?.1.parse().ok())
        .collect();
    let order = order.filter(|order| order.len() == entries.len());
    let order = order.unwrap_or_else(|| (0..entries.len()).collect());
    let entries = order.into_iter().filter_map(|at| entries.get(at));
    entries
        .map(|(key, value)| ((*key).clone(), Node::from(*value)))
        .collect()
}

impl Node {
    /// Returns the value of a key; `None` if this is not a map that has it.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        let Self::Map(entries) = self else {
            return None;
        };
        let mut found = entries.iter().filter(|(name, _)| name == key);
        found.next().map(|(_, value)| value)
    }

    /// Returns a value as a string; empty for a map or a list.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Scalar(_, text) => text,
            Self::Map(_) | Self::List(_) => "",
        }
    }

    /// Returns whether two nodes are of the same type.
    pub(crate) fn is_like(&self, other: &Node) -> bool {
        match (self, other) {
            (Self::Map(_), Self::Map(_)) | (Self::List(_), Self::List(_)) => true,
            (Self::Scalar(tag, _), Self::Scalar(other, _)) => tag == other,
            _ => false,
        }
    }

    /// Returns dyff's name of the type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Map(_) => "map",
            Self::List(_) => "list",
            Self::Scalar(Tag::String, _) => "string",
            Self::Scalar(Tag::Int, _) => "int",
            Self::Scalar(Tag::Float, _) => "float",
            Self::Scalar(Tag::Bool, _) => "bool",
            Self::Scalar(Tag::Null, _) => "<nil>",
        }
    }

    /// Returns a string that is the same for nodes with the same content; types of values do not
    /// count.
    pub(crate) fn fingerprint(&self) -> String {
        let mut text = String::new();
        self.write_fingerprint(&mut text);
        text
    }

    fn write_fingerprint(&self, out: &mut String) {
        match self {
            // An empty map and an empty list count as the same.
            Self::Map(entries) if entries.is_empty() => out.push_str("[]"),
            Self::Map(entries) => {
                out.push('{');
                for (key, value) in entries {
                    out.push_str(&format!("{key:?}:"));
                    value.write_fingerprint(out);
                    out.push(',');
                }
                out.push('}');
            }
            Self::List(entries) => {
                out.push('[');
                for entry in entries {
                    entry.write_fingerprint(out);
                    out.push(',');
                }
                out.push(']');
            }
            Self::Scalar(_, text) => out.push_str(&format!("{text:?}")),
        }
    }
}
