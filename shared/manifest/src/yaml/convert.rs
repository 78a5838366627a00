//! Converts nodes to JSON values, with the types of Go's libraries.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use serde_json::map::Entry;
use serde_json::{Map, Value};

use super::error::{LocatedError, YamlError, YamlErrorKind};
use super::node::{Limits, Node, NodeKind, ScalarStyle};
use super::resolve::{Resolved, resolve};
use super::{Dialect, number, time};
use driftless_fuel::Fuel;
use driftless_go::float;

/// Converts a node to the JSON value of the dialect's library and Go's `encoding/json`.
///
/// Duplicate keys are refused and `<<` is merged. Keys that are numbers or booleans become strings,
/// but v3 does that only for the outermost mapping, and refuses them in nested ones.
///
/// # Errors
/// [`YamlError`] for a node that the library refuses (a tag that does not match, a list as a key)
/// or that cannot be JSON (`.inf`).
pub fn node_to_value(node: &Node, file: &str, dialect: Dialect) -> Result<Value, YamlError> {
    document(node, dialect).map_err(|fault| fault.in_file(file))
}

/// Converts the string of an unquoted scalar without a tag like [`node_to_value`]; `None` if it is
/// infinite or not a number.
pub fn plain_to_value(text: &str, dialect: Dialect) -> Option<Value> {
    resolved(resolve(text, dialect), text, dialect)
}

/// Converts a scalar of this type; `None` if it is infinite or not a number.
fn resolved(found: Resolved, text: &str, dialect: Dialect) -> Option<Value> {
    Some(match found {
        Resolved::Null => Value::Null,
        Resolved::Bool(b) => Value::Bool(b),
        Resolved::Int(i) => Value::Number(i.into()),
        Resolved::Uint(u) => Value::Number(u.into()),
        Resolved::Float(f) => Value::Number(number::json_number(f)?),
        Resolved::Timestamp => Value::String(timestamp(text, dialect)),
        Resolved::Str => Value::String(text.to_owned()),
    })
}

/// Formats a timestamp: v3 reads it as a time, and v2 as a string.
fn timestamp(text: &str, dialect: Dialect) -> String {
    let time = match dialect {
        Dialect::V2 => None,
        Dialect::V3 => time::parse(text),
    };
    time.map_or_else(|| text.to_owned(), |time| time.rfc3339())
}

fn document(node: &Node, dialect: Dialect) -> Result<Value, LocatedError> {
    match &node.kind {
        NodeKind::Map(pairs) => mapping(pairs, Keys::of_document(dialect)).map(Value::Object),
        _ => value(node, dialect),
    }
}

/// The conversion of keys to strings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    /// Numbers and booleans are formatted, like in sigs.k8s.io/yaml.
    V2,
    /// v3 reads the outermost mapping into a Go map with string keys: each key is the scalar's
    /// string.
    V3Document,
    /// In a nested mapping, a key that is not a string makes a map that `encoding/json` cannot
    /// write: kustomize fails.
    V3,
}

impl Keys {
    fn of_document(dialect: Dialect) -> Self {
        match dialect {
            Dialect::V2 => Keys::V2,
            Dialect::V3 => Keys::V3Document,
        }
    }

    fn inner(dialect: Dialect) -> Self {
        match dialect {
            Dialect::V2 => Keys::V2,
            Dialect::V3 => Keys::V3,
        }
    }

    fn dialect(self) -> Dialect {
        match self {
            Keys::V2 => Dialect::V2,
            Keys::V3Document | Keys::V3 => Dialect::V3,
        }
    }
}

/// Parses the documents of a file to values, without empty ones. A document `null` or `~` is a
/// `Value::Null`.
///
/// # Errors
/// Those of [`parse`](super::parse) and [`node_to_value`].
pub fn documents(
    text: &[u8],
    file: &str,
    dialect: Dialect,
    limits: &Limits,
) -> Result<Vec<Value>, YamlError> {
    read_documents(text, file, dialect, limits, None)
}

/// Parses like [`documents`], and also charges a fuel that the caller has for more than this file:
/// see [`parse_within`](super::parse_within).
///
/// # Errors
/// Those of [`documents`], or the fuel has run out.
pub fn documents_within(
    text: &[u8],
    file: &str,
    dialect: Dialect,
    limits: &Limits,
    fuel: &Fuel,
) -> Result<Vec<Value>, YamlError> {
    read_documents(text, file, dialect, limits, Some(fuel))
}

fn read_documents(
    text: &[u8],
    file: &str,
    dialect: Dialect,
    limits: &Limits,
    fuel: Option<&Fuel>,
) -> Result<Vec<Value>, YamlError> {
    let mut values = Vec::new();
    let sink = |node: Node| {
        if !node.is_empty() {
            values.push(document(&node, dialect)?);
        }
        Ok(())
    };
    super::parse::read(text, limits, fuel, false, sink).map_err(|fault| fault.in_file(file))?;
    Ok(values)
}

