//! A chart repository's `index.yaml`: the versions of its charts with their URLs.

use crate::error::HelmError;
use driftless_go::Error as GoError;
use driftless_go::semver::{Constraint, Version};
use driftless_manifest::yaml::{self, Dialect, Limits};
use jiff::Timestamp;
use serde_json::Value as Json;
use std::cmp::Ordering;

/// The maximal bytes of an index, as in Flux's source-controller.
pub const MAX_INDEX: usize = 50 << 20;

/// An entry of `index.yaml`: a version of a chart and its addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChartVersion {
    /// The chart's name.
    pub name: String,
    /// The version, as written in the repository.
    pub version: String,
    /// The URLs of the archive: absolute, or relative to the repository's URL.
    pub urls: Vec<String>,
    /// The SHA-256 of the archive, with or without `sha256:`; empty if the repository does not
    /// state it.
    pub digest: String,
    /// The time of its creation in RFC 3339; empty if the repository does not state it.
    pub created: String,
}

/// Checks that the content is an index.
///
/// # Errors
/// [`HelmError::Chart`] with the line: invalid YAML, no `apiVersion`, more than the limits.
pub fn check(text: &[u8]) -> Result<(), HelmError> {
    if text.iter().all(u8::is_ascii_whitespace) {
        return Err(fail("the index.yaml file is empty"));
    }
    let version = read(text, &["apiVersion"])?;
    match version {
        Some(Json::String(version)) if !version.is_empty() => Ok(()),
        _ => Err(fail("no API version specified")),
    }
}

/// Returns the newest version of a chart that a range allows; an exact version takes precedence
/// over the range that it also is. No range, or `*`, means the newest that is not a pre-release.
/// The choice is that of source-controller 1.9.
///
/// # Errors
/// [`HelmError::Chart`]: an invalid index, no such chart, no such version, an invalid range.
pub fn find(text: &[u8], chart: &str, range: &str) -> Result<ChartVersion, HelmError> {
    let Some(list) = read(text, &["entries", chart])? else {
        return Err(fail("no chart name found"));
    };
    let versions: Vec<ChartVersion> = match list {
        Json::Array(items) => items.iter().filter_map(ChartVersion::read).collect(),
        _ => Vec::new(),
    };
    if versions.is_empty() {
        return Err(fail("no chart version found"));
    }
    let names = versions.iter().map(|one| (&*one.version, &*one.created));
    let at = newest(names, range).map_err(fail)?.ok_or_else(|| {
        fail(format!(
            "no '{chart}' chart with version matching '{range}' found"
        ))
    })?;
    versions
        .into_iter()
        .nth(at)
        .ok_or_else(|| fail("no chart version found"))
}

/// Returns the index of the newest version that a range allows. Each comes with the time of its
/// creation, which decides between versions that differ only in their build metadata. Names that
/// are not versions are skipped.
///
/// # Errors
/// A message: the range is invalid.
pub fn newest<'a>(
    versions: impl Iterator<Item = (&'a str, &'a str)>,
    range: &str,
) -> Result<Option<usize>, GoError> {
    let versions: Vec<_> = versions.collect();
    if !range.is_empty()
        && let Some(exact) = versions.iter().position(|(version, _)| *version == range)
    {
        return Ok(Some(exact));
    }
    let constraint = Constraint::parse(if range.is_empty() { "*" } else { range })?;
    let mut best: Option<(usize, Version, Option<Timestamp>)> = None;
    for (at, (text, created)) in versions.into_iter().enumerate() {
        let Ok(version) = Version::parse(text) else {
            continue;
        };
        if !constraint.check(&version) {
            continue;
        }
        let created = created.parse::<Timestamp>().ok();
        let newer = best.as_ref().is_none_or(|(_, known, made)| {
            version.compare(known).then(created.cmp(made)) == Ordering::Greater
        });
        if newer {
            best = Some((at, version, created));
        }
    }
    Ok(best.map(|(at, ..)| at))
}

