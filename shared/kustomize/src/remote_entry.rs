//! The entries that lead to another host, and the remote locations that they name.

use crate::error::{Error, ErrorKind};
use crate::remote::{Remote, without_credentials};

const SCHEMES: [&str; 4] = ["https://", "http://", "ssh://", "file://"];

impl Remote {
    /// Returns the location that an entry names which may be a directory; `None` for a path. A URL
    /// that ends like a manifest is a file, any other one a repository, like kustomize's
    /// git.RepoSpec (v5.8.2).
    ///
    /// # Errors
    /// A URL with credentials, or one that does not name a repository.
    pub(crate) fn of_entry(entry: &str, field: &'static str) -> Result<Option<Self>, Error> {
        if !is_remote(entry) {
            return Ok(None);
        }
        let bare = entry.split(['?', '#']).next().unwrap_or_default();
        let is_manifest = [".yaml", ".yml", ".json"]
            .iter()
            .any(|end| bare.ends_with(end));
        match Self::of_file(entry, field)? {
            Some(file) if is_manifest => Ok(Some(file)),
            _ => Self::repository(entry, field).map(Some),
        }
    }

    /// Returns the location that an entry names which is always a file; `None` for a path.
    ///
    /// # Errors
    /// A URL with credentials.
    pub(crate) fn of_file(entry: &str, field: &'static str) -> Result<Option<Self>, Error> {
        if !is_url(entry) {
            return Ok(None);
        }
        refuse_login(entry, field)?;
        let url = entry.to_owned();
        Ok(Some(Self::File { url }))
    }

    fn repository(entry: &str, field: &'static str) -> Result<Self, Error> {
        refuse_login(entry, field)?;
        let (address, _) = entry.split_once('?').unwrap_or((entry, ""));
        let (url, path) = split(address).ok_or_else(|| {
            let entry = without_credentials(entry);
            ErrorKind::Kustomization(format!(
                "{field} entry '{entry}' does not name a repository: write https://HOST/OWNER/NAME//DIRECTORY?ref=TAG"
            ))
        })?;
        Ok(Self::Repository {
            url,
            path,
            reference: reference(entry).unwrap_or_default().to_owned(),
        })
    }
}

/// Returns the repository, the directory and the reference that kustomize's origin annotation names
/// for an entry. The root of a repository has the name of a directory that kustomize uses before it
/// has cloned one (v5.8.2).
pub(crate) fn origin_of(entry: &str) -> Option<(String, String, String)> {
    match is_remote(entry).then(|| Remote::repository(entry, "")) {
        Some(Ok(Remote::Repository {
            url,
            path,
            reference,
        })) if path.is_empty() => Some((url, "notCloned".to_owned(), reference)),
        Some(Ok(Remote::Repository {
            url,
            path,
            reference,
        })) => Some((url, path, reference)),
        _ => None,
    }
}

/// Splits the part before the query into the repository's URL and the directory in it.
fn split(address: &str) -> Option<(String, String)> {
    let bare = cut(address, "git::").unwrap_or(address);
    let (host, rest) = match SCHEMES.iter().find_map(|scheme| cut(bare, scheme)) {
        Some(rest) if cut(bare, "file://").is_some() => (&bare[..bare.len() - rest.len()], rest),
        Some(rest) => {
            let end = rest.find('/')? + 1;
            bare.split_at(bare.len() - rest.len() + end)
        }
        None => bare.split_at(bare.find([':', '/'])? + 1),
    };
    let host = match cut(host, "github.com") {
        Some(_) => "https://github.com/".to_owned(),
        None => host.to_owned(),
    };
    let (repository, path) = if let Some((repository, path)) = rest.split_once("//") {
        (repository.to_owned(), path)
    } else if let Some((repository, path)) = rest.split_once(".git/") {
        (format!("{repository}.git"), path)
    } else if host == "file://" || rest.ends_with(".git") {
        (rest.to_owned(), "")
    } else {
        let mut parts = rest.splitn(3, '/');
        let (owner, name) = (parts.next()?, parts.next()?);
        (format!("{owner}/{name}"), parts.next().unwrap_or_default())
    };
    let named = !repository.trim_matches('/').is_empty() && !repository.ends_with('/');
    named.then(|| {
        (
            format!("{host}{repository}"),
            path.trim_matches('/').to_owned(),
        )
    })
}

/// Returns the rest after a prefix in any case.
fn cut<'t>(text: &'t str, start: &str) -> Option<&'t str> {
    let head = text.get(..start.len())?;
    head.eq_ignore_ascii_case(start)
        .then(|| &text[start.len()..])
}

fn is_url(entry: &str) -> bool {
    cut(entry, "http://")
        .or_else(|| cut(entry, "https://"))
        .is_some()
}

/// Checks whether kustomize would fetch an entry: a URL, or a host with a user before it.
pub(crate) fn is_remote(entry: &str) -> bool {
    let bare = cut(entry, "git::").unwrap_or(entry);
    let user = bare.split_once('@').map_or("", |(user, _)| user);
    let has_user = user.starts_with(|first: char| first.is_ascii_alphabetic())
        && user
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && bare.contains(['/', ':']);
    let has_scheme = SCHEMES.iter().any(|scheme| cut(bare, scheme).is_some());
    let is_github = cut(bare, "github.com/")
        .or_else(|| cut(bare, "github.com:"))
        .is_some();
    has_user || has_scheme || is_github || bare.len() < entry.len()
}

