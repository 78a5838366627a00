//! Versions and constraints as Masterminds' semver v3 reads them, loosely.

use regex::Regex;
use std::cmp::Ordering;
use std::sync::LazyLock;

/// A version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// First number.
    pub major: u64,
    /// Second number, 0 if it was not written.
    pub minor: u64,
    /// Third number, 0 if it was not written.
    pub patch: u64,
    /// What stands behind `-`.
    pub pre: String,
    /// What stands behind `+`.
    pub metadata: String,
    /// The text it was read from.
    pub original: String,
}

static LOOSE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"^v?([0-9]+)(\.[0-9]+)?(\.[0-9]+)?(-([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?(\+([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?$",
    )
    .ok()
});

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
    /// Reads a version; minor and patch may be missing, a `v` may stand before it.
    ///
    /// # Errors
    /// The message of Masterminds' semver.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > 256 {
            return Err("version string is too long (max 256 bytes)".to_owned());
        }
        let Some(m) = LOOSE.as_ref().and_then(|re| re.captures(text)) else {
            return Err(INVALID.to_owned());
        };
        let part = |i: usize| m.get(i).map_or("", |g| g.as_str());
        let number = |i: usize| -> Result<u64, String> {
            let digits = part(i).trim_start_matches('.');
            if digits.is_empty() {
                return Ok(0);
            }
            digits.parse().map_err(|_| {
                format!("error parsing version segment: strconv.ParseUint: parsing \"{digits}\": value out of range")
            })
        };
        let version = Version {
            major: number(1)?,
            minor: number(2)?,
            patch: number(3)?,
            pre: part(5).to_owned(),
            metadata: part(8).to_owned(),
            original: text.to_owned(),
        };
        let zero =
            |p: &str| p.len() > 1 && p.starts_with('0') && p.bytes().all(|b| b.is_ascii_digit());
        if !version.pre.is_empty() && version.pre.split('.').any(zero) {
            return Err("version segment starts with 0".to_owned());
        }
        Ok(version)
    }

    /// Masterminds' order: build metadata does not count.
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

    /// The next version after a change of the given part.
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

/// A part of a version to raise.
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
    /// Reads a constraint.
    ///
    /// # Errors
    /// The message of Masterminds' semver.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > 512 {
            return Err("constraint string is too long (max 512 bytes)".to_owned());
        }
        let Some(patterns) = PATTERNS.as_ref() else {
            return Err("constraint parser error".to_owned());
        };
        let text = rewrite_ranges(patterns, text);
        let groups: Vec<&str> = text.split("||").collect();
        if groups.len() > 32 {
            return Err("too many constraint groups (max 32)".to_owned());
        }
        groups
            .into_iter()
            .map(|group| Group::parse(patterns, group))
            .collect::<Result<_, _>>()
            .map(Constraint)
    }

    /// Whether a version fits.
    pub fn check(&self, version: &Version) -> bool {
        self.0.iter().any(|group| {
            group
                .conditions
                .iter()
                .all(|c| c.check(version, group.has_pre))
        })
    }
}

/// Whether `version` fits `constraint`; false also when one of them cannot be read.
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
    fn parse(patterns: &Patterns, text: &str) -> Result<Self, String> {
        let quoted = || {
            format!(
                "improper constraint: {}",
                driftless_gotmpl::fmt::quote(text.as_bytes())
            )
        };
        if !patterns.valid.is_match(text) {
            return Err(quoted());
        }
        let mut found: Vec<&str> = patterns.find.find_iter(text).map(|m| m.as_str()).collect();
        if found.is_empty() {
            found.push(text);
        }
        let conditions = found
            .into_iter()
            .map(|c| Condition::parse(patterns, c))
            .collect::<Result<Vec<_>, _>>()?;
        let has_pre = conditions.iter().any(|c| !c.version.pre.is_empty());
        Ok(Group {
            conditions,
            has_pre,
        })
    }
}

fn is_x(text: &str) -> bool {
    matches!(text, "x" | "*" | "X")
}

impl Condition {
    fn parse(patterns: &Patterns, text: &str) -> Result<Self, String> {
        let Some(m) = patterns.one.captures(text) else {
            return Err(format!(
                "improper constraint: {}",
                driftless_gotmpl::fmt::quote(text.as_bytes())
            ));
        };
        let part = |i: usize| m.get(i).map_or("", |g| g.as_str());
        let (major, minor, patch, pre) = (part(3), part(4), part(5), part(6));
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
            part(2).to_owned()
        };
        let version = Version::parse(&version).map_err(|_| "constraint parser error".to_owned())?;
        Ok(Condition {
            op: part(1).to_owned(),
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
