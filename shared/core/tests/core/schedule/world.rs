//! A hub with one GitRepository of `interval: 1m` whose host can fail, a queue like SQS, and a
//! timer. Time is virtual, and every port answers at once: a worker that does not has died.

use async_trait::async_trait;
use bytes::Bytes;
use driftless_core::{step, sweep};
use driftless_flux::GitReference;
use driftless_flux::{FluxKind, ObjectRef};
use driftless_kernel::hub::{self, Settings};
use driftless_kernel::ports::{
    Access, ApiCapabilities, ApplyRequest, BlobEntry, Blobs, Cause, Clock as _, Cluster, Clusters,
    Commit, Delete, Deleted, ErrorKind, FetchLimits, Git, GitAuth, Impersonation, ListRequest,
    Patch, PatchRequest, PortError, Ports, Precondition, PutOutcome, Queue, Request, Resource,
    Result, Secret, Token, TokenRequest, Version,
};
use driftless_manifest::{EntryKind, FileTree, Gvk, Object, TreePath};
use driftless_memory::{MemoryBlobs, MemorySecrets, SqsModel, TestClock};
use futures::FutureExt as _;
use futures::future::pending;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const HUB: &str = "hub";
const TICK: Duration = Duration::from_secs(60);
/// The visibility timeout of the queue in the template.
const VISIBILITY: Duration = Duration::from_secs(720);

/// The death of a worker: at its Nth call, before or after the effect.
#[derive(Clone, Copy, Debug)]
pub struct Crash {
    pub call: u64,
    pub is_after: bool,
}

/// Counts calls, and lets one worker die.
#[derive(Default)]
struct Calls {
    count: AtomicU64,
    crash: Mutex<Option<Crash>>,
    crashed: AtomicBool,
}

impl Calls {
    /// Runs a call of a worker.
    async fn pass<T>(&self, call: impl Future<Output = T>) -> T {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let crash = *self.crash.lock().unwrap();
        let crash = crash.filter(|crash| crash.call == number);
        if crash.is_some_and(|crash| !crash.is_after) {
            self.die().await;
        }
        let answer = call.await;
        if crash.is_some() {
            self.die().await;
        }
        answer
    }

    async fn die(&self) {
        self.crashed.store(true, Ordering::Relaxed);
        pending::<()>().await;
    }
}

type Meanwhile = Box<dyn FnOnce(&World) + Send>;

/// The hub, its host, the queue and the clock.
pub struct World {
    pub ports: Ports,
    pub clock: Arc<TestClock>,
    pub queue: Arc<SqsModel>,
    hub: Arc<Hub>,
    host: Arc<Host>,
    calls: Arc<Calls>,
    duplicates: Mutex<Vec<Duration>>,
    ticked: AtomicU64,
}

impl World {
    pub fn start() -> Arc<Self> {
        let clock = Arc::<TestClock>::default();
        let queue = Arc::new(SqsModel::new(clock.clone(), VISIBILITY));
        let calls = Arc::<Calls>::default();
        let hub = Arc::new(Hub::new(calls.clone()));
        let host = Arc::new(Host::new(calls.clone()));
        let blobs = Stored(MemoryBlobs::default(), calls.clone());
        let mut ports = driftless_memory::ports(Arc::default(), Arc::default(), clock.clone());
        ports.blobs = Arc::new(blobs);
        ports.queue = Arc::new(Sent(queue.clone(), calls.clone()));
        ports.clusters = Arc::new(Hubs(hub.clone()));
        ports.git = host.clone();
        let kubeconfig = "{apiVersion: v1, kind: Config, current-context: c,\
            clusters: [{name: c, cluster: {server: 'https://hub.example'}}],\
            users: [{name: c, user: {token: t}}],\
            contexts: [{name: c, context: {cluster: c, user: c}}]}";
        let keys = [(format!("hubs/{HUB}"), Secret::new(kubeconfig))];
        ports.secrets = Arc::new(MemorySecrets(keys.into()));
        let world = Arc::new(Self {
            ports,
            clock,
            queue,
            hub,
            host: host.clone(),
            calls,
            duplicates: Mutex::default(),
            ticked: AtomicU64::new(0),
        });
        let settings = Settings {
            name: HUB.to_owned(),
            ..Settings::default()
        };
        world.now(hub::register(&world.ports, &settings)).unwrap();
        *host.world.lock().unwrap() = Arc::downgrade(&world);
        world
    }

    /// Returns the result of a future that is ready at once.
    pub fn now<T>(&self, future: impl Future<Output = T>) -> T {
        future.now_or_never().expect("every port answers at once")
    }

    /// Lets one worker die at a call.
    pub fn arm(&self, crash: Crash) {
        self.calls.count.store(0, Ordering::Relaxed);
        *self.calls.crash.lock().unwrap() = Some(crash);
    }

    /// Lets no further worker die.
    pub fn disarm(&self) {
        *self.calls.crash.lock().unwrap() = None;
    }

    pub fn has_crashed(&self) -> bool {
        self.calls.crashed.load(Ordering::Relaxed)
    }

