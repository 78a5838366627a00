//! YAML as `sigs.k8s.io/yaml` reads it: only the first document, the last of equal keys, Go's
//! messages.

use crate::convert::floats;
use driftless_fuel::{Fuel, FuelLimits, OutOfFuel, Span};
use driftless_go::Error as GoError;
use driftless_manifest::yaml::{
    self, Dialect, Limits, Node, NodeKind, YamlError, YamlErrorKind as Kind,
};
use serde_json::Value as Json;

/// The length of a key beyond which Go's YAML reader does not find its end; `sigs.k8s.io/yaml`
/// writes JSON and reads it again as YAML.
pub(crate) const LONG_KEY: usize = 1024;

/// The limits of one YAML text of values: a hundred times as many nodes as in the largest public
/// charts.
const LIMITS: Limits = Limits {
    bytes: 16 << 20,
    depth: 1_000,
    nodes: 200_000,
    documents: 50_000,
};

/// The total limits of the YAML of a chart with its subcharts, of a values file, or of a rendered
/// chart.
pub(crate) const FUEL: FuelLimits = FuelLimits {
    steps: 40_000_000,
    nodes: 400_000,
    ..FuelLimits::NONE
};

/// Reads the first document of a YAML text like `sigs.k8s.io/yaml`, numbers as float64.
pub(crate) fn read_yaml(text: &[u8], file: &str, fuel: &Fuel) -> Result<Json, YamlError> {
    first_document(text, file, &LIMITS, fuel)
}

/// Reads the first document of the input, numbers as float64.
///
/// # Errors
/// The fuel is used up. The inner error is the message of `sigs.k8s.io/yaml`, which templates
/// print.
pub(crate) fn read(text: &[u8], fuel: &Fuel) -> Result<Result<Json, GoError>, OutOfFuel> {
    match first_document(text, "yaml", &LIMITS, fuel) {
        Ok(json) => Ok(Ok(json)),
        Err(error) => match error.kind {
            Kind::Fuel(out) => Err(out),
            _ => Ok(Err(explain(text, &error, fuel).into())),
        },
    }
}

/// Reads the first document of the input; integers keep their type.
///
/// # Errors
/// The message of `sigs.k8s.io/yaml`, or the message of a used-up fuel.
pub(crate) fn read_typed(text: &[u8], fuel: &Fuel) -> Result<Json, Refused> {
    first_typed(text, "yaml", fuel).map_err(|error| Refused {
        message: match error.kind {
            Kind::Fuel(out) => out.to_string(),
            _ => explain(text, &error, fuel),
        },
        span: Some(error.span),
    })
}

/// The refusal of a document.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The message of the Go program.
    pub message: String,
    /// The place in the document, if it is known.
    pub span: Option<Span>,
}

impl From<String> for Refused {
    fn from(message: String) -> Self {
        Self {
            message,
            span: None,
        }
    }
}

/// Reads the first document unchanged; errors after it are ignored.
pub(crate) fn first_typed(text: &[u8], file: &str, fuel: &Fuel) -> Result<Json, YamlError> {
    match first_node(text, file, &Limits::default(), fuel)? {
        None => Ok(Json::Null),
        Some(node) => yaml::node_to_value(&node, file, Dialect::V2),
    }
}

/// Reads the first document, numbers as float64; errors after it are ignored.
pub(crate) fn first_document(
    text: &[u8],
    file: &str,
    limits: &Limits,
    fuel: &Fuel,
) -> Result<Json, YamlError> {
    let Some(node) = first_node(text, file, limits, fuel)? else {
        return Ok(Json::Null);
    };
    let mut value = yaml::node_to_value(&node, file, Dialect::V2).map(floats)?;
    if memchr::memmem::find(text, b"-0").is_some() {
        negative_zeros(&node, &mut value);
    }
    Ok(value)
}

fn first_node(
    text: &[u8],
    file: &str,
    limits: &Limits,
    fuel: &Fuel,
) -> Result<Option<Node>, YamlError> {
    let parse = |text: &[u8]| yaml::parse_within(text, file, limits, fuel);
    let nodes = match parse(text) {
        Ok(nodes) => nodes,
        Err(error) => match before(text, &error).map(parse) {
            Some(Ok(nodes)) => nodes,
            _ => return Err(error),
        },
    };
    Ok(nodes.into_iter().next().map(|mut node| {
        last_wins(&mut node);
        node
    }))
}

