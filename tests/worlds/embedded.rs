//! The world in this process: the core's own steps over stores in memory, embedded API servers, and
//! repositories of plain files. Time is virtual: a wait costs nothing, and a scenario takes
//! milliseconds.

use crate::recorded::{Recorded, Recorder};
use crate::site::{HubSpec, Node, Site};
use async_trait::async_trait;
use bytes::Bytes;
use driftless_adapters::aws::S3Buckets;
use driftless_adapters::charts::HttpCharts;
use driftless_adapters::cluster::KubeCluster;
use driftless_adapters::embedded as servers;
use driftless_adapters::notifications::Notifications;
use driftless_adapters::offline::Offline;
use driftless_apiserver::{Body, Request as ApiRequest, User};
use driftless_core::bootstrap::{self, Root};
use driftless_core::capsule;
use driftless_core::webhook::{self, Delivery as Received, DeliveryLimits, DeliveryResult};
use driftless_core::{step, sweep};
use driftless_flux::GitReference;
use driftless_flux::{FLUX_SYSTEM, FluxKind, ObjectRef};
use driftless_harness::cluster::{Refused, Request};
use driftless_harness::files;
use driftless_harness::github::{Change, Delivery, sign};
use driftless_kernel::audit;
use driftless_kernel::hub::{self, Settings};
use driftless_kernel::journal::{self, Journal};
use driftless_kernel::ports::{
    Access, Aws, Azure, Buckets, Cause, Clock as _, Clusters, Commit, ErrorKind, FetchLimits, Git,
    GitAuth, Google, Impersonation, Inline, KeyServices, Login, Notifiers, PortError, Ports,
    Precondition, Queue as _, Request as Work, Result as PortResult, Secret, SecretStore,
    SignedObjects,
};
use driftless_manifest::{EntryKind, FileTree, TreePath, git_tree_id};
use driftless_memory::{MemoryBlobs, MemoryQueue, MemorySecrets, TestClock};
use driftless_source::index;
use http::{HeaderMap, Method, Uri};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Runtime;

const SECRET: &str = "It's a Secret to Everybody";
const ENTRANCE: DeliveryLimits = DeliveryLimits {
    max_body: 1 << 20,
    secret: |name| format!("this test under {name}"),
};
/// The time that a step may wait for health, as in a function.
const WAIT_BUDGET: Duration = Duration::from_secs(5);
/// The time that passes between two checks of [`Site::until`].
const TICK: Duration = Duration::from_secs(5);
/// [`Site::settle`] waits for delays up to this; longer delays are intervals or retries.
const SOON: Duration = Duration::from_secs(15);

/// A fleet in this process: ports, clusters, repositories and a queue.
pub struct Embedded {
    runtime: Runtime,
    /// The ports of the worker, with the caches of its process.
    pub ports: Ports,
    git: Arc<Repositories>,
    queue: Arc<MemoryQueue>,
    clock: Arc<TestClock>,
    servers: BTreeMap<String, Arc<Server>>,
    /// The requests of the queue, each with the time at which it is due.
    waiting: Mutex<Vec<(Duration, Work)>>,
    /// The number of steps of each object.
    steps: Mutex<BTreeMap<String, usize>>,
    /// The registrations of the hubs by name.
    settings: Mutex<BTreeMap<String, Settings>>,
}

/// A secret manager with one more secret.
struct AddedSecret {
    name: String,
    secret: Secret,
    others: Arc<dyn SecretStore>,
}

#[async_trait]
impl SecretStore for AddedSecret {
    async fn secret(&self, name: &str) -> PortResult<Option<Secret>> {
        match name == self.name {
            true => Ok(Some(self.secret.clone())),
            false => self.others.secret(name).await,
        }
    }
}

/// The id of an object of Git and its bytes.
type GitObject<'a> = (&'a str, &'a [u8]);

