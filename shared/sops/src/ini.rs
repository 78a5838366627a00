//! INI files: sections of encrypted values, with metadata in the section `sops`, flattened to keys
//! like `age__list_0__map_enc`.
//!
//! Files are read and written as gopkg.in/ini.v1 1.67 does, with which sops reads and writes them.

use driftless_fuel::Fuel;

use crate::SopsError;
use crate::dotenv::unflatten;
use crate::tree::Tree;

/// The section of keys that no section begins.
const DEFAULT: &str = "DEFAULT";
/// The section with the metadata.
const METADATA: &str = "sops";
/// The characters that end the name of a key.
const DELIMITERS: [char; 2] = ['=', ':'];

/// The entries of a section: keys with their values, each followed by its comment.
type Entries = Vec<(String, Tree)>;

/// Parses sections with keys and comments. The result has an entry for each section; a section
/// whose name is a duplicate has a separate entry.
pub(crate) fn parse(bytes: &[u8], file: &str, fuel: &Fuel) -> Result<Tree, SopsError> {
    let fault = |line, problem| SopsError::syntax(file, line, problem);
    let text = std::str::from_utf8(bytes).map_err(|_| fault(1, "the file is not UTF-8 text"))?;
    let mut lines = Lines::new(text.strip_prefix('\u{feff}').unwrap_or(text));
    let mut sections: Vec<(String, Entries)> = vec![(DEFAULT.to_owned(), Vec::new())];
    let mut comment = String::new();
    while let Some(line) = lines.next() {
        fuel.nodes(1).map_err(|out| SopsError::Fuel {
            file: file.to_owned(),
            out,
        })?;
        let number = lines.number;
        let line = line.trim_start();
        if line.is_empty() {
            continue;
        }
        if line.starts_with(['#', ';']) {
            comment.push_str(line);
            continue;
        }
        if let Some(head) = line.strip_prefix('[') {
            let (name, rest) = head
                .rsplit_once(']')
                .ok_or_else(|| fault(number, "expected ']' after the name of a section"))?;
            if name.is_empty() {
                return Err(fault(number, "the name of a section is empty"));
            }
            comment.push_str(inline_comment(rest));
            sections.push((
                name.to_owned(),
                from_comment(&comment).into_iter().collect(),
            ));
            comment.clear();
            continue;
        }
        let (name, rest) = key_name(line).map_err(|problem| fault(number, problem))?;
        if name.is_empty() {
            return Err(fault(number, "the name of a key is empty"));
        }
        let value = value(rest, &mut lines, &mut comment);
        let value = value.map_err(|problem| fault(number, problem))?;
        if let Some((_, entries)) = sections.last_mut() {
            set(entries, name.to_owned(), value, from_comment(&comment));
        }
        comment.clear();
    }
    let sections = sections.into_iter();
    Ok(Tree::Map(
        sections
            .map(|(name, entries)| (name, Tree::Map(entries)))
            .collect(),
    ))
}

/// Sets a key: one that exists keeps its place, and gets the new value and comment.
fn set(entries: &mut Entries, name: String, value: String, comment: Option<(String, Tree)>) {
    let is_key = |(key, value): &(String, Tree)| *key == name && !is_comment(value);
    let at = entries.iter().position(is_key);
    let at = at.unwrap_or(entries.len());
    let after = entries.get(at + 1);
    let end = match after.is_some_and(|(_, value)| is_comment(value)) {
        true => at + 2,
        false => (at + 1).min(entries.len()),
    };
    let new = [(name, Tree::Text(value))].into_iter().chain(comment);
    entries.splice(at..end, new);
}

fn is_comment(value: &Tree) -> bool {
    matches!(value, Tree::Comment(_))
}

/// Returns the entry of a comment, without the character that begins it.
fn from_comment(text: &str) -> Option<(String, Tree)> {
    let text = text.trim();
    let bare = match text.chars().next()? {
        ';' => text.trim_start_matches([';', ' ']),
        '#' => text.trim_start_matches(['#', ' ']),
        _ => text,
    };
    Some((String::new(), Tree::Comment(bare.to_owned())))
}

