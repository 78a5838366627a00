//! Addresses of Git repositories. They are parsed only here, both for reading a repository and for
//! deciding whether the operator allows the installation's own credentials for it.

use crate::ports::{ErrorKind, PortError, Result};
use driftless_flux::Invalid;

/// The default host of a repository that is named as `OWNER/NAME`.
const GITHUB: &str = "github.com";
/// The message about an invalid grant.
const GRANT: &str = "expected NAMESPACE=OWNER/NAME or NAMESPACE=HOST/OWNER/NAME, such as team-a=acme/apps; * matches any characters \
                     in NAMESPACE, OWNER and NAME";

/// The message about a repository that is read without encryption.
pub const PLAIN: &str = "http:// is allowed only where the hub is registered with --allow-local-clusters: use https:// or ssh://";

/// The address of the root directory of this machine, in the form of a URL that Flux's definitions
/// accept for a `GitRepository` (`http`, `https` or `ssh`). No host has this name: RFC 2606
/// reserves `invalid`.
const DIRECTORIES: &str = "https://folder.invalid";

/// Returns the URL by which a `GitRepository` names a directory of this machine, given by its
/// absolute path.
pub fn directory_url(path: &str) -> String {
    format!("{DIRECTORIES}{path}")
}

/// Returns the path of the directory of this machine that a `GitRepository` names, when it names
/// one.
pub fn directory(url: &str) -> Option<&str> {
    url.strip_prefix(DIRECTORIES)
        .or_else(|| url.strip_prefix("file://"))
        .filter(|path| path.starts_with('/'))
}

/// The location of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A repository of a host, by owner and name.
    Hosted(Repository),
    /// A repository of a server that names repositories in other ways.
    Server,
    /// A directory of this machine.
    Directory(String),
}

/// A repository by host, owner and name: `host/owner/name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// The host in lower case, with its port if it has one.
    pub host: String,
    /// The owner, such as an organization or a user.
    pub owner: String,
    /// The name, without `.git`.
    pub name: String,
}

impl Repository {
    /// Returns whether both are the same repository: hosts with GitHub's API ignore the case of
    /// letters.
    pub fn is_same(&self, other: &Self) -> bool {
        self.host == other.host
            && self.owner.eq_ignore_ascii_case(&other.owner)
            && self.name.eq_ignore_ascii_case(&other.name)
    }

    /// Returns the name for messages: without the host if that is GitHub.
    pub fn short_name(&self) -> String {
        match self.host.as_str() {
            GITHUB => format!("{}/{}", self.owner, self.name),
            _ => self.to_string(),
        }
    }
}

impl std::fmt::Display for Repository {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.host, self.owner, self.name)
    }
}

/// Returns the repository of a host at an address; `None` for another address.
pub fn hosted(url: &str) -> Option<Repository> {
    match place(url) {
        Ok(Location::Hosted(repository)) => Some(repository),
        _ => None,
    }
}

/// Reads the URL of a `GitRepository`.
///
/// # Errors
/// The scheme is another one, the URL has a login, or its path at github.com is not `owner/name`.
pub fn place(url: &str) -> Result<Location> {
    if let Some(path) = directory(url) {
        return Ok(Location::Directory(path.to_owned()));
    }
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let (rest, ssh) = match Some((scheme, rest)) {
        Some(("https" | "http", rest)) => (rest, false),
        Some(("ssh", rest)) => (rest, true),
        _ => {
            return Err(PortError::new(
                ErrorKind::Unsupported,
                "only repositories at https://HOST/PATH or ssh://git@HOST/PATH are supported",
            ));
        }
    };
    let refuse = || {
        PortError::new(
            ErrorKind::Invalid,
            "the repository's URL is not https://HOST/OWNER/NAME",
        )
    };
    let (authority, path) = rest.split_once('/').ok_or_else(refuse)?;
    // The user of an ssh URL (`git@`) is not needed; a login in an https URL would expose a secret.
    let host = match authority.rsplit_once('@') {
        Some((_, host)) if ssh => host.split(':').next().unwrap_or_default(),
        Some(_) => {
            let message =
                "the repository's URL contains a login: put it into the Secret of spec.secretRef";
            return Err(PortError::new(ErrorKind::Invalid, message));
        }
        None => authority,
    };
    let path = path.trim_matches('/');
    let (owner, name) = path.split_once('/').unwrap_or_default();
    let name = name.strip_suffix(".git").unwrap_or(name);
    let is_plain = !path.is_empty() && !path.contains(['?', '#']) && !path.contains("..");
    if !is_host(host) || !is_plain {
        return Err(refuse());
    }
    // Without encryption, no host is trusted to be the one that it is named after: the
    // installation's own credentials are for none, and no API is used.
    if scheme == "http" {
        return Ok(Location::Server);
    }
    if !is_name(owner) || !is_name(name) {
        return match host.eq_ignore_ascii_case(GITHUB) {
            true => Err(refuse()),
            false => Ok(Location::Server),
        };
    }
    Ok(Location::Hosted(Repository {
        host: host.to_lowercase(),
        owner: owner.to_owned(),
        name: name.to_owned(),
    }))
}

