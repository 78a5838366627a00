//! Patterns of Go's `filepath.Match`.

use std::convert::Infallible;

/// A shell pattern; `*` and `?` do not match `/`.
#[derive(Debug)]
pub struct Glob(Form);

#[derive(Debug)]
enum Form {
    /// A pattern without a wildcard.
    Plain(String),
    Wild(Vec<char>),
}

impl Glob {
    /// Parses a pattern; `None` for a malformed one.
    pub fn new(pattern: &str) -> Option<Self> {
        if !has_meta(pattern) {
            return Some(Self(Form::Plain(pattern.to_owned())));
        }
        let pattern: Vec<char> = pattern.chars().collect();
        well_formed(&pattern)?;
        Some(Self(Form::Wild(pattern)))
    }

    /// Returns whether the whole name matches.
    pub fn matches(&self, name: &str) -> bool {
        let matched: Result<bool, Infallible> = self.matches_within(name, || Ok(()));
        matched.unwrap_or_else(|never| match never {})
    }

    /// Returns whether the whole name matches; calls `spend` for each step of the comparison.
    ///
    /// # Errors
    /// The error of `spend`.
    pub fn matches_within<E>(
        &self,
        name: &str,
        mut spend: impl FnMut() -> Result<(), E>,
    ) -> Result<bool, E> {
        match &self.0 {
            Form::Plain(text) => spend().map(|()| text == name),
            Form::Wild(pattern) => wild(pattern, name, spend),
        }
    }
}

/// Returns whether a pattern has a character with a special meaning.
pub fn has_meta(pattern: &str) -> bool {
    pattern.contains(['*', '?', '[', '\\'])
}

fn wild<E>(
    pattern: &[char],
    name: &str,
    mut spend: impl FnMut() -> Result<(), E>,
) -> Result<bool, E> {
    // The end of a pattern decides for most names.
    if let [.., last] = pattern
        && !matches!(last, '*' | '?' | ']')
        && !name.ends_with(*last)
    {
        return Ok(false);
    }
    let name: Vec<char> = name.chars().collect();
    // Iterative, with the last star to return to: linear in memory, at most quadratic in time.
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        spend()?;
        if p < pattern.len() && pattern[p] == '*' {
            star = Some((p, n));
            p += 1;
            continue;
        }
        if p < pattern.len()
            && let Some(next) = one(pattern, p, name[n])
        {
            p = next;
            n += 1;
            continue;
        }
        match star {
            Some((at, from)) if name[from] != '/' => {
                star = Some((at, from + 1));
                p = at + 1;
                n = from + 1;
            }
            _ => return Ok(false),
        }
    }
    Ok(pattern[p..].iter().all(|c| *c == '*'))
}

/// Checks whether one character matches the pattern's element at `p`; returns the index of the next
/// element.
fn one(pattern: &[char], p: usize, c: char) -> Option<usize> {
    match pattern[p] {
        '?' => (c != '/').then_some(p + 1),
        '\\' => (*pattern.get(p + 1)? == c).then_some(p + 2),
        '[' => {
            let (hit, next) = class(pattern, p, c)?;
            (hit && c != '/').then_some(next)
        }
        other => (other == c).then_some(p + 1),
    }
}

/// Checks a `[…]`: returns whether it contains the character, and the index of its end. `None` if
/// it is malformed.
fn class(pattern: &[char], start: usize, c: char) -> Option<(bool, usize)> {
    let mut p = start + 1;
    let negated = pattern.get(p) == Some(&'^');
    if negated {
        p += 1;
    }
    let mut hit = false;
    let mut first = true;
    loop {
        if *pattern.get(p)? == ']' && !first {
            return Some((hit != negated, p + 1));
        }
        first = false;
        let (low, next) = class_char(pattern, p)?;
        p = next;
        let mut high = low;
        if pattern.get(p) == Some(&'-') {
            (high, p) = class_char(pattern, p + 1)?;
        }
        hit |= low <= c && c <= high;
    }
}

fn class_char(pattern: &[char], p: usize) -> Option<(char, usize)> {
    match *pattern.get(p)? {
        '-' | ']' => None,
        '\\' => Some((*pattern.get(p + 1)?, p + 2)),
        c => Some((c, p + 1)),
    }
}

fn well_formed(pattern: &[char]) -> Option<()> {
    let mut p = 0;
    while p < pattern.len() {
        p = match pattern[p] {
            '\\' => {
                pattern.get(p + 1)?;
                p + 2
            }
            '[' => class(pattern, p, ' ')?.1,
            _ => p + 1,
        };
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::Glob;

    /// The expectations are those of Go's `filepath.Match`.
    #[test]
    fn matches_as_go_does() {
        for (pattern, name, expected) in [
            ("abc", "abc", Some(true)),
            ("abc", "abcd", Some(false)),
            ("*.swp", ".a.swp", Some(true)),
            ("*.swp", "a/b.swp", Some(false)),
            ("a*", "abc", Some(true)),
            ("a*/b", "a/c/b", Some(false)),
            ("a?c", "a/c", Some(false)),
            ("a[b-d]", "ac", Some(true)),
            ("a[^b-d]", "ac", Some(false)),
            (r"a\*", "a*", Some(true)),
            (r"a\*", "ab", Some(false)),
            ("*é", "né", Some(true)),
            ("[", "a", None),
            (r"a\", "a", None),
        ] {
            let matched = Glob::new(pattern).map(|glob| glob.matches(name));
            assert_eq!(matched, expected, "{pattern} {name}");
        }
    }
}
