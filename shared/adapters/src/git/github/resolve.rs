//! Resolves references of GitHub repositories to commits.

use super::Session;
use super::client::{ApiRequest, ApiResponse};
use crate::git::{RefSpec, highest, is_sha};
use crate::percent::encode_path;
use driftless_flux::GitReference;
use driftless_kernel::ports::{Commit, ErrorKind, PortError, Result};
use driftless_kernel::repository::Repository;
use http::{HeaderValue, header};
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// The greatest number of annotated tags in a chain of tags.
const MAX_TAG_CHAIN: usize = 5;
/// The limit of the number of pages of tags.
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

impl Target {
    /// Returns the id of the annotated tag, if it is one.
    fn tag(&self) -> Option<String> {
        (self.kind == "tag").then(|| self.sha.clone())
    }
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
    /// Resolves a reference to a commit. A request for an unchanged reference does not count
    /// against the rate limit.
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
            encode_path(&full.replacen("refs/", "ref/", 1))
        ));
        let cache_key = CacheKey::new(self.repository, &full);
        let answer = self
            .conditional(&path, cache_key.validator(known))
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
        let tag = found.object.tag();
        let sha = self.peel(found.object).await?;
        Ok(Commit {
            sha,
            name,
            etag: etag.map(|etag| cache_key.remember(&etag)),
            tag,
        })
    }

    /// Checks that a commit exists and that the login may read it.
    async fn commit(&self, sha: &str, branch: &str, known: Option<&Commit>) -> Result<Commit> {
        let path = self.path(&format!("git/commits/{sha}"));
        let cache_key = CacheKey::new(self.repository, sha);
        let answer = self
            .conditional(&path, cache_key.validator(known))
            .await
            .map_err(|error| missing(error, &format!("commit {sha}")))?;
        if answer.status != 304 {
            let found: CommitName = answer.json(&format!("GET {path}"))?;
            if found.sha != sha {
                let message = format!("{}: the answer is for another commit", self.repository);
                return Err(PortError::new(ErrorKind::Unreadable, message));
            }
        }
        let etag = match answer.status {
            304 => known.and_then(|known| known.etag.clone()),
            _ => answer.etag().map(|etag| cache_key.remember(&etag)),
        };
        Ok(Commit {
            sha: sha.to_owned(),
            name: branch.to_owned(),
            etag,
            tag: None,
        })
    }

    /// Resolves the highest tag in a version range.
    async fn semver(&self, range: &str, known: Option<&Commit>) -> Result<Commit> {
        let mut path = self.path("git/matching-refs/tags/?per_page=100");
        let cache_key = CacheKey::new(self.repository, range);
        let mut validator = cache_key.validator(known);
        let mut tags: Vec<Reference> = Vec::new();
        let mut etag = None;
        for page in 0..PAGES {
            let answer = self.conditional(&path, validator.take()).await?;
            if let (304, Some(known)) = (answer.status, known) {
                return Ok(known.clone());
            }
            tags.extend(answer.json::<Vec<Reference>>(&format!("GET {path}"))?);
            let Some(next) = answer.next_page() else {
                // The validator of one page does not cover other pages.
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
        let object = tag.object.tag();
        let sha = self.peel(tag.object).await?;
        Ok(Commit {
            sha,
            name,
            etag: etag.map(|etag| cache_key.remember(&etag)),
            tag: object,
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

    /// Follows annotated tags to a commit.
    async fn peel(&self, mut target: Target) -> Result<String> {
        for _ in 0..MAX_TAG_CHAIN {
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
                    let message = format!(
                        "{}: the reference points to a {kind}, not to a commit",
                        self.repository
                    );
                    return Err(PortError::new(ErrorKind::Invalid, message));
                }
            }
        }
        Err(PortError::new(
            ErrorKind::Unreadable,
            format!(
                "{}: the reference does not lead to a commit",
                self.repository
            ),
        ))
    }
}

/// The key of a validator: the repository and the reference of its request. Validators of other
/// requests must not be used.
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
        let (key, etag) = known?.etag.as_deref()?.split_once(' ')?;
        HeaderValue::from_str(etag).ok().filter(|_| key == self.0)
    }
}

fn missing(mut error: PortError, full: &str) -> PortError {
    if error.kind == ErrorKind::NotFound {
        error.message = format!("{full}: {}", error.message);
    }
    error
}