/// Returns the message of `sigs.k8s.io/yaml`.
fn explain(text: &[u8], error: &YamlError, fuel: &Fuel) -> String {
    let message = match bad_key(text, error, fuel) {
        Some(message) => message,
        None => message(error, &String::from_utf8_lossy(text)),
    };
    format!("error converting YAML to JSON: {message}")
}

/// Restores the sign of `-0.0`, which becomes an integer on the way through JSON.
fn negative_zeros(node: &Node, value: &mut Json) {
    match (&node.kind, value) {
        (NodeKind::Seq(nodes), Json::Array(items)) => {
            let pairs = nodes.iter().zip(items);
            pairs.for_each(|(node, item)| negative_zeros(node, item));
        }
        (NodeKind::Map(pairs), Json::Object(map)) => {
            for (key, inner) in pairs {
                if let Some(item) = key.text().and_then(|key| map.get_mut(key)) {
                    negative_zeros(inner, item);
                }
            }
        }
        (NodeKind::Scalar { text, .. }, Json::Number(n)) if text.starts_with("-0") => {
            let float = text.contains(['.', 'e', 'E']);
            if n.as_f64() == Some(0.0) && float {
                *n = serde_json::Number::from_f64(-0.0).unwrap_or_else(|| n.clone());
            }
        }
        _ => {}
    }
}

/// Returns the input before the document with the error, if that is not the first one.
fn before<'t>(text: &'t [u8], error: &YamlError) -> Option<&'t [u8]> {
    let (mut start, mut stray) = (0, None);
    let mut cut = None;
    let mut content = false;
    for (i, line) in text.split_inclusive(|b| *b == b'\n').enumerate() {
        let marker = line.starts_with(b"---") || line.starts_with(b"...");
        if marker && content && cut.is_none() {
            cut = Some(start);
        }
        content |= !line.trim_ascii().is_empty() && !line.starts_with(b"#") && !marker
            || marker && line.len() > 4;
        if i + 1 == error.span.line {
            let line = String::from_utf8_lossy(line);
            let before = line.chars().take(error.span.column.saturating_sub(1));
            stray = Some(start + before.map(char::len_utf8).sum::<usize>());
            break;
        }
        start += line.len();
    }
    let is_stray = matches!(&error.kind, Kind::Syntax(detail) if detail.starts_with("expected the start of a document"));
    match cut {
        Some(cut) => Some(&text[..cut]),
        // Stray content after a document, perhaps in its last line.
        None if is_stray => text.get(..stray.unwrap_or(start)),
        None => None,
    }
}

/// Drops every key that is repeated later.
pub(crate) fn last_wins(node: &mut Node) {
    match &mut node.kind {
        NodeKind::Seq(items) => items.iter_mut().for_each(last_wins),
        NodeKind::Map(pairs) => {
            if let Some(stays) = without_duplicates(pairs) {
                let mut stays = stays.into_iter();
                pairs.retain(|_| stays.next().unwrap_or(true));
            }
            pairs.iter_mut().for_each(|(_, value)| last_wins(value));
        }
        _ => {}
    }
}

/// Returns which pairs stay, if any key is repeated later.
fn without_duplicates(pairs: &[(Node, Node)]) -> Option<Vec<bool>> {
    let key = |at: usize| pairs[at].0.text().filter(|text| *text != "<<");
    // Most mappings are small and have unique keys.
    if pairs.len() <= SMALL {
        let is_repeated =
            |at: usize| key(at).is_some() && (0..at).any(|before| key(before) == key(at));
        if !(1..pairs.len()).any(is_repeated) {
            return None;
        }
    }
    let mut seen = std::collections::HashSet::new();
    let mut stays: Vec<bool> = (0..pairs.len())
        .rev()
        .map(|at| key(at).is_none_or(|text| seen.insert(text)))
        .collect();
    stays.reverse();
    Some(stays)
}

/// The number of pairs up to which the keys of a mapping are compared one by one.
const SMALL: usize = 16;

