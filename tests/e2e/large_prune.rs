//! The deletion of thousands of objects on a cluster that answers slowly: it ends after a finite
//! number of steps. Time is virtual, also in concurrent requests.

use async_trait::async_trait;
use driftless_adapters::cluster::KubeCluster;
use driftless_adapters::embedded::{Embedded, ResponseBody, kubeconfig};
use driftless_apiserver::{Body, Request as ApiRequest, User};
use driftless_core::bootstrap;
use driftless_core::step;
use driftless_flux::{FluxKind, GitReference, ObjectRef};
use driftless_kernel::hub::{self, Settings};
use driftless_kernel::ports::{
    Access, Cause, Clock, Cluster, Clusters, Commit, FetchLimits, Git, GitAuth, Impersonation,
    Ports, Request as Work, Result as PortResult, Secret,
};
use driftless_manifest::{EntryKind, FileTree, TreePath, git_tree_id};
use driftless_memory::{MemoryQueue, MemorySecrets};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;

const HUB: &str = "hub";
const URL: &str = "https://hub.embedded.internal";
/// The time limit of a step of the function.
const STEP: Duration = Duration::from_secs(115);
/// The time that a step may wait for health.
const WAIT_BUDGET: Duration = Duration::from_secs(8);
/// The delay after which the message of a step that was cut off is delivered again.
const REDELIVERY: Duration = Duration::from_secs(15);
/// More steps than any of the tests needs.
const MAX_STEPS: usize = 30;

/// The runtime's virtual time.
struct Virtual {
    start: Instant,
    nonces: AtomicU64,
}

#[async_trait]
impl Clock for Virtual {
    fn now(&self) -> Duration {
        Duration::from_secs(1_800_000_000) + self.start.elapsed()
    }

    async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    async fn timeout(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    fn nonce(&self) -> [u8; 16] {
        u128::from(self.nonces.fetch_add(1, Ordering::Relaxed)).to_be_bytes()
    }
}

/// An API server whose answers take `latency`.
#[derive(Clone)]
struct Slow {
    server: Embedded,
    latency: Duration,
    requests: Arc<AtomicUsize>,
}

impl<B> tower::Service<http::Request<B>> for Slow
where
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = http::Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let slow = self.clone();
        Box::pin(async move {
            slow.requests.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(slow.latency).await;
            let mut service = slow.server.service(User::admin("test"));
            service.call(request).await
        })
    }
}

/// Connects to the one server, with one client.
struct OneServer(Slow, OnceLock<KubeCluster>);

#[async_trait]
impl Clusters for OneServer {
    async fn connect(&self, _: &Access, _: Option<&Impersonation>) -> PortResult<Arc<dyn Cluster>> {
        let new = KubeCluster::from_service(self.0.clone(), URL, None)?;
        let client = self.1.get_or_init(|| new);
        Ok(Arc::new(client.clone()))
    }
}

/// A repository with one ConfigMap.
struct Repository(FileTree);

#[async_trait]
impl Git for Repository {
    async fn resolve(
        &self,
        _: &str,
        _: &GitReference,
        _: &GitAuth,
        _: Option<&Commit>,
    ) -> PortResult<Commit> {
        Ok(Commit {
            sha: git_tree_id(self.0.index()),
            name: "main".to_owned(),
            etag: None,
            tag: None,
        })
    }

    async fn fetch(
        &self,
        _: &str,
        _: &Commit,
        _: &GitAuth,
        _: FetchLimits,
    ) -> PortResult<FileTree> {
        Ok(self.0.clone())
    }
}

struct World {
    ports: Ports,
    server: Embedded,
    queue: Arc<MemoryQueue>,
    requests: Arc<AtomicUsize>,
}

/// The steps until nothing is due within a minute.
struct Run {
    steps: usize,
    cut_off: usize,
    requests: usize,
}

