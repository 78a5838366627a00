//! Versions and constraints like `github.com/Masterminds/semver/v3` 3.5, which Helm and Flux use.

use crate::Error;
use regex::Regex;
use std::cmp::Ordering;
use std::sync::LazyLock;

/// A semantic version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// The first number.
    pub major: u64,
    /// The second number, 0 if omitted.
    pub minor: u64,
    /// The third number, 0 if omitted.
    pub patch: u64,
    /// The pre-release after `-`.
    pub pre: String,
    /// The build metadata after `+`.
    pub metadata: String,
    /// The original string.
    pub original: String,
}

/// A version as written. Minor and patch include their dots, `pre` its dash and `metadata` its
/// plus; all may be empty.
struct Written<'t> {
    major: &'t str,
    minor: &'t str,
    patch: &'t str,
    pre: &'t str,
    metadata: &'t str,
}

impl<'t> Written<'t> {
    /// Splits a version; it may start with a `v`.
    fn read(text: &'t str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let (major, rest) = text.split_at(digits(text));
        let point = |text: &'t str| {
            let number = text.strip_prefix('.').map_or(0, digits);
            text.split_at(if number > 0 { number + 1 } else { 0 })
        };
        let (minor, rest) = point(rest);
        let (patch, rest) = point(rest);
        let (pre, metadata) = rest.split_at(rest.find('+').unwrap_or(rest.len()));
        let fits =
            |tail: &str, sign| tail.is_empty() || tail.strip_prefix(sign).is_some_and(is_dotted);
        let whole = !major.is_empty() && fits(pre, '-') && fits(metadata, '+');
        whole.then_some(Self {
            major,
            minor,
            patch,
            pre,
            metadata,
        })
    }
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// Checks for words of letters, digits and dashes with dots between them.
fn is_dotted(text: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|b| b == b'-' || b.is_ascii_alphanumeric())
    };
    text.split('.').all(is_word)
}

const VERSION: &str = r"v?([0-9|x|X|\*]+)(\.[0-9|x|X|\*]+)?(\.[0-9|x|X|\*]+)?(-([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?(\+([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?";
const OPS: &str = r"=||!=|>|<|>=|=>|<=|=<|~|~>|\^";

struct Patterns {
    one: Regex,
    range: Regex,
    find: Regex,
    valid: Regex,
}

static PATTERNS: LazyLock<Option<Patterns>> = LazyLock::new(|| {
    Some(Patterns {
        one: Regex::new(&format!(r"^\s*({OPS})\s*({VERSION})\s*$")).ok()?,
        range: Regex::new(&format!(r"\s*({VERSION})\s+-\s+({VERSION})\s*")).ok()?,
        find: Regex::new(&format!(r"({OPS})\s*({VERSION})")).ok()?,
        valid: Regex::new(&format!(
            r"^(\s*({OPS})\s*({VERSION})\s*)((?:\s+|,\s*)({OPS})\s*({VERSION})\s*)*$"
        ))
        .ok()?,
    })
});

const INVALID: &str = "invalid semantic version";

