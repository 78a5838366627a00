//! Remote locations, and their places in the tree. Nothing is fetched here: a build that misses one
//! ends with [`ErrorKind::Needs`](crate::ErrorKind::Needs), the caller fetches it, puts it into the
//! tree at [`Remote::place`], and builds again.

use driftless_manifest::TreePath;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::fmt;

/// The directory of a tree that holds fetched files and repositories.
pub const REMOTE_DIRECTORY: &str = ".driftless-remote";

/// A file or repository on another host that an entry names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remote {
    /// One file at a URL, without a repository.
    File {
        /// The URL, `https://…` or `http://…`.
        url: String,
    },
    /// A directory of a Git repository.
    Repository {
        /// The URL, in the form for `git clone`: `https://github.com/owner/name`,
        /// `git@host:owner/name`.
        url: String,
        /// The path of the directory in the repository.
        path: String,
        /// A tag, branch or commit; the default branch when it is empty.
        reference: String,
    },
}

/// Formats it for messages: without the query, which may contain secrets.
impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { url } => write!(f, "remote file '{}'", without_credentials(url)),
            Self::Repository { url, reference, .. } if reference.is_empty() => {
                write!(f, "remote base '{url}'")
            }
            Self::Repository { url, reference, .. } => {
                write!(f, "remote base '{url}' at '{reference}'")
            }
        }
    }
}

impl Remote {
    /// Returns the place in the tree: of the file itself, or of the repository's root. Different
    /// locations have different places.
    pub fn place(&self) -> TreePath {
        let text = match self {
            Self::File { url } => escape(url),
            Self::Repository { url, reference, .. } if reference.is_empty() => {
                format!("{}@HEAD", escape(url))
            }
            Self::Repository { url, reference, .. } => {
                format!("{}@{}", escape(url), escape(reference).replace('/', "%2F"))
            }
        };
        let directory = TreePath::new(REMOTE_DIRECTORY).unwrap_or_default();
        directory.join(&text).unwrap_or(directory)
    }
}

/// Returns an address without its login and without its query.
pub(crate) fn without_credentials(entry: &str) -> String {
    let entry = entry.split(['?', '#']).next().unwrap_or_default();
    match entry.split_once("://") {
        Some((scheme, rest)) => {
            let host = rest.split('/').next().unwrap_or_default();
            let rest = host.rfind('@').map_or(rest, |at| &rest[at + 1..]);
            format!("{scheme}://{rest}")
        }
        None => entry.to_owned(),
    }
}

/// The characters that the name of a file must not have.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// Converts a URL to a path: the scheme is its first part, and characters that a path must not have
/// are written `%XX`.
fn escape(url: &str) -> String {
    let parts = url.replacen("://", "/", 1);
    let part = |part| match part {
        "." | ".." => part.replace('.', "%2E"),
        part => utf8_percent_encode(part, RESERVED).to_string(),
    };
    parts.split('/').map(part).collect::<Vec<_>>().join("/")
}