impl World {
    async fn start(latency: Duration) -> Self {
        let clock: Arc<dyn Clock> = Arc::new(Virtual {
            start: Instant::now(),
            nonces: AtomicU64::new(1),
        });
        let server = Embedded::new(clock.clone());
        let slow = Slow {
            server: server.clone(),
            latency,
            requests: Arc::default(),
        };
        let requests = slow.requests.clone();
        let mut files = FileTree::new();
        let path = TreePath::new("kept.yaml").unwrap();
        let kept =
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kept\n  namespace: default\n";
        files.insert(path, EntryKind::File, kept).unwrap();
        let token = server.token(User::admin("test"));
        let secret = Secret::new(kubeconfig(URL, None, &token));
        let queue = Arc::<MemoryQueue>::default();
        let ports = Ports {
            git: Arc::new(Repository(files)),
            secrets: Arc::new(MemorySecrets(BTreeMap::from([(
                format!("hubs/{HUB}"),
                secret,
            )]))),
            clusters: Arc::new(OneServer(slow, OnceLock::new())),
            clock,
            ..driftless_memory::ports(Arc::default(), queue.clone(), Arc::default())
        };
        let settings = Settings {
            name: HUB.to_owned(),
            ..Settings::default()
        };
        hub::register(&ports, &settings).await.expect("register");
        let hub = hub::connect(&ports, HUB).await.expect("connect");
        bootstrap::install(hub.cluster.as_ref(), ports.clock.as_ref())
            .await
            .expect("install");
        Self {
            ports,
            server,
            queue,
            requests,
        }
    }

    fn send(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let media = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = ApiRequest::new(method, path, User::admin("test"));
        let body = body.map(Value::to_string).unwrap_or_default();
        let answer = self.server.handle(&request.with_body(media, body));
        let Body::Json(value, _) = answer.body else {
            panic!("{method} {path}: the answer is not JSON")
        };
        (answer.status, value)
    }

    fn post(&self, path: &str, object: &Value) {
        let (status, answer) = self.send("POST", path, Some(object));
        assert_eq!(status, 201, "{path}: {answer}");
    }

    fn get(&self, path: &str) -> Value {
        self.send("GET", path, None).1
    }

    /// Creates the objects of the Kustomization `large`; returns its inventory.
    fn fill(&self, count: usize) -> Value {
        let labels = json!({"kustomize.toolkit.fluxcd.io/name": "large",
            "kustomize.toolkit.fluxcd.io/namespace": "flux-system"});
        let mut entries = Vec::new();
        for number in 0..count {
            let (kind, plural) = match number % 10 {
                0 => ("ServiceAccount", "serviceaccounts"),
                1..=3 => ("Secret", "secrets"),
                _ => ("ConfigMap", "configmaps"),
            };
            let namespace = ["default", "flux-system"][number % 2];
            let name = format!("stale-{number:05}");
            let object = json!({"apiVersion": "v1", "kind": kind, "metadata": {
                "name": name, "namespace": namespace, "labels": labels}});
            self.post(&format!("/api/v1/namespaces/{namespace}/{plural}"), &object);
            entries.push(json!({"id": format!("{namespace}_{name}__{kind}"), "v": "v1"}));
        }
        json!({"entries": entries})
    }

    /// Returns how many of the objects of [`World::fill`] are on the cluster.
    fn stale(&self) -> usize {
        let kinds = ["serviceaccounts", "secrets", "configmaps"].iter();
        let lists = kinds.map(|plural| self.get(&format!("/api/v1/{plural}")));
        let names = lists.flat_map(|list| list["items"].as_array().cloned().unwrap_or_default());
        names
            .filter(|item| {
                let name = item["metadata"]["name"].as_str().unwrap_or_default();
                name.starts_with("stale-")
            })
            .count()
    }