/// Returns the reference in an entry's query.
fn reference(entry: &str) -> Option<&str> {
    let (_, query) = entry.split_once('?')?;
    let value = |wanted: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(name, value)| *name == wanted && !value.is_empty())
    };
    let found = value("ref").or_else(|| value("version"));
    found.map(|(_, reference)| reference)
}

/// Creates the error of a remote entry where none are allowed.
pub(crate) fn refuse(entry: &str, field: &'static str) -> Error {
    let mut shown = without_credentials(entry);
    // The reference identifies the base; another parameter may be a token.
    if let Some(reference) = reference(entry) {
        shown = format!("{shown}?ref={reference}");
    }
    let entry = shown;
    ErrorKind::Remote { field, entry }.into()
}

/// Fails for an entry with credentials: everyone who reads the repository could read them.
fn refuse_login(entry: &str, field: &'static str) -> Result<(), Error> {
    let authority = entry
        .split_once("://")
        .map(|(_, rest)| rest.split(['/', '?']).next());
    let login = authority
        .flatten()
        .and_then(|authority| authority.rsplit_once('@'));
    match login {
        Some((login, _)) if login != "git" => Err(ErrorKind::Kustomization(format!(
            "{field} entry '{}' contains credentials: remove it, and give the installation access",
            without_credentials(entry)
        ))
        .into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_remote_entries() {
        for (entry, remote) in [
            ("https://github.com/a/b//c?ref=v1", true),
            ("github.com/a/b", true),
            ("git@host:a/b", true),
            ("git::https://x/y", true),
            ("ssh://git@host/a", true),
            ("../base", false),
            ("a@b.yaml", false),
            ("./github.com/x", false),
        ] {
            assert_eq!(is_remote(entry), remote, "{entry}");
        }
        assert_eq!(
            without_credentials("https://user:secret@host/a?token=x"),
            "https://host/a"
        );
    }

    #[test]
    fn reads_repositories_and_files() {
        let repository = |url: &str, path: &str, reference: &str| Remote::Repository {
            url: url.to_owned(),
            path: path.to_owned(),
            reference: reference.to_owned(),
        };
        let github = "https://github.com/a/b";
        for (entry, expected) in [
            (
                "https://github.com/a/b//c/d?ref=v1",
                repository(github, "c/d", "v1"),
            ),
            (
                "https://github.com/a/b/c/d?version=v1",
                repository(github, "c/d", "v1"),
            ),
            ("github.com/a/b", repository(github, "", "")),
            (
                "git::https://GitHub.com/a/b?ref=x/y&timeout=10s",
                repository("https://GitHub.com/a/b", "", "x/y"),
            ),
            (
                "https://host/a/b.git/c?ref=v1",
                repository("https://host/a/b.git", "c", "v1"),
            ),
            (
                "https://host/x/y/z.git//c",
                repository("https://host/x/y/z.git", "c", ""),
            ),
            (
                "git@github.com:a/b//c",
                repository("git@github.com:a/b", "c", ""),
            ),
            (
                "ssh://git@host/a/b?ref=main",
                repository("ssh://git@host/a/b", "", "main"),
            ),
            (
                "file:///srv/r.git//sub?ref=v1",
                repository("file:///srv/r.git", "sub", "v1"),
            ),
        ] {
            let remote = Remote::of_entry(entry, "resources").unwrap().unwrap();
            assert_eq!(remote, expected, "{entry}");
        }
        let file = Remote::of_entry("https://host/a/b/c.yaml?raw=true", "resources");
        let url = "https://host/a/b/c.yaml?raw=true".to_owned();
        assert_eq!(file.unwrap(), Some(Remote::File { url }));
        for refused in [
            "https://user:token@host/a/b",
            "https://token@host/a/b.yaml",
            "https://host",
        ] {
            let error = Remote::of_entry(refused, "resources")
                .unwrap_err()
                .to_string();
            assert!(!error.contains("token@"), "{error}");
        }
    }

    #[test]
    fn places_are_inside_and_apart() {
        let place = |entry: &str| {
            let remote = Remote::of_entry(entry, "resources").unwrap().unwrap();
            remote.place().as_str().to_owned()
        };
        assert_eq!(
            place("github.com/a/b//c?ref=v1"),
            ".driftless-remote/https/github.com/a/b@v1"
        );
        assert_eq!(
            place("github.com/a/b//c"),
            ".driftless-remote/https/github.com/a/b@HEAD"
        );
        assert_eq!(
            place("https://h/../../x.yaml"),
            ".driftless-remote/https/h/%2E%2E/%2E%2E/x.yaml"
        );
        assert_eq!(
            place("https://h/a/b?ref=../../c"),
            ".driftless-remote/https/h/a/b@%2E%2E%2F%2E%2E%2Fc"
        );
        assert_ne!(place("https://h/a.yaml?x=1"), place("https://h/a.yaml?x=2"));
    }
}
