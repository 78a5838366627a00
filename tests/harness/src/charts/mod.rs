//! A host of charts on loopback: a repository of files ([`Host::put`]) and an OCI registry that the
//! real Helm pushes to, with passwords, tokens, TLS, and faulty answers ([`Fault`]).

mod helm;
mod registry;
mod server;
pub mod sign;

pub use helm::{index, package, package_directory, public_chart, push};

use crate::runtime::Listening;
use crate::tls::Identity;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A running host; it ends when it is dropped.
pub struct Host {
    address: SocketAddr,
    authority: Option<String>,
    state: Arc<Mutex<State>>,
    _server: Listening,
}

/// A request and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The HTTP method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// `Authorization`, empty when absent.
    pub authorization: String,
    /// The status of the answer.
    pub status: u16,
}

/// An answer in place of a file.
#[derive(Clone, Debug)]
pub enum Fault {
    /// This status and nothing else.
    Status(u16),
    /// A redirect to this address.
    Redirect(String),
    /// Bytes without end.
    Endless,
    /// These bytes instead of the stored ones.
    Bytes(Vec<u8>),
}

/// The response header that identifies a file's content for conditional requests.
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
    /// Starts a host for plain HTTP.
    pub fn start() -> Self {
        Self::with(None)
    }

    /// Starts a host for HTTPS, with a certificate of a generated authority.
    pub fn start_tls() -> Self {
        Self::with(Some(Identity::new()))
    }

    fn with(identity: Option<Identity>) -> Self {
        let state: Arc<Mutex<State>> = Arc::default();
        let authority = identity.as_ref().map(|one| one.authority.clone());
        let server = server::start(Arc::clone(&state), identity);
        Self {
            address: server.address(),
            authority,
            state,
            _server: server,
        }
    }

    /// Returns the host's address, `http://127.0.0.1:PORT` or `https://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        let scheme = match self.authority {
            Some(_) => "https",
            None => "http",
        };
        format!("{scheme}://{}", self.address)
    }

    /// Returns the host's name in OCI references, `127.0.0.1:PORT`.
    pub fn name(&self) -> String {
        self.address.to_string()
    }

    /// Returns the certificate authority (PEM); empty without TLS.
    pub fn authority(&self) -> &str {
        self.authority.as_deref().unwrap_or_default()
    }

    /// Serves bytes at a path such as `/stable/index.yaml`.
    pub fn put(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.state().files.insert(path.to_owned(), bytes.into());
    }

    /// Returns the bytes at a path, empty if nothing is stored there.
    pub fn file(&self, path: &str) -> Vec<u8> {
        self.state().files.get(path).cloned().unwrap_or_default()
    }

    /// Sends this validator with every file from now on.
    pub fn set_validators(&self, which: Validators) {
        self.state().validators = Some(which);
    }

    /// Requires this login from now on: files take it directly, the registry requires a token that
    /// is requested with it.
    pub fn require(&self, user: &str, password: &str) {
        self.state().login = Some((user.to_owned(), password.to_owned()));
    }

    /// Answers requests for a path with this fault from now on.
    pub fn fault(&self, path: &str, fault: Fault) {
        self.state().faults.insert(path.to_owned(), fault);
    }

    /// Returns the requests so far and clears the list.
    pub fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.state().calls)
    }

    /// Enables the registry's referrers API of the OCI distribution specification 1.1.
    pub fn list_referrers(&self) {
        self.state().registry.lists_referrers = true;
    }

    /// Returns the digest of a manifest in the registry, by its tag.
    pub fn digest(&self, repository: &str, tag: &str) -> String {
        let state = self.state();
        let digest = state.registry.digest(repository, tag);
        digest.unwrap_or_else(|| panic!("no {repository}:{tag} in the registry"))
    }

    /// Adds another tag to a manifest of the registry.
    pub fn retag(&self, repository: &str, from: &str, to: &str) {
        self.state().registry.retag(repository, from, to);
    }

    /// Replaces the bytes of every blob of the registry, so that digests do not match.
    pub fn spoil_blobs(&self) {
        self.state().registry.spoil();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
