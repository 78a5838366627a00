//! A host of charts on loopback: a repository of files ([`Host::put`]) and an OCI registry that the real Helm pushes to, with
//! passwords, tokens, TLS, and answers that no honest host gives ([`Fault`]).

mod helm;
mod registry;
mod server;
pub mod sign;

pub use helm::{index, known, package, package_directory, push};

use crate::tls::Identity;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A running host; it ends with its owner.
pub struct Host {
    address: SocketAddr,
    authority: Option<String>,
    state: Arc<Mutex<State>>,
    _server: server::Server,
}

/// A request and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// `Authorization`, empty when absent.
    pub authorization: String,
    /// The status of the answer.
    pub status: u16,
}

/// An answer that is not the file's.
#[derive(Clone, Debug)]
pub enum Fault {
    /// This status and nothing else.
    Status(u16),
    /// A redirect to this address.
    Redirect(String),
    /// Bytes without end.
    Endless,
    /// Other bytes than were put there.
    Bytes(Vec<u8>),
}

/// Which headers stand for a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validators {
    /// `ETag`
    Etag,
    /// `Last-Modified`
    LastModified,
}

#[derive(Default)]
struct State {
    files: BTreeMap<String, Vec<u8>>,
    validators: Option<Validators>,
    login: Option<(String, String)>,
    faults: BTreeMap<String, Fault>,
    calls: Vec<Call>,
    registry: registry::Registry,
}

impl Host {
    /// A host for plain HTTP.
    pub fn start() -> Self {
        Self::with(None)
    }

    /// A host for HTTPS, with a certificate of an authority of its own.
    pub fn start_tls() -> Self {
        Self::with(Some(Identity::new()))
    }

    fn with(identity: Option<Identity>) -> Self {
        let state: Arc<Mutex<State>> = Arc::default();
        let authority = identity.as_ref().map(|one| one.authority.clone());
        let server = server::Server::start(Arc::clone(&state), identity);
        Self {
            address: server.address(),
            authority,
            state,
            _server: server,
        }
    }

    /// `http://127.0.0.1:PORT`, or `https`.
    pub fn url(&self) -> String {
        let scheme = match self.authority {
            Some(_) => "https",
            None => "http",
        };
        format!("{scheme}://{}", self.address)
    }

    /// `127.0.0.1:PORT`
    pub fn name(&self) -> String {
        self.address.to_string()
    }

    /// The certificate authority, PEM.
    pub fn authority(&self) -> &str {
        self.authority.as_deref().unwrap_or_default()
    }

    /// Serves bytes at a path such as `/stable/index.yaml`.
    pub fn put(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.state().files.insert(path.to_owned(), bytes.into());
    }

    /// What stands at a path.
    pub fn file(&self, path: &str) -> Vec<u8> {
        self.state().files.get(path).cloned().unwrap_or_default()
    }

    /// From now on files have validators.
    pub fn set_validators(&self, which: Validators) {
        self.state().validators = Some(which);
    }

    /// From now on nobody gets in without this login: files want it, the registry wants a token that it buys.
    pub fn require(&self, user: &str, password: &str) {
        self.state().login = Some((user.to_owned(), password.to_owned()));
    }

    /// From now on a path is answered like this.
    pub fn fault(&self, path: &str, fault: Fault) {
        self.state().faults.insert(path.to_owned(), fault);
    }

    /// Takes out what was asked so far.
    pub fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.state().calls)
    }

    /// From now on the registry lists what refers to a manifest, as the specification 1.1 has it.
    pub fn list_referrers(&self) {
        self.state().registry.lists_referrers = true;
    }

    /// The digest of a manifest in the registry, by its tag.
    pub fn digest(&self, repository: &str, tag: &str) -> String {
        let state = self.state();
        let digest = state.registry.digest(repository, tag);
        digest.unwrap_or_else(|| panic!("no {repository}:{tag} in the registry"))
    }

    /// Gives a manifest of the registry another tag.
    pub fn retag(&self, repository: &str, from: &str, to: &str) {
        self.state().registry.retag(repository, from, to);
    }

    /// Puts other bytes in the place of every blob of the registry.
    pub fn spoil_blobs(&self) {
        self.state().registry.spoil();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
