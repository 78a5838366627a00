//! Field paths: `a/b`, `a.b`, `a.[name=x].b`, `a.0.b`.

use super::Node;
use std::borrow::Cow;

/// Splits at a delimiter; a backslash before it keeps it. One leading delimiter is dropped.
pub(crate) fn split(path: &str, delimiter: char) -> Vec<String> {
    let mut parts = Vec::new();
    let mut left = Some(path.strip_prefix(delimiter).unwrap_or(path));
    while let Some(path) = left {
        let (part, rest) = first_part(path, delimiter);
        parts.push(part.into_owned());
        left = rest;
    }
    parts
}

/// Returns the part before the first delimiter without a backslash, and the rest.
pub(crate) fn first_part(path: &str, delimiter: char) -> (Cow<'_, str>, Option<&str>) {
    match path.split_once(delimiter) {
        None => return (Cow::Borrowed(path), None),
        Some((part, rest)) if !part.ends_with('\\') => return (Cow::Borrowed(part), Some(rest)),
        Some(_) => {}
    }
    let mut name = String::new();
    let mut left = path;
    while let Some((part, rest)) = left.split_once(delimiter) {
        let Some(part) = part.strip_suffix('\\') else {
            name.push_str(part);
            return (Cow::Owned(name), Some(rest));
        };
        name.push_str(part);
        name.push(delimiter);
        left = rest;
    }
    name.push_str(left);
    (Cow::Owned(name), None)
}

/// Splits at dots outside brackets. Brackets around a key with dots are dropped, `[key=value]`
/// stays.
pub(crate) fn smart_split(path: &str) -> Vec<String> {
    let mut result = Vec::new();
    let mut pieces = split(path, '.').into_iter();
    while let Some(piece) = pieces.next() {
        if !piece.starts_with('[') || piece.ends_with(']') {
            result.push(piece);
            continue;
        }
        let mut joined = piece;
        for more in pieces.by_ref() {
            joined.push('.');
            joined.push_str(&more);
            if more.ends_with(']') {
                break;
            }
        }
        if joined.contains('=') {
            result.push(joined);
        } else {
            result.push(joined.trim_matches(['[', ']']).to_owned());
        }
    }
    result
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Field(String),
    /// An item by its index.
    Index(usize),
    /// The last item.
    Last,
    /// The first item whose field has this value; an empty field name compares the item itself.
    Match {
        field: String,
        value: String,
    },
}

/// Parses the steps of a path like kyaml's `PathGetter`. Returns `None` if kyaml refuses one of
/// them.
pub(crate) fn parts(path: &[String]) -> Option<Vec<Part>> {
    let trimmed = path
        .iter()
        .map(|part| part.trim())
        .filter(|part| !part.is_empty());
    trimmed.map(part).collect()
}

fn part(text: &str) -> Option<Part> {
    if let Ok(index) = text.parse::<i64>() {
        return usize::try_from(index).ok().map(Part::Index);
    }
    match text {
        "-" => Some(Part::Last),
        "*" => None,
        _ if text.starts_with('[') && text.ends_with(']') => {
            let (field, value) = text[1..text.len() - 1].split_once('=')?;
            Some(Part::Match {
                field: field.to_owned(),
                value: value.to_owned(),
            })
        }
        field => Some(Part::Field(field.to_owned())),
    }
}

/// Checks whether a part of a path is a number or in brackets, which kyaml takes for an item of a
/// list.
pub(crate) fn is_list_item(part: &str) -> bool {
    part.parse::<i64>().is_ok() || (part.starts_with('[') && part.ends_with(']'))
}

/// A node of a kind that a step cannot go through.
#[derive(Debug)]
pub(crate) struct WrongKind {
    pub found: &'static str,
}

/// Returns the node at a path; `None` if a step leads nowhere.
///
/// # Errors
/// A field of a node that is not a map, or an item of a node that is not a list.
pub(crate) fn lookup<'n>(node: &'n Node, path: &[Part]) -> Result<Option<&'n Node>, WrongKind> {
    let mut at = node;
    for part in path {
        let next = match (child(at, part)?, at) {
            (Some(Child::Field(name)), Node::Map(map)) => map.get(name),
            (Some(Child::Item(index)), Node::Seq(items)) => items.get(index),
            _ => None,
        };
        let Some(next) = next else { return Ok(None) };
        at = next;
    }
    Ok(Some(at))
}

/// Like [`lookup`], with a mutable result.
pub(crate) fn lookup_mut<'n>(
    node: &'n mut Node,
    path: &[Part],
) -> Result<Option<&'n mut Node>, WrongKind> {
    let mut at = node;
    for part in path {
        let next = match (child(at, part)?, at) {
            (Some(Child::Field(name)), Node::Map(map)) => map.get_mut(name),
            (Some(Child::Item(index)), Node::Seq(items)) => items.get_mut(index),
            _ => None,
        };
        let Some(next) = next else { return Ok(None) };
        at = next;
    }
    Ok(Some(at))
}

/// A child of a node, which may be absent.
enum Child<'p> {
    Field(&'p str),
    Item(usize),
}

/// Returns the child that a part of a path names; `None` if no item matches, or below null.
fn child<'p>(node: &Node, part: &'p Part) -> Result<Option<Child<'p>>, WrongKind> {
    Ok(match (node, part) {
        (node, _) if node.is_null() => None,
        (Node::Map(_), Part::Field(name)) => Some(Child::Field(name)),
        (Node::Seq(items), part) => index_of(items, part)?.map(Child::Item),
        (other, _) => {
            return Err(WrongKind {
                found: other.description(),
            });
        }
    })
}

fn index_of(items: &[Node], part: &Part) -> Result<Option<usize>, WrongKind> {
    Ok(match part {
        Part::Index(index) => Some(*index),
        Part::Last => items.len().checked_sub(1),
        Part::Match { field, value } if field.is_empty() => {
            items.iter().position(|item| item.text() == value)
        }
        Part::Match { field, value } => items
            .iter()
            .position(|item| item.get(field).is_some_and(|found| found.text() == value)),
        Part::Field(_) => return Err(WrongKind { found: "a list" }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_split_at_its_separators() {
        for (path, want) in [
            ("spec/template", vec!["spec", "template"]),
            ("/spec", vec!["spec"]),
            (
                r"metadata/annotations/nginx\/secret",
                vec!["metadata", "annotations", "nginx/secret"],
            ),
            ("a", vec!["a"]),
            ("a/b[]/c", vec!["a", "b[]", "c"]),
            (r"a/b\/c/d", vec!["a", "b/c", "d"]),
            (r"a\/b\/c", vec!["a/b/c"]),
            ("a//b", vec!["a", "", "b"]),
            ("a/", vec!["a", ""]),
            ("/", vec![""]),
        ] {
            assert_eq!(split(path, '/'), want, "{path}");
        }
        for (path, want) in [
            (
                "spec.containers.[name=a.b].image",
                vec!["spec", "containers", "[name=a.b]", "image"],
            ),
            (
                "metadata.annotations.[a.b/c]",
                vec!["metadata", "annotations", "a.b/c"],
            ),
            (r"data.a\.b", vec!["data", "a.b"]),
        ] {
            assert_eq!(smart_split(path), want, "{path}");
        }
    }
}
