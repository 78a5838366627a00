//! Edits of YAML files in place: comments, order, quotes and line ends of everything else stay.
//!
//! An edit changes lines of the file, and the result is parsed again. If anything else differs than
//! the requested change, the edit is refused, and the file stays unchanged.

use crate::error::Error;
use driftless_manifest::yaml::{self, Comment, Dialect, Limits, Node, NodeKind, ScalarStyle};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::ops::Range;

/// The kind and name of an object in a file.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    /// The kind of the object.
    pub kind: &'a str,
    /// The name of the object.
    pub name: &'a str,
}

/// The keys from the top of an object to a field, and the new value of the field.
pub type Field<'a> = (&'a [&'a str], &'a str);

/// A parsed file.
pub struct File<'t> {
    path: &'t str,
    text: &'t str,
    /// The documents of the file.
    pub documents: Vec<Node>,
    comments: Vec<Comment>,
}

impl<'t> File<'t> {
    /// Parses a file.
    ///
    /// # Errors
    /// Fails if it is not valid YAML.
    pub fn read(path: &'t str, text: &'t str) -> Result<Self, Error> {
        let read = yaml::parse_with_comments(text.as_bytes(), path, &Limits::default());
        let (documents, comments) = read.map_err(Error::caused_by)?;
        Ok(Self {
            path,
            text,
            documents,
            comments,
        })
    }

    /// Allows the edit to remove the comment of a line, because its content is removed.
    pub fn without_comment(mut self, line: usize) -> Self {
        self.comments.retain(|comment| comment.line != line);
        self
    }

    /// Returns the index of an object's document.
    ///
    /// # Errors
    /// Fails if the object is not in the file.
    pub fn find(&self, target: Target<'_>) -> Result<usize, Error> {
        let Target { kind, name } = target;
        let is = |document: &Node| {
            let metadata = document.get("metadata");
            text_of(document, "kind") == Some(kind)
                && metadata.and_then(|metadata| text_of(metadata, "name")) == Some(name)
        };
        self.documents.iter().position(is).ok_or_else(|| {
            Error::new(format!("{}: {kind} '{name}' is not in the file", self.path))
                .next("restore it, or make the change by hand")
        })
    }

    /// Returns the documents as values.
    ///
    /// # Errors
    /// Fails for a document that cannot be represented in JSON.
    pub fn values(&self) -> Result<Vec<Value>, Error> {
        let value =
            |node| yaml::node_to_value(node, self.path, Dialect::V2).map_err(Error::caused_by);
        self.documents.iter().map(value).collect()
    }

    /// Returns the edited file if its documents are `want` and it has all comments. `action`
    /// describes the edit in the error.
    ///
    /// # Errors
    /// Fails if the file is formatted in a way that the edit does not support.
    pub fn check_edit(
        &self,
        edited: Option<String>,
        want: &[Value],
        line: usize,
        action: &str,
    ) -> Result<String, Error> {
        let is_correct = |text: &String| {
            let Ok(file) = File::read(self.path, text) else {
                return false;
            };
            let texts = |comments: &[Comment]| -> Vec<String> {
                comments
                    .iter()
                    .map(|comment| comment.text.clone())
                    .collect()
            };
            file.values().is_ok_and(|values| values == want)
                && texts(&file.comments) == texts(&self.comments)
        };
        edited.filter(is_correct).ok_or_else(|| {
            Error::new(format!(
                "{}:{line}: cannot {action} without other changes to the file",
                self.path
            ))
            .next(format!("{action} by hand, and run the command again"))
        })
    }
}