impl Embedded {
    /// Starts the hubs, bootstrapped as by `driftless bootstrap`, and the remote clusters.
    pub fn start(hubs: &[HubSpec<'_>], remotes: &[&str]) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let (clock, queue) = (
            Arc::new(TestClock::default()),
            Arc::new(MemoryQueue::default()),
        );
        let names = hubs
            .iter()
            .map(|hub| hub.name)
            .chain(remotes.iter().copied());
        let server = |name: &str| {
            (
                name.to_owned(),
                Arc::new(Server::start(name, clock.clone())),
            )
        };
        let servers: BTreeMap<String, Arc<Server>> = names.map(server).collect();
        let git = Arc::new(Repositories::default());
        let secret = |hub: &HubSpec<'_>| {
            let text = servers[hub.name].kubeconfig();
            (format!("hubs/{}", hub.name), Secret::new(text))
        };
        let mut keys: BTreeMap<String, Secret> = hubs.iter().map(secret).collect();
        keys.insert(webhook::SECRET.to_owned(), Secret::new(SECRET));
        let ports = Ports {
            git: git.clone(),
            charts: Arc::new(HttpCharts::new()),
            buckets: Arc::new(S3Buckets::new()),
            blobs: Arc::new(MemoryBlobs::default()),
            queue: queue.clone(),
            secrets: Arc::new(MemorySecrets(keys)),
            clusters: Arc::new(Links::to(&servers)),
            clouds: Offline::clouds(),
            notifiers: Arc::new(Notifications::default()),
            clock: clock.clone(),
            compute: Arc::new(Inline),
            files: Arc::default(),
            read: Arc::default(),
            watches: Arc::default(),
            throttle: Arc::default(),
        };
        let world = Self {
            runtime: runtime.expect("a runtime"),
            ports,
            git,
            queue,
            clock,
            servers,
            waiting: Mutex::default(),
            steps: Mutex::default(),
            settings: Mutex::default(),
        };
        hubs.iter().for_each(|hub| world.bootstrap(hub));
        world
    }

    fn bootstrap(&self, spec: &HubSpec<'_>) {
        let root = Root {
            name: FLUX_SYSTEM.to_owned(),
            url: format!("https://github.com/{}", spec.repository),
            branch: spec.branch.to_owned(),
            path: spec.path.to_owned(),
            secret: None,
        };
        let settings = Settings {
            name: spec.name.to_owned(),
            root_repository: Some(root.url.clone()),
            ..Settings::default()
        };
        self.register(settings);
        self.runtime.block_on(async {
            let hub = hub::connect(&self.ports, spec.name).await.expect("connect");
            let cluster = hub.cluster.as_ref();
            bootstrap::install(cluster, self.ports.clock.as_ref())
                .await
                .expect("install");
            bootstrap::create_root(cluster, &root)
                .await
                .expect("create the root");
        });
    }

    /// Adds a secret to the secret manager.
    pub fn with_secret(mut self, name: &str, secret: &str) -> Self {
        self.ports.secrets = Arc::new(AddedSecret {
            name: name.to_owned(),
            secret: Secret::new(secret.to_owned()),
            others: self.ports.secrets.clone(),
        });
        self
    }

    /// Stores the settings of a hub with its kubeconfig, as `driftless bootstrap` does.
    pub fn with_settings_in_secret(self, hub: &str) -> Self {
        let known = self.settings.lock().expect("the settings")[hub].clone();
        let text = self.server(hub).kubeconfig();
        let secret = hub::with_settings(text.as_bytes(), &known).expect("a kubeconfig");
        let secret = secret.expose_str().expect("text").to_owned();
        self.with_secret(&format!("hubs/{hub}"), &secret)
    }

    /// Waits for an operation of the core.
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Replaces the port to buckets.
    pub fn with_buckets(mut self, buckets: Arc<dyn Buckets>) -> Self {
        self.ports.buckets = buckets;
        self
    }

    /// Sets the port to key services.
    pub fn with_key_services(mut self, services: Arc<dyn KeyServices>) -> Self {
        self.ports.clouds.key_services = services;
        self
    }

    /// Sets the ports to the identities of clouds.
    pub fn with_clouds(mut self, aws: Arc<dyn Aws>, azure: Arc<dyn Azure>) -> Self {
        (self.ports.clouds.aws, self.ports.clouds.azure) = (aws, azure);
        self
    }

    /// Sets the port to the identities of Google Cloud.
    pub fn with_google(mut self, google: Arc<dyn Google>) -> Self {
        self.ports.clouds.google = google;
        self
    }

    /// Sets the port to the services of Providers.
    pub fn with_notifiers(mut self, notifiers: Arc<dyn Notifiers>) -> Self {
        self.ports.notifiers = notifiers;
        self
    }

    /// Adds a repository at any URL that only this password or bearer token may read.
    pub fn publish(&self, url: &str, token: &str, changes: &[Change]) -> String {
        let name = index::repository(url).expect("the URL of a repository");
        let mut all = self.git.0.lock().expect("the repositories");
        let repository = all.entry(name).or_default();
        repository.tokens = Some(BTreeSet::from([token.to_owned()]));
        repository.commit(changes)
    }

    /// Allows the sources of a hub to be on loopback.
    pub fn allow_local(&self, hub: &str) {
        self.change(hub, |settings| settings.allow_local_clusters = true);
    }

    /// Forbids references to other namespaces on a hub.
    pub fn lock_down(&self, hub: &str) {
        self.change(hub, |settings| settings.no_cross_namespace_refs = true);
    }

    fn server(&self, name: &str) -> &Arc<Server> {
        self.servers
            .get(name)
            .unwrap_or_else(|| panic!("no cluster {name}"))
    }

    /// Registers a hub again with changed settings.
    pub fn change(&self, hub: &str, change: impl FnOnce(&mut Settings)) {
        let known = self
            .settings
            .lock()
            .expect("the settings")
            .get(hub)
            .cloned();
        let mut settings = known.unwrap_or_else(|| panic!("no hub {hub}"));
        change(&mut settings);
        self.register(settings);
    }

    fn register(&self, settings: Settings) {
        let registered = hub::register(&self.ports, &settings);
        self.runtime.block_on(registered).expect("register");
        let mut known = self.settings.lock().expect("the settings");
        known.insert(settings.name.clone(), settings);
    }

    /// Answers requests with this method and a path that ends with `path` with an error code, until
    /// [`Embedded::heal`].
    pub fn fail(&self, cluster: &str, method: Method, path: &str, code: u16) {
        let mut failing = self.server(cluster).failing.lock().expect("the failures");
        failing.push((method, path.to_owned(), code));
    }

    /// Removes all failures of a cluster.
    pub fn heal(&self, cluster: &str) {
        self.server(cluster)
            .failing
            .lock()
            .expect("the failures")
            .clear();
    }

    /// Moves `main` to a commit with these bytes and the files so far; and a tag to it, given by
    /// its name and, if it is annotated, its id and bytes.
    pub fn commit_objects(
        &self,
        repository: &str,
        commit: GitObject<'_>,
        tag: Option<(&str, Option<GitObject<'_>>)>,
    ) {
        self.git.with(repository, |known| {
            let files = known.commits.get(&known.head).cloned().unwrap_or_default();
            let (sha, bytes) = commit;
            known.head = sha.to_owned();
            known.commits.insert(sha.to_owned(), files);
            let object = tag.and_then(|(_, object)| object);
            known.tag = tag.map(|(name, _)| (name.to_owned(), object.map(|(id, _)| id.to_owned())));
            let tags = object.into_iter();
            let objects = SignedObjects {
                commit: bytes.to_vec().into(),
                tags: tags.map(|(_, tag)| tag.to_vec().into()).collect(),
            };
            known.objects.insert(sha.to_owned(), objects);
        });
    }

    /// Allows the installation's own credentials to read a repository.
    pub fn let_installation_read(&self, repository: &str) {
        self.git.with(repository, |known| known.installation = true);
    }

    /// Returns how often the files of a repository were downloaded.
    pub fn downloads(&self, repository: &str) -> usize {
        self.git.with(repository, |known| known.downloads)
    }

    /// Returns the keys in the bucket that start with a prefix.
    pub fn stored(&self, prefix: &str) -> Vec<String> {
        let listed = self.runtime.block_on(self.ports.blobs.list(prefix));
        let listed = listed.expect("the bucket");
        listed.into_iter().map(|entry| entry.key).collect()
    }

    /// Deletes the keys in the bucket that start with a prefix.
    pub fn lose(&self, prefix: &str) {
        for key in self.stored(prefix) {
            let deleted = self.runtime.block_on(self.ports.blobs.delete(&key));
            deleted.expect("the bucket");
        }
    }

    /// Returns all blobs of the bucket.
    pub fn bucket(&self) -> BTreeMap<String, Bytes> {
        let keys = self.stored("").into_iter();
        let read = keys.filter_map(|key| {
            let blob = self.runtime.block_on(self.ports.blobs.get(&key));
            let (bytes, _) = blob.expect("the bucket")?;
            Some((key, bytes))
        });
        read.collect()
    }

    /// Replaces all blobs of the bucket.
    pub fn replace_bucket(&self, blobs: BTreeMap<String, Bytes>) {
        self.lose("");
        for (key, bytes) in blobs {
            let put = self.ports.blobs.put(&key, bytes, Precondition::None);
            self.runtime.block_on(put).expect("the bucket");
        }
    }

    /// Returns what the last steps of an object changed.
    pub fn journal(&self, hub: &str, object: &ObjectRef) -> Journal {
        let read = journal::read(self.ports.blobs.as_ref(), hub, object);
        self.runtime.block_on(read).expect("the bucket")
    }

    /// Returns the records of the audit log of a hub, the oldest first.
    pub fn audit(&self, hub: &str) -> Vec<audit::Record> {
        let (blobs, now) = (self.ports.blobs.as_ref(), self.now());
        let read = audit::read(blobs, hub, Duration::ZERO, now);
        self.runtime.block_on(read).expect("the bucket")
    }

    /// Queues an object of a hub, by its namespace and name, for a cause.
    pub fn request_by(&self, hub: &str, kind: &str, at: (&str, &str), cause: Cause) {
        let kind = FluxKind::parse(kind).expect("a kind of Flux");
        let work = Work::new(hub, ObjectRef::new(kind, at.0, at.1), cause);
        let sent = self.queue.send(vec![(work, Duration::ZERO)]);
        self.runtime.block_on(sent).expect("queued");
    }

    /// Runs every step that is due, including the steps that these queue. Time passes only in waits
    /// for health.
    pub fn pump(&self) {
        while self.step() {}
    }

    /// Runs the next step that is due. Returns whether one was due.
    pub fn step(&self) -> bool {
        let Some(work) = self.take() else {
            return false;
        };
        let mut steps = self.steps.lock().expect("the steps");
        let objects = match work.consumers.is_empty() {
            true => vec![work.object.clone()],
            false => work.consumers.clone(),
        };
        for object in objects {
            *steps.entry(object.to_string()).or_default() += 1;
        }
        drop(steps);
        let ran = step::run(&self.ports, &work, WAIT_BUDGET);
        self.runtime.block_on(ran).expect("a step");
        true
    }

    /// Runs the next step that is due until it ends, or until `death`: then its worker is gone,
    /// with its lease and the message. Returns whether a step ended.
    pub fn step_until(&self, death: impl Future<Output = ()>) -> bool {
        let Some(work) = self.take() else {
            return false;
        };
        self.runtime.block_on(async {
            let step = std::pin::pin!(step::run(&self.ports, &work, WAIT_BUDGET));
            match futures::future::select(step, std::pin::pin!(death)).await {
                futures::future::Either::Left((ran, _)) => {
                    ran.expect("a step");
                    true
                }
                futures::future::Either::Right(_) => false,
            }
        })
    }

    /// Returns the number of steps of each object since the last call.
    pub fn steps(&self) -> BTreeMap<String, usize> {
        std::mem::take(&mut self.steps.lock().expect("the steps"))
    }

    /// Reconciles the kubeconfigs of the owners of Capsule's Tenants, as the timer does.
    pub fn capsule(&self) -> Vec<capsule::Report> {
        let reports = capsule::run(&self.ports);
        self.runtime.block_on(reports).expect("the registry")
    }

    /// Advances the virtual time.
    pub fn advance(&self, time: Duration) {
        self.clock.advance(time);
    }

    /// Lets time pass, and runs the steps that the sweep then finds due.
    pub fn sweep_after(&self, time: Duration) {
        self.advance(time);
        self.sweep();
        self.settle();
    }

    /// Returns the virtual time.
    pub fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Advances the virtual time to the real time, so that certificates of real tools are valid.
    pub fn move_to_today(&self) {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.expect("a time after 1970");
        self.clock.advance(now.saturating_sub(self.clock.now()));
    }

    /// Takes the next request that is due. Requests for the same object are merged, as in the queue
    /// of one process.
    fn take(&self) -> Option<Work> {
        let now = self.clock.now();
        let mut waiting = self.waiting.lock().expect("the queue");
        let sent = self.queue.take().into_iter();
        waiting.extend(sent.map(|(work, delay)| (now + delay, work)));
        let at = waiting.iter().position(|(at, _)| *at <= now)?;
        let (_, mut work) = waiting.remove(at);
        waiting.retain(|(at, other)| {
            let is_same = (&other.hub, &other.object, &other.token, &other.consumers)
                == (&work.hub, &work.object, &work.token, &work.consumers);
            if *at > now || !is_same {
                return true;
            }
            work.cause = work.cause.clone().stronger(&other.cause);
            false
        });
        Some(work)
    }

    /// Returns the time at which the next request is due.
    fn next(&self) -> Option<Duration> {
        let waiting = self.waiting.lock().expect("the queue");
        waiting.iter().map(|(at, _)| *at).min()
    }

    /// Handles a delivery with these headers at a path, such as that of a Receiver. Returns the
    /// HTTP status of the answer, and the error of a refusal.
    pub fn deliver_to(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> (u16, String) {
        let header = |name: &str| {
            let mut headers = headers.iter();
            headers
                .find(|(key, _)| *key == name)
                .map(|(_, value)| *value)
        };
        let delivery = Received {
            header: &header,
            body,
        };
        let received = webhook::receive_at(&self.ports, &ENTRANCE, path, delivery);
        match self.runtime.block_on(received) {
            Ok(DeliveryResult::Queued(_)) => (202, String::new()),
            Ok(_) => (200, String::new()),
            Err(refusal) => (refusal.status(), refusal.to_string()),
        }
    }

    /// Handles a webhook. Returns the HTTP status of the answer.
    fn receive(&self, event: &str, signature: &str, body: &[u8]) -> u16 {
        let header = |name: &str| match name {
            "x-github-event" => Some(event),
            "x-hub-signature-256" => Some(signature),
            "x-github-delivery" => Some("72d3162e"),
            _ => None,
        };
        let delivery = Received {
            header: &header,
            body,
        };
        match self
            .runtime
            .block_on(webhook::receive(&self.ports, &ENTRANCE, delivery))
        {
            Ok(DeliveryResult::Queued(_)) => 202,
            Ok(_) => 200,
            Err(refusal) => refusal.status(),
        }
    }

    fn deliver(&self, id: &str, body: &str) -> Vec<Delivery> {
        let status = self.receive("push", &sign(SECRET, body.as_bytes()), body.as_bytes());
        vec![Delivery {
            id: id.to_owned(),
            event: "push".to_owned(),
            url: "webhook".to_owned(),
            body: body.to_owned(),
            status: Some(status),
            answer: String::new(),
        }]
    }
}

impl Site for Embedded {
    fn cluster(&self, name: &str) -> &dyn Node {
        self.server(name).as_ref()
    }

    fn import(&self, repository: &str, directory: &Path) {
        let change = |(name, file): (String, PathBuf)| {
            Change::write(&name, std::fs::read(file).expect("read a file"))
        };
        let changes: Vec<Change> = files::below(directory).into_iter().map(change).collect();
        self.commit(repository, &changes);
    }

    fn set_private(&self, repository: &str, tokens: &[&str]) {
        let tokens = tokens.iter().map(|token| (*token).to_owned()).collect();
        self.git
            .with(repository, |known| known.tokens = Some(tokens));
    }

    fn head(&self, repository: &str) -> String {
        self.git.with(repository, |known| known.head.clone())
    }

    fn commit(&self, repository: &str, changes: &[Change]) -> String {
        self.git.with(repository, |known| known.commit(changes))
    }

    fn push(&self, repository: &str, changes: &[Change]) -> Vec<Delivery> {
        let sha = self.commit(repository, changes);
        let html = format!("https://github.com/{repository}");
        let author = json!({"name": "Ada Example", "email": "ada@example.com"});
        let body = json!({"ref": "refs/heads/main", "after": sha,
            "head_commit": {"id": sha, "author": author},
            "repository": {"full_name": repository, "html_url": html}});
        self.deliver(&sha, &body.to_string())
    }

    fn redeliver(&self, delivery: &Delivery) -> Vec<Delivery> {
        self.deliver(&delivery.id, &delivery.body)
    }

    fn post(&self, body: &[u8], signature: &str) -> u16 {
        self.receive("push", signature, body)
    }

    fn queued(&self) -> usize {
        let now = self.clock.now();
        let waiting = self.waiting.lock().expect("the queue");
        waiting.iter().filter(|(at, _)| *at <= now).count()
    }

    fn sweep(&self) {
        self.runtime
            .block_on(sweep::sweep(&self.ports))
            .expect("a sweep");
    }

    fn request(&self, hub: &str, kind: &str, namespace: &str, name: &str) {
        self.request_by(hub, kind, (namespace, name), Cause::Changed);
    }

    fn settle(&self) {
        self.pump();
        while let Some(at) = self.next() {
            let wait = at.saturating_sub(self.clock.now());
            if wait > SOON {
                return;
            }
            self.clock.advance(wait);
            self.pump();
        }
    }

    fn until(
        &self,
        limit: Duration,
        description: &str,
        check: &mut dyn FnMut() -> Result<(), String>,
    ) {
        let end = self.clock.now() + limit;
        loop {
            self.pump();
            match check() {
                Ok(()) => return,
                Err(error) if self.clock.now() >= end => {
                    panic!("{description}: not within {} s: {error}", limit.as_secs())
                }
                Err(_) => self.clock.advance(TICK),
            }
        }
    }
}

/// Repositories by name, in memory.
#[derive(Default)]
struct Repositories(Mutex<BTreeMap<String, Repository>>);

#[derive(Default)]
struct Repository {
    files: BTreeMap<String, Vec<u8>>,
    head: String,
    commits: BTreeMap<String, FileTree>,
    /// The bytes of the commits that a test made as git objects.
    objects: BTreeMap<String, SignedObjects>,
    /// The tag that `head` is the target of: its name and, of an annotated tag, the id.
    tag: Option<(String, Option<String>)>,
    /// The tokens that may read the repository; `None` if it is public.
    tokens: Option<BTreeSet<String>>,
    /// True if the installation's own credentials may read the repository.
    installation: bool,
    /// The number of downloads of the files.
    downloads: usize,
}

impl Repository {
    fn commit(&mut self, changes: &[Change]) -> String {
        changes
            .iter()
            .for_each(|change| change.apply_to(&mut self.files));
        let mut tree = FileTree::new();
        for (path, content) in &self.files {
            let path = TreePath::new(path).expect("a path");
            tree.insert(path, EntryKind::File, content.clone())
                .expect("a file");
        }
        self.head = git_tree_id(tree.index());
        self.commits.insert(self.head.clone(), tree);
        self.head.clone()
    }
}

impl Repositories {
    fn with<T>(&self, name: &str, work: impl FnOnce(&mut Repository) -> T) -> T {
        let mut all = self.0.lock().expect("the repositories");
        work(all.entry(format!("github.com/{name}")).or_default())
    }

    /// Runs `work` on a repository. Like GitHub, returns `NotFound` if the caller may not read it.
    fn read<T>(
        &self,
        url: &str,
        auth: &GitAuth,
        work: impl FnOnce(&mut Repository) -> Option<T>,
    ) -> PortResult<T> {
        let mut all = self.0.lock().expect("the repositories");
        let found = index::repository(url).and_then(|name| all.get_mut(&name));
        let token = match auth.login() {
            GitAuth::Basic { password, .. } => password.expose_str().unwrap_or_default(),
            GitAuth::Bearer(token) => token.expose_str().unwrap_or_default(),
            _ => "",
        };
        let may = |one: &&mut Repository| {
            let is_known = one.tokens.as_ref().is_none_or(|all| all.contains(token));
            is_known || (*auth.login() == GitAuth::Installation && one.installation)
        };
        found
            .filter(may)
            .and_then(work)
            .ok_or_else(|| PortError::new(ErrorKind::NotFound, "not found"))
    }
}

#[async_trait]
impl Git for Repositories {
    async fn resolve(
        &self,
        url: &str,
        reference: &GitReference,
        auth: &GitAuth,
        _: Option<&Commit>,
    ) -> PortResult<Commit> {
        if !reference.commit.is_empty() {
            // Without a check of access: the core must not return what was downloaded with other
            // credentials.
            return Ok(Commit {
                sha: reference.commit.clone(),
                ..Commit::default()
            });
        }
        let is_main = reference.branch == "main";
        self.read(url, auth, |one| {
            let (name, tag) = match &one.tag {
                Some((name, tag)) if *name == reference.tag => (name.clone(), tag.clone()),
                _ if is_main => ("main".to_owned(), None),
                _ => return None,
            };
            Some(Commit {
                sha: one.head.clone(),
                name,
                etag: None,
                tag,
            })
        })
    }

    async fn fetch(
        &self,
        url: &str,
        commit: &Commit,
        auth: &GitAuth,
        _: FetchLimits,
    ) -> PortResult<FileTree> {
        self.read(url, auth, |one| {
            one.downloads += 1;
            one.commits.get(&commit.sha).cloned()
        })
    }

    async fn signed(
        &self,
        url: &str,
        commit: &Commit,
        auth: &GitAuth,
    ) -> PortResult<Option<SignedObjects>> {
        let found = self.read(url, auth, |one| one.objects.get(&commit.sha).cloned());
        found.map(Some)
    }
}

/// An API server that records its requests and can be made unreachable.
struct Server {
    name: String,
    server: servers::Embedded,
    requests: Arc<Mutex<Vec<Request>>>,
    dark: Arc<AtomicBool>,
    /// The requests that fail: the method, the end of the path, and the error's code.
    failing: Arc<Mutex<Vec<(Method, String, u16)>>>,
}

impl Server {
    fn start(name: &str, clock: Arc<TestClock>) -> Self {
        Self {
            name: name.to_owned(),
            server: servers::Embedded::new(clock),
            requests: Arc::default(),
            dark: Arc::default(),
            failing: Arc::default(),
        }
    }

    fn url(&self) -> String {
        format!("https://{}.embedded.internal", self.name)
    }

    /// Returns the user of a login: a token's user if the server knows the token. Other logins are
    /// an administrator's.
    fn login(&self, access: &Access) -> PortResult<User> {
        let Login::Token(token) = &access.login else {
            return Ok(User::admin("test"));
        };
        let header = format!("Bearer {}", token.expose_str().unwrap_or_default());
        self.server.user(Some(&header)).ok_or_else(|| {
            let message =
                "the server has asked for the client to provide credentials (Unauthorized)";
            PortError::new(ErrorKind::Denied, message)
        })
    }
}

impl Node for Server {
    fn name(&self) -> &str {
        &self.name
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        media: &str,
        body: Option<&Value>,
    ) -> Result<Value, Refused> {
        let request = ApiRequest::new(method, path, User::admin("test"));
        let body = body.map(Value::to_string).unwrap_or_default();
        let answer = self.server.handle(&request.with_body(media, body));
        let Body::Json(value, _) = answer.body else {
            panic!("{method} {path}: the answer is not JSON")
        };
        if (200..300).contains(&answer.status) {
            return Ok(value);
        }
        let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
        Err(Refused {
            code: answer.status,
            reason: text("reason"),
            message: text("message"),
        })
    }

    fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("the log").clone()
    }

    fn writes(&self) -> u64 {
        let requests = self.requests.lock().expect("the log");
        let writes = requests
            .iter()
            .filter(|one| one.is_write() && one.resource != "events");
        writes.count() as u64
    }

    fn kubeconfig(&self) -> String {
        let token = self.server.token(User::admin("test"));
        servers::kubeconfig(&self.url(), None, &token)
    }

    fn stop(&self) {
        self.dark.store(true, Ordering::Relaxed);
    }

    fn resume(&self) {
        self.dark.store(false, Ordering::Relaxed);
    }
}

