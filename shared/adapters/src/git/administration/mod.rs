//! The operations of `driftless bootstrap` on a repository of GitHub, GitLab or Gitea: create it,
//! commit files, add a deploy key.

mod gitea;
mod gitlab;

pub use gitea::GiteaRepository;
pub use gitlab::GitLabRepository;

use super::github::{Api, ApiRequest, ApiResponse, NewFile, Outcome, RepositorySetup, bearer};
use async_trait::async_trait;
use driftless_kernel::ports::{ErrorKind, PortError, Result, Secret};
use http::{HeaderValue, Method};
use serde_json::Value;

/// The readers of a new repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// The members of the repository.
    Private,
    /// Every user of the host; GitLab only.
    Internal,
    /// Also readers without an account.
    Public,
}

/// A new repository.
#[derive(Clone, Copy, Debug)]
pub struct NewRepository<'a> {
    /// True if the owner is the user of the token, false for an organisation or a group.
    pub personal: bool,
    /// The readers of the repository.
    pub visibility: Visibility,
    /// The branch of its first commit.
    pub branch: &'a str,
}

/// The administration of one repository of a Git host.
#[async_trait]
pub trait RepositoryAdministration: Send + Sync {
    /// Creates the repository if it does not exist.
    ///
    /// # Errors
    /// Fails if a request to the host does.
    async fn create(&self, new: &NewRepository<'_>) -> Result<Outcome>;

    /// Commits files to a branch, which is created from the default branch if it does not exist.
    /// Returns the id of the commit; `None` if all files are up to date.
    ///
    /// # Errors
    /// Fails if a request to the host does, for example because the branch is protected.
    async fn commit(
        &self,
        branch: &str,
        files: &[NewFile],
        message: &str,
    ) -> Result<Option<String>>;

    /// Adds a public key, a line of `authorized_keys`, as a deploy key.
    ///
    /// # Errors
    /// Fails if a request to the host does, or if the key exists with other rights.
    async fn deploy_key(&self, title: &str, key: &str, read_only: bool) -> Result<Outcome>;

    /// Returns the SSH keys that the API publishes as lines of `known_hosts`; an empty string if it
    /// publishes none.
    ///
    /// # Errors
    /// Fails if the request to the host does.
    async fn known_hosts(&self, host: &str) -> Result<String>;
}

#[async_trait]
impl RepositoryAdministration for RepositorySetup {
    async fn create(&self, new: &NewRepository<'_>) -> Result<Outcome> {
        let private = new.visibility != Visibility::Public;
        Self::create(self, new.personal, private).await
    }

    async fn commit(
        &self,
        branch: &str,
        files: &[NewFile],
        message: &str,
    ) -> Result<Option<String>> {
        Self::commit(self, branch, files, message).await
    }

    async fn deploy_key(&self, title: &str, key: &str, read_only: bool) -> Result<Outcome> {
        Self::deploy_key(self, title, key, read_only).await
    }

    async fn known_hosts(&self, host: &str) -> Result<String> {
        Self::known_hosts(self, host).await
    }
}

/// A client for the API of one repository.
struct Client {
    api: Api,
    login: HeaderValue,
    owner: String,
    name: String,
}

impl Client {
    fn new(host: &'static str, api: &str, token: &Secret, owner: &str, name: &str) -> Result<Self> {
        Ok(Self {
            api: Api::of(host, api.trim_end_matches('/'))?,
            login: bearer(token)?,
            owner: owner.to_owned(),
            name: name.to_owned(),
        })
    }

    async fn get(&self, path: &str) -> Result<ApiResponse> {
        let request = ApiRequest::get(path, Some(self.login.clone()));
        self.api.ask(request).await
    }

    async fn post(&self, path: String, body: Value) -> Result<ApiResponse> {
        let request = ApiRequest {
            method: Method::POST,
            body: Some(body),
            ..ApiRequest::get(&path, Some(self.login.clone()))
        };
        self.api.ask(request).await
    }
}

/// Returns whether two lines of `authorized_keys` have the same key, with any comment.
fn is_same_key(one: &str, other: &str) -> bool {
    let parts = |line: &str| {
        let mut parts = line.split_whitespace().map(str::to_owned);
        (parts.next(), parts.next())
    };
    parts(one) == parts(other)
}

/// Returns the outcome for a deploy key that the repository has.
fn known_key(is_read_only: bool, read_only: bool) -> Result<Outcome> {
    match is_read_only == read_only {
        true => Ok(Outcome::Unchanged),
        false => Err(PortError::new(
            ErrorKind::Conflict,
            "the repository has this deploy key with other rights: delete it there",
        )),
    }
}

/// Returns the error for a list that has more pages than are read.
fn too_long(kind: &str) -> PortError {
    PortError::new(
        ErrorKind::Invalid,
        format!("the repository has more {kind} than are read: delete those that are not used"),
    )
}