/// Sets fields of an object in a file; fields that already have the value stay unchanged.
///
/// # Errors
/// Fails if the file is not valid YAML, the object is not in it, or a field is formatted in a way
/// that cannot be edited.
pub fn set(
    path: &str,
    text: &str,
    target: Target<'_>,
    fields: &[Field<'_>],
) -> Result<String, Error> {
    let mut target = target;
    let mut text = text.to_owned();
    for (field, value) in fields {
        text = set_one(path, &text, target, field, value)?;
        if *field == ["metadata", "name"] {
            target.name = value;
        }
    }
    Ok(text)
}

fn set_one(
    path: &str,
    text: &str,
    target: Target<'_>,
    field: &[&str],
    value: &str,
) -> Result<String, Error> {
    let file = File::read(path, text)?;
    let at = file.find(target)?;
    let before = file.values()?;
    let mut want = before.clone();
    let document = &file.documents[at];
    let edited = match assign(&mut want[at], field, value) {
        true if want == before => return Ok(text.to_owned()),
        true => with_field(&file, document, field, value),
        false => None,
    };
    let action = match value.contains('\n') {
        true => format!("set {} to its new value", field.join(".")),
        false => format!("set {} to '{value}'", field.join(".")),
    };
    let mut place = document;
    let mut deeper = field.iter();
    while let Some(next) = deeper.next().and_then(|key| place.get(key)) {
        place = next;
    }
    file.check_edit(edited, &want, place.line, &action)
}

/// Sets a field of a value. Returns false if a parent of the field is not a map.
fn assign(value: &mut Value, field: &[&str], text: &str) -> bool {
    let [key, rest @ ..] = field else {
        *value = text.into();
        return true;
    };
    if value.is_null() {
        *value = json!({});
    }
    match value {
        Value::Object(map) => assign(map.entry(*key).or_insert(Value::Null), rest, text),
        _ => false,
    }
}

fn text_of<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    node.get(key)?.text()
}

fn entry<'n>(node: &'n Node, key: &str) -> Option<&'n (Node, Node)> {
    match &node.kind {
        NodeKind::Map(pairs) => pairs.iter().find(|(name, _)| name.text() == Some(key)),
        _ => None,
    }
}

/// Returns the file with a field set; `None` if its formatting is not supported.
fn with_field(file: &File<'_>, document: &Node, field: &[&str], value: &str) -> Option<String> {
    let (mut key, mut node) = (None, document);
    for (depth, name) in field.iter().enumerate() {
        let Some((next_key, next)) = entry(node, name) else {
            return with_new_field(file.text, key, node, &field[depth..], value);
        };
        (key, node) = (Some(next_key), next);
    }
    let in_line = match value.contains('\n') {
        true => None,
        false => with_value_in_line(file.text, node, value),
    };
    in_line.or_else(|| with_entry(file.text, key?, node, value))
}

/// Inserts a field as the first of its parent.
fn with_new_field(
    text: &str,
    parent: Option<&Node>,
    map: &Node,
    field: &[&str],
    value: &str,
) -> Option<String> {
    let mut lines = Lines::of(text);
    let (indent, at) = match (&map.kind, parent) {
        (NodeKind::Map(pairs), _) => {
            let first = &pairs.first()?.0;
            let at = parent.map_or(first.line - 1, |parent| parent.line);
            if first.line <= at || !lines.is_indent(first) {
                return None;
            }
            (first.column - 1, at)
        }
        (_, Some(parent)) if map.is_empty() => (parent.column + 1, parent.line),
        _ => return None,
    };
    let nested = field
        .iter()
        .rev()
        .fold(Value::from(value), |value, key| json!({*key: value}));
    let new: Vec<String> = indented(&nested, indent);
    lines.replace(at..at, new);
    Some(lines.into_text())
}

/// Returns the indented lines of a value.
fn indented(value: &Value, indent: usize) -> Vec<String> {
    let text = yaml::to_string(value);
    let line = |line: &str| match line.is_empty() {
        true => String::new(),
        false => " ".repeat(indent) + line,
    };
    text.lines().map(line).collect()
}

