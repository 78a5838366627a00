//! Selects tags by version ranges, with the syntax and semantics of Masterminds/semver 3.5, which
//! Flux uses.

use semver::{Prerelease, Version};
use std::cmp::Ordering;

const LENGTH: usize = 512;

/// A version range: at least one of the groups must match with all of its bounds.
pub struct Range(Vec<Vec<Bound>>);

struct Bound {
    operator: &'static str,
    version: Version,
    precision: Precision,
}

/// The number of leading parts of a bound's version that are numbers.
#[derive(Clone, Copy, PartialEq)]
enum Precision {
    Nothing,
    Major,
    Minor,
    All,
}

/// The operators and their meanings, the longer ones first, so that `>=` is not read as `>`.
const OPERATORS: [(&str, &str); 12] = [
    (">=", ">="),
    ("=>", ">="),
    ("<=", "<="),
    ("=<", "<="),
    ("!=", "!="),
    ("~>", "~"),
    (">", ">"),
    ("<", "<"),
    ("=", "="),
    ("~", "~"),
    ("^", "^"),
    ("", "="),
];

impl Range {
    /// Parses a range: `>=1.0.0 <2.0.0`, `1.x`, `^1.2`, `~1.2.3`, `1.0 - 2.0`, `1.x || >=3.0.0-0`.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > LENGTH {
            return None;
        }
        text.split("||").map(group).collect::<Option<_>>().map(Self)
    }

    /// Returns the highest tag in the range. Only tags that are full versions count, with or
    /// without a leading `v`.
    pub fn highest<'a>(&self, tags: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
        let versions = tags
            .into_iter()
            .filter_map(|tag| Some((version_of(tag)?, tag)));
        // Of equal versions (`1.0.0` and `v1.0.0`) take the greater name, so that the order of the
        // tags does not matter.
        versions
            .filter(|(version, _)| self.has(version))
            .max()
            .map(|(_, tag)| tag)
    }

    fn has(&self, version: &Version) -> bool {
        self.0.iter().any(|group| {
            let wants_pre = group.iter().any(|bound| !bound.version.pre.is_empty());
            (version.pre.is_empty() || wants_pre) && group.iter().all(|bound| bound.allows(version))
        })
    }
}

fn version_of(tag: &str) -> Option<Version> {
    Version::parse(tag.strip_prefix('v').unwrap_or(tag)).ok()
}

fn group(text: &str) -> Option<Vec<Bound>> {
    let words: Vec<&str> = text
        .split([' ', '\t', ','])
        .filter(|word| !word.is_empty())
        .collect();
    let mut bounds = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        if words.get(at + 1) == Some(&"-") {
            bounds.push(Bound::new(">=", word)?);
            bounds.push(Bound::new("<=", words.get(at + 2)?)?);
            at += 3;
            continue;
        }
        let (written, operator) = OPERATORS
            .iter()
            .find(|(written, _)| word.starts_with(written))?;
        let rest = &word[written.len()..];
        // There may be a space between an operator and its version.
        let version = if rest.is_empty() {
            at += 1;
            words.get(at)?
        } else {
            rest
        };
        bounds.push(Bound::new(operator, version)?);
        at += 1;
    }
    (!bounds.is_empty()).then_some(bounds)
}

impl Bound {
    fn new(operator: &'static str, text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let (text, _build) = text.split_once('+').unwrap_or((text, ""));
        let (numbers, pre) = text.split_once('-').unwrap_or((text, ""));
        let mut version = Version::new(0, 0, 0);
        version.pre = Prerelease::new(pre).ok()?;
        let mut precision = Precision::Nothing;
        let parts: Vec<&str> = numbers.split('.').collect();
        if parts.len() > 3 {
            return None;
        }
        for (at, part) in parts.iter().enumerate() {
            if matches!(*part, "x" | "X" | "*") {
                // Parts after a placeholder are ignored.
                break;
            }
            let number = part
                .parse()
                .ok()
                .filter(|_| part.bytes().all(|b| b.is_ascii_digit()))?;
            match at {
                0 => (version.major, precision) = (number, Precision::Major),
                1 => (version.minor, precision) = (number, Precision::Minor),
                _ => (version.patch, precision) = (number, Precision::All),
            }
        }
        Some(Self {
            operator,
            version,
            precision,
        })
    }

