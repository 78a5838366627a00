use super::{Map, Node, Scalar, Tag};
use crate::error::{Error, ErrorKind};
use driftless_manifest::yaml::{self, Dialect, NodeKind, ScalarStyle};
use serde_json::{Number, Value};

/// The value that kustomize prints: scalars typed as YAML types them, whole floats as integers.
///
/// # Errors
/// A number that JSON cannot hold.
pub(crate) fn to_value(node: &Node) -> Result<Value, Error> {
    Ok(match node {
        Node::Scalar(scalar) => scalar_value(scalar)?,
        Node::Seq(items) => Value::Array(items.iter().map(to_value).collect::<Result<_, _>>()?),
        Node::Map(map) => Value::Object(to_map(map)?),
    })
}

/// The fields of a map.
fn to_map(map: &Map) -> Result<serde_json::Map<String, Value>, Error> {
    map.0
        .iter()
        .map(|(key, value)| Ok((key.clone(), to_value(value)?)))
        .collect()
}

/// A value as YAML text that keeps the order of keys.
pub(crate) fn to_text(node: &Node) -> String {
    let mut text = String::new();
    write_block(node, 0, &mut text);
    text
}

/// Writes a value that starts on a line of its own.
fn write_block(node: &Node, indent: usize, text: &mut String) {
    match node {
        Node::Map(map) if !map.0.is_empty() => {
            for (key, value) in &map.0 {
                text.push_str(&" ".repeat(indent));
                text.push_str(yaml::to_string(&Value::String(key.clone())).trim_end());
                text.push(':');
                write_after_key(value, indent, text);
            }
        }
        Node::Seq(items) if !items.is_empty() => {
            for item in items {
                text.push_str(&" ".repeat(indent));
                text.push_str("- ");
                let mut inner = String::new();
                write_block(item, indent + 2, &mut inner);
                text.push_str(inner.trim_start_matches(' '));
            }
        }
        other => {
            text.push_str(&inline(other, indent));
            text.push('\n');
        }
    }
}

fn write_after_key(value: &Node, indent: usize, text: &mut String) {
    match value {
        Node::Map(map) if !map.0.is_empty() => {
            text.push('\n');
            write_block(value, indent + 2, text);
        }
        Node::Seq(items) if !items.is_empty() => {
            text.push('\n');
            write_block(value, indent, text);
        }
        other => {
            text.push(' ');
            text.push_str(&inline(other, indent));
            text.push('\n');
        }
    }
}

/// A scalar, or an empty map or list, on the line of its key.
fn inline(node: &Node, indent: usize) -> String {
    match node {
        Node::Map(_) => "{}".to_owned(),
        Node::Seq(_) => "[]".to_owned(),
        Node::Scalar(Scalar {
            tag: Tag::Str,
            text,
            quoted,
        }) => {
            let written = yaml::to_string(&Value::String(text.clone()));
            let written = written.trim_end_matches('\n');
            if *quoted && !written.starts_with(['"', '\'', '|', '>']) {
                return format!("\"{text}\"");
            }
            written.replace('\n', &format!("\n{}", " ".repeat(indent)))
        }
        Node::Scalar(scalar) => scalar.text.clone(),
    }
}

fn scalar_value(scalar: &Scalar) -> Result<Value, Error> {
    match scalar.tag {
        Tag::Str => return Ok(Value::String(scalar.text.clone())),
        Tag::Null => return Ok(Value::Null),
        Tag::Bool => return Ok(Value::Bool(scalar.text.eq_ignore_ascii_case("true"))),
        Tag::Int => {
            // Go reads a leading zero as octal, which the full resolution below does.
            if let (Ok(number), false) = (
                scalar.text.parse::<i64>(),
                scalar.text.trim_start_matches('-').starts_with('0'),
            ) {
                return Ok(Value::Number(number.into()));
            }
        }
        Tag::Float | Tag::Time => {}
    }
    let node = yaml::Node {
        line: 1,
        column: 1,
        tag: None,
        kind: NodeKind::Scalar {
            text: scalar.text.clone(),
            style: ScalarStyle::Plain,
        },
    };
    let value = yaml::node_to_value(&node, "", Dialect::V3).map_err(|_| {
        ErrorKind::Object("infinity or not-a-number, which JSON cannot hold".to_owned())
    })?;
    Ok(match value {
        Value::Number(number) => whole(number),
        other => other,
    })
}

/// `1.0` is printed as `1`: kustomize writes JSON first.
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
