//! Real Kubernetes clusters: the kube-apiserver over a shared etcd.
//!
//! No controllers run, except for the one of [`Cluster::aggregate_roles`]: a Deployment never
//! becomes ready, a Namespace stays in `Terminating`, garbage is not collected.
//! [`Cluster::make_ready`] and [`Cluster::finish_namespace`] do their work for a test that needs
//! it.

mod api;
mod audit;
mod certificates;
mod etcd;
mod metrics;
mod remote;
mod trust;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use api::{Api, Refused};
pub use audit::Request;
pub use metrics::Writes;
use serde_json::Value;

use self::certificates::ClientAuthority;
use self::etcd::Etcd;
use crate::http::Http;
use crate::process::Server;
use crate::{ports, tools};

/// The user of [`Cluster::token`], a member of `system:masters`.
pub const ADMIN: &str = "driftless-admin";

/// Objects that the API server creates for itself after it reports that it is ready.
/// A cluster waits for them, so that the counts of a test do not include them.
const STARTED: [&str; 6] = [
    "/api/v1/namespaces/default",
    "/api/v1/namespaces/kube-system",
    "/api/v1/namespaces/kube-public",
    "/api/v1/namespaces/kube-node-lease",
    "/api/v1/namespaces/default/services/kubernetes",
    "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking",
];

static COUNTER: AtomicU32 = AtomicU32::new(0);

/// The time that a watch stays open.
const WATCH_TIME: Duration = Duration::from_secs(7200);

/// A kubeconfig that leads to no running server.
pub const KUBECONFIG: &str = "apiVersion: v1
kind: Config
clusters:
- name: c
  cluster: {server: 'https://edge-1.example.com:6443'}
users:
- name: u
  user: {token: a-token}
contexts:
- name: x
  context: {cluster: c, user: u}
current-context: x
";

/// One API server with its own data, ended when it is dropped.
pub struct Cluster {
    name: String,
    prefix: String,
    port: u16,
    token: String,
    ca: String,
    api: Api,
    clients: Mutex<ClientAuthority>,
    // Dropped in this order: the server, its store, its files.
    server: Mutex<Option<Server>>,
    etcd: Arc<Etcd>,
    directory: tempfile::TempDir,
}

impl Cluster {
    /// Starts an empty cluster and waits until it is ready.
    pub fn start(name: &str) -> Self {
        let cluster = Self::new(name, audit::POLICY);
        cluster.resume();
        cluster
    }

    /// Starts an empty cluster whose requests are measured: its log has no objects, so that it
    /// takes little time ([`Cluster::written`] finds nothing).
    pub fn start_measured(name: &str) -> Self {
        let cluster = Self::new(name, audit::SHORT_POLICY);
        cluster.resume();
        cluster
    }

    /// Prepares a cluster that does not run yet.
    fn new(name: &str, log_policy: &str) -> Self {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let directory = tempfile::Builder::new()
            .prefix(&format!("driftless-{name}-"))
            .tempdir()
            .expect("create the cluster's directory");
        let token = format!("token-of-{name}-{number}-{}", std::process::id());
        let ca = certificates::write(directory.path());
        let port = ports::free();
        write_configuration(directory.path(), &token, log_policy);
        Self {
            name: name.to_owned(),
            prefix: format!("/{name}-{number}"),
            port,
            api: Api::new(port, &ca, &token),
            token,
            ca,
            clients: Mutex::new(ClientAuthority::write(directory.path())),
            server: Mutex::new(None),
            etcd: Etcd::shared(),
            directory,
        }
    }

    /// Starts several clusters in parallel; returns them in the order of the names.
    pub fn start_all<const N: usize>(names: [&str; N]) -> [Self; N] {
        // Build the program once, before the threads start.
        tools::KUBE_APISERVER.path();
        std::thread::scope(|scope| {
            names
                .map(|name| scope.spawn(move || Self::start(name)))
                .map(|cluster| {
                    cluster
                        .join()
                        .unwrap_or_else(|e| std::panic::resume_unwind(e))
                })
        })
    }

    /// Stops the API server; the data and the address are kept. Until
    /// [`Cluster::resume`], connections are refused.
    pub fn stop(&self) {
        if let Some(mut server) = self.server().take() {
            server.stop();
        }
    }

    /// Starts the API server again on the same address and data.
    pub fn resume(&self) {
        let mut slot = self.server();
        if slot.is_some() {
            return;
        }
        let mut server = Server::start(
            &format!("kube-apiserver of {}", self.name),
            &tools::KUBE_APISERVER.path(),
            self.arguments(),
            &[],
            &self.log(),
        );
        server.wait_ready(|| {
            self.api.is_ready() && STARTED.iter().all(|path| self.api.get(path).is_ok())
        });
        *slot = Some(server);
    }

