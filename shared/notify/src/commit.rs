//! Commit statuses: the commit and the description of an event, and the address of a repository.

use crate::notification::Notification;
use crate::url::Url;
use crate::{Event, Failure, Severity};
use serde_json::Value;

/// A commit status before a host gives it a form.
pub(crate) struct CommitStatus {
    /// The SHA-1 hash of the commit.
    pub commit: String,
    pub is_success: bool,
    /// The id of the status.
    pub id: String,
    /// The kind and the name of the object: `kind/name`.
    pub name: String,
    /// The words of the reason.
    pub description: String,
}

/// The host and the path of a repository.
pub(crate) struct Repository {
    /// The scheme and the host: `scheme://host`.
    pub origin: String,
    pub host: String,
    /// The path without slashes before it and without `.git`.
    pub id: String,
}

impl Notification<'_> {
    /// Returns the status that the event means for its commit. `None` for an object that still
    /// progresses.
    ///
    /// # Errors
    /// The event has no revision of Git, or its severity is `trace`.
    pub fn commit_status(&self) -> Result<Option<CommitStatus>, Failure> {
        match self.event.is_progressing() {
            true => Ok(None),
            false => self.any_commit_status().map(Some),
        }
    }

    /// Returns the status that the event means for its commit, also while the object progresses.
    ///
    /// # Errors
    /// The event has no revision of Git, or its severity is `trace`.
    pub fn any_commit_status(&self) -> Result<CommitStatus, Failure> {
        let id = self.required(&self.settings.commit_status, "the id of the commit status")?;
        let revision = revision(self.event).ok_or_else(|| {
            self.refusal("the event has no revision, which a commit status needs")
        })?;
        let commit = hash(revision).ok_or_else(|| {
            self.refusal(format!(
                "the revision '{revision}' of the event does not end with a SHA-1 hash"
            ))
        })?;
        if self.event.severity == Severity::Trace && !self.event.is_progressing() {
            return Err(self.refusal("events of the severity 'trace' have no commit status"));
        }
        let (name, description) = self.event.name_and_description();
        Ok(CommitStatus {
            commit: commit.to_owned(),
            is_success: !self.event.is_error(),
            id: id.to_owned(),
            name,
            description,
        })
    }

    /// Returns the repository that the address names.
    ///
    /// # Errors
    /// The address is not a URL of HTTP or SSH.
    pub fn repository(&self) -> Result<Repository, Failure> {
        let repository = parse_repository(&self.settings.address);
        repository.ok_or_else(|| self.refusal("the address is not the URL of a Git repository, such as https://github.com/owner/repository"))
    }

    /// Returns the repository that the address names, and the parts of its path.
    ///
    /// # Errors
    /// The address is not a URL, or its path does not have this number of parts.
    pub fn repository_of<const N: usize>(&self) -> Result<(Repository, [String; N]), Failure> {
        let repository = self.repository()?;
        let parts: Vec<String> = repository.id.split('/').map(str::to_owned).collect();
        let parts = <[String; N]>::try_from(parts).map_err(|parts| {
            let count = parts.len();
            self.refusal(format!(
                "the path of the address has {count} parts, {N} were expected"
            ))
        })?;
        Ok((repository, parts))
    }
}

impl CommitStatus {
    /// Returns whether the latest status of a list with this id, which comes first, is the same.
    /// `field` is that of the state.
    pub fn is_latest(&self, known: &Value, field: &str, state: &str) -> bool {
        let has_text =
            |known: &&Value| known[field].is_string() && known["description"].is_string();
        let known = known.as_array().into_iter().flatten();
        let latest = known
            .filter(has_text)
            .find(|known| known["context"] == *self.id);
        latest
            .is_some_and(|known| known[field] == state && known["description"] == *self.description)
    }
}

/// Returns the metadata that names the revision.
fn revision(event: &Event) -> Option<&str> {
    let keys = ["commit", "originRevision", "revision"];
    let found = keys.iter().find_map(|key| event.metadata.get(*key));
    found.map(String::as_str)
}

/// Returns the SHA-1 hash at the end of a revision.
fn hash(revision: &str) -> Option<&str> {
    let hash = match revision.rsplit_once(':') {
        Some((_, hash)) => hash,
        None => revision.rsplit('/').next().unwrap_or_default(),
    };
    // Flux checks only the length. The hash becomes part of a path.
    let is_hash = hash.len() == 40 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then_some(hash)
}

/// Parses the address of a repository: a URL, or `user@host:path`. SSH becomes HTTPS.
fn parse_repository(address: &str) -> Option<Repository> {
    let (scheme, host, path) = match Url::parse(address) {
        Some(url) => {
            let path = url.decoded_path();
            (url.scheme, url.host, path)
        }
        None => {
            let (login, path) = address.split_once(':')?;
            let host = login.rsplit('@').next().unwrap_or_default();
            let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            if host.is_empty() || !host.chars().all(is_name) || path.starts_with("//") {
                return None;
            }
            ("ssh".to_owned(), host.to_owned(), path.to_owned())
        }
    };
    let scheme = match scheme.as_str() {
        "ssh" => "https",
        "http" => "http",
        "https" => "https",
        _ => return None,
    };
    let id = path.trim_start_matches('/');
    Some(Repository {
        origin: format!("{scheme}://{host}"),
        host,
        id: id.strip_suffix(".git").unwrap_or(id).to_owned(),
    })
}
