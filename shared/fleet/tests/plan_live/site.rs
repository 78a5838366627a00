//! A fleet in a directory, and the live clusters that its base state was applied to.

use driftless_adapters::offline::Offline;
use driftless_core::{step, sweep};
use driftless_fleet::check;
use driftless_fleet::embedded::State as ObjectState;
use driftless_fleet::plan::{self, Change, Installed, LiveClusters, Plan, State};
use driftless_fleet::{Fleet, Options, World};
use driftless_kernel::applier::{Applier, Strategy};
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::{Cause, Patch, Resource};
use driftless_manifest::{Object, yaml};
use driftless_memory::{MemoryQueue, TestClock};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The name of the hub.
pub const HUB: &str = "one";
/// The files of the hub's root.
const SYNC: &str = "apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: flux-system, namespace: flux-system}
spec: {interval: 1m, url: 'https://github.com/acme/fleet', ref: {branch: main}}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: flux-system, namespace: flux-system}
spec:
  interval: 10m
  path: ./clusters/one
  prune: true
  sourceRef: {kind: GitRepository, name: flux-system}
";
/// Rounds in which a fleet gets ready.
const ROUNDS: usize = 30;

/// The stack of a test: unoptimized steps need more than the 2 MiB of a test's thread.
const STACK: usize = 16 << 20;

/// Runs a test.
pub fn run(test: impl Future<Output = ()> + Send + 'static) {
    let body = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.expect("a runtime").block_on(test);
    };
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(body);
    if let Err(panic) = thread.expect("a thread").join() {
        std::panic::resume_unwind(panic);
    }
}

/// A file of a repository, by its path.
pub type File<'f> = (&'f str, &'f str);

/// Returns a Kustomization of the directory with its name.
pub fn kustomization(name: &str, more: &str) -> String {
    format!(
        "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {{name: {name}, namespace: flux-system}}\n\
         spec:\n  interval: 10m\n  path: ./{name}\n  prune: true\n  sourceRef: {{kind: GitRepository, name: flux-system}}\n{more}"
    )
}

/// Returns a ConfigMap in the namespace default.
pub fn config_map(name: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: default}}\ndata: {{key: {value}}}\n"
    )
}

/// A repository with its base state, and live clusters that have it.
pub struct Site {
    /// The live clusters.
    pub world: World,
    base: tempfile::TempDir,
}