impl Version {
    /// Parses a version; minor and patch may be missing, and it may start with a `v`.
    ///
    /// # Errors
    /// The message of Masterminds' semver.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.len() > 256 {
            return Err("version string is too long (max 256 bytes)".into());
        }
        let Some(written) = Written::read(text) else {
            return Err(INVALID.into());
        };
        let number = |part: &str| -> Result<u64, Error> {
            let digits = part.trim_start_matches('.');
            if digits.is_empty() {
                return Ok(0);
            }
            digits.parse().map_err(|_| {
                format!("error parsing version segment: strconv.ParseUint: parsing \"{digits}\": value out of range").into()
            })
        };
        let version = Version {
            major: number(written.major)?,
            minor: number(written.minor)?,
            patch: number(written.patch)?,
            pre: written.pre.get(1..).unwrap_or_default().to_owned(),
            metadata: written.metadata.get(1..).unwrap_or_default().to_owned(),
            original: text.to_owned(),
        };
        let zero =
            |p: &str| p.len() > 1 && p.starts_with('0') && p.bytes().all(|b| b.is_ascii_digit());
        if !version.pre.is_empty() && version.pre.split('.').any(zero) {
            return Err("version segment starts with 0".into());
        }
        Ok(version)
    }

    /// Parses a version like `StrictNewVersion`: all three numbers, without leading zeros and
    /// without a `v`. `None` for all others.
    pub fn parse_strict(text: &str) -> Option<Self> {
        let has_v = text.starts_with('v');
        let written = Written::read(text).filter(|_| !has_v)?;
        let is_number = |part: &str| part == "0" || !part.is_empty() && !part.starts_with('0');
        let numbers = [
            written.major,
            written.minor.trim_start_matches('.'),
            written.patch.trim_start_matches('.'),
        ];
        let is_strict = numbers.into_iter().all(is_number);
        is_strict.then(|| Self::parse(text).ok()).flatten()
    }

    /// Compares in Masterminds' order: build metadata does not count.
    pub fn compare(&self, other: &Version) -> Ordering {
        (self.major, self.minor, self.patch)
            .cmp(&(other.major, other.minor, other.patch))
            .then_with(|| match (self.pre.is_empty(), other.pre.is_empty()) {
                (true, true) => Ordering::Equal,
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => compare_pre(&self.pre, &other.pre),
            })
    }

    /// Returns the next version after a change of the given part.
    pub fn bump(&self, part: Part) -> Version {
        let mut next = self.clone();
        next.pre.clear();
        next.metadata.clear();
        match part {
            Part::Patch if self.pre.is_empty() => next.patch = self.patch.saturating_add(1),
            Part::Patch => {}
            Part::Minor => {
                next.minor = self.minor.saturating_add(1);
                next.patch = 0;
            }
            Part::Major => {
                next.major = self.major.saturating_add(1);
                next.minor = 0;
                next.patch = 0;
            }
        }
        let v = if self.original.starts_with('v') {
            "v"
        } else {
            ""
        };
        next.original = format!("{v}{next}");
        next
    }
}

/// A part of a version to increment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The first number.
    Major,
    /// The second number.
    Minor,
    /// The third number.
    Patch,
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.pre.is_empty() {
            write!(f, "-{}", self.pre)?;
        }
        if !self.metadata.is_empty() {
            write!(f, "+{}", self.metadata)?;
        }
        Ok(())
    }
}

fn compare_pre(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.split('.'), b.split('.'));
    loop {
        let (x, y) = (a.next(), b.next());
        let order = match (x, y) {
            (None, None) => return Ordering::Equal,
            (x, y) => compare_part(x.unwrap_or(""), y.unwrap_or("")),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

fn compare_part(a: &str, b: &str) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    if a.is_empty() {
        return Ordering::Less;
    }
    if b.is_empty() {
        return Ordering::Greater;
    }
    match (a.parse::<u64>(), b.parse::<u64>()) {
        (Ok(x), Ok(y)) => x.cmp(&y),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
    }
}

/// A constraint: alternatives of conditions that must all hold.
#[derive(Clone, Debug)]
pub struct Constraint(Vec<Group>);

#[derive(Clone, Debug)]
struct Group {
    conditions: Vec<Condition>,
    has_pre: bool,
}

#[derive(Clone, Debug)]
struct Condition {
    op: String,
    version: Version,
    dirty: bool,
    minor_dirty: bool,
    patch_dirty: bool,
}

impl Constraint {
    /// Parses a constraint.
    ///
    /// # Errors
    /// The message of Masterminds' semver.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.len() > 512 {
            return Err("constraint string is too long (max 512 bytes)".into());
        }
        if let Some(condition) = Condition::plain(text) {
            return Ok(Constraint(vec![Group::of(vec![condition?])]));
        }
        let Some(patterns) = PATTERNS.as_ref() else {
            return Err("constraint parser error".into());
        };
        let text = rewrite_ranges(patterns, text);
        let groups: Vec<&str> = text.split("||").collect();
        if groups.len() > 32 {
            return Err("too many constraint groups (max 32)".into());
        }
        groups
            .into_iter()
            .map(|group| Group::parse(patterns, group))
            .collect::<Result<_, _>>()
            .map(Constraint)
    }

    /// Checks whether a version satisfies the constraint.
    pub fn check(&self, version: &Version) -> bool {
        self.0.iter().any(|group| {
            group
                .conditions
                .iter()
                .all(|c| c.check(version, group.has_pre))
        })
    }
}

/// Checks whether `version` satisfies `constraint`; false also if one of them is invalid.
pub fn is_compatible(constraint: &str, version: &str) -> bool {
    match (Constraint::parse(constraint), Version::parse(version)) {
        (Ok(c), Ok(v)) => c.check(&v),
        _ => false,
    }
}

fn rewrite_ranges(patterns: &Patterns, text: &str) -> String {
    let mut out = text.to_owned();
    for m in patterns.range.captures_iter(text) {
        let part = |i: usize| m.get(i).map_or("", |g| g.as_str());
        out = out.replacen(part(0), &format!(">= {}, <= {} ", part(1), part(11)), 1);
    }
    out
}