/// The clients of a server by user name. They are kept, as in a warm function.
type Clients = Mutex<BTreeMap<String, KubeCluster>>;

/// Connects to the server that a kubeconfig names.
struct Links(Vec<(Arc<Server>, Clients)>);

impl Links {
    fn to(servers: &BTreeMap<String, Arc<Server>>) -> Self {
        let server = |server: &Arc<Server>| (server.clone(), Mutex::default());
        Self(servers.values().map(server).collect())
    }
}

#[async_trait]
impl Clusters for Links {
    async fn connect(
        &self,
        access: &Access,
        user: Option<&Impersonation>,
    ) -> PortResult<Arc<dyn driftless_kernel::ports::Cluster>> {
        let mut all = self.0.iter();
        let found = all.find(|(server, _)| server.url() == access.server);
        let (server, clients) =
            found.ok_or_else(|| PortError::new(ErrorKind::Unavailable, "no such server"))?;
        let login = server.login(access)?;
        let mut clients = clients.lock().expect("the clients");
        let client = match clients.get(&login.name) {
            Some(client) => client.as_user(user)?,
            None => {
                let name = login.name.clone();
                let recorder = Recorded(server.clone(), login);
                let new = KubeCluster::from_service(recorder, &access.server, None)?;
                clients.entry(name).or_insert(new).as_user(user)?
            }
        };
        Ok(Arc::new(client))
    }
}