    /// Duplicates every later message that requeues an object, with these delays.
    pub fn duplicate(&self, after: &[Duration]) {
        *self.duplicates.lock().unwrap() = after.to_vec();
    }

    /// Runs `work` during the next step.
    pub fn meanwhile(&self, work: impl FnOnce(&World) + Send + 'static) {
        *self.host.meanwhile.lock().unwrap() = Some(Box::new(work));
    }

    /// Makes the host answer from now on.
    pub fn heal(&self) {
        self.host.healthy.store(true, Ordering::Relaxed);
    }

    /// Returns the number of requests to the host: one for each step.
    pub fn steps(&self) -> u64 {
        self.host.steps.load(Ordering::Relaxed)
    }

    /// Returns the status of the condition `Ready`.
    pub fn ready(&self) -> Option<String> {
        let object = self.hub.object.lock().unwrap();
        let conditions = object["status"]["conditions"].as_array()?;
        let ready = conditions.iter().find(|one| one["type"] == "Ready")?;
        ready["status"].as_str().map(str::to_owned)
    }

    /// Queues a request.
    pub fn ask(&self, cause: Cause) {
        let object = ObjectRef::new(FluxKind::GitRepository, "apps", "fleet");
        let request = Request::new(HUB, object, cause);
        self.now(self.queue.send(vec![(request, Duration::ZERO)]))
            .unwrap();
    }

    /// Receives a message and runs its step; returns whether there was a message. A failed step, or
    /// one whose worker dies, gets its message again.
    pub fn work(&self) -> bool {
        let Some(taken) = self.queue.take() else {
            return false;
        };
        if taken.request.token.is_some() && !taken.is_copy {
            for after in self.duplicates.lock().unwrap().iter() {
                self.queue.duplicate(&taken, *after);
            }
        }
        let ran = step::run(&self.ports, &taken.request, Duration::ZERO).now_or_never();
        if matches!(ran, Some(Ok(_))) {
            self.queue.delete(&taken);
        }
        true
    }

    /// Advances the time: messages are processed when they are delivered, and the timer sweeps each
    /// minute. `each` is called after each of these.
    pub fn run_until(&self, end: Duration, mut each: impl FnMut(&World)) {
        loop {
            let tick = TICK * u32::try_from(self.ticked.load(Ordering::Relaxed)).unwrap();
            let next = self.queue.next().map_or(tick, |at| at.min(tick));
            if next > end {
                self.clock.advance(end.saturating_sub(self.clock.now()));
                return;
            }
            self.clock.advance(next.saturating_sub(self.clock.now()));
            if !self.work() {
                self.ticked.fetch_add(1, Ordering::Relaxed);
                // A sweep that dies runs again in a minute.
                if let Some(swept) = sweep::sweep(&self.ports).now_or_never() {
                    let failed = swept.unwrap().into_iter().find_map(|report| report.failure);
                    assert!(failed.is_none(), "{failed:?}");
                }
            }
            each(self);
        }
    }
}

/// The bucket, with counted calls.
struct Stored(MemoryBlobs, Arc<Calls>);

#[async_trait]
impl Blobs for Stored {
    async fn get(&self, key: &str) -> Result<Option<(Bytes, Version)>> {
        self.1.pass(self.0.get(key)).await
    }
    async fn put(&self, key: &str, content: Bytes, when: Precondition) -> Result<PutOutcome> {
        self.1.pass(self.0.put(key, content, when)).await
    }
    async fn delete(&self, key: &str) -> Result<()> {
        self.1.pass(self.0.delete(key)).await
    }
    async fn delete_version(&self, key: &str, version: &Version) -> Result<bool> {
        self.1.pass(self.0.delete_version(key, version)).await
    }
    async fn list(&self, prefix: &str) -> Result<Vec<BlobEntry>> {
        self.1.pass(self.0.list(prefix)).await
    }
    async fn size(&self, key: &str) -> Result<Option<u64>> {
        self.1.pass(self.0.size(key)).await
    }
    async fn set_aside(&self, key: &str, version: &Version) -> Result<()> {
        self.1.pass(self.0.set_aside(key, version)).await
    }
    fn url(&self, key: &str) -> String {
        self.0.url(key)
    }
}

/// The queue, with counted calls.
struct Sent(Arc<SqsModel>, Arc<Calls>);

#[async_trait]
impl Queue for Sent {
    async fn send(&self, requests: Vec<(Request, Duration)>) -> Result<()> {
        self.1.pass(self.0.send(requests)).await
    }
}

/// The Git host.
struct Host {
    healthy: AtomicBool,
    steps: AtomicU64,
    meanwhile: Mutex<Option<Meanwhile>>,
    world: Mutex<std::sync::Weak<World>>,
    calls: Arc<Calls>,
}

impl Host {
    fn new(calls: Arc<Calls>) -> Self {
        Self {
            healthy: AtomicBool::new(false),
            steps: AtomicU64::new(0),
            meanwhile: Mutex::default(),
            world: Mutex::default(),
            calls,
        }
    }
}

