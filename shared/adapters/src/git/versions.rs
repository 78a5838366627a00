//! Selects tags by version ranges, with the syntax and semantics of Masterminds/semver 3.5, which
//! Flux uses.

use driftless_go::semver::{Constraint, Version};

/// A version range: `>=1.0.0 <2.0.0`, `1.x`, `^1.2`, `~1.2.3`, `1.0 - 2.0`, `1.x || >=3.0.0-0`.
pub struct Range(Constraint);

impl Range {
    /// Parses a range; `None` for an invalid one.
    pub fn parse(text: &str) -> Option<Self> {
        Constraint::parse(text).ok().map(Self)
    }

    /// Returns the highest tag in the range. Only tags that are full versions count, with or
    /// without a leading `v`.
    pub fn highest<'a>(&self, tags: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
        let versions = tags.into_iter().filter_map(|tag| {
            let version = Version::parse_strict(tag.strip_prefix('v').unwrap_or(tag))?;
            self.0.check(&version).then_some((version, tag))
        });
        // Of equal versions (`1.0.0` and `v1.0.0`) take the greater name, so that the order of the
        // tags does not matter.
        let highest = versions.max_by(|(a, a_tag), (b, b_tag)| a.compare(b).then(a_tag.cmp(b_tag)));
        highest.map(|(_, tag)| tag)
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
