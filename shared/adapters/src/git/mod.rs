//! Adapters for Git repositories: GitHub's API, any server in Git's own protocol, repositories on
//! this machine, and plain directories that replace repositories.

mod administration;
mod checkout;
mod directory;
mod github;
mod local;
mod server;
mod socks;
mod versions;

pub use administration::{
    GitLabRepository, GiteaRepository, NewRepository, RepositoryAdministration, Visibility,
};
pub use checkout::{Checkout, CommitId};
pub use directory::{BASE_NOT_FETCHED, DirectoryGit};
pub use github::{GitHub, Hosts, NewFile, Outcome, RepositorySetup};
pub use local::LocalGit;
pub use server::GitServers;

use async_trait::async_trait;
use driftless_flux::GitReference;
use driftless_kernel::ports::{
    Commit, ErrorKind, FetchLimits, Git, GitAuth, PortError, Result, SignedObjects,
};
use driftless_kernel::repository::{self, Location};
use driftless_manifest::FileTree;

/// An adapter for one kind of Git host.
#[async_trait]
pub trait GitHost: Send + Sync {
    /// Returns whether this adapter reads the repositories of this place.
    fn reads(&self, place: &Location) -> bool;

    /// Resolves a reference as [`Git::resolve`] does. `place` is the parsed `url`.
    async fn resolve(
        &self,
        url: &str,
        place: &Location,
        reference: &GitReference,
        auth: &GitAuth,
        known: Option<&Commit>,
    ) -> Result<Commit>;

    /// Fetches a commit as [`Git::fetch`] does. `place` is the parsed `url`.
    async fn fetch(
        &self,
        url: &str,
        place: &Location,
        commit: &Commit,
        auth: &GitAuth,
        limits: FetchLimits,
    ) -> Result<FileTree>;

    /// Fetches the objects that can be signed as [`Git::signed`] does. `place` is the parsed `url`.
    async fn signed(
        &self,
        url: &str,
        place: &Location,
        commit: &Commit,
        auth: &GitAuth,
    ) -> Result<SignedObjects>;
}

/// Passes each repository to the first adapter that reads its URL.
#[derive(Default)]
pub struct GitRouter {
    hosts: Vec<Box<dyn GitHost>>,
}

impl GitRouter {
    /// Creates a router without adapters.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an adapter for a kind of host.
    #[must_use]
    pub fn with(mut self, host: impl GitHost + 'static) -> Self {
        self.hosts.push(Box::new(host));
        self
    }

    /// Parses a repository's URL. With an SSH key, GitHub's repositories are also read in Git's own
    /// protocol.
    fn place(url: &str, auth: &GitAuth) -> Result<Location> {
        let place = repository::place(url)?;
        Ok(match auth {
            GitAuth::Server(server) if server.ssh.is_some() => Location::Server,
            _ => place,
        })
    }

    fn host(&self, place: &Location) -> Result<&dyn GitHost> {
        let host = self.hosts.iter().find(|host| host.reads(place));
        host.map(AsRef::as_ref).ok_or_else(|| {
            let message = match place {
                Location::Directory(path) => format!(
                    "{path} is a directory, which only driftless serve reads: use https://HOST/OWNER/NAME, or start driftless serve with \
                     --repository file://{path}"
                ),
                Location::Hosted(repository) => format!("{}: this Git host is not supported", repository.host),
                Location::Server => "this Git host is not supported".to_owned(),
            };
            PortError::new(ErrorKind::Unsupported, message)
        })
    }
}

#[async_trait]
impl Git for GitRouter {
    async fn resolve(
        &self,
        url: &str,
        reference: &GitReference,
        auth: &GitAuth,
        known: Option<&Commit>,
    ) -> Result<Commit> {
        let place = Self::place(url, auth)?;
        let host = self.host(&place)?;
        host.resolve(url, &place, reference, auth, known).await
    }

    async fn fetch(
        &self,
        url: &str,
        commit: &Commit,
        auth: &GitAuth,
        limits: FetchLimits,
    ) -> Result<FileTree> {
        check_sha(&commit.sha, "commit")?;
        let place = Self::place(url, auth)?;
        let host = self.host(&place)?;
        host.fetch(url, &place, commit, auth, limits).await
    }

    async fn signed(
        &self,
        url: &str,
        commit: &Commit,
        auth: &GitAuth,
    ) -> Result<Option<SignedObjects>> {
        check_sha(&commit.sha, "commit")?;
        if let Some(tag) = &commit.tag {
            check_sha(tag, "tag")?;
        }
        let place = Self::place(url, auth)?;
        let host = self.host(&place)?;
        host.signed(url, &place, commit, auth).await.map(Some)
    }
}