/// Returns whether this is a repository of github.com, which is read over its API.
pub fn is_github(url: &str) -> bool {
    matches!(place(url), Ok(Location::Hosted(repository)) if repository.host == GITHUB)
}

/// The operator's permission for objects of a namespace to read a repository with the
/// installation's own credentials: `NAMESPACE=OWNER/NAME` for GitHub, `NAMESPACE=HOST/OWNER/NAME`
/// for another host. `*` matches any characters within `NAMESPACE`, `OWNER` and `NAME`, and never a
/// separator: `team-a=acme/*`, `*=acme/public-*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    namespace: String,
    repository: Repository,
}

impl Grant {
    /// Parses a grant.
    ///
    /// # Errors
    /// A message with the expected form.
    pub fn parse(text: &str) -> std::result::Result<Self, Invalid> {
        let refuse = || Invalid::from(GRANT);
        let (namespace, repository) = text.split_once('=').ok_or_else(refuse)?;
        let parts: Vec<&str> = repository.split('/').collect();
        let (host, owner, name) = match parts.as_slice() {
            [owner, name] => (GITHUB, *owner, *name),
            [host, owner, name] => (*host, *owner, *name),
            _ => return Err(refuse()),
        };
        let name = name.strip_suffix(".git").unwrap_or(name);
        let fits = |pattern: &str| is_name(&pattern.replace('*', "x"));
        if !is_host(host) || ![namespace, owner, name].into_iter().all(fits) {
            return Err(refuse());
        }
        Ok(Self {
            namespace: namespace.to_owned(),
            repository: Repository {
                host: host.to_lowercase(),
                owner: owner.to_lowercase(),
                name: name.to_lowercase(),
            },
        })
    }

    /// Returns whether objects of a namespace may read this repository.
    pub fn covers(&self, namespace: &str, repository: &Repository) -> bool {
        let Repository { host, owner, name } = &self.repository;
        matches(&self.namespace, namespace)
            && *host == repository.host
            && matches(owner, &repository.owner.to_lowercase())
            && matches(name, &repository.name.to_lowercase())
    }
}

/// Returns whether `text` matches a pattern in which `*` stands for any characters.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut left) = text.strip_prefix(start) else {
        return false;
    };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in middle.split('*') {
        // The first match is the best one: a later match only leaves less for the rest.
        let Some(at) = left.find(part) else {
            return false;
        };
        left = &left[at + part.len()..];
    }
    left.ends_with(end)
}

fn is_name(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !matches!(text, "" | "." | "..") && text.bytes().all(fits)
}

