//! Patterns of paths with `**`, `*`, `?`, classes and alternatives, as `doublestar` 4.10 of Go
//! matches them.

use super::Budget;
use driftless_flux::Invalid;

/// The most commas in the groups of a pattern.
const MAX_COMMAS: usize = 20;
/// The most patterns that the groups of one pattern stand for: groups multiply.
const MAX_ALTERNATIVES: usize = 4096;
const SEPARATOR: char = '/';

/// A valid pattern.
#[derive(Debug)]
pub struct Pattern {
    /// The pattern without groups: one for each combination of alternatives.
    alternatives: Vec<Vec<char>>,
    /// True if the pattern has no separator: it is also matched with the name of a file.
    pub is_of_name: bool,
}

/// Checks the number of alternatives of a pattern.
///
/// # Errors
/// Flux's message for too many.
pub fn check_alternatives(pattern: &str) -> Result<(), Invalid> {
    let (mut commas, mut depth) = (0, 0usize);
    let mut chars = pattern.chars();
    while let Some(next) = chars.next() {
        match next {
            '\\' => drop(chars.next()),
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth > 0 => commas += 1,
            _ => {}
        }
    }
    match commas > MAX_COMMAS {
        true => Err(format!(
            "pattern has {commas} alternatives in '{{}}' groups, at most {MAX_COMMAS} are allowed"
        )
        .into()),
        false => Ok(()),
    }
}

impl Pattern {
    /// Parses a pattern; `None` if it is not valid.
    ///
    /// # Errors
    /// The groups stand for too many patterns.
    pub fn parse(text: &str) -> Result<Option<Self>, Invalid> {
        let chars: Vec<char> = text.chars().collect();
        if !is_valid(&chars) {
            return Ok(None);
        }
        let mut alternatives = Vec::new();
        let mut open = vec![chars];
        while let Some(pattern) = open.pop() {
            if open.len() + alternatives.len() >= MAX_ALTERNATIVES {
                return Err(format!(
                    "the '{{}}' groups stand for more than {MAX_ALTERNATIVES} patterns"
                )
                .into());
            }
            match first_group(&pattern) {
                Some((start, end)) => open.extend(without_group(&pattern, start, end)),
                None => alternatives.push(pattern),
            }
        }
        Ok(Some(Self {
            alternatives,
            is_of_name: !text.contains(SEPARATOR),
        }))
    }

