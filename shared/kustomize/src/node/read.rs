//! The reader of YAML: text to nodes, split into documents like kyaml.

use super::{Map, Node, Scalar, Style, Tag, resolve};
use crate::error::{Error, ErrorKind};
use crate::selector::shortened;
use driftless_fuel::{Fuel, Span};
use driftless_manifest::yaml::{self, Dialect, NodeKind, ScalarStyle, YamlError, YamlErrorKind};
use serde_json::Value;
use std::collections::HashSet;

/// Returns the documents of a file, split like kyaml's byte reader: at every line that starts with
/// `---`. Empty documents are left out, aliases and merge keys are expanded, and a file that is one
/// `List` yields its items.
pub(crate) fn documents(text: &str, file: &str, fuel: &Fuel) -> Result<Vec<Node>, Error> {
    let text = if text.contains("\r\n") {
        &text.replace("\r\n", "\n")
    } else {
        text
    };
    // A byte order mark would count as a column of the first line.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let limits = yaml::Limits::default();
    let chunks = chunks(text)?;
    let single = chunks.len() == 1;
    let mut nodes = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        let documents = yaml::parse_within(chunk.text.as_bytes(), file, &limits, fuel).map_err(
            |mut error| {
                error.span.line += chunk.line;
                error
            },
        )?;
        // Only the first document counts: what follows a `...` is never read.
        let Some(document) = documents.into_iter().next() else {
            continue;
        };
        let node = whole(document, file)?;
        if node.is_null() {
            continue;
        }
        match unwrap_list(node, single) {
            Unwrapped::Items(items) => nodes.extend(items),
            Unwrapped::Node(node) => nodes.push(node),
        }
    }
    Ok(nodes)
}

/// Returns whether each document of a file that is YAML has a kind, and a name unless it is a list,
/// also if a mapping has a key that [`documents`] refuses. kyaml also finds these keys later.
pub(crate) fn has_only_named_objects(text: &str, fuel: &Fuel) -> bool {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_set = |node: Option<&yaml::Node>| {
        let text = node.and_then(yaml::Node::text);
        text.is_some_and(|text| !text.is_empty())
    };
    let is_named = |document: &yaml::Node| {
        let metadata = document.get("metadata");
        let kind = document.get("kind");
        let is_list = kind
            .and_then(yaml::Node::text)
            .is_some_and(|kind| kind.ends_with("List"));
        document.is_empty()
            || is_set(kind) && (is_list || is_set(metadata.and_then(|map| map.get("name"))))
    };
    let Ok(chunks) = chunks(text) else {
        return false;
    };
    chunks.iter().all(|chunk| {
        let limits = yaml::Limits::default();
        let documents = yaml::parse_within(chunk.text.as_bytes(), "file", &limits, fuel);
        documents.is_ok_and(|documents| documents.first().is_none_or(is_named))
    })
}

/// Returns the first document of the input, if it is YAML within its limits.
///
/// # Errors
/// The fuel has run out.
pub(crate) fn first_document(
    text: &str,
    limits: &yaml::Limits,
    fuel: &Fuel,
) -> Result<Option<Node>, Error> {
    let documents = match yaml::parse_within(text.as_bytes(), "text", limits, fuel) {
        Ok(documents) => documents,
        Err(error) if matches!(error.kind, YamlErrorKind::Fuel(_)) => return Err(error.into()),
        Err(_) => return Ok(None),
    };
    let first = documents.into_iter().next();
    Ok(first.and_then(|document| whole(document, "text").ok()))
}

/// Converts a document. The keys of its outermost map may be numbers, which become strings; deeper
/// ones are refused.
fn whole(document: yaml::Node, file: &str) -> Result<Node, Error> {
    match document.kind {
        NodeKind::Map(pairs) => Ok(Node::Map(map(pairs, file, true)?)),
        _ => from_yaml(document, file),
    }
}

enum Unwrapped {
    Items(Vec<Node>),
    Node(Node),
}

