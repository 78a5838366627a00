//! The conversion of nodes to JSON values and YAML.

use super::{Map, Node, Scalar, Style, Tag, resolve};
use crate::error::{Error, ErrorKind};
use driftless_manifest::yaml::{self, Dialect, NodeKind};
use serde_json::{Number, Value};

/// Returns the value that kustomize prints: scalars typed as YAML types them, whole floats as
/// integers.
///
/// # Errors
/// A number that JSON cannot represent.
pub(crate) fn to_value(node: &Node) -> Result<Value, Error> {
    Ok(match node {
        Node::Scalar(scalar) => scalar_value(scalar)?,
        Node::Seq(items) => Value::Array(items.iter().map(to_value).collect::<Result<_, _>>()?),
        Node::Map(map) => Value::Object(to_map(map)?),
    })
}

/// Converts the fields of a map.
fn to_map(map: &Map) -> Result<serde_json::Map<String, Value>, Error> {
    map.fields()
        .iter()
        .map(|(key, value)| Ok((key.clone(), to_value(value)?)))
        .collect()
}

/// Converts a tree by value to the value that kustomize prints: a large object never has two copies
/// in memory.
///
/// # Errors
/// Like [`to_value`].
pub(crate) fn into_value(node: Node) -> Result<Value, Error> {
    Ok(match node {
        Node::Scalar(scalar) if scalar.is_text() => Value::String(scalar.text),
        Node::Scalar(scalar) => scalar_value(&scalar)?,
        Node::Seq(items) => Value::Array(
            items
                .into_iter()
                .map(into_value)
                .collect::<Result<_, _>>()?,
        ),
        Node::Map(map) => Value::Object(
            map.into_fields()
                .into_iter()
                .map(|(key, value)| Ok((key, into_value(value)?)))
                .collect::<Result<_, Error>>()?,
        ),
    })
}

/// Writes a value as YAML that keeps the order of keys.
pub(crate) fn to_text(node: &Node) -> String {
    let mut text = String::new();
    write_block(node, 0, true, &mut text);
    text
}

/// Writes a value that starts on a new line, or at a position that is already indented.
fn write_block(node: &Node, indent: usize, mut is_indented: bool, text: &mut String) {
    let mut begin = |text: &mut String| {
        if !std::mem::take(&mut is_indented) {
            push_spaces(indent, text);
        }
    };
    match node {
        Node::Map(map) if !map.is_empty() => {
            for (key, value) in map.fields() {
                begin(text);
                text.push_str(yaml::to_string(&Value::String(key.clone())).trim_end());
                text.push(':');
                write_after_key(value, indent, text);
            }
        }
        Node::Seq(items) if !items.is_empty() => {
            for item in items {
                begin(text);
                text.push_str("- ");
                write_block(item, indent + 2, true, text);
            }
        }
        other => {
            text.push_str(inline(other, indent).trim_start_matches(' '));
            text.push('\n');
        }
    }
}

fn push_spaces(count: usize, text: &mut String) {
    text.extend(std::iter::repeat_n(' ', count));
}

fn write_after_key(value: &Node, indent: usize, text: &mut String) {
    match value {
        Node::Map(map) if !map.is_empty() => {
            text.push('\n');
            write_block(value, indent + 2, false, text);
        }
        Node::Seq(items) if !items.is_empty() => {
            text.push('\n');
            write_block(value, indent, false, text);
        }
        other => {
            text.push(' ');
            text.push_str(&inline(other, indent));
            text.push('\n');
        }
    }
}

/// Returns a scalar, or an empty map or list, for the line of its key.
fn inline(node: &Node, indent: usize) -> String {
    match node {
        Node::Map(_) => "{}".to_owned(),
        Node::Seq(_) => "[]".to_owned(),
        Node::Scalar(scalar) if scalar.tag == Tag::Str => inline_text(scalar, indent),
        Node::Scalar(scalar) if scalar.is_quoted_away() => format!("\"{}\"", scalar.text),
        Node::Scalar(scalar) => scalar.text.clone(),
    }
}

/// Returns a string with its original quotes.
fn inline_text(scalar: &Scalar, indent: usize) -> String {
    let text = &scalar.text;
    if scalar.style == Style::SingleQuoted && !text.contains(char::is_control) {
        return format!("'{}'", text.replace('\'', "''"));
    }
    let written = yaml::to_string(&Value::String(text.clone()));
    let written = written.trim_end_matches('\n');
    if scalar.style != Style::Plain && !written.starts_with(['"', '\'', '|', '>']) {
        return format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    }
    written.replace('\n', &format!("\n{}", " ".repeat(indent)))
}

