//! The types of unquoted scalars.

use super::Tag;
use driftless_manifest::yaml::{self, Dialect, NodeKind, YamlErrorKind};
use serde_json::Value;

/// The maximal bytes of a string that is parsed to see whether it would be a string without quotes.
const MAX_READ: usize = 64 << 10;

/// Returns the tag of an unquoted scalar.
pub(crate) fn resolve(text: &str) -> Tag {
    let is_long_word = text.len() > "false".len() && text.starts_with(|c: char| c.is_alphabetic());
    if is_long_word || !could_be_typed(text) {
        return Tag::Str;
    }
    match yaml::plain_to_value(text, Dialect::V3) {
        Some(Value::Null) => Tag::Null,
        Some(Value::Bool(_)) => Tag::Bool,
        Some(Value::Number(_)) if is_float_text(text) => Tag::Float,
        Some(Value::Number(_)) => Tag::Int,
        Some(Value::String(value)) if value == text => Tag::Str,
        Some(Value::String(_)) => Tag::Time,
        // Infinity: a number until it is printed, which fails.
        None => Tag::Float,
        Some(_) => Tag::Str,
    }
}

/// Checks whether the first character allows anything but a string. Spares most scalars the full
/// test.
fn could_be_typed(text: &str) -> bool {
    match text.as_bytes().first() {
        None => true,
        Some(first) => first.is_ascii_digit() || b"+-.~nNtTfFyYoO<=".contains(first),
    }
}

fn is_float_text(text: &str) -> bool {
    let digits = text.trim_start_matches(['+', '-']);
    if digits.starts_with("0x") || digits.starts_with("0b") || digits.starts_with("0o") {
        return false;
    }
    digits.contains(['.', 'e', 'E'])
}

/// Checks whether a string of one line, read as a document of YAML 1.1, is anything but a string: a
/// number, `yes`, but also a map (`a: b`), a list (`- a`) or nothing at all (`# a`). kyaml quotes
/// such strings. Invalid YAML counts as a string.
pub(super) fn needs_quotes(text: &str) -> bool {
    if !needs_reading(text) {
        return false;
    }
    // Without aliases no document has more nodes; Go's library also refuses excessive aliases.
    let limits = yaml::Limits {
        nodes: 4 * text.len() + 4,
        ..yaml::Limits::default()
    };
    let Ok(documents) = yaml::parse(text.as_bytes(), "", &limits) else {
        return false;
    };
    let Some(document) = documents.first() else {
        return true;
    };
    match (
        &document.kind,
        yaml::node_to_value(document, "", Dialect::V2),
    ) {
        (NodeKind::Scalar { .. }, Ok(Value::String(_))) => false,
        (_, Err(error)) => !is_refused(&error.kind),
        _ => true,
    }
}

/// Checks whether the decision needs a parser. Scalars beyond [`MAX_READ`] bytes count as strings:
/// their quotes are visible only if a patch replaces them by a number.
pub(super) fn needs_reading(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_READ && !text.contains('\n') && !is_word(text)
}

/// Checks whether Go's library also refuses it, and not only JSON, which has no infinity.
fn is_refused(fault: &YamlErrorKind) -> bool {
    use YamlErrorKind::{Key, Merge, Tag};
    matches!(fault, Tag(_) | Merge | Key("a mapping or a list"))
}

/// Checks whether the first character, the length and the colons allow only a string. Spares most
/// strings the full test.
fn is_word(text: &str) -> bool {
    let is_long = text.len() > "false".len() && !text.contains('#');
    let starts = |first: char| match first {
        '/' | '_' | '(' | '$' => true,
        first => first.is_ascii_alphabetic() && (is_long || !could_be_typed(text)),
    };
    let mut after_colons = text.split(':').skip(1).map(|rest| rest.chars().next());
    text.chars().next().is_some_and(starts)
        && after_colons.all(|next| next.is_some_and(|next| !next.is_whitespace()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_that_need_quotes_are_recognized() {
        let others = [
            "# no",
            " ",
            "---",
            "- a",
            "-",
            "a: b",
            "a:",
            "{}",
            "? a",
            "~",
            "null",
            "true",
            "yes",
            "N",
            "8",
            "true # a",
            "+1",
            "1_000",
            "0o7",
            "0x1F",
            "1e3",
            ".inf",
            "-.INF",
            "!!int 3",
            "&a 3",
            "nginx: #1",
            "{a: .inf}",
            "'a': b",
        ];
        let strings = [
            "",
            "a",
            "nginx:1.2",
            "a #b",
            "a # no",
            "1:30",
            "2001-01-01",
            "[a",
            "*x",
            "@a",
            "%a",
            "`a",
            "...",
            "<<",
            "=",
            ":",
            "a: b: c",
            "|",
            "> a",
            "\"a\"",
            "!!str 3",
            "!!bool x",
            "nan",
            "nULL",
            "0xG",
            "a\nb: c",
            "<<: a",
            "[a]: b",
        ];
        for text in others {
            assert!(needs_quotes(text), "{text:?}");
        }
        for text in strings {
            assert!(!needs_quotes(text), "{text:?}");
        }
    }
}
