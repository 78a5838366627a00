//! Git repositories.

use super::{Connection, Result, Secret};
use crate::flux::GitReference;
use async_trait::async_trait;
use driftless_manifest::FileTree;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// How to log in to a Git host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum GitAuth {
    /// Without a login: what everybody may read.
    #[default]
    Anonymous,
    /// The installation's own credentials for that host (its App or token), or none where it has none. Only for what the operator
    /// named: see [`Settings::source_auth`](crate::hub::Settings::source_auth).
    Installation,
    /// A user and a password or token.
    Basic {
        /// The user name.
        username: String,
        /// The password or token.
        password: Secret,
    },
    /// A bearer token.
    Bearer(Secret),
    /// A GitHub App of the object's own.
    App {
        /// The App's id.
        app_id: String,
        /// The installation's id; looked up from the repository when empty.
        installation_id: String,
        /// The App's private key, PEM.
        private_key: Secret,
        /// The API's address, for GitHub Enterprise.
        base_url: Option<String>,
    },
    /// A login, and more that a server needs that is spoken to in git's own protocol. A host with an API of its own takes the
    /// login alone.
    Server(Box<GitServer>),
}

/// How to reach a server that is spoken to in git's own protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GitServer {
    /// The login over HTTP.
    pub login: GitAuth,
    /// The login over SSH.
    pub ssh: Option<SshKey>,
    /// Certificates and the proxy, which addresses may be reached, and how long one reading may take. Its login is not used.
    pub connection: Connection,
    /// Read the submodules, too.
    pub submodules: bool,
}

/// A login over SSH.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshKey {
    /// The private key: PEM or OpenSSH's format.
    pub identity: Secret,
    /// The password of the private key.
    pub password: Option<Secret>,
    /// The keys of servers, as in OpenSSH's `known_hosts`.
    pub known_hosts: String,
}

impl GitAuth {
    /// The login alone, as a host with an API takes it.
    pub fn login(&self) -> &Self {
        match self {
            Self::Server(server) => server.login.login(),
            login => login,
        }
    }

    /// Who reads, as a digest: the same credentials are the same identity wherever they stand, and others never are.
    pub fn identity(&self) -> String {
        let mut digest = Sha256::new();
        let mut part = |bytes: &[u8]| {
            // With its length: no two lists of parts run into the same bytes.
            digest.update((bytes.len() as u64).to_be_bytes());
            digest.update(bytes);
        };
        match self {
            Self::Anonymous => part(b"anonymous"),
            Self::Installation => part(b"installation"),
            Self::Basic { username, password } => {
                part(b"basic");
                part(username.as_bytes());
                part(password.expose());
            }
            Self::Bearer(token) => {
                part(b"bearer");
                part(token.expose());
            }
            Self::App {
                app_id,
                installation_id,
                private_key,
                base_url,
            } => {
                part(b"app");
                part(app_id.as_bytes());
                part(installation_id.as_bytes());
                part(private_key.expose());
                part(base_url.as_deref().unwrap_or_default().as_bytes());
            }
            // Which addresses may be reached says nothing of who reads; what is read besides does of the files.
            Self::Server(server) => {
                let how = &server.connection;
                let certificate = how.client_certificate.as_ref();
                if server.ssh.is_none() && certificate.is_none() && !server.submodules {
                    return server.login.identity();
                }
                part(if server.submodules {
                    b"submodules"
                } else {
                    b"server"
                });
                part(server.login.identity().as_bytes());
                if let Some(key) = &server.ssh {
                    part(b"ssh");
                    part(key.identity.expose());
                }
                if let Some((certificate, key)) = certificate {
                    part(b"certificate");
                    part(certificate);
                    part(key.expose());
                }
            }
        }
        hex::encode(digest.finalize())
    }
}

/// A commit that a reference led to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// The full hash.
    pub sha: String,
    /// The name that was followed, as Flux puts it before `@`: `main`, `v1.2.3`, `refs/pull/1/head`; empty for a bare commit.
    pub name: String,
    /// The host's validator for the next conditional question.
    pub etag: Option<String>,
}

impl Commit {
    /// Flux's revision: `main@sha1:6f2…`, or `sha1:6f2…` for a bare commit.
    pub fn revision(&self) -> String {
        if self.name.is_empty() {
            format!("sha1:{}", self.sha)
        } else {
            format!("{}@sha1:{}", self.name, self.sha)
        }
    }
}

/// Caps on what one source may bring.
#[derive(Clone, Copy, Debug)]
pub struct FetchLimits {
    /// Unpacked bytes in all.
    pub bytes: u64,
    /// Files and links.
    pub files: usize,
    /// Unpacked bytes for each packed byte.
    pub ratio: u64,
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self {
            bytes: 256 << 20,
            files: 100_000,
            ratio: 800,
        }
    }
}

/// Git repositories.
#[async_trait]
pub trait Git: Send + Sync {
    /// The commit a reference leads to now. `known` is an earlier answer: with its validator an unchanged reference costs no rate limit.
    /// The host is asked with `auth` whatever the reference is, a commit's own hash too: an answer proves that `auth` may read it.
    async fn resolve(
        &self,
        url: &str,
        reference: &GitReference,
        auth: &GitAuth,
        known: Option<&Commit>,
    ) -> Result<Commit>;

    /// All files of a commit, checked against the commit's tree.
    async fn fetch(
        &self,
        url: &str,
        commit: &Commit,
        auth: &GitAuth,
        limits: FetchLimits,
    ) -> Result<FileTree>;

    /// The files of a repository that a kustomization names as a base.
    async fn base(&self, url: &str, reference: &GitReference, auth: &GitAuth) -> Result<FileTree> {
        let commit = self.resolve(url, reference, auth, None).await?;
        self.fetch(url, &commit, auth, FetchLimits::default()).await
    }
}