impl Scalar {
    /// Checks whether the scalar is printed as a string.
    fn is_text(&self) -> bool {
        match self.tag {
            Tag::Str | Tag::Auto if self.style == Style::Folded => false,
            Tag::Str => true,
            Tag::Auto if self.style != Style::Plain => true,
            _ => self.is_quoted_away(),
        }
    }
}

fn scalar_value(scalar: &Scalar) -> Result<Value, Error> {
    if scalar.is_text() {
        return Ok(Value::String(scalar.text.clone()));
    }
    let Scalar {
        tag, text, style, ..
    } = scalar;
    match tag {
        Tag::Str | Tag::Auto if *style == Style::Folded => return Ok(Value::String(refold(text))),
        Tag::Int => {
            // Go reads a leading zero as octal, which the full resolution below does.
            let octal = text.trim_start_matches('-').starts_with('0');
            if let (Ok(number), false) = (text.parse::<i64>(), octal) {
                return Ok(Value::Number(number.into()));
            }
        }
        _ => {}
    }
    let is = resolve(text);
    if *tag != Tag::Auto && *tag != is && (*tag, is) != (Tag::Float, Tag::Int) {
        let reason = "a value was replaced by one of another type: quote the value in the target, or the source";
        return Err(ErrorKind::Object(reason.to_owned()).into());
    }
    let value = yaml::plain_to_value(text, Dialect::V3).ok_or_else(|| {
        ErrorKind::Object("infinity or not-a-number, which JSON cannot hold".to_owned())
    })?;
    Ok(match value {
        Value::Number(number) => whole(number),
        other => other,
    })
}

/// Returns a folded block after kustomize has written and read it again on its way to JSON. Go's
/// writer checks the first character of the block instead of the first of the next line, and so
/// puts an empty line before every indented line.
fn refold(text: &str) -> String {
    let unwritable =
        |c: char| c != '\t' && c != '\n' && (c.is_control() || c == '\u{feff}' || c > '\u{ffff}');
    let as_block = !text.is_empty()
        && !text.ends_with(' ')
        && !text.contains(" \n")
        && !text.contains(unwritable);
    if !as_block || !text.contains('\n') {
        return text.to_owned();
    }
    let first = text.chars().find(|c| *c != '\n');
    let separates = first.is_some_and(|c| c != ' ' && c != '\t');
    let mut block = format!("- >{}{}\n", indent_hint(text), chomp_hint(text));
    let (mut at_start, mut leading) = (true, true);
    for c in text.chars() {
        if c == '\n' {
            if !at_start && !leading && separates {
                block.push('\n');
            }
            block.push('\n');
            at_start = true;
            continue;
        }
        if at_start {
            block.push_str("  ");
            leading = c == ' ' || c == '\t';
        }
        block.push(c);
        at_start = false;
    }
    if !block.ends_with('\n') {
        block.push('\n');
    }
    let documents = yaml::parse(block.as_bytes(), "", &yaml::Limits::default());
    let read = documents
        .ok()
        .and_then(|documents| match &documents.first()?.kind {
            NodeKind::Seq(items) => Some(items.first()?.text()?.to_owned()),
            _ => None,
        });
    read.unwrap_or_else(|| text.to_owned())
}

fn indent_hint(text: &str) -> &'static str {
    if text.starts_with([' ', '\n']) {
        "2"
    } else {
        ""
    }
}

fn chomp_hint(text: &str) -> &'static str {
    match text.strip_suffix('\n') {
        None => "-",
        Some("") => "+",
        Some(rest) if rest.ends_with('\n') => "+",
        Some(_) => "",
    }
}

/// Converts `1.0` to `1`: kustomize writes JSON first.
fn whole(number: Number) -> Value {
    const EXACT: f64 = 1e19;
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < EXACT => {
            if let Ok(int) = format!("{float:.0}").parse::<i64>() {
                return int.into();
            }
            format!("{float:.0}")
                .parse::<u64>()
                .map_or(Value::Number(number), Value::from)
        }
        _ => Value::Number(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::EMBEDDED;
    use crate::node::first_document;
    use driftless_fuel::{Fuel, FuelLimits};

    /// Values in a string that a replacement changes elsewhere keep their style.
    #[test]
    fn quotes_are_kept() {
        for text in [
            "p: 'C:\\temp'\n",
            "p: \"C:\\\\temp\"\n",
            "p: 'it''s \"so\"'\n",
            "p: \"say \\\"hi\\\"\"\n",
            "p: '8080'\n",
            "p: \"8080\"\n",
            "p: plain\n",
            "- - 'a'\n  - b: \"c\"\n    d: 1\n",
            "a:\n- b: |\n    two\n    lines\n",
        ] {
            let fuel = Fuel::new(FuelLimits::NONE);
            let node = first_document(text, &EMBEDDED, &fuel).unwrap().unwrap();
            assert_eq!(to_text(&node), text);
        }
    }
}
