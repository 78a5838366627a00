//! The port to Git repositories.

use super::{Connection, ErrorKind, PartsDigest, PortError, Result, Secret};
use async_trait::async_trait;
use bytes::Bytes;
use driftless_flux::GitReference;
use driftless_fuel::{Fuel, FuelLimits, Tank};
use driftless_manifest::FileTree;
use serde::{Deserialize, Serialize};

/// The end of the message of a port that cannot read signed objects.
const SIGNED: &str = "the signatures of this repository cannot be read";

/// The credentials for a Git host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum GitAuth {
    /// No login: for repositories that are public.
    #[default]
    Anonymous,
    /// The installation's own credentials for the host (its App or token), or no login if it has
    /// none. Only for repositories that the operator named: see
    /// [`Settings::source_auth`](crate::hub::Settings::source_auth).
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
    /// The object's own GitHub App.
    App {
        /// The App's id.
        app_id: String,
        /// The installation's id; looked up from the repository if empty.
        installation_id: String,
        /// The App's private key as PEM.
        private_key: Secret,
        /// The URL of the API, for GitHub Enterprise.
        base_url: Option<String>,
    },
    /// A login, and the options of a server that is read by Git's own protocol. A host with its own
    /// API uses only the login, unless [`GitServer::needs_git`].
    Server(Box<GitServer>),
}

/// The options of a server that is read by Git's own protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GitServer {
    /// The login for HTTP.
    pub login: GitAuth,
    /// The login for SSH.
    pub ssh: Option<SshKey>,
    /// The certificates, the proxy, which addresses may be reached, and the limit of the time of
    /// one read. Its login is not used.
    pub connection: Connection,
    /// True if submodules are read as well.
    pub submodules: bool,
    /// The directories to read, with the files at the top of the repository; all if empty. A host
    /// may return more files.
    pub directories: Vec<String>,
    /// True if the files must be those that the hash of the commit proves, because the commit is
    /// signed. The answer of an API about a commit proves nothing.
    pub proven: bool,
}

impl GitServer {
    /// Returns whether only Git's own protocol has what these options need.
    pub fn needs_git(&self) -> bool {
        let needs_parts = self.submodules || !self.directories.is_empty();
        needs_parts || self.proven || self.connection.proxy.is_some()
    }
}

/// A private key for SSH, with the server's known keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshKey {
    /// The private key, as PEM or in OpenSSH's format.
    pub identity: Secret,
    /// The password of the private key.
    pub password: Option<Secret>,
    /// The public keys of servers, in the format of OpenSSH's `known_hosts`.
    pub known_hosts: String,
}

impl GitAuth {
    /// Returns only the login, for a host with its own API.
    pub fn login(&self) -> &Self {
        match self {
            Self::Server(server) => server.login.login(),
            login => login,
        }
    }

    /// Returns a digest of the credentials: equal for the same credentials in any Secret, and
    /// different for others.
    pub fn identity(&self) -> String {
        let mut digest = PartsDigest::default();
        let mut part = |bytes: &[u8]| digest.part(bytes);
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
            // Options of reachable addresses do not change the identity. Submodules do, because
            // they change the files that are read.
            Self::Server(server) => {
                let certificate = server.connection.client_certificate.as_ref();
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
        digest.hex()
    }
}

/// The commit of a resolved reference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// The full hash of the commit.
    pub sha: String,
    /// The name of the reference, as Flux puts it before `@`: `main`, `v1.2.3`, `refs/pull/1/head`;
    /// empty for a bare commit.
    pub name: String,
    /// The host's validator for the next conditional request.
    pub etag: Option<String>,
    /// The id of the annotated tag, if the reference is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

/// The bytes of a commit and of its tags, over which they are signed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignedObjects {
    /// The commit object.
    pub commit: Bytes,
    /// The tag objects that lead to the commit, the outermost first.
    pub tags: Vec<Bytes>,
}

impl Commit {
    /// Returns the revision in Flux's format: `main@sha1:6f2…`, or `sha1:6f2…` for a bare commit.
    pub fn revision(&self) -> String {
        if self.name.is_empty() {
            format!("sha1:{}", self.sha)
        } else {
            format!("{}@sha1:{}", self.name, self.sha)
        }
    }

    /// Returns the short name of the tag that was resolved.
    pub fn tag_name(&self) -> &str {
        self.name.strip_prefix("refs/tags/").unwrap_or(&self.name)
    }
}

/// The limits of the files of one source.
#[derive(Clone, Debug)]
pub struct FetchLimits {
    /// The most unpacked bytes in total.
    pub bytes: u64,
    /// The most files and links.
    pub files: usize,
    /// The most unpacked bytes for each packed byte.
    pub ratio: u64,
    /// The fuel of the step that needs the files.
    pub fuel: Tank,
}

impl FetchLimits {
    /// Returns the limits of a source whose files are charged to the fuel of a step.
    pub fn of_step(fuel: &Tank) -> Self {
        Self {
            fuel: fuel.clone(),
            ..Self::default()
        }
    }

    /// Returns the fuel of a reader of the files: their bytes, and a value for each of them.
    pub fn part(&self) -> Fuel {
        self.fuel.part(FuelLimits {
            bytes: usize::try_from(self.bytes).unwrap_or(usize::MAX),
            nodes: self.files,
            ..FuelLimits::NONE
        })
    }
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self {
            bytes: 256 << 20,
            files: 100_000,
            ratio: 800,
            fuel: Tank::default(),
        }
    }
}

/// The port to Git repositories.
#[async_trait]
pub trait Git: Send + Sync {
    /// Resolves a reference to its current commit. `known` is an earlier answer: with its
    /// validator, an unchanged reference does not count against the host's rate limit. The host is
    /// asked with `auth` for every reference, also for a commit's hash: an answer proves that
    /// `auth` may read the commit.
    async fn resolve(
        &self,
        url: &str,
        reference: &GitReference,
        auth: &GitAuth,
        known: Option<&Commit>,
    ) -> Result<Commit>;

    /// Fetches all files of a commit, and checks them against the commit's tree.
    async fn fetch(
        &self,
        url: &str,
        commit: &Commit,
        auth: &GitAuth,
        limits: FetchLimits,
    ) -> Result<FileTree>;

    /// Fetches the objects of a commit that can be signed, and the tag `commit.tag`. The caller
    /// checks their ids. `None` if the repository is replaced by a directory, which has no commits.
    async fn signed(
        &self,
        url: &str,
        commit: &Commit,
        auth: &GitAuth,
    ) -> Result<Option<SignedObjects>> {
        let (_, _, message) = (commit, auth, format!("{url}: {SIGNED}"));
        Err(PortError::new(ErrorKind::Unsupported, message))
    }

    /// Fetches the files of a repository that a kustomization names as a base.
    async fn base(&self, url: &str, reference: &GitReference, auth: &GitAuth) -> Result<FileTree> {
        let commit = self.resolve(url, reference, auth, None).await?;
        self.fetch(url, &commit, auth, FetchLimits::default()).await
    }
}
