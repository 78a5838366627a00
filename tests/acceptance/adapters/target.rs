//! The API servers of the cluster adapter's suite: a real kube-apiserver, and an embedded one in
//! this process.

use driftless_adapters::cluster::KubeClusters;
use driftless_adapters::embedded::{Embedded, EmbeddedClusters, Listener};
use driftless_adapters::local::SystemClock;
use driftless_apiserver::{Request, User};
use driftless_harness::cluster::{ADMIN, Cluster};
use driftless_kernel::ports::Clusters;
use serde_json::{Value, json};
use std::sync::{Arc, OnceLock};
use tokio::runtime::Runtime;

/// One API server for all tests of its kind.
#[derive(Clone, Copy)]
pub enum Target {
    Real(&'static Cluster),
    Embedded(&'static InProcess),
}

/// An embedded server, also served over HTTPS.
pub struct InProcess {
    server: Embedded,
    listener: Listener,
    /// The runtime of the listener; a test's own runtime ends with the test.
    _runtime: Runtime,
}

impl InProcess {
    pub fn start() -> Self {
        let runtime = Runtime::new().expect("start a runtime");
        let server = Embedded::new(Arc::new(SystemClock));
        let anywhere = "127.0.0.1:0".parse().expect("an address");
        let started = std::thread::scope(|scope| {
            let serve = || runtime.block_on(server.serve(anywhere));
            scope.spawn(serve).join().expect("the listener's thread")
        });
        Self {
            listener: started.expect("listen on loopback"),
            server,
            _runtime: runtime,
        }
    }

    pub fn authority(&self) -> &str {
        self.listener.authority()
    }

    fn send(&self, method: &str, path: &str, media: &str, body: &Value) -> Value {
        let request = Request::new(method, path, User::admin(ADMIN));
        let body = body.to_string();
        let answer = self.server.handle(&request.with_body(media, body));
        let value = answer.value().cloned().unwrap_or_default();
        assert!(answer.status < 300, "{method} {path}: {value}");
        value
    }
}

impl Target {
    pub fn real() -> Self {
        static SERVER: OnceLock<Cluster> = OnceLock::new();
        Self::Real(SERVER.get_or_init(|| Cluster::start("adapters")))
    }

    pub fn embedded() -> Self {
        static SERVER: OnceLock<InProcess> = OnceLock::new();
        Self::Embedded(SERVER.get_or_init(InProcess::start))
    }

    /// Returns a kubeconfig of the administrator.
    pub fn kubeconfig(self) -> String {
        match self {
            Self::Real(server) => server.kubeconfig(),
            Self::Embedded(server) => server.listener.kubeconfig(User::admin(ADMIN)),
        }
    }

    pub fn authority(self) -> &'static str {
        match self {
            Self::Real(server) => server.ca(),
            Self::Embedded(server) => server.authority(),
        }
    }

    /// Returns the adapter: over the network, or without a socket.
    pub fn clusters(self) -> Arc<dyn Clusters> {
        match self {
            Self::Real(_) => Arc::new(KubeClusters::new()),
            Self::Embedded(server) => {
                let clusters = EmbeddedClusters::new();
                clusters.add(&server.listener.url(), &server.server);
                Arc::new(clusters)
            }
        }
    }

    pub fn get(self, path: &str) -> Value {
        match self {
            Self::Real(server) => server.api().get(path).expect("the object"),
            Self::Embedded(server) => server.send("GET", path, "", &Value::Null),
        }
    }

    /// Applies an object server-side, with force.
    pub fn apply(self, path: &str, object: &Value) {
        match self {
            Self::Real(server) => {
                server.api().apply(path, "platform", object).expect(path);
            }
            Self::Embedded(server) => {
                let path = format!("{path}?fieldManager=platform&force=true");
                server.send("PATCH", &path, "application/apply-patch+yaml", object);
            }
        }
    }

    pub fn delete(self, path: &str) {
        match self {
            Self::Real(server) => {
                server.api().delete(path).expect(path);
            }
            Self::Embedded(server) => {
                server.send("DELETE", path, "", &Value::Null);
            }
        }
    }

    /// Makes sure that a namespace exists.
    pub fn namespace(self, name: &str) {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.apply(&format!("/api/v1/namespaces/{name}"), &object);
    }

    /// Returns the requests that the server received; only a real server keeps an audit log.
    pub fn requests(self) -> Option<Vec<driftless_harness::cluster::Request>> {
        match self {
            Self::Real(server) => Some(server.requests()),
            Self::Embedded(_) => None,
        }
    }
}