impl Group {
    fn parse(patterns: &Patterns, text: &str) -> Result<Self, Error> {
        let quoted = || {
            format!(
                "improper constraint: {}",
                crate::quote::quote(text.as_bytes())
            )
        };
        if !patterns.valid.is_match(text) {
            return Err(quoted().into());
        }
        let mut found: Vec<&str> = patterns.find.find_iter(text).map(|m| m.as_str()).collect();
        if found.is_empty() {
            found.push(text);
        }
        let conditions = found
            .into_iter()
            .map(|c| Condition::parse(patterns, c))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Group::of(conditions))
    }

    fn of(conditions: Vec<Condition>) -> Self {
        Group {
            has_pre: conditions.iter().any(|c| !c.version.pre.is_empty()),
            conditions,
        }
    }
}

fn is_x(text: &str) -> bool {
    matches!(text, "x" | "*" | "X")
}

impl Condition {
    fn parse(patterns: &Patterns, text: &str) -> Result<Self, Error> {
        let Some(m) = patterns.one.captures(text) else {
            return Err(format!(
                "improper constraint: {}",
                crate::quote::quote(text.as_bytes())
            )
            .into());
        };
        let part = |i: usize| m.get(i).map_or("", |g| g.as_str());
        let written = Written {
            major: part(3),
            minor: part(4),
            patch: part(5),
            pre: part(6),
            metadata: "",
        };
        Self::new(part(1), part(2), &written)
    }

    /// Parses a condition in its most common form, a sign and a version of digits, without the
    /// patterns, which take longer to compile than most charts to render. `None` for all other
    /// forms.
    fn plain(text: &str) -> Option<Result<Self, Error>> {
        const SIGNS: [&str; 11] = [">=", "=>", "<=", "=<", "!=", "~>", "=", ">", "<", "~", "^"];
        let space = [' ', '\t', '\n', '\x0C', '\r'];
        let text = text.trim_matches(space);
        let op = SIGNS.into_iter().find(|sign| text.starts_with(sign));
        let op = op.unwrap_or_default();
        let whole = text[op.len()..].trim_start_matches(space);
        let written = Written::read(whole)?;
        Some(Self::new(op, whole, &written))
    }

    /// Creates a condition from a sign and a version, given as a whole and in parts.
    fn new(op: &str, whole: &str, written: &Written<'_>) -> Result<Self, Error> {
        let Written {
            major,
            minor,
            patch,
            pre,
            ..
        } = *written;
        let open = |p: &str| p.is_empty() || is_x(p.trim_start_matches('.'));
        let (mut dirty, mut minor_dirty, mut patch_dirty) = (true, false, false);
        let version = if is_x(major) || major.is_empty() {
            format!("0.0.0{pre}")
        } else if open(minor) {
            minor_dirty = true;
            format!("{major}.0.0{pre}")
        } else if open(patch) {
            patch_dirty = true;
            format!("{major}{minor}.0{pre}")
        } else {
            dirty = false;
            whole.to_owned()
        };
        let version = Version::parse(&version).map_err(|_| "constraint parser error".to_owned())?;
        Ok(Condition {
            op: op.to_owned(),
            version,
            dirty,
            minor_dirty,
            patch_dirty,
        })
    }

    fn check(&self, v: &Version, include_pre: bool) -> bool {
        if !v.pre.is_empty() && !include_pre {
            return false;
        }
        let c = &self.version;
        let order = v.compare(c);
        match self.op.as_str() {
            "" | "=" if self.dirty => self.tilde(v),
            "" | "=" => order.is_eq(),
            "!=" => self.not_equal(v),
            ">" => self.greater(v),
            "<" => order.is_lt(),
            ">=" | "=>" => order.is_ge(),
            "<=" | "=<" if !self.dirty => order.is_le(),
            "<=" | "=<" => {
                v.major <= c.major
                    && !(v.major == c.major && v.minor > c.minor && !self.minor_dirty)
            }
            "~" | "~>" => self.tilde(v),
            "^" => self.caret(v),
            _ => false,
        }
    }

    fn not_equal(&self, v: &Version) -> bool {
        let c = &self.version;
        if self.dirty {
            if c.major != v.major {
                return true;
            }
            if self.minor_dirty {
                return false;
            }
            if c.minor != v.minor {
                return true;
            }
            if self.patch_dirty {
                return (!v.pre.is_empty() || !c.pre.is_empty())
                    && compare_pre(&v.pre, &c.pre).is_ne();
            }
            if c.patch != v.patch {
                return true;
            }
        }
        v.compare(c).is_ne()
    }