/// Replaces a scalar of a single line, with the same quotes.
fn with_value_in_line(text: &str, node: &Node, value: &str) -> Option<String> {
    let NodeKind::Scalar { text: old, style } = &node.kind else {
        return None;
    };
    let mut lines = Lines::of(text);
    let line = lines.get(node.line)?;
    let start = line.char_indices().nth(node.column - 1)?.0;
    let (before, rest) = line.split_at(start);
    let (length, new) = match style {
        ScalarStyle::Plain if !old.is_empty() && rest.starts_with(old.as_str()) => {
            (old.len(), yaml::to_string(&json!(value)).trim().to_owned())
        }
        ScalarStyle::SingleQuoted => (
            quoted_length(rest, '\'')?,
            format!("'{}'", value.replace('\'', "''")),
        ),
        ScalarStyle::DoubleQuoted => (quoted_length(rest, '"')?, json!(value).to_string()),
        _ => return None,
    };
    let new = format!("{before}{new}{}", rest.get(length..)?);
    lines.replace(node.line - 1..node.line, vec![new]);
    Some(lines.into_text())
}

/// Returns the length in bytes of the quoted string that a line begins with.
fn quoted_length(text: &str, quote: char) -> Option<usize> {
    let mut chars = text.char_indices().peekable();
    chars.next().filter(|(_, first)| *first == quote)?;
    while let Some((at, one)) = chars.next() {
        if one == '\\' && quote == '"' {
            chars.next();
        } else if one == quote {
            let is_doubled = quote == '\'' && chars.peek().is_some_and(|(_, next)| *next == quote);
            if !is_doubled {
                return Some(at + 1);
            }
            chars.next();
        }
    }
    None
}

/// Replaces a whole entry, whose old or new value is a scalar of several lines.
fn with_entry(text: &str, key: &Node, node: &Node, value: &str) -> Option<String> {
    let mut lines = Lines::of(text);
    if !matches!(node.kind, NodeKind::Scalar { .. }) || !lines.is_indent(key) {
        return None;
    }
    let is_inside = |line: &str| {
        let indent = line.len() - line.trim_start().len();
        line.trim().is_empty() || indent >= key.column
    };
    let start = key.line - 1;
    let mut end = key.line;
    while lines.get(end + 1).is_some_and(is_inside) {
        end += 1;
    }
    while end > key.line && lines.get(end).is_some_and(|line| line.trim().is_empty()) {
        end -= 1;
    }
    lines.replace(
        start..end,
        indented(&json!({key.text()?: value}), key.column - 1),
    );
    Some(lines.into_text())
}

/// The lines of a file, with their line ends.
pub struct Lines<'t> {
    lines: Vec<Cow<'t, str>>,
    end: &'static str,
}

impl<'t> Lines<'t> {
    /// Splits a file into lines.
    pub fn of(text: &'t str) -> Self {
        let lines: Vec<_> = text.split_inclusive('\n').map(Cow::Borrowed).collect();
        let is_crlf = lines.first().is_some_and(|line| line.ends_with("\r\n"));
        let end = if is_crlf { "\r\n" } else { "\n" };
        Self { lines, end }
    }

    /// Returns a line without its line end. Numbers start at 1.
    pub fn get(&self, number: usize) -> Option<&str> {
        let line = self.lines.get(number.checked_sub(1)?)?;
        Some(line.trim_end_matches(['\r', '\n']))
    }

    /// Returns whether only spaces precede a node on its line.
    pub fn is_indent(&self, node: &Node) -> bool {
        let before = self
            .get(node.line)
            .map(|line| line.chars().take(node.column - 1));
        before.is_some_and(|mut before| before.all(|one| one == ' '))
    }

    /// Replaces a range of lines, which are counted from 0.
    pub fn replace(&mut self, range: Range<usize>, new: Vec<String>) {
        self.close();
        let ending = self.end;
        let new = new.into_iter().map(|line| Cow::Owned(line + ending));
        let at = range.start.min(self.lines.len());
        let end = range.end.clamp(at, self.lines.len());
        drop(self.lines.splice(at..end, new));
    }

    /// Adds a missing line end to the last line.
    fn close(&mut self) {
        if let Some(last) = self.lines.last_mut()
            && !last.ends_with('\n')
        {
            last.to_mut().push_str(self.end);
        }
    }

