//! The fleet: a directory as its repository, one hub, and for each remote cluster a kubeconfig
//! Secret and a Kustomization.

use driftless_adapters::embedded::{Embedded, EmbeddedClusters, kubeconfig};
use driftless_adapters::git::DirectoryGit;
use driftless_adapters::local::{LocalSecrets, SystemClock};
use driftless_adapters::offline::Offline;
use driftless_apiserver::{Request as Asked, User};
use driftless_core::bootstrap::{self, Root};
use driftless_core::step;
use driftless_flux::FLUX_SYSTEM;
use driftless_flux::{FluxKind, ObjectRef};
use driftless_kernel::hub::{self, Settings};
use driftless_kernel::ports::{
    ApplyRequest, Cause, Cluster, Inline, Ports, Queue as _, Request, Secret,
};
use driftless_manifest::{Gvk, Object};
use driftless_memory::{MemoryBlobs, MemoryQueue};
use futures::stream::{FuturesUnordered, StreamExt};
use serde_json::{Value, json};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

const URL: &str = "https://github.com/example/fleet";
const HUB: &str = "hub";
/// The number of steps that run at a time.
const AT_A_TIME: usize = 64;
/// The time for which a step waits for health.
const PATIENCE: Duration = Duration::from_secs(5);

pub struct World {
    ports: Arc<Ports>,
    queue: Arc<MemoryQueue>,
    remotes: Vec<Embedded>,
    _directory: TempDir,
}

impl World {
    /// Starts all servers and installs the hub, without a sync.
    pub async fn start(clusters: usize, objects: usize) -> Self {
        let directory = fleet(clusters, objects);
        let clock = Arc::new(SystemClock);
        let known = Arc::new(EmbeddedClusters::new());
        let hub = Embedded::new(clock.clone());
        let secrets = [(format!("hubs/{HUB}"), cluster(&known, HUB, &hub))];
        let git = DirectoryGit::new(Duration::ZERO)
            .with(URL, None, directory.path())
            .expect("the directory");
        let queue = Arc::new(MemoryQueue::default());
        let ports = Ports {
            git: Arc::new(git),
            charts: Arc::new(Offline),
            buckets: Arc::new(Offline),
            blobs: Arc::new(MemoryBlobs::default()),
            queue: queue.clone(),
            secrets: Arc::new(LocalSecrets::new(secrets.into(), None)),
            clusters: known.clone(),
            clouds: Offline::clouds(),
            notifiers: Arc::new(Offline),
            clock,
            compute: Arc::new(Inline),
            files: Arc::default(),
            read: Arc::default(),
            watches: Arc::default(),
            throttle: Arc::default(),
        };
        let remotes = (0..clusters).map(|_| Embedded::new(Arc::new(SystemClock)));
        let world = Self {
            ports: Arc::new(ports),
            queue,
            remotes: remotes.collect(),
            _directory: directory,
        };
        world.install(&known).await;
        world
    }

    /// Applies to the hub what `driftless bootstrap` and a platform team would.
    async fn install(&self, known: &EmbeddedClusters) {
        let settings = Settings {
            name: HUB.to_owned(),
            ..Settings::default()
        };
        hub::register(&self.ports, &settings)
            .await
            .expect("register");
        let hub = hub::connect(&self.ports, HUB).await.expect("connect");
        let server = hub.cluster.as_ref();
        let clock = self.ports.clock.as_ref();
        bootstrap::install(server, clock).await.expect("install");
        let root = Root {
            name: FLUX_SYSTEM.to_owned(),
            url: URL.to_owned(),
            branch: "main".to_owned(),
            path: "hub".to_owned(),
            secret: None,
        };
        bootstrap::create_root(server, &root)
            .await
            .expect("create the root");
        for (number, remote) in self.remotes.iter().enumerate() {
            let text = cluster(known, &name(number), remote);
            let metadata = json!({"name": name(number), "namespace": FLUX_SYSTEM});
            let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata,
                "stringData": {"value": text.expose_str()}});
            apply(server, secret).await;
        }
    }

    /// Runs steps until nothing is due: from the source for a push, from every Kustomization for
    /// the timer. Returns the number of steps.
    pub async fn sync(&self, cause: Cause) -> usize {
        let ids: Vec<ObjectRef> = match cause {
            Cause::Push => vec![ObjectRef::new(
                FluxKind::GitRepository,
                FLUX_SYSTEM,
                FLUX_SYSTEM,
            )],
            _ => (0..self.remotes.len())
                .map(|number| ObjectRef::new(FluxKind::Kustomization, FLUX_SYSTEM, name(number)))
                .collect(),
        };
        let request = |object| Request::new(HUB, object, cause.clone());
        let requests = ids.into_iter().map(|id| (request(id), Duration::ZERO));
        self.queue.send(requests.collect()).await.expect("queued");
        let (mut due, mut running, mut steps) = (VecDeque::new(), FuturesUnordered::new(), 0);
        loop {
            self.take(&mut due);
            while running.len() < AT_A_TIME
                && let Some(request) = due.pop_front()
            {
                let ports = self.ports.clone();
                running.push(tokio::spawn(async move {
                    step::run(&ports, &request, PATIENCE).await
                }));
                steps += 1;
            }
            match running.next().await {
                Some(ended) => {
                    let outcome = ended.expect("no panic").expect("the stores answer");
                    assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
                }
                None => return steps,
            }
        }
    }

    /// Appends the requests that are due now to the waiting ones, without duplicates.
    fn take(&self, due: &mut VecDeque<Request>) {
        let mut known: HashSet<Request> = due.iter().cloned().collect();
        let sent = self.queue.take().into_iter();
        // A worker that finds an object leased by another one requeues it after a few seconds:
        // here, at once.
        let new = sent.filter(|(_, delay)| *delay < Duration::from_secs(60));
        due.extend(new.filter_map(|(request, _)| known.insert(request.clone()).then_some(request)));
    }

    /// Returns the number of the fleet's objects on remote clusters.
    pub fn objects(&self) -> usize {
        let count = |remote: &Embedded| {
            let names = [
                "/api/v1/namespaces",
                "/api/v1/configmaps",
                "/api/v1/services",
                "/apis/apps/v1/deployments",
            ];
            let all = names.iter().map(|path| list(remote, path));
            all.sum::<usize>()
        };
        self.remotes.iter().map(count).sum()
    }

    /// Returns the newest resource version of every remote cluster.
    pub fn versions(&self) -> Vec<u64> {
        let newest = |remote: &Embedded| *remote.versions().borrow();
        self.remotes.iter().map(newest).collect()
    }
}

