//! GitHub on loopback: its REST API over real bare Git repositories.
//!
//! Serves what a GitOps engine reads (commits, refs, trees, blobs, contents,
//! comparisons, tarballs) and writes (statuses), with GitHub's authentication
//! (tokens, App installations), conditional requests, rate-limit headers and
//! failures on demand, and sends signed webhooks. Each request is recorded.

mod access;
mod checks;
mod codeload;
mod faults;
mod json;
mod pulls;
mod repository;
mod routes;
mod server;
mod setup;
mod smart;
mod webhook;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

pub use access::App;
pub use faults::Fault;
pub use pulls::PullRequest;
pub use repository::{Change, Repository};
pub use setup::DeployKey;
pub use webhook::{Delivery, NO_COMMIT, Push, sign};

use self::access::Access;
use self::faults::Faults;
use self::server::Listener;
use self::webhook::Hook;
use crate::tls::Identity;
use crate::tools;

/// The stub; its servers and repositories are removed when it is dropped.
pub struct GitHub {
    shared: Arc<Shared>,
    _api: Listener,
    _codeload: Listener,
    git: Listener,
    authority: String,
    _directory: tempfile::TempDir,
}

/// One answered request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The endpoint's short name: `commits`, `git/ref`, `tarball`, `codeload` …
    pub endpoint: String,
    /// The HTTP method.
    pub method: String,
    /// Path and query.
    pub uri: String,
    /// True if the request had an `Authorization` header.
    pub authorized: bool,
    /// The status of the answer.
    pub status: u16,
    /// The body of the request; bytes that are not UTF-8 are replaced.
    pub body: String,
}

pub(crate) struct Shared {
    pub(crate) url: String,
    pub(crate) codeload: String,
    /// The directory that holds the repositories.
    pub(crate) directory: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) repositories: BTreeMap<String, Arc<Repository>>,
    pub(crate) access: Access,
    pub(crate) faults: Faults,
    pub(crate) calls: Vec<Call>,
    /// Commit statuses by repository and commit, oldest first.
    pub(crate) statuses: BTreeMap<(String, String), Vec<Value>>,
    /// Pull requests by repository, in the order of their numbers.
    pub(crate) pulls: BTreeMap<String, Vec<pulls::Pull>>,
    pub(crate) last_comment: u64,
    /// Check runs of all repositories, oldest first.
    pub(crate) checks: Vec<Value>,
    pub(crate) hooks: Vec<Hook>,
    pub(crate) deploy_keys: Vec<DeployKey>,
    pub(crate) deliveries: Vec<Delivery>,
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl GitHub {
    /// Starts an empty GitHub.
    pub fn start() -> Self {
        tools::need("git", "git");
        let directory = tempfile::Builder::new()
            .prefix("driftless-github-")
            .tempdir()
            .expect("create the stub's directory");
        let api = Listener::bind("127.0.0.1");
        // Another host, as api.github.com and codeload.github.com are.
        let codeload = Listener::bind("127.0.0.2");
        let shared = Arc::new(Shared {
            url: api.url(),
            codeload: codeload.url(),
            directory: directory.path().to_owned(),
            state: Mutex::default(),
        });
        let identity = Identity::new();
        let authority = identity.authority.clone();
        let git = Listener::bind("127.0.0.1").behind(identity);
        Self {
            _api: api.serve(Arc::clone(&shared), routes::SERVICE),
            _codeload: codeload.serve(Arc::clone(&shared), codeload::SERVICE),
            git: git.serve(Arc::clone(&shared), smart::SERVICE),
            authority,
            shared,
            _directory: directory,
        }
    }

    /// Returns the API's address, `http://127.0.0.1:PORT`.
    pub fn url(&self) -> &str {
        &self.shared.url
    }

    /// Returns the address that Git clones from, `https://127.0.0.1:PORT`.
    pub fn git_url(&self) -> String {
        self.git.url()
    }

    /// Returns the certificate authority (PEM) that Git must trust to clone.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Makes a public repository `owner/name`, empty, default branch `main`.
    pub fn repository(&self, full_name: &str) -> Arc<Repository> {
        let mut state = self.shared.state();
        let id = 1000 + state.repositories.len() as u64;
        let repository = Arc::new(Repository::create(self._directory.path(), full_name, id));
        state
            .repositories
            .insert(full_name.to_lowercase(), Arc::clone(&repository));
        repository
    }

    /// Makes a public repository with a directory's content as branch `main`.
    pub fn repository_from(&self, full_name: &str, directory: &Path) -> Arc<Repository> {
        let repository = self.repository(full_name);
        repository.commit_directory("main", directory, "Import");
        repository
    }

    /// Commits changes to a branch and sends the push webhook to every hook
    /// before it returns.
    pub fn push(&self, repository: &Repository, branch: &str, changes: &[Change]) -> Push {
        let reference = format!("refs/heads/{branch}");
        let before = repository.resolve(branch);
        let sha = repository.commit(branch, changes, "Change by a test");
        self.announce(repository, &reference, before.as_deref(), &sha)
    }

    /// Removes a repository: its endpoints answer 404, as after lost access.
    pub fn remove_repository(&self, full_name: &str) {
        self.shared
            .state()
            .repositories
            .remove(&full_name.to_lowercase());
    }

    /// Adds a personal access token that may read and write these repositories.
    pub fn add_token(&self, token: &str, repositories: &[&str]) {
        self.shared.state().access.add_token(token, repositories);
    }

    /// Adds a GitHub App that is installed on these repositories.
    pub fn add_app(&self, id: u64, installation: u64, repositories: &[&str]) -> App {
        self.shared
            .state()
            .access
            .add_app(id, installation, repositories)
    }

    /// Expires every installation token that was issued.
    pub fn expire_tokens(&self) {
        self.shared.state().access.expire_tokens();
    }

    /// Makes the next `times` requests of an endpoint fail; `*` is every endpoint,
    /// `codeload` the download behind the tarball's redirect.
    pub fn fail(&self, endpoint: &str, fault: Fault, times: usize) {
        self.shared.state().faults.add(endpoint, fault, times);
    }

    /// Removes all faults.
    pub fn heal(&self) {
        self.shared.state().faults.clear();
    }

    /// Returns every request so far, oldest first.
    pub fn calls(&self) -> Vec<Call> {
        self.shared.state().calls.clone()
    }

    /// Returns the number of requests to an endpoint.
    pub fn count(&self, endpoint: &str) -> usize {
        let state = self.shared.state();
        state
            .calls
            .iter()
            .filter(|c| c.endpoint == endpoint)
            .count()
    }

    /// Returns the deploy keys of all repositories, in the order in which they were added.
    pub fn deploy_keys(&self) -> Vec<DeployKey> {
        self.shared.state().deploy_keys.clone()
    }

    /// Returns an existing repository, also one that was created over the API.
    pub fn find(&self, full_name: &str) -> Option<Arc<Repository>> {
        let state = self.shared.state();
        state.repositories.get(&full_name.to_lowercase()).cloned()
    }

    /// Returns the statuses of a commit, oldest first.
    pub fn statuses(&self, full_name: &str, sha: &str) -> Vec<Value> {
        let key = (full_name.to_lowercase(), sha.to_owned());
        let state = self.shared.state();
        state.statuses.get(&key).cloned().unwrap_or_default()
    }
}