    /// Runs the real controller that fills aggregated ClusterRoles, until the returned server is
    /// dropped.
    pub fn aggregate_roles(&self) -> Server {
        let ca = self.directory.path().join("ca.crt");
        std::fs::write(&ca, &self.ca).expect("write the cluster's authority");
        let ca = ca.display().to_string();
        let mut controller = Server::start(
            &format!("cluster-roles of {}", self.name),
            &tools::CLUSTER_ROLES.path(),
            [self.url().as_str(), &ca, &self.token],
            &[],
            &self.directory.path().join("cluster-roles.log"),
        );
        controller.wait_ready(|| {
            let admin = "/apis/rbac.authorization.k8s.io/v1/clusterroles/admin";
            let admin = self.api.find(admin);
            admin.is_some_and(|role| role["rules"].is_array())
        });
        controller
    }

    /// Returns the name that the cluster was started with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the server's address, `https://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Returns the administrator's bearer token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Returns the certificate authority, PEM.
    pub fn ca(&self) -> &str {
        &self.ca
    }

    /// Returns a client that acts as the administrator.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// Returns a client with another bearer token.
    pub fn api_with_token(&self, token: &str) -> Api {
        Api::new(self.port, &self.ca, token)
    }

    /// Returns a function that opens a watch of a collection, such as `/api/v1/configmaps`, from
    /// its current state on: the events, each a line. It returns `None` if the server has ended.
    pub fn watch(&self, collection: &str) -> impl Fn() -> Option<Box<dyn BufRead>> + Send + use<> {
        let http = Http::trusting_patient(&self.ca, WATCH_TIME);
        let http = http.with_header("authorization", &format!("Bearer {}", self.token));
        let url = format!("{}{collection}?watch=true&timeoutSeconds=7200", self.url());
        move || {
            let events = http.stream(&url).ok()?;
            Some(Box::new(BufReader::with_capacity(1 << 20, events)))
        }
    }

    /// Returns the counts of write requests so far; see [`Writes::since`] for a difference.
    pub fn writes(&self) -> Writes {
        Writes::parse(&self.api.text("/metrics"))
    }

    /// Returns the requests that the server answered so far, oldest first, without its own.
    pub fn requests(&self) -> Vec<Request> {
        audit::read(&self.directory.path().join("audit.jsonl"))
    }

    /// Returns the accepted writes of ConfigMaps so far, oldest first, each with the resulting
    /// object; a delete has none.
    pub fn written(&self) -> Vec<(Request, Option<Value>)> {
        audit::written(&self.directory.path().join("audit.jsonl"))
    }

    /// Returns the path of the server's log file.
    pub fn log(&self) -> PathBuf {
        self.directory.path().join("kube-apiserver.log")
    }

    fn server(&self) -> MutexGuard<'_, Option<Server>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arguments(&self) -> Vec<String> {
        let file = |name: &str| self.directory.path().join(name).display().to_string();
        let mut arguments = vec![
            format!("--etcd-servers={}", self.etcd.url()),
            format!("--etcd-prefix={}", self.prefix),
            format!("--secure-port={}", self.port),
            "--bind-address=127.0.0.1".into(),
            format!("--tls-cert-file={}", file("server.crt")),
            format!("--tls-private-key-file={}", file("server.key")),
            format!("--token-auth-file={}", file("tokens.csv")),
            format!("--client-ca-file={}", file("clients.crt")),
            "--authorization-mode=RBAC".into(),
            "--allow-privileged=true".into(),
            format!("--service-account-jwks-uri={}/openid/v1/jwks", self.url()),
            format!("--service-account-key-file={}", file("sa.pub")),
            format!("--service-account-signing-key-file={}", file("sa.key")),
            "--service-cluster-ip-range=10.0.0.0/24".into(),
            // No controller creates default ServiceAccounts, and no node runs a Pod.
            "--disable-admission-plugins=ServiceAccount".into(),
            "--endpoint-reconciler-type=none".into(),
            format!("--audit-policy-file={}", file("audit-policy.yaml")),
            format!("--audit-log-path={}", file("audit.jsonl")),
            "--audit-log-mode=blocking".into(),
            "--profiling=false".into(),
        ];
        arguments.extend(self.issuers());
        arguments
    }
}

fn write_configuration(directory: &std::path::Path, token: &str, log_policy: &str) {
    let write = |name: &str, text: &str| {
        std::fs::write(directory.join(name), text).unwrap_or_else(|e| panic!("write {name}: {e}"));
    };
    write(
        "tokens.csv",
        &format!("{token},{ADMIN},{ADMIN},\"system:masters\"\n"),
    );
    write("audit-policy.yaml", log_policy);
}

/// Returns a client without credentials that trusts this authority.
fn anonymous(ca: &str) -> Http {
    Http::trusting(ca)
}