fn fault(node: &Node, kind: YamlErrorKind) -> LocatedError {
    LocatedError {
        line: node.line,
        column: node.column,
        kind,
    }
}

/// Converts a node. Each level of nesting takes the stack frames of this function and of
/// [`mapping`], so everything else is kept out of them.
fn value(node: &Node, dialect: Dialect) -> Result<Value, LocatedError> {
    match &node.kind {
        NodeKind::Scalar { text, style } => scalar(node, text, *style, dialect),
        NodeKind::Seq(items) => sequence(items, dialect).map(Value::Array),
        NodeKind::Map(pairs) => mapping(pairs, Keys::inner(dialect)).map(Value::Object),
    }
}

fn sequence(items: &[Node], dialect: Dialect) -> Result<Vec<Value>, LocatedError> {
    let mut values = Vec::with_capacity(items.len());
    for item in items {
        values.push(value(item, dialect)?);
    }
    Ok(values)
}

/// Go ignores the remaining bits of the last character.
const LAX: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

const CORE: &str = "tag:yaml.org,2002:";

#[inline(never)]
fn scalar(
    node: &Node,
    text: &str,
    style: ScalarStyle,
    dialect: Dialect,
) -> Result<Value, LocatedError> {
    let found = typed(node, text, style, dialect)?;
    let is_string = match found {
        Resolved::Str => true,
        Resolved::Timestamp => dialect == Dialect::V2,
        _ => false,
    };
    if is_string && let Some(decoded) = binary(node, text)? {
        return Ok(Value::String(decoded));
    }
    resolved(found, text, dialect).ok_or_else(|| fault(node, YamlErrorKind::NotFinite))
}

/// Resolves the type of a scalar, by its tag, its style and its string.
fn typed(
    node: &Node,
    text: &str,
    style: ScalarStyle,
    dialect: Dialect,
) -> Result<Resolved, LocatedError> {
    let plain = style == ScalarStyle::Plain;
    let tag = match node.tag.as_deref() {
        None if plain => return Ok(resolve(text, dialect)),
        Some("!") if plain && dialect == Dialect::V3 => return Ok(resolve(text, dialect)),
        None | Some("!") => return Ok(Resolved::Str),
        Some(tag) => tag,
    };
    let Some(name) = tag.strip_prefix(CORE) else {
        return Ok(Resolved::Str);
    };
    let found = resolve(text, dialect);
    match (name, found) {
        ("str", _) => Ok(Resolved::Str),
        ("bool", Resolved::Bool(_))
        | ("int", Resolved::Int(_) | Resolved::Uint(_))
        | ("float", Resolved::Float(_))
        | ("null", Resolved::Null)
        | ("timestamp", Resolved::Timestamp) => Ok(found),
        ("float", Resolved::Int(i)) => Ok(Resolved::Float(i as f64)),
        ("bool" | "int" | "float" | "null" | "timestamp", _) => {
            Err(fault(node, YamlErrorKind::Tag(format!("!!{name}"))))
        }
        _ => Ok(Resolved::Str),
    }
}

/// Decodes a `!!binary` scalar, with U+FFFD for each byte that is not UTF-8, like `encoding/json`.
fn binary(node: &Node, text: &str) -> Result<Option<String>, LocatedError> {
    if node.tag.as_deref().and_then(|t| t.strip_prefix(CORE)) != Some("binary") {
        return Ok(None);
    }
    let compact: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let bytes = LAX
        .decode(compact)
        .map_err(|_| fault(node, YamlErrorKind::Tag("!!binary".to_owned())))?;
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| '\u{fffd}'));
    }
    Ok(Some(out))
}

fn mapping(pairs: &[(Node, Node)], keys: Keys) -> Result<Map<String, Value>, LocatedError> {
    if pairs.iter().any(|(key, _)| is_merge(key)) {
        return merged(pairs, keys);
    }
    let mut map = Map::new();
    for (key_node, value_node) in pairs {
        let key = key(key_node, keys)?;
        let value = value(value_node, keys.dialect())?;
        if let Some(known) = insert(&mut map, key, value) {
            return Err(duplicate(pairs, key_node, known, keys));
        }
    }
    Ok(map)
}

/// Inserts a value, unless its key exists already: then returns the key.
#[inline(never)]
fn insert(map: &mut Map<String, Value>, key: String, value: Value) -> Option<String> {
    match map.entry(key) {
        Entry::Vacant(entry) => {
            entry.insert(value);
            None
        }
        Entry::Occupied(entry) => Some(entry.key().clone()),
    }
}

#[inline(never)]
fn duplicate(pairs: &[(Node, Node)], node: &Node, name: String, keys: Keys) -> LocatedError {
    let first = pairs
        .iter()
        .map(|(k, _)| k)
        .find(|k| key(k, keys).is_ok_and(|k| k == name));
    let first = first.map_or(node.line, |k| k.line);
    fault(node, YamlErrorKind::DuplicateKey { key: name, first })
}