    fn greater(&self, v: &Version) -> bool {
        let c = &self.version;
        if !self.dirty {
            return v.compare(c).is_gt();
        }
        if v.major != c.major {
            return v.major > c.major;
        }
        if self.minor_dirty {
            return false;
        }
        if self.patch_dirty {
            return v.minor > c.minor;
        }
        v.compare(c).is_gt()
    }

    fn tilde(&self, v: &Version) -> bool {
        let c = &self.version;
        if v.compare(c).is_lt() {
            return false;
        }
        if (c.major, c.minor, c.patch) == (0, 0, 0) && !self.minor_dirty && !self.patch_dirty {
            return true;
        }
        v.major == c.major && (v.minor == c.minor || self.minor_dirty)
    }

    fn caret(&self, v: &Version) -> bool {
        let c = &self.version;
        if v.compare(c).is_lt() {
            return false;
        }
        if c.major > 0 || self.minor_dirty {
            return v.major == c.major;
        }
        if v.major > 0 {
            return false;
        }
        if c.minor > 0 || self.patch_dirty {
            return v.minor == c.minor;
        }
        v.minor == 0 && c.patch == v.patch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The plain parser agrees with the patterns.
    #[test]
    fn plain_conditions_are_parsed_like_the_patterns() {
        let patterns = PATTERNS.as_ref().unwrap();
        let signs = [
            "", "=", "!=", ">", "<", ">=", "=>", "<=", "=<", "~", "~>", "^",
        ];
        let versions = [
            "1",
            "v1",
            "1.2",
            "1.2.3",
            "v1.2.3",
            "1-0",
            "1.2-a.b",
            ">1",
            "01.2.3",
            "1.2.3-0",
            "1.2.3-a-b.1+x.y",
            "1.2.3+1",
            "1.2.3-01",
            "99999999999999999999",
            "1.x",
            "*",
            "x",
            "1.2.*",
            "1.2.3.4",
            "1.2.3-",
            "1.2.3+",
            "1..2",
            "",
            "1 2",
        ];
        let mut plain = 0;
        for sign in signs {
            for version in versions {
                for text in [format!("{sign}{version}"), format!(" {sign} \t{version}\n")] {
                    let Some(read) = Condition::plain(&text) else {
                        continue;
                    };
                    plain += 1;
                    let expected = Group::parse(patterns, &text).map(|mut group| {
                        assert_eq!(group.conditions.len(), 1, "{text}");
                        group.conditions.remove(0)
                    });
                    assert_eq!(format!("{read:?}"), format!("{expected:?}"), "{text}");
                }
            }
        }
        assert!(plain > 250, "{plain} of the texts are plain");
    }

    #[test]
    fn strict_versions_have_three_numbers() {
        for text in ["1.2.3", "0.0.0", "10.20.30", "1.2.3-rc.1+b.01", "1.0.0-0a"] {
            assert!(Version::parse_strict(text).is_some(), "{text}");
        }
        for text in [
            "1", "1.2", "v1.2.3", "01.2.3", "1.02.3", "1.2.03", "1.2.3-01", "1.2.3-", "",
        ] {
            assert!(Version::parse_strict(text).is_none(), "{text}");
        }
    }

    #[test]
    fn reads_versions() {
        let pattern = r"^v?([0-9]+)(\.[0-9]+)?(\.[0-9]+)?(-([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?(\+([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?$";
        let pattern = Regex::new(pattern).unwrap();
        for text in [
            "1",
            "v1.2",
            "1.2.3",
            "vv1",
            "V1",
            "1.2.3.4",
            "1.",
            ".1",
            "1.2-",
            "1.2-a",
            "1-a.b-c+d.e",
            "1+a-b",
            "1+a+b",
            "1-a..b",
            "1-é",
            "",
            "v",
            "1.2.x",
            "1 ",
            "1\n",
            "1.2.3-0.0.1+--",
        ] {
            let written = Written::read(text).map(|w| {
                let behind = |part: &str| part.get(1..).unwrap_or_default().to_owned();
                [
                    w.major.to_owned(),
                    w.minor.to_owned(),
                    w.patch.to_owned(),
                    behind(w.pre),
                    behind(w.metadata),
                ]
            });
            let expected = pattern.captures(text).map(|m| {
                [1, 2, 3, 5, 8].map(|i| m.get(i).map_or("", |part| part.as_str()).to_owned())
            });
            assert_eq!(written, expected, "{text:?}");
        }
    }
}
