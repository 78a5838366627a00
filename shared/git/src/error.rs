//! The errors of reading a repository.

use std::time::Duration;

/// An error of the caller's HTTP client or connector.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An error of reading a repository. No message contains a login, a key, or control characters from
/// the server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL is not valid or not supported.
    #[error("the repository's URL {0}")]
    Url(String),
    /// The login, the private key or the known_hosts cannot be used.
    #[error("{0}")]
    Login(String),
    /// The repository, the reference or the commit does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The server refuses the login or requires one.
    #[error("{0}")]
    Unauthorised(String),
    /// The SSH server's key is not in the known_hosts.
    #[error("{0}")]
    HostKey(String),
    /// The repository exceeds a limit.
    #[error("the repository is over the limit of {0}")]
    Limit(Limit),
    /// The server's answer is not valid.
    #[error("the server's answer is not valid: {0}")]
    Protocol(String),
    /// The server refused the request with a message.
    #[error("the server refuses: {0}")]
    Refused(String),
    /// The content of the repository is not acceptable.
    #[error("the repository is refused: {0}")]
    Content(String),
    /// The connection could not be opened, or was lost.
    #[error("no connection to '{place}'")]
    Unreachable {
        /// The repository's URL without a user.
        place: String,
        /// The error of the caller's HTTP client or connector.
        source: BoxError,
    },
}

/// The limit that a repository exceeded, with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Limit {
    /// Bytes of the list of references.
    #[error("{0} bytes of references")]
    References(u64),
    /// Bytes that the server sends for a commit.
    #[error("{0} packed bytes")]
    Packed(u64),
    /// Bytes of the objects, unpacked.
    #[error("{0} unpacked bytes")]
    Unpacked(u64),
    /// The number of files, links and directories.
    #[error("{0} files and directories")]
    Files(usize),
    /// The number of objects in a pack.
    #[error("{0} objects")]
    Objects(usize),
    /// The length of a chain of deltas.
    #[error("{0} deltas on one object")]
    Deltas(usize),
    /// The depth of nested directories.
    #[error("{0} nested directories")]
    Depth(usize),
    /// The number of submodules, including nested ones.
    #[error("{0} submodules")]
    Submodules(usize),
    /// The time for the whole read.
    #[error("{0:?}")]
    Time(Duration),
    /// Steps of work, of which the whole step of the caller has a limit.
    #[error("{0} steps of work")]
    Steps(usize),
}

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Shortens a server's text and removes its control characters, for use in a message.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    const LONGEST: usize = 200;
    let text = String::from_utf8_lossy(bytes);
    let is_shown = |c: &char| {
        !c.is_control()
            && !matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.trim().chars().filter(is_shown).take(LONGEST).collect()
}

pub(crate) fn protocol<T>(message: impl Into<String>) -> Result<T> {
    Err(Error::Protocol(message.into()))
}