/// Counts the objects with the fleet's label.
fn list(remote: &Embedded, path: &str) -> usize {
    let answer = remote.handle(&Asked {
        method: "GET".to_owned(),
        path: path.to_owned(),
        query: "labelSelector=app.kubernetes.io/part-of%3Dfleet".to_owned(),
        user: User::admin("bench"),
        ..Asked::default()
    });
    let items = answer.value().and_then(|list| list["items"].as_array());
    items.expect("a list").len()
}

/// Registers a server and returns its kubeconfig.
fn cluster(known: &EmbeddedClusters, name: &str, server: &Embedded) -> Secret {
    let address = format!("https://{name}.bench.internal");
    known.add(&address, server);
    Secret::new(kubeconfig(
        &address,
        None,
        &server.token(User::admin("bench")),
    ))
}

async fn apply(server: &dyn Cluster, object: Value) {
    let object = Object::new(object).expect("an object");
    let gvk = Gvk::new(object.api_version(), object.kind());
    let resource = server.resource(&gvk).await.expect("discovery");
    let resource = resource.expect("a built-in kind");
    let request = ApplyRequest {
        resource: &resource,
        object: &object,
        manager: "bench",
        force: true,
        dry_run: false,
    };
    server.apply(&request).await.expect("applied");
}

fn name(number: usize) -> String {
    format!("cluster-{number}")
}

/// Writes the repository: the hub's directory with a Kustomization for each cluster, and the apps
/// that all of them run.
fn fleet(clusters: usize, objects: usize) -> TempDir {
    let directory = TempDir::new().expect("a directory");
    let write = |path: &str, documents: Vec<Value>| {
        let path = directory.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        let text: Vec<String> = documents.iter().map(Value::to_string).collect();
        std::fs::write(path, text.join("\n---\n")).expect("a file");
    };
    write(
        "hub/clusters.yaml",
        (0..clusters).map(kustomization).collect(),
    );
    write("apps/apps.yaml", apps(objects));
    directory
}

fn kustomization(number: usize) -> Value {
    json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": name(number), "namespace": FLUX_SYSTEM},
        "spec": {
            "interval": "10m", "path": "./apps", "prune": true,
            "sourceRef": {"kind": "GitRepository", "name": FLUX_SYSTEM},
            "kubeConfig": {"secretRef": {"name": name(number)}},
        },
    })
}

/// Returns a namespace, and in it Deployments, Services and ConfigMaps in turn.
fn apps(count: usize) -> Vec<Value> {
    let labels = json!({"app.kubernetes.io/part-of": "fleet"});
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "apps", "labels": labels}});
    let others = (1..count).map(|number| match number % 3 {
        0 => config_map(number),
        1 => deployment(number),
        _ => service(number),
    });
    std::iter::once(namespace).chain(others).collect()
}

fn metadata(number: usize) -> Value {
    let labels = json!({"app.kubernetes.io/part-of": "fleet"});
    json!({"name": format!("app-{number}"), "namespace": "apps", "labels": labels})
}

fn config_map(number: usize) -> Value {
    let data = json!({"config.yaml": "level: info\n".repeat(20)});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(number), "data": data})
}

fn service(number: usize) -> Value {
    let ports = json!([{"name": "http", "port": 80, "targetPort": "http"}]);
    let spec = json!({"selector": {"app": format!("app-{number}")}, "ports": ports});
    json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata(number), "spec": spec})
}

fn deployment(number: usize) -> Value {
    let labels = json!({"app": format!("app-{number}")});
    let container = json!({
        "name": "main", "image": "registry.example/app:1.0",
        "ports": [{"name": "http", "containerPort": 8080}],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata(number),
        "spec": {
            "replicas": 2, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    })
}