fn is_host(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b':');
    !text.is_empty() && text.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosted(url: &str) -> Repository {
        match place(url).unwrap() {
            Location::Hosted(repository) => repository,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn grants_cover_what_they_name_and_nothing_else() {
        let fleet = "https://github.com/Acme/Fleet";
        for (grant, namespace, url, covers) in [
            ("team-a=acme/fleet", "team-a", fleet, true),
            ("team-a=ACME/fleet.git", "team-a", fleet, true),
            (
                "team-a=acme/fleet",
                "team-a",
                "ssh://git@github.com/acme/fleet",
                true,
            ),
            ("team-a=github.com/acme/fleet", "team-a", fleet, true),
            ("team-a=acme/fleet", "team-b", fleet, false),
            (
                "team-a=acme/fleet",
                "team-a",
                "https://github.com/acme/fleet-2",
                false,
            ),
            (
                "team-a=acme/fleet",
                "team-a",
                "https://git.acme.example/acme/fleet",
                false,
            ),
            ("team-a=git.acme.example/acme/fleet", "team-a", fleet, false),
            (
                "team-a=git.acme.example/acme/fleet",
                "team-a",
                "https://Git.Acme.Example/acme/fleet",
                true,
            ),
            ("team-a=acme/*", "team-a", fleet, true),
            (
                "team-a=acme/*",
                "team-a",
                "https://github.com/acme-evil/fleet",
                false,
            ),
            ("*=acme/f*t", "any", fleet, true),
            ("*=acme/f*e*t", "any", fleet, true),
            ("*=acme/fl*leet", "any", fleet, false),
            ("*=acme/public-*", "any", fleet, false),
            (
                "*=acme/public-*",
                "any",
                "https://github.com/acme/public-charts",
                true,
            ),
            ("team-*=*/fleet", "team-a", fleet, true),
            ("team-*=*/fleet", "xteam-a", fleet, false),
        ] {
            let grant = Grant::parse(grant).unwrap();
            let found = grant.covers(namespace, &hosted(url));
            assert_eq!(found, covers, "{grant:?} {namespace} {url}");
        }
        for bad in [
            "",
            "acme/fleet",
            "=acme/fleet",
            "team-a=",
            "team-a=acme",
            "team-a=/fleet",
            "team-a=acme/",
            "team-a=*/acme/fleet",
            "team-a=git.*/acme/fleet",
            "team-a=a/b/c/d",
            "team-a=https://github.com/acme/fleet",
            "team a=acme/fleet",
            "team-a=acme/../x",
            "team-a=..",
        ] {
            assert!(Grant::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn urls() {
        for url in [
            "https://github.com/acme/fleet",
            "https://GitHub.com/acme/fleet.git",
            "https://github.com/acme/fleet/",
            "ssh://git@github.com/acme/fleet.git",
            "ssh://git@github.com:22/acme/fleet",
        ] {
            let Location::Hosted(repository) = place(url).unwrap() else {
                panic!("{url}")
            };
            assert_eq!(repository.to_string(), "github.com/acme/fleet", "{url}");
        }
        for url in [&directory_url("/srv/fleet"), "file:///srv/fleet"] {
            let directory = Location::Directory("/srv/fleet".into());
            assert_eq!(place(url).unwrap(), directory);
        }
        for url in [
            "https://git.example/group/subgroup/fleet.git",
            "https://git.example/fleet",
            "ssh://git@git.example:2222/srv/git/fleet.git",
            "https://dev.azure.example/acme/project/_git/fleet",
            // Without encryption, no host counts as the one that grants name.
            "http://github.com/acme/fleet",
        ] {
            assert_eq!(place(url).unwrap(), Location::Server, "{url}");
        }
        for url in ["git@github.com:a/b", "oci://x/a/b", ""] {
            assert_eq!(
                place(url).unwrap_err().kind,
                ErrorKind::Unsupported,
                "{url}"
            );
        }
        for url in [
            "https://github.com/a",
            "https://github.com/a/b/c",
            "https://github.com/../b",
            "https://github.com/a/..",
            "https://github.com/a/b?x=1",
            "https:///a/b",
            "https://user:canary@github.com/a/b",
            "https://github.com/a/%2e",
        ] {
            let error = place(url).unwrap_err();
            assert!(
                error.kind == ErrorKind::Invalid && !error.message.contains("canary"),
                "{url}"
            );
        }
    }
}