    /// Returns whether a path matches.
    ///
    /// # Errors
    /// The budget is used up.
    pub fn matches(&self, path: &str, budget: &mut Budget) -> Result<bool, Invalid> {
        let name: Vec<char> = path.chars().collect();
        for pattern in &self.alternatives {
            if is_match(pattern, &name, budget)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Returns whether classes, groups and escapes are complete.
fn is_valid(pattern: &[char]) -> bool {
    let (mut at, mut depth) = (0, 0usize);
    while let Some(next) = pattern.get(at) {
        at += 1;
        match next {
            '\\' if at >= pattern.len() => return false,
            '\\' => at += 1,
            '[' => match class_end(pattern, at) {
                Some(end) => at = end,
                None => return false,
            },
            '{' => depth += 1,
            '}' if depth == 0 => return false,
            '}' => depth -= 1,
            _ => {}
        }
    }
    depth == 0
}

/// Returns the index after the `]` of a class that begins before `at`; `None` if it is not
/// complete, or empty.
fn class_end(pattern: &[char], at: usize) -> Option<usize> {
    let mut at = at;
    if matches!(pattern.get(at)?, '!' | '^') {
        at += 1;
    }
    if *pattern.get(at)? == ']' {
        return None;
    }
    loop {
        match pattern.get(at)? {
            '\\' => at += 2,
            ']' => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// Returns the indices of the first `{` outside of classes, and of its `}`.
fn first_group(pattern: &[char]) -> Option<(usize, usize)> {
    let (mut at, mut depth, mut start) = (0, 0usize, 0);
    while let Some(next) = pattern.get(at) {
        match next {
            '\\' => at += 1,
            '[' => at = class_end(pattern, at + 1)? - 1,
            '{' => {
                if depth == 0 {
                    start = at;
                }
                depth += 1;
            }
            '}' if depth == 1 => return Some((start, at)),
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    None
}

/// Returns the pattern with each alternative in place of a group.
fn without_group(pattern: &[char], start: usize, end: usize) -> Vec<Vec<char>> {
    let group = pattern.get(start + 1..end).unwrap_or_default();
    let (before, after) = (
        pattern.get(..start).unwrap_or_default(),
        pattern.get(end + 1..).unwrap_or_default(),
    );
    let with = |part: &[char]| [before, part, after].concat();
    let (mut found, mut from, mut at, mut depth) = (Vec::new(), 0, 0, 0usize);
    while let Some(next) = group.get(at) {
        match next {
            '\\' => at += 1,
            '[' => at = class_end(group, at + 1).map_or(group.len(), |end| end - 1),
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                found.push(with(group.get(from..at).unwrap_or_default()));
                from = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    found.push(with(group.get(from..).unwrap_or_default()));
    found
}

/// Returns whether a name matches a pattern without groups.
///
/// A `*` that did not match is tried again with one character more, up to a separator; a `**` with
/// one directory more.
fn is_match(pattern: &[char], name: &[char], budget: &mut Budget) -> Result<bool, Invalid> {
    let (mut at, mut pos) = (0, 0);
    let mut is_start = true;
    let mut star: Option<(usize, usize)> = None;
    let mut stars: Option<(usize, usize)> = None;
    while let Some(&wanted) = name.get(pos) {
        budget.spend(1)?;
        let matched = match pattern.get(at) {
            None => false,
            Some('*') => {
                at += 1;
                if pattern.get(at) == Some(&'*') {
                    at += 1;
                    if is_start {
                        match pattern.get(at) {
                            None => return Ok(true),
                            Some(&SEPARATOR) => {
                                at += 1;
                                stars = Some((at, pos));
                                star = None;
                                continue;
                            }
                            Some(_) => {}
                        }
                    }
                }
                is_start = false;
                star = Some((at, pos));
                continue;
            }
            Some('?') => {
                is_start = false;
                at += 1;
                wanted != SEPARATOR
            }
            Some('[') => {
                is_start = false;
                let end = class_end(pattern, at + 1).unwrap_or(pattern.len());
                let class = pattern.get(at + 1..end.saturating_sub(1));
                at = end;
                is_in_class(class.unwrap_or_default(), wanted, budget)?
            }
            Some(&next) => {
                let next = match next {
                    '\\' => {
                        at += 1;
                        pattern.get(at).copied().unwrap_or('\\')
                    }
                    next => next,
                };
                at += 1;
                is_start = next == SEPARATOR;
                next == wanted
            }
        };
        if matched {
            pos += 1;
            continue;
        }
        if let Some((after, from)) = star
            && name.get(from).is_some_and(|one| *one != SEPARATOR)
        {
            (at, pos, is_start) = (after, from + 1, false);
            star = Some((after, pos));
            continue;
        }
        let Some((after, from)) = stars else {
            return Ok(false);
        };
        let rest = name.get(from..).unwrap_or_default();
        let Some(directory) = rest.iter().position(|one| *one == SEPARATOR) else {
            return Ok(false);
        };
        (at, pos, is_start) = (after, from + directory + 1, true);
        stars = Some((after, pos));
    }
    // A directory that `/**` follows matches too.
    let rest: String = pattern.get(at..).unwrap_or_default().iter().collect();
    Ok(matches!(
        rest.as_str(),
        "" | "*" | "**" | "/**" | "**/" | "/**/"
    ))
}

/// Returns whether a class, without its brackets, has a character. The first character of a range
/// is in the class also if the range is empty.
fn is_in_class(class: &[char], wanted: char, budget: &mut Budget) -> Result<bool, Invalid> {
    budget.spend(class.len())?;
    let (is_negated, class) = match class {
        ['!' | '^', rest @ ..] => (true, rest),
        class => (false, class),
    };
    let mut chars = class.iter().copied().peekable();
    let mut last = None;
    let mut is_found = false;
    while let Some(next) = chars.next() {
        if let ('-', Some(low), Some(high)) = (next, last, chars.peek().copied()) {
            chars.next();
            let high = match high {
                '\\' => chars.next().unwrap_or(high),
                high => high,
            };
            is_found |= (low..=high).contains(&wanted);
            last = None;
            continue;
        }
        let next = match next {
            '\\' => chars.next().unwrap_or(next),
            next => next,
        };
        is_found |= next == wanted;
        last = Some(next);
    }
    Ok(is_found != is_negated)
}