/// Our messages of scanner errors, and Go's.
const SCANNER: [(&str, &str); 12] = [
    (
        "a mapping value (:)",
        "mapping values are not allowed in this context",
    ),
    (
        "a character that cannot begin",
        "found character that cannot start any token",
    ),
    (
        "a list entry (-)",
        "block sequence entries are not allowed in this context",
    ),
    (
        "a mapping key cannot",
        "mapping keys are not allowed in this context",
    ),
    ("expected ':' after a key", "could not find expected ':'"),
    ("expected a closing quote", "found unexpected end of stream"),
    (
        "a document ends within",
        "found unexpected document indicator",
    ),
    (
        "expected a comment or",
        "did not find expected comment or line break",
    ),
    (
        "a tab where",
        "found a tab character where an indentation space is expected",
    ),
    ("an unknown escape", "found unknown escape character"),
    (
        "expected a name of letters",
        "did not find expected alphabetic or numeric character",
    ),
    (
        "expected hexadecimal digits",
        "did not find expected hexdecimal number",
    ),
];
const PARSER: [(&str, &str); 6] = [
    ("expected a value", "did not find expected node content"),
    ("expected ',' or ']'", "did not find expected ',' or ']'"),
    ("expected ',' or '}'", "did not find expected ',' or '}'"),
    ("expected a key", "did not find expected key"),
    (
        "expected a list entry",
        "did not find expected '-' indicator",
    ),
    (
        "expected the start of a document",
        "did not find expected <document start>",
    ),
];

/// Returns Go's message for an error in the input.
fn message(error: &YamlError, text: &str) -> String {
    let at = |line: usize| match line {
        0 => String::new(),
        line => format!("line {line}: "),
    };
    match &error.kind {
        Kind::Syntax(detail) => {
            let of = |table: &[(&str, &'static str)]| {
                let mut found = table.iter();
                found
                    .find(|(start, _)| detail.starts_with(start))
                    .map(|(_, go)| *go)
            };
            if detail.starts_with("an unknown directive") {
                let word = word(text, error);
                let name = word.trim_start_matches('%');
                let go = match name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                    true => "found unknown directive name",
                    false => "found unexpected non-alphabetical character",
                };
                return format!(
                    "yaml: {}{go}",
                    if error.span.line > 1 {
                        at(error.span.line)
                    } else {
                        at(0)
                    }
                );
            }
            if detail == "a control character" {
                return "yaml: control characters are not allowed".to_owned();
            }
            // Go counts from 0, omits 0, and adds one for errors of the scanner.
            match (of(&SCANNER), of(&PARSER)) {
                // Go finds this one at the next token.
                (Some(go), _) if go.starts_with("could not") => {
                    format!("yaml: {}{go}", at(next_token(text, error)))
                }
                (Some(go), _) if error.span.line > 1 => {
                    format!("yaml: {}{go}", at(error.span.line))
                }
                (Some(go), _) => format!("yaml: {go}"),
                (None, Some(go)) => format!("yaml: {}{go}", at(error.span.line - 1)),
                (None, None) => format!("yaml: {}{detail}", at(error.span.line - 1)),
            }
        }
        Kind::UnknownAnchor => {
            let word = word(text, error);
            let name = word.trim_start_matches('*');
            let end = name.find(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_')));
            let name = &name[..end.unwrap_or(name.len())];
            format!("yaml: unknown anchor '{name}' referenced")
        }
        Kind::Merge => "yaml: map merge requires map or sequence of maps as the value".to_owned(),
        Kind::NotFinite => {
            let word = word(text, error).to_ascii_lowercase();
            let value = match word.as_str() {
                ".nan" => "NaN",
                w if w.starts_with('-') => "-Inf",
                _ => "+Inf",
            };
            format!("json: unsupported value: {value}")
        }
        other => format!("yaml: {}{other}", at(error.span.line - 1)),
    }
}

/// Returns Go's message for a key that JSON cannot represent, with the key and its value as `%#v`
/// prints them.
fn bad_key(text: &[u8], error: &YamlError, fuel: &Fuel) -> Option<String> {
    if !matches!(error.kind, Kind::Key(_)) {
        return None;
    }
    let nodes = yaml::parse_within(text, "yaml", &Limits::default(), fuel).ok()?;
    let (key, value) = find_key(nodes.first()?, error)?;
    let json = |node: &Node| yaml::node_to_value(node, "yaml", Dialect::V2).ok();
    Some(match &key.kind {
        NodeKind::Scalar { .. } => {
            let value = match json(value)? {
                Json::Null => "interface {}(nil)".to_owned(),
                value => go_syntax(&value),
            };
            match json(key)? {
                Json::Number(n) => format!(
                    "unsupported map key of type: uint64, key: {:#x}, value: {value}",
                    n.as_u64()?
                ),
                _ => format!("unsupported map key of type: %!s(<nil>), key: <nil>, value: {value}"),
            }
        }
        _ => format!(
            "yaml: invalid map key: {}",
            go_syntax(&json(innermost(key))?)
        ),
    })
}

/// Returns the first mapping or list that is a key within a key.
fn innermost(key: &Node) -> &Node {
    let inner = match &key.kind {
        NodeKind::Map(pairs) => pairs.iter().map(|(k, _)| k).find(|k| k.text().is_none()),
        _ => None,
    };
    inner.map_or(key, innermost)
}

/// Returns the key that an error points to, and its value.
fn find_key<'n>(node: &'n Node, error: &YamlError) -> Option<(&'n Node, &'n Node)> {
    match &node.kind {
        NodeKind::Seq(items) => items.iter().find_map(|item| find_key(item, error)),
        NodeKind::Map(pairs) => pairs.iter().find_map(|(key, value)| {
            find_key(key, error)
                .or_else(|| find_key(value, error))
                .or(
                    (key.line == error.span.line && key.column == error.span.column)
                        .then_some((key, value)),
                )
        }),
        NodeKind::Scalar { .. } => None,
    }
}