    fn allows(&self, version: &Version) -> bool {
        let own = &self.version;
        let order = version.cmp_precedence(own);
        let same_major = version.major == own.major;
        let same_minor = same_major && version.minor == own.minor;
        match (self.operator, self.precision) {
            (">=", _) => order != Ordering::Less,
            ("<", _) => order == Ordering::Less,
            (">", Precision::Major) => version.major > own.major,
            (">", Precision::Minor) => (version.major, version.minor) > (own.major, own.minor),
            (">", _) => order == Ordering::Greater,
            ("<=", Precision::All) => order != Ordering::Greater,
            ("<=", Precision::Major) => version.major <= own.major,
            ("<=", _) => (version.major, version.minor) <= (own.major, own.minor),
            ("!=", Precision::Major) => !same_major,
            ("!=", Precision::Minor) => !same_minor || version.pre != own.pre,
            ("!=", _) => order != Ordering::Equal,
            ("=", Precision::All) => order == Ordering::Equal,
            ("^", precision) => {
                order != Ordering::Less && self.caret(version, precision, same_major, same_minor)
            }
            // `~`, and a version with a placeholder.
            (_, precision) => {
                let any = precision == Precision::Nothing
                    || precision == Precision::All
                        && (own.major, own.minor, own.patch) == (0, 0, 0);
                order != Ordering::Less
                    && (any
                        || if precision == Precision::Major {
                            same_major
                        } else {
                            same_minor
                        })
            }
        }
    }

    /// Checks a bound with `^`: only the parts after the first number that is not zero may be
    /// greater.
    fn caret(
        &self,
        version: &Version,
        precision: Precision,
        same_major: bool,
        same_minor: bool,
    ) -> bool {
        if self.version.major > 0 || precision == Precision::Major {
            same_major
        } else if self.version.minor > 0 || precision == Precision::Minor {
            same_minor
        } else {
            same_minor && version.patch == self.version.patch
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAGS: [&str; 14] = [
        "0.0.1",
        "0.0.2",
        "0.2.3",
        "0.2.9",
        "v0.3.0",
        "1.0.0",
        "v1.2.3",
        "1.2.9",
        "1.10.0",
        "2.0.0-rc.1",
        "2.0.0",
        "v2.1.0-beta.1",
        "latest",
        "v3",
    ];

    /// The expected tags are the results of Masterminds/semver 3.5.
    #[test]
    fn ranges() {
        for (range, tag) in [
            ("*", Some("2.0.0")),
            (">=1.0.0 <2.0.0", Some("1.10.0")),
            (">=1.0.0, <1.10.0", Some("1.2.9")),
            (">= 1.0.0 < 1.10", Some("1.2.9")),
            ("1.x", Some("1.10.0")),
            ("1.2.x", Some("1.2.9")),
            ("1", Some("1.10.0")),
            ("1.2.3", Some("v1.2.3")),
            ("=1.2.3", Some("v1.2.3")),
            ("v1.2.3", Some("v1.2.3")),
            ("^1.2.3", Some("1.10.0")),
            ("^0.2.3", Some("0.2.9")),
            ("^0.0.1", Some("0.0.1")),
            ("^0", Some("v0.3.0")),
            ("~1.2.3", Some("1.2.9")),
            ("~>1.2.3", Some("1.2.9")),
            ("~1", Some("1.10.0")),
            ("1.0 - 1.2.5", Some("v1.2.3")),
            (">1", Some("2.0.0")),
            (">1.2", Some("2.0.0")),
            (">2", None),
            ("<=1", Some("1.10.0")),
            ("<=1.2", Some("1.2.9")),
            ("<1 || 1.2.3", Some("v1.2.3")),
            ("!=2.0.0", Some("1.10.0")),
            (">=1.0.0-0", Some("v2.1.0-beta.1")),
            (">=2.0.0-0 <2.1.0-0", Some("2.0.0")),
            ("2.0.0-rc.1", Some("2.0.0-rc.1")),
            ("^9", None),
            ("^*", None),
            (">*", Some("2.0.0")),
            ("<=*", Some("0.0.2")),
            ("!=*", Some("2.0.0")),
            ("!=1", Some("2.0.0")),
            ("~0.0.0", Some("2.0.0")),
            ("0.0.0", None),
            ("~*", Some("2.0.0")),
        ] {
            assert_eq!(
                Range::parse(range).and_then(|r| r.highest(TAGS)),
                tag,
                "{range}"
            );
        }
        for bad in [
            "",
            "1.x ||",
            "latest",
            ">=",
            ">=1.0.0 -",
            "1.2.3.4",
            ">>1",
            "1.-2",
            &"1".repeat(600),
        ] {
            assert!(Range::parse(bad).is_none(), "{bad}");
        }
    }
}
