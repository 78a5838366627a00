//! Writes the decrypted file.

use driftless_go::{float, json};
use driftless_manifest::yaml;
use serde_json::Number;

use crate::tree::Tree;
use crate::{Format, SopsError, ini};

pub(crate) fn emit(branches: &[Tree], format: Format, file: &str) -> Result<Vec<u8>, SopsError> {
    if format == Format::Binary {
        return binary(branches, file);
    }
    for branch in branches {
        check_text(branch, file)?;
    }
    Ok(match format {
        Format::Yaml => branches
            .iter()
            .map(yaml::write)
            .collect::<Vec<_>>()
            .join("---\n")
            .into_bytes(),
        Format::Dotenv => branches
            .iter()
            .flat_map(|branch| dotenv(branch).into_bytes())
            .collect(),
        Format::Ini => {
            let texts = branches.iter().map(|branch| ini::write(branch, file));
            texts.collect::<Result<String, _>>()?.into_bytes()
        }
        _ => {
            let mut out = String::new();
            branches.iter().for_each(|branch| json(&mut out, branch, 0));
            out.push('\n');
            out.into_bytes()
        }
    })
}

fn binary(branches: &[Tree], file: &str) -> Result<Vec<u8>, SopsError> {
    match branches.first().and_then(|branch| branch.get("data")) {
        Some(Tree::Text(text)) => Ok(text.clone().into_bytes()),
        Some(Tree::Bytes(bytes)) => Ok(bytes.clone()),
        _ => {
            let problem = "expected the encrypted content in \"data\"";
            Err(SopsError::syntax(file, 1, problem))
        }
    }
}

fn check_text(tree: &Tree, file: &str) -> Result<(), SopsError> {
    match tree {
        Tree::Bytes(_) => Err(SopsError::Value {
            file: file.to_owned(),
            path: "?".to_owned(),
            problem: "a decrypted value is not UTF-8 text",
        }),
        Tree::List(items) => items.iter().try_for_each(|item| check_text(item, file)),
        Tree::Map(entries) => entries
            .iter()
            .try_for_each(|(_, value)| check_text(value, file)),
        _ => Ok(()),
    }
}

fn dotenv(branch: &Tree) -> String {
    let mut out = String::new();
    let Tree::Map(entries) = branch else {
        return out;
    };
    for (key, value) in entries {
        match value {
            Tree::Comment(comment) => out.push_str(&format!("#{comment}\n")),
            Tree::Text(text) => out.push_str(&format!("{key}={}\n", text.replace('\n', "\\n"))),
            Tree::Number(n) => out.push_str(&format!("{key}={n}\n")),
            Tree::Bool(b) => out.push_str(&format!("{key}={b}\n")),
            _ => out.push_str(&format!("{key}=\n")),
        }
    }
    out
}

/// Writes JSON with the indentation of `encoding/json`, by tabs.
fn json(out: &mut String, tree: &Tree, depth: usize) {
    match tree {
        Tree::Null | Tree::Bytes(_) | Tree::Comment(_) => out.push_str("null"),
        Tree::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Tree::Number(n) => out.push_str(&json_number(n)),
        Tree::Text(text) => json::push_string(out, text.as_bytes(), true),
        Tree::List(items) => {
            let items: Vec<_> = items
                .iter()
                .filter(|item| !matches!(item, Tree::Comment(_)))
                .collect();
            json_collection(out, depth, ('[', ']'), &items, |out, item| {
                json(out, item, depth + 1)
            });
        }
        Tree::Map(entries) => {
            let entries: Vec<_> = entries
                .iter()
                .filter(|(_, value)| !matches!(value, Tree::Comment(_)))
                .collect();
            json_collection(out, depth, ('{', '}'), &entries, |out, (key, value)| {
                json::push_string(out, key.as_bytes(), true);
                out.push_str(": ");
                json(out, value, depth + 1);
            });
        }
    }
}

fn json_collection<T>(
    out: &mut String,
    depth: usize,
    marks: (char, char),
    items: &[T],
    each: impl Fn(&mut String, &T),
) {
    out.push(marks.0);
    for (i, item) in items.iter().enumerate() {
        out.push_str(if i == 0 { "\n" } else { ",\n" });
        out.extend(std::iter::repeat_n('\t', depth + 1));
        each(out, item);
    }
    if !items.is_empty() {
        out.push('\n');
        out.extend(std::iter::repeat_n('\t', depth));
    }
    out.push(marks.1);
}

fn json_number(n: &Number) -> String {
    match n.as_f64().filter(|_| n.is_f64()) {
        Some(f) => float::json(f),
        None => n.to_string(),
    }
}
