//! The JSON paths of printer columns: fields, indexes, and filters by equality.

use serde_json::Value;

/// Returns the first value that a path such as `.status.conditions[?(@.type=="Ready")].status`
/// leads to.
pub(super) fn first<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let mut found = vec![object];
    for step in steps(path) {
        found = found
            .into_iter()
            .flat_map(|value| step.from(value))
            .collect();
    }
    found.into_iter().next()
}

enum Step {
    Field(String),
    Index(usize),
    All,
    Where(String, String),
}

impl Step {
    fn from<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Index(index) => value.get(index).into_iter().collect(),
            Self::All => value.as_array().into_iter().flatten().collect(),
            Self::Where(path, wanted) => value
                .as_array()
                .into_iter()
                .flatten()
                .filter(|item| match first(item, path) {
                    Some(Value::String(text)) => text == wanted,
                    Some(other) => format!("{other}") == *wanted,
                    None => false,
                })
                .collect(),
        }
    }
}

fn steps(path: &str) -> Vec<Step> {
    let mut out = Vec::new();
    let mut rest = path.trim().trim_start_matches('{').trim_end_matches('}');
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let Some(end) = closing(after) else { break };
            out.push(bracket(&after[..end]));
            rest = &after[end + 1..];
            continue;
        }
        let after = rest.strip_prefix('.').unwrap_or(rest);
        let mut name = String::new();
        let mut chars = after.char_indices();
        let mut end = after.len();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => name.extend(chars.next().map(|(_, c)| c)),
                '.' | '[' => {
                    end = at;
                    break;
                }
                _ => name.push(c),
            }
        }
        if name == "*" {
            out.push(Step::All);
        } else if !name.is_empty() {
            out.push(Step::Field(name));
        }
        if end == 0 && !after.starts_with('[') {
            break;
        }
        rest = &after[end..];
    }
    out
}

fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (None, ']') => return Some(at),
            _ => {}
        }
    }
    None
}

fn bracket(text: &str) -> Step {
    let text = text.trim();
    if text == "*" {
        return Step::All;
    }
    if let Ok(index) = text.parse() {
        return Step::Index(index);
    }
    let unquote = |text: &str| text.trim().trim_matches(['\'', '"']).to_owned();
    if let Some(inner) = text.strip_prefix("?(").and_then(|t| t.strip_suffix(')'))
        && let Some((left, right)) = inner.split_once("==")
    {
        let left = left.trim().trim_start_matches('@').to_owned();
        return Step::Where(left, unquote(right));
    }
    Step::Field(unquote(text))
}