/// Formats a value of go-yaml as Go's `%#v`.
fn go_syntax(value: &Json) -> String {
    match value {
        Json::Null => "interface {}(nil)".to_owned(),
        Json::String(s) => driftless_go::quote::quote(s.as_bytes()),
        Json::Array(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Json::Object(map) => {
            let entries = map.iter();
            let entries: Vec<String> = entries
                .map(|(k, v)| {
                    format!(
                        "{}:{}",
                        driftless_go::quote::quote(k.as_bytes()),
                        go_syntax(v)
                    )
                })
                .collect();
            format!(
                "map[interface {{}}]interface {{}}{{{}}}",
                entries.join(", ")
            )
        }
        other => other.to_string(),
    }
}

/// Returns the line of the first token, or comment, after the scalar that is not a key. After a
/// plain scalar, a line with deeper indentation continues it.
fn next_token(text: &str, error: &YamlError) -> usize {
    const ENDS: [&str; 2] = [": ", " #"];
    let mut lines = text.split('\n').enumerate().skip(error.span.line - 1);
    let (_, line) = lines.next().unwrap_or_default();
    let key: String = line.chars().skip(error.span.column - 1).collect();
    let plain = !key.starts_with(['[', '{', '"', '\'']);
    if plain && key.contains(ENDS[0]) {
        return error.span.line;
    }
    let found = lines.find(|(_, line)| {
        let content = line.trim_start_matches([' ', '\t']);
        match content.as_bytes().first() {
            None | Some(b'\r') => false,
            Some(b'#') => true,
            Some(_) => {
                let ends = content.ends_with(':') || ENDS.iter().any(|end| content.contains(end));
                !plain || ends || line.len() - content.len() < error.span.column
            }
        }
    });
    // The end of the stream counts as a line break, which is not reached after a scalar that is too
    // long for a key.
    let end = || {
        let long = key.chars().count() > LONG_KEY;
        text.split('\n')
            .count()
            .max(error.span.line + usize::from(!long))
    };
    found.map_or_else(end, |(at, _)| at + 1)
}

/// Returns the word at the position of an error, up to a blank or a closing bracket.
fn word(text: &str, error: &YamlError) -> String {
    let line = text
        .split('\n')
        .nth(error.span.line - 1)
        .unwrap_or_default();
    let rest = line.chars().skip(error.span.column - 1);
    rest.take_while(|c| !c.is_whitespace() && !"],}".contains(*c))
        .collect()
}