impl Recorder for Server {
    fn server(&self) -> &servers::Embedded {
        &self.server
    }

    fn is_dark(&self) -> bool {
        self.dark.load(Ordering::Relaxed)
    }

    fn fails(&self, method: &Method, uri: &Uri) -> Option<u16> {
        let failing = self.failing.lock().expect("the failures");
        let mut failing = failing.iter();
        let found = failing.find(|(fails, path, _)| fails == method && uri.path().ends_with(path));
        found.map(|(_, _, code)| *code)
    }

    fn record(&self, method: &Method, uri: &Uri, headers: &HeaderMap, status: u16) {
        let mut request = audit_entry(method, uri, headers);
        request.code = status;
        self.requests.lock().expect("the log").push(request);
    }
}

/// Returns a request in the form of an audit log's entry, without the status code.
fn audit_entry(method: &Method, uri: &Uri, headers: &HeaderMap) -> Request {
    let mut parts = uri.path().trim_matches('/').split('/').peekable();
    let group = match parts.next() {
        Some("apis") => parts.next().unwrap_or_default().to_owned(),
        _ => String::new(),
    };
    parts.next();
    let rest: Vec<&str> = parts.collect();
    let (namespace, rest) = match rest.as_slice() {
        ["namespaces", namespace, rest @ ..]
            if rest.first().is_some_and(|next| *next != "status") =>
        {
            (*namespace, rest)
        }
        ["namespaces", name, ..] => (*name, rest.as_slice()),
        _ => ("", rest.as_slice()),
    };
    let part = |at: usize| rest.get(at).copied().unwrap_or_default().to_owned();
    let verb = match (method.as_str(), part(1).is_empty()) {
        ("GET", true) => "list",
        ("GET", false) => "get",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        (_, true) => "deletecollection",
        (_, false) => "delete",
    };
    let as_user = headers
        .get("impersonate-user")
        .and_then(|user| user.to_str().ok());
    Request {
        verb: verb.to_owned(),
        uri: uri.to_string(),
        user: "test".to_owned(),
        agent: String::new(),
        as_user: as_user.unwrap_or_default().to_owned(),
        group,
        resource: part(0),
        subresource: part(2),
        namespace: namespace.to_owned(),
        name: part(1),
        code: 0,
    }
}