impl ChartVersion {
    /// Reads an entry; one without name or version cannot be requested and is skipped, as in Helm.
    fn read(item: &Json) -> Option<Self> {
        let text = |key: &str| item.get(key).and_then(Json::as_str).map(str::to_owned);
        let urls = item.get("urls").and_then(Json::as_array);
        Some(Self {
            name: text("name")?,
            version: text("version")?,
            urls: urls
                .into_iter()
                .flatten()
                .filter_map(|url| url.as_str().map(str::to_owned))
                .collect(),
            digest: text("digest").unwrap_or_default(),
            created: text("created").unwrap_or_default(),
        })
    }
}

fn read(text: &[u8], path: &[&str]) -> Result<Option<Json>, HelmError> {
    const FILE: &str = "index.yaml";
    let limits = Limits {
        bytes: MAX_INDEX,
        documents: 1,
        ..Limits::default()
    };
    let node = yaml::parse_path(text, FILE, &limits, path).map_err(|e| fail(e.to_string()))?;
    node.map(|node| yaml::node_to_value(&node, FILE, Dialect::V2))
        .transpose()
        .map_err(|e| fail(e.to_string()))
}

fn fail(message: impl Into<String>) -> HelmError {
    HelmError::chart("repository", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: &str = r#"
apiVersion: v1
entries:
  other: [{name: other, version: 9.0.0, urls: [other-9.0.0.tgz]}]
  podinfo:
  - {name: podinfo, version: 6.5.0, digest: abc, created: "2026-01-02T00:00:00Z", urls: [charts/podinfo-6.5.0.tgz]}
  - {name: podinfo, version: 6.5.1-rc.1, urls: [podinfo-6.5.1-rc.1.tgz]}
  - {name: podinfo, version: 5.2.0+b, created: "2026-01-01T00:00:00Z", urls: [b.tgz]}
  - {name: podinfo, version: 5.2.0+a, created: "2026-02-01T00:00:00Z", urls: [a.tgz]}
  - {name: podinfo, version: nonsense, urls: []}
  - null
generated: "2026-01-01T00:00:00Z"
"#;

    #[test]
    fn the_newest_that_fits() {
        for (range, version) in [
            ("", "6.5.0"),
            ("*", "6.5.0"),
            (">=1.0.0-alpha", "6.5.1-rc.1"),
            ("6.5.1-rc.1", "6.5.1-rc.1"),
            ("5.x", "5.2.0+a"),
            ("5.2.0+b", "5.2.0+b"),
            ("nonsense", "nonsense"),
            ("<6", "5.2.0+a"),
        ] {
            let found = find(INDEX.as_bytes(), "podinfo", range).unwrap();
            assert_eq!(found.version, version, "{range}");
        }
        let found = find(INDEX.as_bytes(), "podinfo", "6.5.0").unwrap();
        assert_eq!(found.urls, ["charts/podinfo-6.5.0.tgz"]);
        assert_eq!(found.digest, "abc");
    }

    #[test]
    fn missing_charts_and_versions_are_reported_like_helm() {
        let message = |chart, range| {
            find(INDEX.as_bytes(), chart, range)
                .unwrap_err()
                .to_string()
        };
        assert!(message("redis", "*").ends_with("no chart name found"));
        assert!(
            message("podinfo", "7.x")
                .ends_with("no 'podinfo' chart with version matching '7.x' found")
        );
        assert!(message("podinfo", "!!").contains("improper constraint"));
    }

    #[test]
    fn an_invalid_index_is_refused_with_helms_message() {
        assert!(check(INDEX.as_bytes()).is_ok());
        let message = |text: &str| check(text.as_bytes()).unwrap_err().to_string();
        assert!(message("").ends_with("empty"));
        assert!(message("entries: {}").ends_with("no API version specified"));
        assert!(message("<html><body>sign in</body></html>").ends_with("no API version specified"));
        assert!(message("apiVersion: v1\nentries: {a: [\n").contains("index.yaml:"));
    }
}