#[async_trait]
impl Git for Host {
    async fn resolve(
        &self,
        _: &str,
        _: &GitReference,
        _: &GitAuth,
        _: Option<&Commit>,
    ) -> Result<Commit> {
        self.steps.fetch_add(1, Ordering::Relaxed);
        let meanwhile = self.meanwhile.lock().unwrap().take();
        let world = self.world.lock().unwrap().upgrade();
        if let (Some(meanwhile), Some(world)) = (meanwhile, world) {
            meanwhile(&world);
        }
        let answer = async {
            match self.healthy.load(Ordering::Relaxed) {
                true => Ok(Commit {
                    sha: "6f2c1a9e0b3d4c5f6a7b8c9d0e1f2a3b4c5d6e7f".to_owned(),
                    name: "main".to_owned(),
                    etag: None,
                    tag: None,
                }),
                false => Err(PortError::new(ErrorKind::NotFound, "GET: 404 Not Found")),
            }
        };
        self.calls.pass(answer).await
    }

    async fn fetch(&self, _: &str, _: &Commit, _: &GitAuth, _: FetchLimits) -> Result<FileTree> {
        let mut tree = FileTree::new();
        let path = TreePath::new("app.yaml").unwrap();
        tree.insert(path, EntryKind::File, "a: 1\n").unwrap();
        self.calls.pass(async { Ok(tree) }).await
    }
}

struct Hubs(Arc<Hub>);

#[async_trait]
impl Clusters for Hubs {
    async fn connect(&self, _: &Access, _: Option<&Impersonation>) -> Result<Arc<dyn Cluster>> {
        Ok(Arc::new(Client(self.0.clone())))
    }
}

/// The hub's API server, which has one object.
struct Hub {
    object: Mutex<Value>,
    calls: Arc<Calls>,
}

impl Hub {
    fn new(calls: Arc<Calls>) -> Self {
        let object = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
            "metadata": {"name": "fleet", "namespace": "apps", "generation": 1, "uid": "u", "resourceVersion": "1"},
            "spec": {"url": "https://github.com/acme/fleet", "interval": "1m"},
        });
        Self {
            object: Mutex::new(object),
            calls,
        }
    }

    fn read(&self) -> Object {
        Object::new(self.object.lock().unwrap().clone()).unwrap()
    }

    fn write_status(&self, patch: &Value) -> Result<Object> {
        let mut object = self.object.lock().unwrap();
        if patch["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] {
            return Err(PortError::new(ErrorKind::Conflict, "409"));
        }
        let version: u64 = object["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        merge(&mut object["status"], &patch["status"]);
        object["metadata"]["resourceVersion"] = (version + 1).to_string().into();
        Ok(Object::new(object.clone()).unwrap())
    }
}

/// Applies a merge patch (RFC 7386).
fn merge(into: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in patch {
        match value {
            Value::Null => {
                into.as_object_mut().unwrap().remove(key);
            }
            value => merge(&mut into[key], value),
        }
    }
}

struct Client(Arc<Hub>);

#[async_trait]
impl Cluster for Client {
    async fn resource(&self, gvk: &Gvk) -> Result<Option<Resource>> {
        Ok(self.versions(&gvk.group, &gvk.kind).await?.pop())
    }
    async fn versions(&self, group: &str, kind: &str) -> Result<Vec<Resource>> {
        let api_version = match kind {
            "GitRepository" => format!("{group}/v1"),
            "Event" => "v1".to_owned(),
            _ => return Ok(Vec::new()),
        };
        Ok(vec![Resource {
            gvk: Gvk::new(&api_version, kind),
            plural: kind.to_lowercase(),
            namespaced: true,
        }])
    }
    async fn abilities(&self) -> Result<ApiCapabilities> {
        Ok(ApiCapabilities::default())
    }
    async fn get(&self, _: &Resource, _: &str, _: &str) -> Result<Option<Object>> {
        self.0.calls.pass(async { Ok(Some(self.0.read())) }).await
    }
    async fn list(&self, request: &ListRequest<'_>) -> Result<Vec<Object>> {
        let all = match request.resource.gvk.kind.as_str() {
            "GitRepository" => vec![self.0.read()],
            _ => Vec::new(),
        };
        self.0.calls.pass(async { Ok(all) }).await
    }
    async fn apply(&self, request: &ApplyRequest<'_>) -> Result<Object> {
        Ok(request.object.clone())
    }
    async fn create(&self, _: &Resource, object: &Object, _: &str) -> Result<Object> {
        self.0.calls.pass(async { Ok(object.clone()) }).await
    }
    async fn patch(&self, request: &PatchRequest<'_>) -> Result<Object> {
        let (Some("status"), Patch::Merge(patch)) = (request.subresource, request.patch) else {
            return Err(PortError::new(ErrorKind::Invalid, "400"));
        };
        let write = async { self.0.write_status(patch) };
        self.0.calls.pass(write).await
    }
    async fn delete(&self, _: &Resource, _: &str, _: &str, _: &Delete) -> Result<Deleted> {
        Ok(Deleted::Gone)
    }
    async fn token(&self, _: &TokenRequest, _: Duration) -> Result<Token> {
        Err(PortError::new(ErrorKind::Unsupported, "no tokens"))
    }
}