/// Returns the part of a line from the character that begins a comment.
fn inline_comment(text: &str) -> &str {
    text.find(['#', ';']).map_or("", |at| &text[at..])
}

/// The lines of a file, each with its line break.
struct Lines<'t> {
    rest: std::str::SplitInclusive<'t, char>,
    number: usize,
}

impl<'t> Lines<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            rest: text.split_inclusive('\n'),
            number: 0,
        }
    }

    fn next(&mut self) -> Option<&'t str> {
        self.number += 1;
        self.rest.next()
    }
}

/// Splits a line into the name of a key and the rest behind the delimiter.
fn key_name(line: &str) -> Result<(&str, &str), &'static str> {
    const EXPECTED: &str = "expected KEY = VALUE";
    let quote = match line {
        _ if line.len() > 6 && line.starts_with("\"\"\"") => "\"\"\"",
        _ if line.starts_with('"') => "\"",
        _ if line.starts_with('`') => "`",
        _ => {
            let (name, rest) = line.split_once(DELIMITERS).ok_or(EXPECTED)?;
            return Ok((name.trim(), rest));
        }
    };
    let quoted = &line[quote.len()..];
    let (name, rest) = quoted
        .split_once(quote)
        .ok_or("the quote before the name of a key is not closed")?;
    let (_, rest) = rest.split_once(DELIMITERS).ok_or(EXPECTED)?;
    Ok((name.trim(), rest))
}

/// Reads a value, which may continue on further lines, and appends its comment.
fn value(text: &str, lines: &mut Lines<'_>, comment: &mut String) -> Result<String, &'static str> {
    let text = text.trim_start();
    let quote = match text {
        _ if text.len() > 3 && text.starts_with("\"\"\"") => "\"\"\"",
        _ if text.starts_with('`') => "`",
        _ => return Ok(plain_value(text, lines, comment)),
    };
    let text = &text[quote.len()..];
    match text.rsplit_once(quote) {
        Some((value, _)) => Ok(value.to_owned()),
        None => quoted_lines(text, quote, lines, comment),
    }
}

fn quoted_lines(
    text: &str,
    quote: &str,
    lines: &mut Lines<'_>,
    comment: &mut String,
) -> Result<String, &'static str> {
    let mut value = text.to_owned();
    while let Some(line) = lines.next() {
        match line.rsplit_once(quote) {
            Some((_, rest)) if rest.trim().ends_with('\\') => value.push_str(line),
            Some((before, rest)) => {
                value.push_str(before);
                comment.push_str(inline_comment(rest).trim());
                return Ok(value);
            }
            None => value.push_str(line),
        }
    }
    Err("the quote of a value is not closed")
}

fn plain_value(text: &str, lines: &mut Lines<'_>, comment: &mut String) -> String {
    let text = text.trim();
    if let Some(begun) = text.strip_suffix('\\') {
        let mut value = begun.to_owned();
        while let Some(line) = lines.next() {
            let line = line.trim();
            if line.is_empty() {
                break;
            }
            value.push_str(line);
            match value.strip_suffix('\\') {
                Some(begun) => value.truncate(begun.len()),
                None => break,
            }
        }
        return value;
    }
    let text = match text.find(['#', ';']) {
        Some(at) => {
            comment.push_str(&text[at..]);
            text[..at].trim()
        }
        None => text,
    };
    let within = |quote: char| {
        let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
        (!inner.contains(quote)).then_some(inner)
    };
    within('\'')
        .or_else(|| within('"'))
        .unwrap_or(text)
        .to_owned()
}