/// Checks that this is the hash of an object.
fn check_sha(sha: &str, kind: &str) -> Result<()> {
    match is_sha(sha) {
        true => Ok(()),
        false => Err(PortError::new(
            ErrorKind::Invalid,
            format!("'{sha}' is not a {kind}: expected 40 hex digits"),
        )),
    }
}

/// Returns whether a string is a complete SHA-1 in lower case.
fn is_sha(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// The field of a reference that is used, in Flux's order of precedence.
enum RefSpec<'a> {
    /// A commit; the branch is then only a name.
    Commit { sha: &'a str, branch: &'a str },
    /// The full name of a reference.
    Name(&'a str),
    /// A version range of tags.
    Semver(&'a str),
    /// The name of a tag.
    Tag(&'a str),
    /// The name of a branch.
    Branch(&'a str),
}

impl<'a> RefSpec<'a> {
    fn of(reference: &'a GitReference) -> Result<Self> {
        let invalid = |message: String| Err(PortError::new(ErrorKind::Invalid, message));
        if !reference.commit.is_empty() {
            if !is_sha(&reference.commit) {
                return invalid(
                    "spec.ref.commit is not a full commit: expected 40 lowercase hex digits"
                        .to_owned(),
                );
            }
            return Ok(Self::Commit {
                sha: &reference.commit,
                branch: &reference.branch,
            });
        }
        if !reference.name.is_empty() {
            if !reference.name.starts_with("refs/") || !is_name(&reference.name) {
                return invalid(format!(
                    "spec.ref.name '{}' is not a full reference name such as refs/heads/main",
                    reference.name
                ));
            }
            return Ok(Self::Name(&reference.name));
        }
        if !reference.semver.is_empty() {
            return Ok(Self::Semver(&reference.semver));
        }
        let (tag, name) = match (reference.tag.as_str(), reference.branch.as_str()) {
            ("", "") => (false, "master"),
            ("", branch) => (false, branch),
            (tag, _) => (true, tag),
        };
        if !is_name(name) {
            return invalid(format!("'{name}' is not a valid branch or tag name"));
        }
        Ok(if tag {
            Self::Tag(name)
        } else {
            Self::Branch(name)
        })
    }
}

/// Returns whether a name obeys those of Git's rules that keep a reference's path from being
/// changed.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 1000
        && !name.contains("..")
        && !name.contains("@{")
        && !name.ends_with('.')
        && name
            .split('/')
            .all(|part| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock"))
        && !name
            .chars()
            .any(|c| c.is_control() || matches!(c, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\'))
}

/// Returns the highest tag in a version range.
fn highest<'a>(range: &str, tags: impl IntoIterator<Item = &'a str>) -> Result<&'a str> {
    let parsed = versions::Range::parse(range).ok_or_else(|| {
        PortError::new(
            ErrorKind::Invalid,
            format!("spec.ref.semver '{range}' is not a valid version range"),
        )
    })?;
    parsed.highest(tags).ok_or_else(|| {
        PortError::new(
            ErrorKind::NotFound,
            format!("no tag of the repository is in the range '{range}'"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["main", "feature/x", "v1.2.3", "refs/pull/1/head", "ü"] {
            assert!(is_name(good), "{good}");
        }
        for bad in [
            "", "/", "a//b", "../x", "a/../b", ".git", "a b", "a:b", "a^", "a~1", "x.lock",
            "a@{1}", "a\n", "a?b", "a.",
        ] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn precedence() {
        let all = GitReference {
            branch: "b".into(),
            tag: "t".into(),
            semver: "1.x".into(),
            name: "refs/heads/n".into(),
            commit: "0".repeat(40),
        };
        assert!(matches!(
            RefSpec::of(&all).unwrap(),
            RefSpec::Commit { branch: "b", .. }
        ));
        let all = GitReference {
            commit: String::new(),
            ..all
        };
        assert!(matches!(
            RefSpec::of(&all).unwrap(),
            RefSpec::Name("refs/heads/n")
        ));
        let all = GitReference {
            name: String::new(),
            ..all
        };
        assert!(matches!(RefSpec::of(&all).unwrap(), RefSpec::Semver("1.x")));
        let all = GitReference {
            semver: String::new(),
            ..all
        };
        assert!(matches!(RefSpec::of(&all).unwrap(), RefSpec::Tag("t")));
        assert!(matches!(
            RefSpec::of(&GitReference::default()).unwrap(),
            RefSpec::Branch("master")
        ));
        for bad in ["main", "HEAD", "refs/../x"] {
            assert!(
                RefSpec::of(&GitReference {
                    name: bad.into(),
                    ..Default::default()
                })
                .is_err()
            );
        }
        assert!(
            RefSpec::of(&GitReference {
                commit: "abc".into(),
                ..Default::default()
            })
            .is_err()
        );
    }
}
