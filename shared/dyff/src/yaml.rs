//! The YAML of dyff's report (`neat` 1.3), with the order of keys of `ytbx` 1.4.

use crate::node::{Node, Tag};

/// Groups of keys that come first, in their order; the group that fits best is used.
const FIRST_KEYS: [&[&str]; 10] = [
    &[
        "name",
        "director_uuid",
        "releases",
        "instance_groups",
        "networks",
        "resource_pools",
        "compilation",
    ],
    &["name", "url", "version", "sha1"],
    &["jobs", "resources", "resource_types"],
    &["name", "type", "source"],
    &["get"],
    &["put"],
    &["task"],
    &["releases", "instance_groups", "configuration", "variables"],
    &["auth", "templates"],
    &["name"],
];
/// The groups after [`FIRST_KEYS`].
const LAST_FIRST_KEYS: [&[&str]; 2] = [&["key"], &["id"]];

/// Returns a node whose maps have their usual keys first, and then the flat before the deep ones.
pub(crate) fn restructured(node: &Node) -> Node {
    match node {
        Node::Map(entries) => {
            let mut entries: Vec<(String, Node)> = entries.clone();
            if let Some(first) = first_keys(&entries) {
                let place = |key: &str| first.iter().position(|one| *one == key);
                entries.sort_by_cached_key(|(key, value)| match place(key) {
                    Some(at) => (0, at),
                    None => (1, depth(value).unwrap_or(0)),
                });
            }
            let entries = entries.into_iter();
            Node::Map(
                entries
                    .map(|(key, value)| (key, restructured(&value)))
                    .collect(),
            )
        }
        Node::List(entries) => Node::List(entries.iter().map(restructured).collect()),
        Node::Scalar(..) => node.clone(),
    }
}

/// Returns the group of keys of which a map has the most, the first of those with as many.
fn first_keys(entries: &[(String, Node)]) -> Option<&'static [&'static str]> {
    let has = |key: &&&str| entries.iter().any(|(name, _)| name == **key);
    let mut best: Option<(usize, &[&str])> = None;
    for group in FIRST_KEYS.into_iter().chain(LAST_FIRST_KEYS) {
        let count = group.iter().filter(has).count();
        if count > best.map_or(0, |(count, _)| count) {
            best = Some((count, group));
        }
    }
    best.map(|(_, group)| group)
}

/// Returns the length of the longest path to a value; `None` without a value.
fn depth(node: &Node) -> Option<usize> {
    match node {
        Node::Scalar(..) => Some(0),
        Node::Map(entries) => {
            let depths = entries.iter().filter_map(|(_, value)| depth(value));
            Some(depths.max()? + 1)
        }
        Node::List(entries) => match identifier(entries) {
            Some(field) => {
                let maps = entries.iter().filter_map(|entry| match entry {
                    Node::Map(entries) => Some(entries),
                    _ => None,
                });
                let values = maps.flatten().filter(|(key, _)| key != field);
                Some(values.filter_map(|(_, value)| depth(value)).max()? + 2)
            }
            None => Some(entries.iter().filter_map(depth).max()? + 1),
        },
    }
}

fn identifier(entries: &[Node]) -> Option<&'static str> {
    let mut fields = ["name", "key", "id"].into_iter();
    fields.find(|field| !entries.is_empty() && entries.iter().all(|one| one.get(field).is_some()))
}

/// Returns a node as YAML; `<nil>` for null.
pub(crate) fn text(node: &Node) -> String {
    if let Node::Scalar(Tag::Null, _) = node {
        return "<nil>".to_owned();
    }
    plain(node)
}

/// Returns a node as YAML.
pub(crate) fn plain(node: &Node) -> String {
    let mut out = String::new();
    write(&mut out, "", false, node);
    out
}

/// Writes a node; `continues` is true after the dash of a list entry.
fn write(out: &mut String, prefix: &str, continues: bool, node: &Node) {
    let deeper = || format!("{prefix}  ");
    match node {
        Node::List(entries) => {
            for (at, entry) in entries.iter().enumerate() {
                if at > 0 || !continues {
                    out.push_str(prefix);
                }
                out.push_str("- ");
                write(out, &deeper(), true, entry);
            }
        }
        Node::Map(entries) => {
            for (at, (key, value)) in entries.iter().enumerate() {
                if at > 0 || !continues {
                    out.push_str(prefix);
                }
                out.push_str(key);
                out.push(':');
                match value {
                    Node::Map(inner) if inner.is_empty() => out.push_str(" {}\n"),
                    Node::List(inner) if inner.is_empty() => out.push_str(" []\n"),
                    Node::Map(_) => {
                        out.push('\n');
                        write(out, &deeper(), false, value);
                    }
                    Node::List(_) => {
                        out.push('\n');
                        write(out, prefix, false, value);
                    }
                    Node::Scalar(..) => {
                        out.push(' ');
                        write(out, &deeper(), false, value);
                    }
                }
            }
        }
        Node::Scalar(tag, text) => {
            if text.contains('\n') {
                out.push_str("|\n");
                let lines: Vec<String> = text
                    .split('\n')
                    .map(|line| format!("{prefix}{line}"))
                    .collect();
                out.push_str(&lines.join("\n"));
            } else if *tag == Tag::String && needs_quotes(text) {
                out.push_str(&quoted(text));
            } else {
                out.push_str(text);
            }
            out.push('\n');
        }
    }
}

fn needs_quotes(text: &str) -> bool {
    matches!(text, "true" | "false" | "null")
        || text.starts_with('-')
        || text.contains([' ', '*', '&', ':', ','])
}

/// Returns a string in the quotes of Go's `%q`.
fn quoted(text: &str) -> String {
    let mut out = "\"".to_owned();
    for one in text.chars() {
        match one {
            '"' | '\\' => out.extend(['\\', one]),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            one if one.is_ascii_control() => out.push_str(&format!("\\x{:02x}", u32::from(one))),
            one if one.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(one))),
            one => out.push(one),
        }
    }
    out.push('"');
    out
}
