//! Patterns of files as Go's `fs.Glob` and `path.Match` match them: `**` is the same as `*`.

use super::{Budget, Source};
use driftless_flux::Invalid;

/// The message of Go for a pattern that is not valid.
pub const BAD_PATTERN: &str = "syntax error in pattern";

/// Returns whether a pattern of `from` is more than one path.
pub fn is_glob(pattern: &str) -> bool {
    pattern.contains(['*', '?', '[', ']'])
}

/// Returns the paths that match, in the order of directories and names.
///
/// # Errors
/// The pattern is not valid, or the budget is used up.
pub fn glob(source: &Source, pattern: &str, budget: &mut Budget) -> Result<Vec<String>, Invalid> {
    match_name(pattern, "", budget)?;
    if !has_meta(pattern) {
        let found = source.kind(pattern).map(|_| pattern.to_owned());
        return Ok(found.into_iter().collect());
    }
    let (directory, name) = pattern.rsplit_once('/').unwrap_or((".", pattern));
    let directories = match has_meta(directory) {
        true => glob(source, directory, budget)?,
        false => vec![directory.to_owned()],
    };
    let mut found = Vec::new();
    for directory in directories {
        for child in source.children(&directory) {
            if match_name(name, child, budget)? {
                found.push(match directory.as_str() {
                    "." => child.clone(),
                    directory => format!("{directory}/{child}"),
                });
            }
        }
    }
    Ok(found)
}

fn has_meta(pattern: &str) -> bool {
    pattern.contains(['*', '?', '[', '\\'])
}

/// Returns whether a name matches a pattern.
///
/// # Errors
/// The pattern is not valid, or the budget is used up.
fn match_name(pattern: &str, name: &str, budget: &mut Budget) -> Result<bool, Invalid> {
    let parts = parse(pattern).ok_or_else(|| BAD_PATTERN.to_owned())?;
    let name: Vec<char> = name.chars().collect();
    let (mut at, mut pos) = (0, 0);
    let mut star = None;
    loop {
        budget.spend(1)?;
        match (parts.get(at), name.get(pos)) {
            (None, None) => return Ok(true),
            (Some(Part::Star), _) => {
                at += 1;
                star = Some((at, pos));
                continue;
            }
            (Some(part), Some(next)) if part.has(*next) => {
                at += 1;
                pos += 1;
                continue;
            }
            _ => {}
        }
        match star {
            Some((after, from)) if name.get(from).is_some_and(|next| *next != '/') => {
                (at, pos) = (after, from + 1);
                star = Some((after, pos));
            }
            _ => return Ok(false),
        }
    }
}

/// A part of a pattern.
enum Part {
    Star,
    Any,
    One(char),
    Class(bool, Vec<(char, char)>),
}

impl Part {
    fn has(&self, next: char) -> bool {
        match self {
            Self::Star => false,
            Self::Any => next != '/',
            Self::One(one) => *one == next,
            Self::Class(is_negated, ranges) => {
                let mut ranges = ranges.iter();
                ranges.any(|(low, high)| (*low..=*high).contains(&next)) != *is_negated
            }
        }
    }
}

/// Parses a pattern; `None` if it is not valid.
fn parse(pattern: &str) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut chars = pattern.chars().peekable();
    while let Some(next) = chars.next() {
        parts.push(match next {
            '*' => Part::Star,
            '?' => Part::Any,
            '\\' => Part::One(chars.next()?),
            '[' => {
                let is_negated = chars.next_if_eq(&'^').is_some();
                let mut ranges = Vec::new();
                loop {
                    if !ranges.is_empty() && chars.next_if_eq(&']').is_some() {
                        break;
                    }
                    let low = member(&mut chars)?;
                    let high = match chars.next_if_eq(&'-') {
                        Some(_) => member(&mut chars)?,
                        None => low,
                    };
                    ranges.push((low, high));
                }
                Part::Class(is_negated, ranges)
            }
            other => Part::One(other),
        });
    }
    Some(parts)
}

/// Returns the next character of a class; `None` if it may not be there.
fn member(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<char> {
    match chars.next()? {
        '-' | ']' => None,
        '\\' => chars.next(),
        other => Some(other),
    }
    .filter(|_| chars.peek().is_some())
}
