//! dyff's report for people.

use crate::compare::{Detail, Difference};
use crate::line_diff::{self, Kind};
use crate::node::{Node, Tag};
use crate::yaml;

/// The space between the columns of a table.
const GAP: &str = "   ";

/// Returns the report of differences for an output of this width, in columns.
pub(crate) fn print(differences: &[Difference], width: usize) -> String {
    let mut text = String::new();
    for Difference { path, details } in differences {
        let path = match path.is_empty() {
            true => "(root level)".to_owned(),
            false => {
                let parts = path.iter().filter(|part| !part.is_empty());
                let parts: Vec<&str> = parts.map(String::as_str).collect();
                parts.join(".")
            }
        };
        let details: Vec<String> = details.iter().map(|one| detail(one, width)).collect();
        text.push_str(&format!("\n{path}\n{}", blocks(0, &details, width)));
    }
    text + "\n"
}

fn detail(detail: &Detail, width: usize) -> String {
    match detail {
        Detail::Added(part) => {
            let yaml = yaml::plain(&yaml::restructured(part));
            format!("+ {} added:\n{}", count(part), blocks(2, &[yaml], width))
        }
        Detail::Removed(part) => {
            let yaml = yaml::plain(&yaml::restructured(part));
            format!("- {} removed:\n{}", count(part), blocks(0, &[yaml], width))
        }
        Detail::Modified(Node::Scalar(Tag::String, from), Node::Scalar(Tag::String, to)) => {
            texts(from, to, width)
        }
        Detail::Modified(from, to) => {
            let head = match (from.type_name(), to.type_name()) {
                (from, to) if from == to => "± value change\n".to_owned(),
                (from, to) => format!("± type change from {from} to {to}\n"),
            };
            let (from, to) = (yaml::text(from), yaml::text(to));
            head + &hanging("- ", from.trim_end_matches('\n'))
                + &hanging("+ ", to.trim_end_matches('\n'))
        }
        Detail::Reordered(from, to) => reordered(from, to, width),
    }
}

fn count(part: &Node) -> String {
    match part {
        Node::Map(entries) => plural(entries.len(), "map entry", "map entries"),
        Node::List(entries) => plural(entries.len(), "list entry", "list entries"),
        Node::Scalar(..) => plural(1, "value", "values"),
    }
}

fn plural(count: usize, one: &str, many: &str) -> String {
    const WORDS: [&str; 13] = [
        "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
        "eleven", "twelve",
    ];
    let number = WORDS.get(count).map(|word| (*word).to_owned());
    let number = number.unwrap_or_else(|| count.to_string());
    let noun = if count == 1 { one } else { many };
    format!("{number} {noun}")
}

/// Returns the difference of two texts.
fn texts(from: &str, to: &str, width: usize) -> String {
    let bare = |text: &str| text.trim_matches([' ', '\n']).to_owned();
    if bare(from) == bare(to) {
        let shown = |text: &str| text.replace('\n', "↵\n").replace(' ', "·");
        let both = [hanging("- ", &shown(from)), hanging("+ ", &shown(to))];
        return "± whitespace only change\n".to_owned() + &blocks(0, &both, width);
    }
    if !from.contains('\n') && !to.contains('\n') {
        return "± value change\n".to_owned() + &hanging("- ", from) + &hanging("+ ", to);
    }
    let (mut inserts, mut deletions, mut text) = (0, 0, String::new());
    for part in line_diff::parts(from, to) {
        match part.kind {
            Kind::Equal => {}
            Kind::Insert => {
                inserts += 1;
                text.push_str(&prefixed("+ ", &part.text));
            }
            Kind::Delete => {
                deletions += 1;
                text.push_str(&prefixed("- ", &part.text));
            }
        }
    }
    let inserts = plural(inserts, "insert", "inserts");
    let deletions = plural(deletions, "deletion", "deletions");
    format!("± value change in multiline text ({inserts}, {deletions})\n{text}\n")
}

fn reordered(from: &[Node], to: &[Node], width: usize) -> String {
    let texts = |entries: &[Node]| -> Vec<String> {
        let text = |entry: &Node| match entry.text() {
            "" => yaml::text(entry),
            text => text.to_owned(),
        };
        entries.iter().map(text).collect()
    };
    let (from, to) = (texts(from), texts(to));
    let length = |entries: &[String]| {
        let lengths: usize = entries.iter().map(|entry| columns(entry)).sum();
        lengths + 2 * entries.len().saturating_sub(1)
    };
    let head = "⇆ order changed\n".to_owned();
    if length(&from).max(length(&to)) < width / 2 {
        return format!("{head}- {}\n+ {}\n", from.join(", "), to.join(", "));
    }
    head + &table(" ", 2, &[from.join("\n"), to.join("\n")])
}

/// Returns a string with a prefix before its first line, and spaces before the others.
fn hanging(prefix: &str, text: &str) -> String {
    let indent = " ".repeat(columns(prefix));
    let lines = text.split('\n').enumerate();
    let lines = lines.map(|(at, line)| match at {
        0 => format!("{prefix}{line}\n"),
        _ => format!("{indent}{line}\n"),
    });
    lines.collect()
}

/// Returns a string with a prefix before each line.
fn prefixed(prefix: &str, text: &str) -> String {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let lines = text.split('\n');
    lines.map(|line| format!("{prefix}{line}\n")).collect()
}

fn columns(text: &str) -> usize {
    text.chars().count()
}

fn widest(block: &str) -> usize {
    block.split('\n').map(columns).max().unwrap_or(0)
}

/// Returns blocks side by side, or below each other if they are too wide for that.
fn blocks(indent: usize, blocks: &[String], width: usize) -> String {
    let gaps = blocks.len().saturating_sub(1) * columns(GAP);
    let all: usize = blocks.iter().map(|block| widest(block)).sum();
    if indent + gaps + all <= width {
        return table(GAP, indent, blocks);
    }
    let lines = blocks.iter().flat_map(|block| block.split('\n'));
    let indent = " ".repeat(indent);
    lines.map(|line| format!("{indent}{line}\n")).collect()
}

/// Returns blocks as the columns of a table.
fn table(gap: &str, indent: usize, blocks: &[String]) -> String {
    let widths: Vec<usize> = blocks.iter().map(|block| widest(block)).collect();
    let blocks: Vec<Vec<&str>> = blocks
        .iter()
        .map(|block| block.split('\n').collect())
        .collect();
    let rows = blocks.iter().map(Vec::len).max().unwrap_or(0);
    let row = |at: usize| {
        let cells = blocks.iter().zip(&widths).map(|(lines, width)| {
            let line = lines.get(at).copied().unwrap_or_default();
            let fill = " ".repeat(width - columns(line));
            format!("{}{line}{fill}", " ".repeat(indent))
        });
        let cells: Vec<String> = cells.collect();
        cells.join(gap).trim_end_matches(' ').to_owned()
    };
    let rows: Vec<String> = (0..rows).map(row).collect();
    rows.join("\n")
}
