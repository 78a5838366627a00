//! The adapter for GitHub's REST API, of github.com or of GitHub Enterprise.
//!
//! Redirects, retries and rate limits are handled here and not by the client library: credentials
//! are sent only to the API's host, and no requests are sent during a rate limit.

mod bootstrap;
mod client;
mod fetch;
mod login;
mod pull_requests;
mod resolve;

pub(super) use bootstrap::if_exists;
pub use bootstrap::{NewFile, Outcome, RepositorySetup};
pub(super) use client::{Api, ApiRequest, ApiResponse};
pub(super) use login::bearer;

use super::{GitHost, GitServers};
use async_trait::async_trait;
use driftless_flux::GitReference;
use driftless_kernel::ports::{
    Commit, Compute, ErrorKind, FetchLimits, GitAuth, Inline, PortError, Result, SecretStore,
    SignedObjects,
};
use driftless_kernel::repository::{Location, Repository};
use driftless_manifest::FileTree;
use login::Logins;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The URL of github.com's API.
const PUBLIC_API: &str = "https://api.github.com";

/// The hosts with GitHub's API and the URLs of their APIs: `github.com` ->
/// `https://api.github.com`.
#[derive(Clone, Debug)]
pub struct Hosts(BTreeMap<String, String>);

impl Default for Hosts {
    fn default() -> Self {
        Self(BTreeMap::from([(
            "github.com".to_owned(),
            PUBLIC_API.to_owned(),
        )]))
    }
}

impl Hosts {
    /// Adds a host, or replaces its URL. Only the operator configures hosts, so plain http is
    /// allowed.
    #[must_use]
    pub fn with(mut self, host: &str, api: &str) -> Self {
        self.0
            .insert(host.to_lowercase(), api.trim_end_matches('/').to_owned());
        self
    }
}

/// The adapter for repositories of hosts with GitHub's API. Submodules, parts of repositories,
/// signed objects, and all that goes through a proxy, are read in Git's own protocol with the same
/// login.
pub struct GitHub {
    apis: BTreeMap<String, Api>,
    logins: Logins,
    compute: Arc<dyn Compute>,
    /// Git's own protocol, for what the API does not have.
    servers: GitServers,
}

#[async_trait]
impl GitHost for GitHub {
    fn reads(&self, place: &Location) -> bool {
        matches!(place, Location::Hosted(repository) if self.apis.contains_key(&repository.host))
    }

    async fn resolve(
        &self,
        _: &str,
        place: &Location,
        reference: &GitReference,
        auth: &GitAuth,
        known: Option<&Commit>,
    ) -> Result<Commit> {
        let repository = hosted(place)?;
        let session = self.session(repository, auth);
        // With a proxy, no request goes past it.
        if !matches!(auth, GitAuth::Server(server) if server.connection.proxy.is_some()) {
            return session.resolve(reference, known).await;
        }
        let servers = &self.servers;
        let ask = |url: String, auth: GitAuth| async move {
            let place = Location::Server;
            servers.resolve(&url, &place, reference, &auth, None).await
        };
        session.over_git(ask).await
    }

    async fn fetch(
        &self,
        _: &str,
        place: &Location,
        commit: &Commit,
        auth: &GitAuth,
        limits: FetchLimits,
    ) -> Result<FileTree> {
        let session = self.session(hosted(place)?, auth);
        if !matches!(auth, GitAuth::Server(server) if server.needs_git()) {
            return session.fetch(&commit.sha, limits).await;
        }
        let servers = &self.servers;
        let ask = |url: String, auth: GitAuth| {
            let limits = limits.clone();
            async move {
                let place = Location::Server;
                servers.fetch(&url, &place, commit, &auth, limits).await
            }
        };
        session.over_git(ask).await
    }

    /// Reads the objects in Git's own protocol: the API has them only in parts.
    async fn signed(
        &self,
        _: &str,
        place: &Location,
        commit: &Commit,
        auth: &GitAuth,
    ) -> Result<SignedObjects> {
        let session = self.session(hosted(place)?, auth);
        let servers = &self.servers;
        let ask = |url: String, auth: GitAuth| async move {
            let place = Location::Server;
            servers.signed(&url, &place, commit, &auth).await
        };
        session.over_git(ask).await
    }
}

fn hosted(place: &Location) -> Result<&Repository> {
    match place {
        Location::Hosted(repository) => Ok(repository),
        Location::Directory(_) | Location::Server => Err(PortError::new(
            ErrorKind::Unsupported,
            "the repository is not on a host with GitHub's API",
        )),
    }
}

impl GitHub {
    /// Creates the adapter. The installation's own credentials are read from `keys`: `github/app`
    /// or `github/token` for github.com, `github/HOST/app` or `github/HOST/token` for another host.
    ///
    /// # Errors
    /// Fails if the URL of an API is not valid.
    pub fn new(hosts: Hosts, keys: Arc<dyn SecretStore>) -> Result<Self> {
        let apis = hosts
            .0
            .into_iter()
            .map(|(host, base)| Ok((host, Api::new(&base)?)));
        Ok(Self {
            apis: apis.collect::<Result<_>>()?,
            logins: Logins::new(keys),
            compute: Arc::new(Inline),
            servers: GitServers::new(),
        })
    }

    /// Unpacks archives with this port, within the bounds of the process.
    #[must_use]
    pub fn with_compute(mut self, compute: Arc<dyn Compute>) -> Self {
        self.compute = compute;
        self
    }

    fn api(&self, repository: &Repository) -> Result<&Api> {
        self.apis.get(&repository.host).ok_or_else(|| {
            let hosts: Vec<&str> = self.apis.keys().map(String::as_str).collect();
            let message = format!(
                "{}: this Git host is not supported; the configured hosts with GitHub's API are: {}",
                repository.host,
                hosts.join(", ")
            );
            PortError::new(ErrorKind::Unsupported, message)
        })
    }

    fn session<'a>(&'a self, repository: &'a Repository, auth: &'a GitAuth) -> Session<'a> {
        Session {
            github: self,
            repository,
            auth,
        }
    }
}

/// A repository with a login, for one operation.
struct Session<'a> {
    github: &'a GitHub,
    repository: &'a Repository,
    auth: &'a GitAuth,
}
