//! Slash-separated paths like Go's `path` package, and the patterns of `.Files.Glob`.

use driftless_gotmpl::FuncError;
use regex::bytes::Regex;

/// Returns the base like Go's `path.Base`.
pub(crate) fn base(path: &str) -> &str {
    if path.is_empty() {
        return ".";
    }
    let trimmed = path.trim_end_matches('/');
    if trimmed.is_empty() {
        return "/";
    }
    trimmed.rsplit('/').next().unwrap_or(trimmed)
}

/// A pattern of `.Files.Glob`: `*` and `?` stay within a directory, `**` does not; `[a-z]`, `[!ab]`
/// and `{x,y}`. Helm uses `github.com/gobwas/glob` here, not Go's `filepath.Match`, which
/// `driftless_go::glob` follows: that one has no `**`, `{x,y}` or `[!ab]`.
pub(crate) enum Glob {
    /// Matches everything, like an invalid pattern.
    All,
    Pattern(Regex),
}

impl Glob {
    /// Parses a pattern.
    ///
    /// # Errors
    /// A pattern that is too large.
    pub fn new(pattern: &str) -> Result<Self, FuncError> {
        let Some(body) = translate(pattern) else {
            return Ok(Glob::All);
        };
        Regex::new(&format!("(?s)^(?:{body})$"))
            .map(Glob::Pattern)
            .map_err(|_| "the pattern is too large".into())
    }

    pub fn matches(&self, name: &str) -> bool {
        match self {
            Glob::All => true,
            Glob::Pattern(regex) => regex.is_match(name.as_bytes()),
        }
    }
}

/// Returns the pattern as a regular expression; `None` if it is malformed.
fn translate(pattern: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = pattern.chars().peekable();
    let mut open = 0;
    while let Some(c) = chars.next() {
        match c {
            '*' => {
                let mut any = false;
                while chars.next_if_eq(&'*').is_some() {
                    any = true;
                }
                // Matches bytes: a match of characters would need a large automaton, with the same
                // result.
                out.push_str(if any { "(?-u:.*)" } else { "(?-u:[^/]*)" });
            }
            '?' => out.push_str("[^/]"),
            '\\' => literal(&mut out, chars.next()?),
            '[' => class(&mut out, &mut chars)?,
            '{' => {
                open += 1;
                out.push_str("(?:");
            }
            '}' if open > 0 => {
                open -= 1;
                out.push(')');
            }
            ',' if open > 0 => out.push('|'),
            c => literal(&mut out, c),
        }
    }
    // Groups that are still open at the end are closed there.
    out.push_str(&")".repeat(open));
    Some(out)
}

fn literal(out: &mut String, c: char) {
    out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
}

fn class(out: &mut String, chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<()> {
    let negated = chars.next_if_eq(&'!').is_some();
    let mut members = Vec::new();
    loop {
        match chars.next()? {
            ']' => break,
            '\\' => members.push(chars.next()?),
            c => members.push(c),
        }
    }
    if members.is_empty() {
        return None;
    }
    out.push_str(if negated { "[^" } else { "[" });
    match members.as_slice() {
        [low, '-', high] if low <= high => {
            literal(out, *low);
            out.push('-');
            literal(out, *high);
        }
        [_, '-', _] => return None,
        members => members.iter().for_each(|c| literal(out, *c)),
    }
    out.push(']');
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        for (pattern, name, wanted) in [
            ("files/*", "files/a.txt", true),
            ("files/*", "files/sub/a.txt", false),
            ("files/**", "files/sub/a.txt", true),
            ("**.yaml", "files/sub/a.yaml", true),
            ("{a,b}/?.txt", "b/x.txt", true),
            ("{a,b}/?.txt", "c/x.txt", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[!a-c]x", "zx", true),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("[", "anything", true),
        ] {
            let glob = Glob::new(pattern).unwrap();
            assert_eq!(glob.matches(name), wanted, "{pattern} {name}");
        }
    }

    #[test]
    fn paths() {
        assert_eq!(base("a/b/"), "b");
        assert_eq!(base(""), ".");
    }
}
