use driftless_core::ports::{ErrorKind, PortError, Result};

/// Where a repository is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A repository of a host with GitHub's API.
    Hosted(Repository),
    /// A folder of this machine.
    Folder(String),
}

/// `host/owner/name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// The host in lower case, with its port if it has one.
    pub host: String,
    /// The owner.
    pub owner: String,
    /// The name, without `.git`.
    pub name: String,
}

impl std::fmt::Display for Repository {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.host, self.owner, self.name)
    }
}

/// Reads the URL of a `GitRepository`.
///
/// # Errors
/// Another scheme, a password in the URL, or no `owner/name`.
pub fn place(url: &str) -> Result<Place> {
    if let Some(path) = url.strip_prefix("file://") {
        return Ok(Place::Folder(path.to_owned()));
    }
    let (rest, ssh) = match url.split_once("://") {
        Some(("https", rest)) => (rest, false),
        Some(("ssh", rest)) => (rest, true),
        _ => {
            return Err(PortError::new(
                ErrorKind::Unsupported,
                "only repositories at https://HOST/OWNER/NAME or ssh://git@HOST/OWNER/NAME are supported, of hosts with \
                 GitHub's API (file:// where the operator allows it)",
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
    // A user of ssh (`git@`) says nothing; a login in an https URL would be a secret in the open.
    let host = match authority.rsplit_once('@') {
        Some((_, host)) if ssh => host.split(':').next().unwrap_or_default(),
        Some(_) => {
            let what =
                "the repository's URL has a login in it: put it into the Secret of spec.secretRef";
            return Err(PortError::new(ErrorKind::Invalid, what));
        }
        None => authority,
    };
    let path = path.trim_end_matches('/');
    let (owner, name) = path.split_once('/').ok_or_else(refuse)?;
    let name = name.strip_suffix(".git").unwrap_or(name);
    let plain = |text: &str| {
        !matches!(text, "" | "." | "..")
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
    };
    let host_plain = host
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b':'));
    if host.is_empty() || !host_plain || !plain(owner) || !plain(name) {
        return Err(refuse());
    }
    Ok(Place::Hosted(Repository {
        host: host.to_lowercase(),
        owner: owner.to_owned(),
        name: name.to_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for url in [
            "https://github.com/acme/fleet",
            "https://GitHub.com/acme/fleet.git",
            "https://github.com/acme/fleet/",
            "ssh://git@github.com/acme/fleet.git",
            "ssh://git@github.com:22/acme/fleet",
        ] {
            let Place::Hosted(repository) = place(url).unwrap() else {
                panic!("{url}")
            };
            assert_eq!(repository.to_string(), "github.com/acme/fleet", "{url}");
        }
        assert_eq!(
            place("file:///srv/fleet").unwrap(),
            Place::Folder("/srv/fleet".into())
        );
        for url in [
            "http://github.com/a/b",
            "git@github.com:a/b",
            "oci://x/a/b",
            "",
        ] {
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
