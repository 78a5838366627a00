//! Why a repository was not read.

use std::time::Duration;

/// What the caller's client or connector failed with.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why a repository was not read. No message holds a login, a key, or a control character of the server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URL is not one of a repository that can be read here.
    #[error("the repository's URL {0}")]
    Url(String),
    /// The login, the private key or the known_hosts cannot be used.
    #[error("{0}")]
    Login(String),
    /// The server knows no such repository, reference or commit.
    #[error("{0}")]
    NotFound(String),
    /// The server refuses the login, or asks for one.
    #[error("{0}")]
    Unauthorised(String),
    /// The SSH server's key is not in the known_hosts.
    #[error("{0}")]
    HostKey(String),
    /// The repository crosses a limit.
    #[error("the repository is over the limit of {0}")]
    Limit(Limit),
    /// The server's answer is not valid.
    #[error("the server's answer is not valid: {0}")]
    Protocol(String),
    /// The server says that it does not do this.
    #[error("the server refuses: {0}")]
    Refused(String),
    /// The files of the commit cannot be taken.
    #[error("the repository is refused: {0}")]
    Content(String),
    /// There is no connection, or it broke off.
    #[error("no connection to '{place}'")]
    Unreachable {
        /// The server.
        place: String,
        /// What the caller's client or connector said.
        source: BoxError,
    },
}

/// A limit that a repository crossed.
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
    /// Files, links and directories.
    #[error("{0} files and directories")]
    Files(usize),
    /// Objects in a pack.
    #[error("{0} objects")]
    Objects(usize),
    /// Deltas that stand on each other.
    #[error("{0} deltas on one object")]
    Deltas(usize),
    /// Directories in each other.
    #[error("{0} directories in each other")]
    Depth(usize),
    /// Submodules, in each other or in all.
    #[error("{0} submodules")]
    Submodules(usize),
    /// Time.
    #[error("{0:?}")]
    Time(Duration),
}

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a server wrote, for a message: without control characters, and short.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    const LONGEST: usize = 200;
    let text = String::from_utf8_lossy(bytes);
    let is_shown = |c: &char| {
        !c.is_control()
            && !matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.trim().chars().filter(is_shown).take(LONGEST).collect()
}

pub(crate) fn protocol<T>(what: impl Into<String>) -> Result<T> {
    Err(Error::Protocol(what.into()))
}