/// Removes the section with the metadata from the file, and returns it as a tree.
pub(crate) fn take_metadata(branches: &mut [Tree], file: &str) -> Result<Option<Tree>, SopsError> {
    let Some(Tree::Map(sections)) = branches.first_mut() else {
        return Ok(None);
    };
    let Some(at) = sections.iter().position(|(name, _)| name == METADATA) else {
        return Ok(None);
    };
    let (_, mut section) = sections.remove(at);
    let Tree::Map(entries) = &mut section else {
        return Ok(None);
    };
    let entries = entries.drain(..).map(|(key, value)| match value {
        Tree::Text(ref text) => (key, Tree::Text(text.replace("\\n", "\n"))),
        other => (key, other),
    });
    let entries = entries.filter(|(_, value)| !is_comment(value));
    unflatten(entries, file).map(Some)
}

/// Writes sections, keys and comments. The names of keys of a section are aligned.
///
/// # Errors
/// Fails for a value outside of a section, which no INI file has.
pub(crate) fn write(branch: &Tree, file: &str) -> Result<String, SopsError> {
    let fault = || SopsError::Value {
        file: file.to_owned(),
        path: "?".to_owned(),
        problem: "a value of an INI file is not in a section",
    };
    let Tree::Map(sections) = branch else {
        return Err(fault());
    };
    let mut out = String::new();
    let last = sections.len().saturating_sub(1);
    for (index, (name, section)) in sections.iter().enumerate() {
        let Tree::Map(entries) = section else {
            return Err(fault());
        };
        let (comment, entries) = match entries.split_first() {
            Some(((_, Tree::Comment(comment)), rest)) => (comment.as_str(), rest),
            _ => ("", entries.as_slice()),
        };
        write_comment(&mut out, comment, false);
        if index > 0 || !name.eq_ignore_ascii_case(DEFAULT) {
            out.push_str(&format!("[{name}]\n"));
        } else if entries.is_empty() {
            continue;
        }
        write_keys(&mut out, entries);
        if index != last {
            out.push('\n');
        }
    }
    Ok(out)
}

fn write_keys(out: &mut String, entries: &[(String, Tree)]) {
    let names = entries.iter().filter(|(_, value)| !is_comment(value));
    let width = names.map(|(name, _)| quoted_name(name).len()).max();
    let width = width.unwrap_or_default();
    for (at, (name, value)) in entries.iter().enumerate() {
        let text = match value {
            Tree::Comment(_) => continue,
            Tree::Text(text) => text.clone(),
            Tree::Number(number) => number.to_string(),
            Tree::Bool(value) => value.to_string(),
            _ => String::new(),
        };
        // The last comment behind a key is the one that counts.
        let after = entries[at + 1..]
            .iter()
            .map_while(|(_, value)| match value {
                Tree::Comment(comment) => Some(comment.as_str()),
                _ => None,
            });
        write_comment(out, after.last().unwrap_or_default(), true);
        let name = quoted_name(name);
        let gap = " ".repeat(width - name.len());
        out.push_str(&format!("{name}{gap} = {}\n", quoted_value(&text)));
    }
}

/// Writes the lines of a comment; `trims` if the white space around each one is removed.
fn write_comment(out: &mut String, comment: &str, trims: bool) {
    for line in comment.split('\n').filter(|_| !comment.is_empty()) {
        let line = match line.chars().next() {
            Some(mark @ ('#' | ';')) => format!("{mark} {}", line[1..].trim()),
            _ if trims => format!("; {}", line.trim()),
            _ => format!("; {line}"),
        };
        out.push_str(&format!("{line}\n"));
    }
}

fn quoted_name(name: &str) -> String {
    if name.contains('"') || name.contains(DELIMITERS) {
        format!("`{name}`")
    } else if name.contains('`') {
        format!("\"\"\"{name}\"\"\"")
    } else {
        name.to_owned()
    }
}

fn quoted_value(text: &str) -> String {
    if text.contains(['\n', '`']) {
        format!("\"\"\"{text}\"\"\"")
    } else if text.contains(['#', ';']) {
        format!("`{text}`")
    } else if text.trim().len() != text.len() {
        format!("\"{text}\"")
    } else {
        text.to_owned()
    }
}
