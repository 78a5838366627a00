//! One etcd for each test process; each cluster has its own prefix.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::http::Http;
use crate::process::Server;
use crate::{ports, tools};

/// The shared store; the process ends and its data are removed with the last cluster.
pub(super) struct Etcd {
    url: String,
    _server: Server,
    _directory: tempfile::TempDir,
}

impl Etcd {
    /// Returns the etcd of this process; starts it if it does not run.
    pub(super) fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Etcd>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let etcd = Arc::new(start());
            *shared = Arc::downgrade(&etcd);
            etcd
        })
    }

    /// Returns the address for clients.
    pub(super) fn url(&self) -> &str {
        &self.url
    }
}

fn start() -> Etcd {
    let program = tools::ETCD.path();
    let directory = tempfile::Builder::new()
        .prefix("driftless-etcd-")
        .tempdir()
        .expect("create etcd's directory");
    let url = format!("http://127.0.0.1:{}", ports::free());
    let peers = format!("http://127.0.0.1:{}", ports::free());
    let data = directory.path().join("data").display().to_string();
    let mut server = Server::start(
        "etcd",
        &program,
        [
            "--data-dir",
            &data,
            "--listen-client-urls",
            &url,
            "--advertise-client-urls",
            &url,
            "--listen-peer-urls",
            &peers,
            "--initial-advertise-peer-urls",
            &peers,
            "--initial-cluster",
            &format!("default={peers}"),
            // The data is removed after the test.
            "--unsafe-no-fsync",
            "--log-level",
            "warn",
        ],
        &[],
        &directory.path().join("etcd.log"),
    );
    let http = Http::plain();
    let health = format!("{url}/health");
    server.wait_ready(|| {
        http.send("GET", &health, &[], None)
            .is_ok_and(|answer| answer.status == 200)
    });
    Etcd {
        url,
        _server: server,
        _directory: directory,
    }
}