fn unwrap_list(mut node: Node, single: bool) -> Unwrapped {
    let kind = node.get("kind").map_or("", Node::text);
    let is_list = single && (kind == "List" || kind == "ResourceList");
    if !is_list || (node.get("items").is_none() && node.get("functionConfig").is_none()) {
        return Unwrapped::Node(node);
    }
    match node.as_map_mut().and_then(|map| map.remove("items")) {
        Some(Node::Seq(items)) => Unwrapped::Items(items),
        _ => Unwrapped::Items(Vec::new()),
    }
}

struct Chunk<'t> {
    text: &'t str,
    /// The number of lines before the document.
    line: usize,
}

fn chunks(text: &str) -> Result<Vec<Chunk<'_>>, Error> {
    let mut chunks = Vec::new();
    let (mut start, mut line) = (0, 0);
    let mut from = 0;
    while let Some(at) = text[from..].find("\n---").map(|at| at + from) {
        let rest = at + 4;
        let Some(end) = text[rest..].find('\n').map(|end| end + rest) else {
            break;
        };
        let after = text[rest..end].trim();
        if !after.is_empty() && !after.starts_with('#') {
            return Err(ErrorKind::Object(
                "a line that starts with --- has more than a comment: write --- alone on its line"
                    .to_owned(),
            )
            .into());
        }
        let chunk = &text[start..=at];
        chunks.push(Chunk { text: chunk, line });
        line += chunk.bytes().filter(|byte| *byte == b'\n').count() + 1;
        start = end + 1;
        from = start;
    }
    chunks.push(Chunk {
        text: &text[start..],
        line,
    });
    Ok(chunks)
}

/// Converts a node by value: a large document never has two copies in memory.
fn from_yaml(node: yaml::Node, file: &str) -> Result<Node, Error> {
    let is_typed = !matches!(
        node.tag.as_deref(),
        None | Some("tag:yaml.org,2002:str" | "!")
    );
    Ok(match node.kind {
        NodeKind::Scalar { .. } if is_typed => Node::Scalar(typed(&node, file)?),
        NodeKind::Scalar { text, style } => Node::Scalar(scalar(text, style, node.tag.is_some())),
        NodeKind::Seq(items) => Node::Seq(
            items
                .into_iter()
                .map(|item| from_yaml(item, file))
                .collect::<Result<_, _>>()?,
        ),
        NodeKind::Map(pairs) => Node::Map(map(pairs, file, false)?),
    })
}

fn scalar(text: String, style: ScalarStyle, is_text: bool) -> Scalar {
    let style = match style {
        ScalarStyle::Plain => Style::Plain,
        ScalarStyle::Folded => Style::Folded,
        ScalarStyle::SingleQuoted => Style::SingleQuoted,
        ScalarStyle::DoubleQuoted | ScalarStyle::Literal => Style::Quoted,
    };
    let tag = match style {
        Style::Plain if !is_text => resolve(&text),
        _ => Tag::Str,
    };
    Scalar::new(tag, text, style)
}

/// Converts a scalar with a tag other than that of strings.
fn typed(node: &yaml::Node, file: &str) -> Result<Scalar, Error> {
    let value = yaml::node_to_value(node, file, Dialect::V3)?;
    Ok(match from_value(&value) {
        Node::Scalar(scalar) => scalar,
        _ => Scalar::str(node.text().unwrap_or_default()),
    })
}

fn map(pairs: Vec<(yaml::Node, yaml::Node)>, file: &str, outermost: bool) -> Result<Map, Error> {
    let mut is_merge = Vec::with_capacity(pairs.len());
    for (key, value) in &pairs {
        is_merge.push(is_merge_key(key, value, outermost, file)?);
    }
    refuse_duplicates(&pairs, &is_merge, file)?;
    let mut fields = Vec::with_capacity(pairs.len());
    let mut merges = Vec::new();
    for ((key, value), is_merge) in pairs.into_iter().zip(is_merge) {
        match (is_merge, key.kind, value.kind) {
            (true, _, NodeKind::Seq(items)) => merges.extend(items),
            (true, _, kind) => merges.push(yaml::Node { kind, ..value }),
            (false, NodeKind::Scalar { text, .. }, kind) => {
                fields.push((text, from_yaml(yaml::Node { kind, ..value }, file)?));
            }
            // A key of another kind is refused above.
            (false, ..) => {}
        }
    }
    merge_in(&mut fields, merges, file)?;
    Ok(Map::new(fields))
}

