//! A hub in this process, which other processes can reach. It needs only Rust.

use driftless_adapters::embedded::{Embedded, Listener};
use driftless_adapters::local::SystemClock;
use driftless_apiserver::User;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::runtime::Runtime;

/// The running server, which is ended on drop.
pub struct Hub {
    server: Embedded,
    listener: Listener,
    _runtime: Runtime,
}

impl Hub {
    /// Starts the server in its own thread.
    pub fn start() -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let server = Embedded::with_workloads(Arc::new(SystemClock));
        let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = runtime.block_on(server.serve(anywhere)).expect("listen");
        Self {
            server,
            listener,
            _runtime: runtime,
        }
    }

    /// Returns the kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> String {
        self.listener.kubeconfig(User::admin("admin"))
    }

    /// Returns the bearer token of an administrator.
    pub fn token(&self) -> String {
        self.server.token(User::admin("admin"))
    }
}