    /// Returns the content of the file.
    pub fn into_text(self) -> String {
        self.lines.concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "# ours\nkind: GitRepository\nmetadata: {name: shop}\nspec:\n  # every minute\n  interval: 1m\n  url: \"https://a.example/b\" # moved\n  ref:\n    branch: 'dev'\n";

    fn after(text: &str, fields: &[Field<'_>]) -> Result<String, Error> {
        let target = Target {
            kind: "GitRepository",
            name: "shop",
        };
        set("sync.yaml", text, target, fields)
    }

    #[test]
    fn fields_are_set_in_their_lines() {
        let fields: [Field<'_>; 2] = [
            (&["spec", "url"], "https://a.example/c"),
            (&["spec", "ref", "branch"], "it's"),
        ];
        let want = SOURCE
            .replace("a.example/b", "a.example/c")
            .replace("'dev'", "'it''s'");
        assert_eq!(after(SOURCE, &fields).unwrap(), want);
        let crlf = SOURCE.replace('\n', "\r\n");
        assert_eq!(after(&crlf, &fields).unwrap(), want.replace('\n', "\r\n"));
        let flow = "kind: GitRepository\nmetadata: {name: shop}\nspec: {url: a, ref: {branch: dev, x: 1}} # c";
        let fields: [Field<'_>; 1] = [(&["spec", "ref", "branch"], "qa")];
        let want = flow.replace("dev", "qa") + "\n";
        assert_eq!(after(flow, &fields).unwrap(), want);
    }

    #[test]
    fn fields_with_the_same_value_stay_unchanged() {
        let fields: [Field<'_>; 1] = [(&["spec", "ref", "branch"], "dev")];
        assert_eq!(after(SOURCE, &fields).unwrap(), SOURCE);
        let text = SOURCE.trim_end();
        assert_eq!(after(text, &fields).unwrap(), text);
    }

    #[test]
    fn fields_that_are_missing_are_added() {
        let text = SOURCE.replace("  ref:\n    branch: 'dev'\n", "");
        let fields: [Field<'_>; 1] = [(&["spec", "ref", "branch"], "dev")];
        let want = text.replace("spec:\n", "spec:\n  ref:\n    branch: dev\n");
        assert_eq!(after(&text, &fields).unwrap(), want);
        let text =
            "kind: GitRepository\nmetadata:\n  name: shop\nspec: # later\n---\nkind: Other\n";
        let want = text.replace("later\n", "later\n  ref:\n    branch: dev\n");
        assert_eq!(after(text, &fields).unwrap(), want);
    }

    #[test]
    fn values_of_several_lines_are_replaced() {
        let text = "kind: GitRepository\nmetadata: {name: shop, labels: {a: b}}\nstringData:\n  value: |\n    one\n\n    two\n\n  # of ours\n  other: x\n";
        let fields: [Field<'_>; 1] = [(&["stringData", "value"], "three\nfour\n")];
        let want = text.replace("    one\n\n    two\n", "    three\n    four\n");
        assert_eq!(after(text, &fields).unwrap(), want);
    }

    #[test]
    fn unsupported_formatting_is_refused() {
        let fields: [Field<'_>; 1] = [(&["spec", "ref", "branch"], "qa")];
        for (spec, words) in [
            (
                "spec: &a {ref: {branch: dev}}\nmore: *a\n",
                "sync.yaml:3: cannot set spec.ref.branch to 'qa'",
            ),
            (
                "spec: {ref: [dev]}\n",
                "sync.yaml:3: cannot set spec.ref.branch",
            ),
            ("spec: {ref: }\n", "cannot set"),
            ("spec: {ref: {branch: d\n  ev}}\n", "cannot set"),
        ] {
            let text = format!("kind: GitRepository\nmetadata: {{name: shop}}\n{spec}");
            let message = after(&text, &fields).unwrap_err().message;
            assert!(message.contains(words), "{spec}: {message}");
        }
        let message = after(&SOURCE.replace("shop", "news"), &fields)
            .unwrap_err()
            .message;
        assert_eq!(
            message,
            "sync.yaml: GitRepository 'shop' is not in the file"
        );
    }
}