fn is_merge(key: &Node) -> bool {
    let NodeKind::Scalar { text, style } = &key.kind else {
        return false;
    };
    text == "<<"
        && match key.tag.as_deref() {
            None => *style == ScalarStyle::Plain,
            Some("!") => true,
            Some(tag) => tag == "tag:yaml.org,2002:merge",
        }
}

/// Returns whether v3 treats a node that resolves to a string as a plain `!!str`.
fn is_string(node: &Node) -> bool {
    matches!(
        node.tag.as_deref(),
        None | Some("!" | "tag:yaml.org,2002:str")
    )
}

/// Returns the string of a key.
#[inline(never)]
fn key(node: &Node, keys: Keys) -> Result<String, LocatedError> {
    let NodeKind::Scalar { text, style } = &node.kind else {
        return Err(fault(node, YamlErrorKind::Key("a mapping or a list")));
    };
    match typed(node, text, *style, keys.dialect())? {
        Resolved::Null => Err(fault(node, YamlErrorKind::Key("null"))),
        Resolved::Str if keys != Keys::V3 || is_string(node) => {
            Ok(binary(node, text)?.unwrap_or_else(|| text.clone()))
        }
        _ if keys == Keys::V3Document => Ok(text.clone()),
        _ if keys == Keys::V3 => Err(fault(node, YamlErrorKind::Key("not a string (quote it)"))),
        Resolved::Str | Resolved::Timestamp => Ok(text.clone()),
        Resolved::Bool(b) => Ok(b.to_string()),
        Resolved::Int(i) => Ok(i.to_string()),
        Resolved::Uint(_) => Err(fault(
            node,
            YamlErrorKind::Key("a number of more than 63 bits"),
        )),
        Resolved::Float(f) => Ok(float_key(f)),
    }
}

fn float_key(f: f64) -> String {
    match float::format_float32(f) {
        Some(text) => text,
        None if f.is_nan() => ".nan".to_owned(),
        None if f < 0.0 => "-.inf".to_owned(),
        None => ".inf".to_owned(),
    }
}

/// Converts a mapping with `<<`. In v2 a merge overrides the keys before it; in v3 the mapping's
/// own keys always win.
#[inline(never)]
fn merged(pairs: &[(Node, Node)], keys: Keys) -> Result<Map<String, Value>, LocatedError> {
    let mut map = Map::new();
    let mut own: BTreeMap<String, usize> = BTreeMap::new();
    let mut merges = Vec::new();
    for (key_node, value_node) in pairs {
        if is_merge(key_node) {
            match keys.dialect() {
                Dialect::V2 => merge_over(&mut map, value_node)?,
                Dialect::V3 if !merges.is_empty() => {
                    return Err(duplicate(pairs, key_node, "<<".to_owned(), keys));
                }
                Dialect::V3 => merges.push(value_node),
            }
            continue;
        }
        let key = key(key_node, keys)?;
        if let Some(first) = own.insert(key.clone(), key_node.line) {
            return Err(fault(key_node, YamlErrorKind::DuplicateKey { key, first }));
        }
        map.insert(key, value(value_node, keys.dialect())?);
    }
    for merge in merges {
        merge_under(&mut map, merge, keys)?;
    }
    Ok(map)
}

fn merge_under(map: &mut Map<String, Value>, node: &Node, keys: Keys) -> Result<(), LocatedError> {
    for source in merge_sources(node)? {
        add_missing(map, merge_entries(source, keys)?);
    }
    Ok(())
}

#[inline(never)]
fn add_missing(map: &mut Map<String, Value>, more: Map<String, Value>) {
    for (key, value) in more {
        map.entry(key).or_insert(value);
    }
}

fn merge_entries(source: &Node, keys: Keys) -> Result<Map<String, Value>, LocatedError> {
    match &source.kind {
        NodeKind::Map(pairs) => mapping(pairs, keys),
        _ => Err(fault(source, YamlErrorKind::Merge)),
    }
}

fn merge_over(map: &mut Map<String, Value>, node: &Node) -> Result<(), LocatedError> {
    // The first mapping of a list wins, so it is inserted last.
    for source in merge_sources(node)?.into_iter().rev() {
        replace_with(map, merge_entries(source, Keys::V2)?);
    }
    Ok(())
}

#[inline(never)]
fn replace_with(map: &mut Map<String, Value>, more: Map<String, Value>) {
    map.extend(more);
}

/// Returns the mappings of a merge key's value.
#[inline(never)]
fn merge_sources(node: &Node) -> Result<Vec<&Node>, LocatedError> {
    match &node.kind {
        NodeKind::Map(_) => Ok(vec![node]),
        NodeKind::Seq(items) if items.iter().all(|i| matches!(i.kind, NodeKind::Map(_))) => {
            Ok(items.iter().collect())
        }
        _ => Err(fault(node, YamlErrorKind::Merge)),
    }
}