    /// Creates the Kustomization `large` with an inventory.
    fn kustomization(&self, inventory: &Value, annotations: &Value) {
        let all = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations";
        self.post(
            all,
            &json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"name": "large", "namespace": "flux-system",
                "finalizers": ["finalizers.fluxcd.io"], "annotations": annotations},
            "spec": {"interval": "10m", "path": "./", "prune": true,
                "sourceRef": {"kind": "GitRepository", "name": "fleet"}}}),
        );
        let status = json!({"status": {"inventory": inventory}});
        let path = format!("{all}/large/status");
        let (code, answer) = self.send("PATCH", &path, Some(&status));
        assert_eq!(code, 200, "{answer}");
    }

    /// Runs a request, and all that it queues within a minute, as SQS and the function do.
    async fn run(&self, kind: FluxKind, name: &str) -> Run {
        self.run_as(kind, name, &Cause::Requeue).await
    }

    /// Runs steps as [`World::run`] does; those that continue another one have the cause
    /// `continued`.
    async fn run_as(&self, kind: FluxKind, name: &str, continued: &Cause) -> Run {
        let object = ObjectRef::new(kind, "flux-system", name);
        let first = Work::new(HUB, object, Cause::Changed);
        let mut waiting = vec![(Instant::now(), first)];
        let before = self.requests.load(Ordering::Relaxed);
        let (mut steps, mut cut_off) = (0, 0);
        while let Some(next) = (0..waiting.len()).min_by_key(|at| waiting[*at].0) {
            let (due, work) = waiting.swap_remove(next);
            if due > Instant::now() + Duration::from_secs(60) {
                break;
            }
            tokio::time::sleep_until(due).await;
            let ran = step::run(&self.ports, &work, WAIT_BUDGET);
            match tokio::time::timeout(STEP, ran).await {
                Ok(outcome) => steps += usize::from(!outcome.expect("a step").is_skipped),
                Err(_) => {
                    (steps, cut_off) = (steps + 1, cut_off + 1);
                    waiting.push((Instant::now() + REDELIVERY, work));
                }
            }
            let sent = self.queue.take().into_iter();
            waiting.extend(sent.map(|(mut work, delay)| {
                if work.cause == Cause::Requeue {
                    work.cause = continued.clone();
                }
                (Instant::now() + delay, work)
            }));
            assert!(
                steps <= MAX_STEPS,
                "{} objects are left after {steps} steps, {cut_off} of them cut off",
                self.stale()
            );
        }
        Run {
            steps,
            cut_off,
            requests: self.requests.load(Ordering::Relaxed) - before,
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime")
}

/// Deletes a Kustomization that has applied `count` objects, on a server whose answers take
/// `latency`.
async fn delete(count: usize, latency: Duration) -> Run {
    let world = World::start(latency).await;
    let inventory = world.fill(count);
    world.kustomization(&inventory, &json!({}));
    let path = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/large";
    world.send("DELETE", path, None);
    let run = world.run(FluxKind::Kustomization, "large").await;
    assert_eq!(world.stale(), 0);
    assert_eq!(world.get(path)["code"], 404);
    run
}

#[test]
fn large_prune() {
    runtime().block_on(async {
        let run = delete(5000, Duration::from_millis(100)).await;
        println!(
            "5,000 objects at 100 ms: {} steps, {} requests",
            run.steps, run.requests
        );
        assert_eq!(run.cut_off, 0);
        assert!(run.steps <= 2, "{} steps", run.steps);
        // A DELETE for each object, a LIST of 500 objects for each page, and a write of the
        // inventory for each 200 objects.
        let rest = run.requests - 5000;
        assert!((20..=150).contains(&rest), "{rest} requests more");
    });
}

#[test]
fn a_deletion_goes_on_in_the_next_step() {
    runtime().block_on(async {
        let run = delete(2000, Duration::from_millis(800)).await;
        assert_eq!(run.cut_off, 0);
        assert!((2..=5).contains(&run.steps), "{} steps", run.steps);
        let rest = run.requests - 2000;
        assert!((10..=150).contains(&rest), "{rest} requests more");
    });
}

#[test]
fn a_prune_after_an_apply_goes_on_in_the_next_step() {
    // A push of other files can come before the message that continues the prune.
    for continued in [Cause::Requeue, Cause::Source] {
        prune_after_an_apply(&continued);
    }
}

fn prune_after_an_apply(continued: &Cause) {
    runtime().block_on(async {
        let world = World::start(Duration::from_millis(800)).await;
        let (git, reference) = (&world.ports.git, GitReference::default());
        let revision = git.resolve("", &reference, &GitAuth::Anonymous, None);
        let approved = json!({"driftless.dev/prune-approved": revision.await.unwrap().revision()});
        let inventory = world.fill(1200);
        world.kustomization(&inventory, &approved);
        world.post(
            "/apis/source.toolkit.fluxcd.io/v1/namespaces/flux-system/gitrepositories",
            &json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
            "metadata": {"name": "fleet", "namespace": "flux-system"},
            "spec": {"interval": "10m", "url": "https://github.com/acme/fleet",
                "ref": {"branch": "main"}}}),
        );
        let run = world
            .run_as(FluxKind::GitRepository, "fleet", continued)
            .await;
        assert_eq!(world.stale(), 0);
        assert_eq!(run.cut_off, 0);
        // One of the source, and at least two that prune.
        assert!((3..=5).contains(&run.steps), "{} steps", run.steps);
        let path =
            "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations/large";
        let status = &world.get(path)["status"];
        let entries = json!([{"id": "default_kept__ConfigMap", "v": "v1"}]);
        assert_eq!(status["inventory"]["entries"], entries, "{status}");
        let kept = world.get("/api/v1/namespaces/default/configmaps/kept");
        assert_eq!(kept["metadata"]["name"], "kept");
    });
}