/// Adds the fields of the maps that merge keys name, unless they exist.
fn merge_in(
    fields: &mut Vec<(String, Node)>,
    merges: Vec<yaml::Node>,
    file: &str,
) -> Result<(), Error> {
    if merges.is_empty() {
        return Ok(());
    }
    let mut known: HashSet<String> = fields.iter().map(|(key, _)| key.clone()).collect();
    for source in merges {
        let Node::Map(source) = from_yaml(source, file)? else {
            continue;
        };
        for (key, value) in source.into_fields() {
            if known.insert(key.clone()) {
                fields.push((key, value));
            }
        }
    }
    Ok(())
}

/// Checks whether a key is a merge key, with maps to merge; any other key must be a string.
fn is_merge_key(
    key: &yaml::Node,
    value: &yaml::Node,
    outermost: bool,
    file: &str,
) -> Result<bool, Error> {
    let fault = |kind| YamlError::new(kind, Span::new(file, key.line, key.column));
    let NodeKind::Scalar { text, style } = &key.kind else {
        return Err(fault(yaml::YamlErrorKind::Key("a list or map")).into());
    };
    if *style != ScalarStyle::Plain || key.tag.is_some() {
        return Ok(false);
    }
    if text != "<<" {
        return match resolve(text) {
            Tag::Str => Ok(false),
            _ if outermost => Ok(false),
            _ => Err(fault(yaml::YamlErrorKind::Key("not a string: put it in quotes")).into()),
        };
    }
    let is_map = |node: &yaml::Node| matches!(node.kind, NodeKind::Map(_));
    match &value.kind {
        NodeKind::Map(_) => Ok(true),
        NodeKind::Seq(items) if items.iter().all(is_map) => Ok(true),
        _ => Err(fault(yaml::YamlErrorKind::Merge).into()),
    }
}

fn refuse_duplicates(
    pairs: &[(yaml::Node, yaml::Node)],
    is_merge: &[bool],
    file: &str,
) -> Result<(), Error> {
    let own = pairs.iter().zip(is_merge).filter(|(_, merge)| !**merge);
    let mut names: Vec<&str> = own.filter_map(|((key, _), _)| key.text()).collect();
    names.sort_unstable();
    let Some(duplicate) = names.windows(2).find(|pair| pair[0] == pair[1]) else {
        return Ok(());
    };
    let mut places = pairs
        .iter()
        .map(|(key, _)| key)
        .filter(|key| key.text() == Some(duplicate[0]));
    let first = places.next().map_or(0, |key| key.line);
    let second = places.next();
    let (line, column) = second.map_or((first, 1), |key| (key.line, key.column));
    let kind = yaml::YamlErrorKind::DuplicateKey {
        key: shortened(duplicate[0]),
        first,
    };
    Err(YamlError::new(kind, Span::new(file, line, column)).into())
}

/// Converts a JSON value, with its strings quoted as in JSON.
pub(crate) fn from_value(value: &Value) -> Node {
    match value {
        Value::Null => Node::null(),
        Value::Bool(yes) => Node::Scalar(Scalar::new(Tag::Bool, yes.to_string(), Style::Plain)),
        Value::Number(number) => {
            let tag = if number.is_f64() {
                Tag::Float
            } else {
                Tag::Int
            };
            Node::Scalar(Scalar::new(tag, number.to_string(), Style::Plain))
        }
        Value::String(text) => Node::Scalar(Scalar::new(Tag::Str, text.clone(), Style::Quoted)),
        Value::Array(items) => Node::Seq(items.iter().map(from_value).collect()),
        Value::Object(map) => Node::Map(
            map.iter()
                .map(|(key, value)| (key.clone(), from_value(value)))
                .collect(),
        ),
    }
}
