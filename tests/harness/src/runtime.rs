//! The runtime of the servers of this crate, and servers on it: the test may have another runtime.

use crate::tls::Identity;
use axum::Router;
use std::net::SocketAddr;
use std::sync::OnceLock;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// Returns the runtime, which is started once in a process.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("harness")
            .enable_all()
            .build()
            .expect("a runtime")
    })
}

/// A server on a loopback port; it ends when this value is dropped.
pub(crate) struct Listening {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Listening {
    /// Starts a server, with TLS if it has an identity.
    pub fn start(app: Router, identity: Option<Identity>) -> Self {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("bind a loopback port");
        socket.set_nonblocking(true).expect("a non-blocking socket");
        let address = socket.local_addr().expect("a local address");
        let task = runtime().spawn(async move {
            let listener = TcpListener::from_std(socket).expect("a listener");
            let served = match identity {
                None => axum::serve(listener, app).await,
                Some(identity) => axum::serve(identity.listen(listener), app).await,
            };
            served.expect("serve");
        });
        Self { address, task }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}
