//! A remote repository: its URL, the login, and the caller's means to open connections.

use crate::error::{BoxError, Error, Result};
use crate::limits::Limits;
use crate::packets::Body;
use async_trait::async_trait;
use bytes::Bytes;
use percent_encoding::percent_decode_str;
use std::fmt;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use url::Url;
use zeroize::Zeroizing;

/// A password, token or private key. Its debug output is redacted, and its memory is zeroed when it
/// is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Creates a secret from bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(Zeroizing::new(bytes.into()))
    }

    /// Returns the bytes of the secret.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A login for a Git server.
#[derive(Clone, Debug, Default)]
pub enum Auth {
    /// Anonymous access without a login.
    #[default]
    None,
    /// Basic authentication over HTTP.
    Basic {
        /// The name of the user.
        user: String,
        /// The password or token.
        password: Secret,
    },
    /// A bearer token over HTTP.
    Bearer(Secret),
    /// A private key over SSH.
    Ssh(SshLogin),
}

/// A private key for SSH, with the known hosts.
#[derive(Clone, Debug)]
pub struct SshLogin {
    /// The private key: PEM (PKCS#1, PKCS#8, SEC1) or OpenSSH's format.
    pub identity: Secret,
    /// The password of the private key.
    pub password: Option<Secret>,
    /// The keys of the servers, as in OpenSSH's `known_hosts`. A server without a key here is
    /// refused.
    pub known_hosts: String,
}

/// A bidirectional stream of bytes, as SSH needs it.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// The caller's HTTP client and connector: this crate opens no connections itself.
#[async_trait]
pub trait Network: Send + Sync {
    /// Sends a request and returns the answer with any status. It must not follow redirects.
    ///
    /// # Errors
    /// Fails if the server does not answer.
    async fn request(
        &self,
        request: http::Request<Bytes>,
    ) -> Result<http::Response<Body>, BoxError>;

    /// Opens a connection to a host and port, for SSH.
    ///
    /// # Errors
    /// Fails if the connection cannot be opened.
    async fn connect(&self, host: &str, port: u16) -> Result<Box<dyn Duplex>, BoxError>;
}

/// A repository on a server.
#[derive(Clone)]
pub struct Remote {
    /// The URL of the repository.
    pub url: RemoteUrl,
    /// The login for the server.
    pub auth: Auth,
    /// The client and connector for the server.
    pub network: Arc<dyn Network>,
    /// The limits of one read.
    pub limits: Limits,
    /// True if the login is also sent over HTTP without encryption.
    pub plain_login: bool,
}

/// The URL of a repository: `https://HOST/PATH`, `http://HOST/PATH` or `ssh://USER@HOST/PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteUrl(Url);

impl RemoteUrl {
    /// Parses a URL, also in SSH's short form `USER@HOST:PATH`.
    ///
    /// # Errors
    /// Fails for another scheme; for a URL with a login, a query or a fragment; for a URL without a
    /// path.
    pub fn parse(text: &str) -> Result<Self> {
        let refuse = |reason: &str| Err(Error::Url(reason.to_owned()));
        let long = match text.split_once("://") {
            Some(_) => text.to_owned(),
            None => match text.split_once(':') {
                // git runs a remote helper program for `NAME::ADDRESS`.
                Some((host, path))
                    if !host.contains('/') && !host.starts_with('-') && !path.starts_with(':') =>
                {
                    format!("ssh://{host}/{}", path.trim_start_matches('/'))
                }
                _ => return refuse("has no scheme: expected https:// or ssh://"),
            },
        };
        let Ok(url) = Url::parse(&long) else {
            return refuse("is not a valid URL");
        };
        if !matches!(url.scheme(), "https" | "http" | "ssh") {
            return refuse("has a scheme that is not supported: expected https:// or ssh://");
        }
        if url.host_str().unwrap_or_default().is_empty() {
            return refuse("has no host");
        }
        if url.password().is_some() || (url.scheme() != "ssh" && !url.username().is_empty()) {
            return refuse("contains a login");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return refuse("has a query or a fragment");
        }
        if url.path().trim_matches('/').is_empty() {
            return refuse("has no path");
        }
        let path: Vec<u8> = percent_decode_str(url.path()).collect();
        if path.contains(&b'\0') || path.contains(&b'\n') {
            return refuse("has a control character in its path");
        }
        Ok(Self(url))
    }

    /// Returns whether the repository is read over SSH.
    pub fn is_ssh(&self) -> bool {
        self.0.scheme() == "ssh"
    }

    /// Returns whether scheme, host and port are the same, so that a login for one is valid for the
    /// other.
    pub fn is_same_server(&self, other: &Self) -> bool {
        let server = |url: &Url| {
            let port = url.port_or_known_default().or(Some(22));
            (
                url.scheme().to_owned(),
                url.host_str().map(str::to_lowercase),
                port,
            )
        };
        server(&self.0) == server(&other.0)
    }

    /// Resolves a submodule's URL: as in git, one that starts with `./` or `../` is relative to
    /// this URL.
    ///
    /// # Errors
    /// Fails as [`RemoteUrl::parse`] does, and for a relative URL with too many `../`.
    pub fn join(&self, text: &str) -> Result<Self> {
        if !text.starts_with("./") && !text.starts_with("../") {
            return Self::parse(text);
        }
        let path = self.0.path().trim_matches('/');
        let mut parts: Vec<&str> = path.split('/').collect();
        for part in text.trim_end_matches('/').split('/') {
            match part {
                "." | "" => {}
                ".." if parts.pop().is_none() => {
                    return Err(Error::Url(
                        "has more ../ than the parent's URL has segments".to_owned(),
                    ));
                }
                ".." => {}
                part => parts.push(part),
            }
        }
        let mut url = self.0.clone();
        url.set_path(&parts.join("/"));
        Self::parse(url.as_str())
    }

    /// Returns the URL without a user, for messages.
    pub fn place(&self) -> String {
        let mut url = self.0.clone();
        // Neither fails, because the URL has a host.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.to_string()
    }

    pub(crate) fn url(&self) -> &Url {
        &self.0
    }

    pub(crate) fn host(&self) -> String {
        let host = self.0.host_str().unwrap_or_default();
        host.trim_matches(['[', ']']).to_lowercase()
    }

    pub(crate) fn ssh_port(&self) -> u16 {
        self.0.port().unwrap_or(22)
    }

    pub(crate) fn ssh_user(&self) -> String {
        let user: Vec<u8> = percent_decode_str(self.0.username()).collect();
        match user.is_empty() {
            true => "git".to_owned(),
            false => String::from_utf8_lossy(&user).into_owned(),
        }
    }

    /// Returns the path in the form that `git-upload-pack` takes: `/~user/x` becomes `~user/x`.
    pub(crate) fn ssh_path(&self) -> Vec<u8> {
        let path: Vec<u8> = percent_decode_str(self.0.path()).collect();
        match path.strip_prefix(b"/") {
            Some(home) if home.starts_with(b"~") => home.to_vec(),
            _ => path,
        }
    }
}
