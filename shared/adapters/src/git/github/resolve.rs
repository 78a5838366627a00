//! The commit that a reference of a GitHub repository leads to.

use super::Session;
use super::client::{ApiRequest, ApiResponse};
use crate::git::{RefSpec, highest, is_sha};
use driftless_core::flux::GitReference;
use driftless_core::ports::{Commit, ErrorKind, PortError, Result};
use driftless_core::repository::Repository;
use http::{HeaderValue, header};
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// Tags that point at tags.
const PEELS: usize = 5;
/// Pages of tags.
const PAGES: usize = 100;

#[derive(Deserialize)]
struct Reference {
    #[serde(rename = "ref")]
    name: String,
    object: Target,
}

#[derive(Deserialize)]
struct Target {
    #[serde(rename = "type")]
    kind: String,
    sha: String,
}

#[derive(Deserialize)]
struct CommitName {
    sha: String,
}

#[derive(Deserialize)]
struct Tag {
    object: Target,
}

impl Session<'_> {
    /// Follows a reference to a commit; an unchanged one costs a request that no limit counts.
    pub async fn resolve(
        &self,
        reference: &GitReference,
        known: Option<&Commit>,
    ) -> Result<Commit> {
        let (full, name) = match RefSpec::of(reference)? {
            RefSpec::Commit { sha, branch } => return self.commit(sha, branch, known).await,
            RefSpec::Semver(range) => return self.semver(range, known).await,
            RefSpec::Name(name) => (name.to_owned(), name.to_owned()),
            RefSpec::Tag(tag) => (format!("refs/tags/{tag}"), tag.to_owned()),
            RefSpec::Branch(branch) => (format!("refs/heads/{branch}"), branch.to_owned()),
        };
        let path = self.path(&format!(
            "git/{}",
            encode(&full.replacen("refs/", "ref/", 1))
        ));
        let asked = CacheKey::new(self.repository, &full);
        let answer = self
            .conditional(&path, asked.validator(known))
            .await
            .map_err(|error| missing(error, &full))?;
        if let (304, Some(known)) = (answer.status, known) {
            return Ok(known.clone());
        }
        let found: Reference = answer.json(&format!("GET {path}"))?;
        if found.name != full {
            return Err(PortError::new(
                ErrorKind::NotFound,
                format!("{}: {full} not found", self.repository),
            ));
        }
        let etag = answer.etag();
        let sha = self.peel(found.object).await?;
        Ok(Commit {
            sha,
            name,
            etag: etag.map(|etag| asked.remember(&etag)),
        })
    }

    /// A commit by its hash: the host says whether this login may read it.
    async fn commit(&self, sha: &str, branch: &str, known: Option<&Commit>) -> Result<Commit> {
        let path = self.path(&format!("git/commits/{sha}"));
        let asked = CacheKey::new(self.repository, sha);
        let answer = self
            .conditional(&path, asked.validator(known))
            .await
            .map_err(|error| missing(error, &format!("commit {sha}")))?;
        if answer.status != 304 {
            let found: CommitName = answer.json(&format!("GET {path}"))?;
            if found.sha != sha {
                let what = format!("{}: the answer is about another commit", self.repository);
                return Err(PortError::new(ErrorKind::Unreadable, what));
            }
        }
        let etag = match answer.status {
            304 => known.and_then(|known| known.etag.clone()),
            _ => answer.etag().map(|etag| asked.remember(&etag)),
        };
        Ok(Commit {
            sha: sha.to_owned(),
            name: branch.to_owned(),
            etag,
        })
    }

    /// The highest tag of a range.
    async fn semver(&self, range: &str, known: Option<&Commit>) -> Result<Commit> {
        let mut path = self.path("git/matching-refs/tags/?per_page=100");
        let asked = CacheKey::new(self.repository, range);
        let mut validator = asked.validator(known);
        let mut tags: Vec<Reference> = Vec::new();
        let mut etag = None;
        for page in 0..PAGES {
            let answer = self.conditional(&path, validator.take()).await?;
            if let (304, Some(known)) = (answer.status, known) {
                return Ok(known.clone());
            }
            tags.extend(answer.json::<Vec<Reference>>(&format!("GET {path}"))?);
            let Some(next) = answer.next_page() else {
                // The validator of one page says nothing about the others.
                etag = answer.etag().filter(|_| page == 0);
                break;
            };
            path = next;
        }
        let names = tags
            .iter()
            .filter_map(|tag| tag.name.strip_prefix("refs/tags/"));
        let name = highest(range, names)?.to_owned();
        let tag = tags
            .into_iter()
            .find(|tag| tag.name.strip_prefix("refs/tags/") == Some(&name));
        let tag = tag
            .ok_or_else(|| PortError::new(ErrorKind::NotFound, format!("tag {name} not found")))?;
        let sha = self.peel(tag.object).await?;
        Ok(Commit {
            sha,
            name,
            etag: etag.map(|etag| asked.remember(&etag)),
        })
    }

    async fn conditional(&self, path: &str, validator: Option<HeaderValue>) -> Result<ApiResponse> {
        self.ask(|login| {
            let mut ask = ApiRequest::get(path, login);
            ask.headers
                .extend(validator.clone().map(|etag| (header::IF_NONE_MATCH, etag)));
            ask
        })
        .await
    }

    /// The commit behind annotated tags.
    async fn peel(&self, mut target: Target) -> Result<String> {
        for _ in 0..PEELS {
            if !is_sha(&target.sha) {
                break;
            }
            match target.kind.as_str() {
                "commit" => return Ok(target.sha),
                "tag" => {
                    let path = self.path(&format!("git/tags/{}", target.sha));
                    let tag: Tag = self
                        .ask(|login| ApiRequest::get(&path, login))
                        .await?
                        .json(&format!("GET {path}"))?;
                    target = tag.object;
                }
                kind => {
                    let what = format!(
                        "{}: the reference leads to a {kind}, not to a commit",
                        self.repository
                    );
                    return Err(PortError::new(ErrorKind::Invalid, what));
                }
            }
        }
        Err(PortError::new(
            ErrorKind::Unreadable,
            format!("{}: the reference leads to no commit", self.repository),
        ))
    }
}

/// What a validator belongs to. One that came for another question must not answer this one.
struct CacheKey(String);

impl CacheKey {
    fn new(repository: &Repository, reference: &str) -> Self {
        Self(hex::encode(
            &Sha256::digest(format!("{repository}\n{reference}"))[..8],
        ))
    }

    fn remember(&self, etag: &str) -> String {
        format!("{} {etag}", self.0)
    }

    fn validator(&self, known: Option<&Commit>) -> Option<HeaderValue> {
        let (asked, etag) = known?.etag.as_deref()?.split_once(' ')?;
        HeaderValue::from_str(etag).ok().filter(|_| asked == self.0)
    }
}

fn missing(mut error: PortError, full: &str) -> PortError {
    if error.kind == ErrorKind::NotFound {
        error.message = format!("{full}: {}", error.message);
    }
    error
}

/// Percent-encodes a path, keeping its slashes.
fn encode(path: &str) -> String {
    let mut encoded = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                encoded.push(char::from(byte))
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}