impl Site {
    /// Writes the base state, and applies it to live clusters.
    pub async fn start(files: &[File<'_>]) -> Self {
        let base = directory(files);
        let fleet = open(base.path()).await;
        let queue = Arc::new(MemoryQueue::default());
        let clock = Arc::new(TestClock::default());
        let world = World::start(
            &fleet,
            Arc::new(Offline),
            Arc::new(Offline),
            queue.clone(),
            clock.clone(),
            false,
        );
        let world = world.await.expect("live clusters");
        let site = Self { world, base };
        site.settle(&queue, &clock).await;
        site
    }

    async fn settle(&self, queue: &MemoryQueue, clock: &TestClock) {
        let world = &self.world;
        sweep::sweep(&world.ports).await.expect("a sweep");
        for _ in 0..ROUNDS {
            // Delays are ignored: a step that polls would otherwise never end the round.
            for _ in 0..ROUNDS {
                for (mut request, _) in queue.take() {
                    request.token = None;
                    let done = step::run(&world.ports, &request, Duration::ZERO).await;
                    done.expect("a step");
                }
            }
            world.stand_in(HUB).await.expect("stand-ins");
            let rows = world.snapshot().await.expect("a snapshot");
            let open: Vec<_> = rows
                .iter()
                .filter(|row| row.state != ObjectState::Ready)
                .collect();
            if open.is_empty() {
                return;
            }
            clock.advance(Duration::from_secs(60));
            for row in open {
                let queued = world.queue(&row.hub, &row.id, Cause::Requeue);
                queued.await.expect("a message");
            }
        }
        let rows = world.snapshot().await.expect("a snapshot");
        let rows = rows
            .iter()
            .map(|row| format!("{}: {}", row.id, row.message));
        panic!("not ready: {:#?}", rows.collect::<Vec<_>>());
    }

    /// Returns the hub.
    pub async fn hub(&self) -> Hub {
        self.world.hub(HUB).await.expect("the hub")
    }

    /// Applies a live object as another manager.
    pub async fn give(&self, text: &str) {
        let (object, resource, hub) = self.parsed(text).await;
        let other = Strategy::forcing("someone");
        let applier = Applier::new(hub.cluster.as_ref(), other);
        let applied = applier.apply(&resource, &object).await;
        applied.expect("apply a live object");
    }

    /// Changes a live object as another manager.
    pub async fn patch(&self, text: &str, patch: Value) {
        let (object, resource, hub) = self.parsed(text).await;
        let other = Strategy::forcing("someone");
        let applier = Applier::new(hub.cluster.as_ref(), other);
        let patch = Patch::Merge(patch);
        let patched = applier.patch(&resource, &object, &patch).await;
        patched.expect("patch a live object");
    }

    /// Deletes a live object.
    pub async fn delete(&self, text: &str) {
        let (object, resource, hub) = self.parsed(text).await;
        let (namespace, name) = (object.namespace(), object.name());
        let live = hub.cluster.get(&resource, namespace, name).await;
        let live = live.expect("a live object").expect("it exists");
        let applier = Applier::new(hub.cluster.as_ref(), Strategy::forcing("someone"));
        let deleted = applier.delete(&resource, &live, "Background", &|_| true);
        deleted.await.expect("delete a live object");
    }

    async fn parsed(&self, text: &str) -> (Object, Resource, Hub) {
        let limits = yaml::Limits::default();
        let documents = yaml::documents(text.as_bytes(), "test", yaml::Dialect::V2, &limits);
        let document = documents.expect("YAML").remove(0);
        let object = Object::new(document).expect("an object");
        let hub = self.hub().await;
        let resource = hub.cluster.resource(&object.gvk()).await;
        let resource = resource.expect("discovery").expect("the kind");
        (object, resource, hub)
    }

    /// Plans a head with these files in place of the base's, against the live clusters. Nothing
    /// may be written to them.
    pub async fn plan(&self, files: &[File<'_>]) -> Plan {
        let live = Installed::new(&self.world.ports);
        let before = self.world.versions();
        let plan = self.plan_with(files, &live).await;
        assert_eq!(self.world.versions(), before, "a plan writes nothing");
        plan
    }

    /// Plans a head against other live clusters.
    pub async fn plan_with(&self, files: &[File<'_>], live: &dyn LiveClusters) -> Plan {
        let head = directory(files);
        let (before, after) = (open(self.base.path()).await, open(head.path()).await);
        let state = |fleet, name: &str| State {
            fleet,
            name: name.to_owned(),
        };
        let (base, head) = (state(&before, "base"), state(&after, "head"));
        let options = check::Options::default();
        let plan = plan::plan(base, head, &options, Some(live), &|_| {}).await;
        plan.expect("a plan")
    }
}

/// Returns the change of an object in a list.
pub fn find<'c>(changes: &'c [Change], id: &str) -> &'c Change {
    let ids: Vec<String> = changes.iter().map(|one| one.id.to_string()).collect();
    let found = changes.iter().find(|one| one.id.to_string() == id);
    found.unwrap_or_else(|| panic!("no {id} in {ids:?}"))
}

/// Returns the ids of a list.
pub fn ids(changes: &[Change]) -> Vec<String> {
    let ids = changes.iter();
    ids.map(|one| format!("{} {}", one.action.as_str(), one.id))
        .collect()
}

async fn open(directory: &Path) -> Fleet {
    let opened = Options::default().open(directory, Duration::ZERO).await;
    opened.expect("a fleet")
}

fn directory(files: &[File<'_>]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let root = ("clusters/one/flux-system/gotk-sync.yaml", SYNC);
    for (path, text) in files.iter().chain([&root]) {
        let file = directory.path().join(path);
        std::fs::create_dir_all(file.parent().expect("a directory")).expect("make a directory");
        std::fs::write(file, text).expect("write a file");
    }
    directory
}
