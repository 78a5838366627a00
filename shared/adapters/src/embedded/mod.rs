//! Kubernetes API servers in this process: [`driftless_apiserver`] with a clock, users, clients and
//! listeners.
//!
//! ```text
//! Embedded --service(user)--> kube::Client            no socket, no TLS
//!          --cluster(user)--> dyn Cluster             the core's port
//!          --serve(address)-> Listener                HTTPS for kubectl, flux and helm
//! EmbeddedClusters            dyn Clusters            kubeconfigs of these servers, no socket
//! ```
//!
//! The server itself is a value without tasks. This module adds the time and the uids (from a
//! [`Clock`]), tokens for its users, streams for its watches, and after each write the effects of
//! the namespace controller and the garbage collector. Other controllers are missing, so a
//! Deployment never becomes ready by itself, unless the server was created with
//! [`Embedded::with_workloads`], which simulates that all pods run.

mod clusters;
mod kubeconfig;
mod listener;
mod service;
mod tls;
mod users;

pub use clusters::EmbeddedClusters;
pub use kubeconfig::kubeconfig;
pub use listener::Listener;
pub use service::{EmbeddedService, ResponseBody};

use crate::cluster::KubeCluster;
use driftless_apiserver::{Clock as ServerClock, Request, Response, Server, User, Watch};
use driftless_kernel::ports::{Clock, Result};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use users::Tokens;

/// An API server in this process. Clones share one server.
#[derive(Clone)]
pub struct Embedded {
    shared: Arc<Shared>,
}

struct Shared {
    server: Mutex<Server>,
    tokens: Mutex<Tokens>,
    /// The latest resourceVersion, for which watches wait.
    version: watch::Sender<u64>,
    clock: Arc<dyn Clock>,
    /// True if workloads get the status of workloads whose pods run.
    workloads: bool,
    /// The objects about which admission policies warned, with the warnings.
    warned: Mutex<BTreeSet<(String, String)>>,
}

/// The prefix of the warnings of admission policies.
const WARNS: &str = "299 - \"Validation failed for ValidatingAdmissionPolicy";

impl Embedded {
    /// Creates a cluster. `clock` determines the times of its objects, their uids and the length of
    /// its watches.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self::start(Server::new(server_clock(clock.as_ref())), clock, false)
    }

    /// Creates a cluster whose workloads have the status as if all of their pods ran: see
    /// [`Server::run_workloads`].
    pub fn with_workloads(clock: Arc<dyn Clock>) -> Self {
        Self::start(Server::new(server_clock(clock.as_ref())), clock, true)
    }

    /// Creates a cluster with an existing server and its objects.
    pub fn with_server(server: Server, clock: Arc<dyn Clock>) -> Self {
        Self::start(server, clock, false)
    }

    fn start(server: Server, clock: Arc<dyn Clock>, workloads: bool) -> Self {
        Self {
            shared: Arc::new(Shared {
                version: watch::Sender::new(server.version()),
                server: Mutex::new(server),
                tokens: Mutex::default(),
                clock,
                workloads,
                warned: Mutex::default(),
            }),
        }
    }

    /// Sets the version of Kubernetes that the server reports: major, minor and patch.
    pub fn set_kubernetes_version(&self, kubernetes: [u64; 3]) {
        self.with(|server, _| server.set_version(kubernetes));
    }

    /// Answers a request, then runs the controllers that every cluster has.
    pub fn handle(&self, request: &Request) -> Response {
        let now = server_clock(self.shared.clock.as_ref());
        let mut server = self.server();
        let before = server.version();
        let response = server.handle(request, now.clone());
        self.remember_warnings(&response);
        if server.version() != before {
            server.settle(&now);
            if self.shared.workloads {
                server.run_workloads(&now);
            }
            self.shared.version.send_replace(server.version());
        }
        response
    }

    fn remember_warnings(&self, response: &Response) {
        let warnings = response.headers.iter().map(|(_, value)| value);
        let mut warnings = warnings.filter(|value| value.starts_with(WARNS)).peekable();
        if warnings.peek().is_none() {
            return;
        }
        let object = response.value().map(|value| {
            let string = |pointer| value.pointer(pointer).and_then(Value::as_str);
            let parts = [
                string("/kind"),
                string("/metadata/namespace"),
                string("/metadata/name"),
            ];
            parts.into_iter().flatten().collect::<Vec<_>>().join("/")
        });
        let object = object.unwrap_or_default();
        let mut known = lock(&self.shared.warned);
        for value in warnings {
            let text = value.trim_start_matches("299 - \"").trim_end_matches('"');
            let text = text.replace("\\\"", "\"").replace("\\\\", "\\");
            known.insert((object.clone(), text));
        }
    }

    /// Returns the objects about which admission policies have warned, as `KIND/NAMESPACE/NAME`,
    /// each with the warning.
    pub fn policy_warnings(&self) -> BTreeSet<(String, String)> {
        lock(&self.shared.warned).clone()
    }

    /// Runs a function on the server itself, for changes that no request can make.
    pub fn with<T>(&self, work: impl FnOnce(&mut Server, ServerClock) -> T) -> T {
        let now = server_clock(self.shared.clock.as_ref());
        let mut server = self.server();
        let done = work(&mut server, now);
        let version = server.version();
        self.shared
            .version
            .send_if_modified(|known| std::mem::replace(known, version) != version);
        done
    }

    /// Issues a new bearer token of a user, for [`kubeconfig`].
    pub fn token(&self, user: User) -> String {
        let nonce = self.shared.clock.nonce();
        self.tokens().issue(user, nonce)
    }

    /// Returns a service for `kube::Client::new` that acts as one user.
    pub fn service(&self, user: User) -> EmbeddedService {
        EmbeddedService::new(self.clone(), users::UserSource::Known(user))
    }

    /// Returns a client for the core that acts as one user. `name` is for messages. It must be
    /// called within a tokio runtime.
    ///
    /// # Errors
    /// Never fails with an embedded server.
    pub fn cluster(&self, user: User, name: &str) -> Result<KubeCluster> {
        KubeCluster::from_service(self.service(user), name, None)
    }

    fn poll(&self, watch: &mut Watch) -> Vec<Value> {
        self.server().poll(watch)
    }

    fn server(&self) -> MutexGuard<'_, Server> {
        lock(&self.shared.server)
    }

    fn tokens(&self) -> MutexGuard<'_, Tokens> {
        lock(&self.shared.tokens)
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.shared.clock.clone()
    }

    /// Subscribes to the latest resourceVersion, to wait for changes.
    pub fn versions(&self) -> watch::Receiver<u64> {
        self.shared.version.subscribe()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn server_clock(clock: &dyn Clock) -> ServerClock {
    ServerClock {
        now: jiff::Timestamp::UNIX_EPOCH + clock.now(),
        seed: u128::from_be_bytes(clock.nonce()),
    }
}
