//! Two `driftless worker` processes on one NATS JetStream, with a real server of NATS and a real
//! API server: nothing is lost and no write is repeated with a difference, also when a process is
//! killed.
//!
//! A killed worker leaves its leases behind, which block their objects for 150 s. From time to time
//! both workers are killed and the remaining leases are ended at once, as if the time had passed.
//!
//! `DRIFTLESS_WORKER_KILLS` is the number of kills, `DRIFTLESS_WORKER_KILLS_SEED` the seed.

use driftless_flux::{FluxKind, ObjectRef};
use driftless_harness::cluster::Cluster;
use driftless_harness::command::driftless;
use driftless_harness::environment::number;
use driftless_harness::github::{Change, GitHub, Push, Repository};
use driftless_harness::nats::NatsServer;
use driftless_harness::process::{PATIENCE, run};
use driftless_harness::random::Random;
use driftless_harness::worker::Worker;
use driftless_kernel::ports::{Blobs as _, Cause, Precondition, Queue as _, Request};
use driftless_nats::{Nats, NatsBlobs, NatsOptions, NatsQueue};
use futures::StreamExt as _;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

const KILLS: u64 = 50;
/// The kills between two times at which the leases of killed workers are ended.
const ROUND: u64 = 10;
/// The number of Kustomizations, and of the objects of each.
const APPS: usize = 6;
const OBJECTS: usize = 3;
const FLEET: &str = "acme/fleet";
const SECRET: &str = "a-secret";
const CONFIGS: &str = "/api/v1/namespaces/default/configmaps";
const KUSTOMIZATIONS: &str =
    "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations";
/// The interval of sweeps in these tests, in seconds.
const SWEEP: u64 = 2;

/// A hub, its fleet repository, and a server of NATS.
struct World {
    hub: Cluster,
    nats: NatsServer,
    github: GitHub,
    fleet: Arc<Repository>,
    home: TempDir,
    /// The number of the newest commit.
    commit: u64,
    /// The commit that wrote each app last.
    apps: [u64; APPS],
}

impl World {
    /// Starts all servers, and registers the hub by the command line.
    fn start(name: &str) -> Self {
        let github = GitHub::start();
        let fleet = github.repository(FLEET);
        github.add_token("ghp_fleet", &[FLEET]);
        let mut world = Self {
            hub: Cluster::start(name),
            nats: NatsServer::start(),
            home: tempfile::tempdir().expect("a home"),
            github,
            fleet,
            commit: 0,
            apps: [0; APPS],
        };
        let objects = (0..APPS).map(|app| {
            json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
                "metadata": {"name": format!("app-{app}"), "namespace": "flux-system"},
                "spec": {"interval": "1m", "prune": true, "path": format!("./app-{app}"),
                    "sourceRef": {"kind": "GitRepository", "name": "flux-system"}}})
            .to_string()
        });
        let objects = objects.collect::<Vec<_>>().join("\n---\n");
        world.push(
            &[0, 1, 2, 3, 4, 5],
            &[Change::write("clusters/one/apps.yaml", objects)],
        );
        let file = |name: &str| world.home.path().join(name).display().to_string();
        let kubeconfig = file("hub.yaml");
        std::fs::write(&kubeconfig, world.hub.kubeconfig()).expect("write the kubeconfig");
        let (nats, secrets) = (world.nats.url(), file("secrets"));
        let mut bootstrap = driftless(world.home.path());
        bootstrap.args(["bootstrap", "--nats", &nats, "--secrets", &secrets]);
        bootstrap.args(["--name", "hub", "--kubeconfig", &kubeconfig]);
        bootstrap.args(["--repository", FLEET, "--path", "clusters/one"]);
        run(&mut bootstrap);
        world
    }

    /// Starts a worker, which receives the webhooks.
    fn worker(&self) -> Worker {
        let (nats, interval) = (self.nats.url(), format!("{SWEEP}s"));
        let secrets = self.home.path().join("secrets").display().to_string();
        let args = [
            ["--nats", &nats],
            ["--secrets", &secrets],
            ["--github-api", self.github.url()],
            ["--sweep-interval", &interval],
            ["--concurrency", "4"],
        ];
        let environment = [
            ("GITHUB_TOKEN", "ghp_fleet"),
            ("DRIFTLESS_WEBHOOK_SECRET", SECRET),
        ];
        let worker = Worker::start(self.home.path(), args.as_flattened(), &environment);
        self.github.add_webhook(&worker.url("/webhook"), SECRET);
        worker
    }

    /// Pushes a commit that changes these apps.
    fn push(&mut self, apps: &[usize], more: &[Change]) -> Push {
        self.commit += 1;
        let mut changes = more.to_vec();
        for app in apps {
            self.apps[*app] = self.commit;
            let objects = (0..OBJECTS).map(|number| {
                json!({"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": format!("app-{app}-{number}"), "namespace": "default"},
                    "data": {"commit": self.commit.to_string()}})
                .to_string()
            });
            let text = objects.collect::<Vec<_>>().join("\n---\n");
            changes.push(Change::write(&format!("app-{app}/objects.yaml"), text));
        }
        self.github.push(&self.fleet, "main", &changes)
    }

    fn push_at_random(&mut self, random: &mut Random) -> Push {
        let mut apps: Vec<usize> = (0..APPS).filter(|_| random.percent(50)).collect();
        if apps.is_empty() {
            apps.push(random.below(APPS));
        }
        self.push(&apps, &[])
    }

    /// Returns all differences from the newest commits as an error.
    fn is_converged(&self) -> Result<(), String> {
        let mut open = Vec::new();
        let live = self.configs();
        for (app, commit) in self.apps.iter().enumerate() {
            for number in 0..OBJECTS {
                let name = format!("app-{app}-{number}");
                let found = live
                    .get(&name)
                    .map(|object| text(&object["data"]["commit"]));
                if found != Some(commit.to_string().as_str()) {
                    open.push(format!("{name} is of {found:?}, not {commit}"));
                }
            }
        }
        let head = self.fleet.resolve("main").expect("a head");
        let found = self.hub.api().list(KUSTOMIZATIONS);
        let found = found.map_err(|error| error.to_string())?;
        if found.len() != APPS + 1 {
            open.push(format!("{} Kustomizations", found.len()));
        }
        for object in found {
            let status = &object["status"];
            let conditions = status["conditions"].as_array();
            let ready = conditions.into_iter().flatten();
            let mut ready = ready.filter(|condition| condition["type"] == "Ready");
            let is_ready = ready.next().is_some_and(|ready| ready["status"] == "True");
            let revision = text(&status["lastAppliedRevision"]);
            if !is_ready || !revision.ends_with(&head) {
                let name = text(&object["metadata"]["name"]);
                open.push(format!("{name}: {}", status["conditions"]));
            }
        }
        match open.is_empty() {
            true => Ok(()),
            false => Err(open.join("\n  ")),
        }
    }

    /// Returns the ConfigMaps of the fleet by name.
    fn configs(&self) -> BTreeMap<String, Value> {
        let list = self.hub.api().list(CONFIGS).expect("the ConfigMaps");
        let named = list.into_iter().map(|object| {
            let name = text(&object["metadata"]["name"]).to_owned();
            (name, object)
        });
        named.filter(|(name, _)| name.starts_with("app-")).collect()
    }

    fn versions(&self) -> BTreeMap<String, String> {
        let version = |object: &Value| text(&object["metadata"]["resourceVersion"]).to_owned();
        let configs = self.configs();
        let versions = configs
            .iter()
            .map(|(name, object)| (name.clone(), version(object)));
        versions.collect()
    }

    /// Connects to the streams of the workers.
    async fn connect(&self) -> Nats {
        let options = NatsOptions {
            servers: vec![self.nats.url()],
            credentials: None,
            certificate_authority: None,
            prefix: "driftless".to_owned(),
            replicas: 1,
        };
        driftless_nats::connect(&options).await.expect("connect")
    }

    /// Ends the leases of killed workers, as if their time had passed. No worker runs. Returns
    /// their number.
    fn time_passes(&self) -> usize {
        // Requests that the workers had sent have arrived after this.
        std::thread::sleep(Duration::from_millis(500));
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let blobs = NatsBlobs::new(&self.connect().await);
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let now = u64::try_from(now.expect("a time").as_millis()).expect("a time");
            let mut ended = 0;
            for entry in blobs.list("objects/").await.expect("the records") {
                let found = blobs.get(&entry.key).await.expect("a record");
                let (content, version) = found.expect("a record");
                let mut record: Value = serde_json::from_slice(&content).expect("JSON");
                if record["lease"]["until"].as_u64().unwrap_or_default() <= now {
                    continue;
                }
                record["lease"]["until"] = json!(now);
                let put = blobs.put(
                    &entry.key,
                    record.to_string().into(),
                    Precondition::Is(version),
                );
                put.await.expect("write the record");
                ended += 1;
            }
            ended
        })
    }

    /// Deletes the registration of the hub, and checks that it is restored unchanged from the
    /// directory with the kubeconfigs.
    fn registration_is_restored(&self) {
        const KEY: &str = "hubs/hub.json";
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let blobs = runtime.block_on(async { NatsBlobs::new(&self.connect().await) });
        let read = || {
            let found = runtime.block_on(blobs.get(KEY)).expect("an answer");
            found.map(|(content, _)| content)
        };
        let before = read().expect("the registration");
        runtime.block_on(blobs.delete(KEY)).expect("delete");
        let secrets = self.home.path().join("secrets").display().to_string();
        let mut restore = driftless(self.home.path());
        restore.args(["bootstrap", "restore", "--nats", &self.nats.url()]);
        run(restore.args(["--secrets", &secrets]));
        assert_eq!(read(), Some(before));
    }

    /// Waits until the clusters are as the newest commits say; panics with the differences and the
    /// logs of the workers.
    fn converges(&self, description: &str, workers: &[&Worker]) {
        let start = Instant::now();
        while let Err(open) = self.is_converged() {
            let logs = || workers.iter().map(|worker| worker.log_tail());
            assert!(
                start.elapsed() < PATIENCE,
                "{description}: {open}\n{}",
                logs().collect::<Vec<_>>().join("\n---\n")
            );
            std::thread::sleep(Duration::from_millis(200));
        }
        eprintln!("  {description}: {:.1} s", start.elapsed().as_secs_f64());
    }

    /// Checks that each write of an object changed it, and that it never had an earlier commit
    /// after a later one. Returns the number of writes.
    fn nothing_was_done_twice(&self) -> usize {
        let mut writes: BTreeMap<String, BTreeMap<u64, u64>> = BTreeMap::new();
        for (_, object) in self.hub.written() {
            let Some(object) = object else { continue };
            let name = text(&object["metadata"]["name"]);
            if object["kind"] != "ConfigMap" || !name.starts_with("app-") {
                continue;
            }
            let version = text(&object["metadata"]["resourceVersion"]).parse();
            let commit = text(&object["data"]["commit"]).parse().expect("a commit");
            let earlier = writes.entry(name.to_owned()).or_default();
            let earlier = earlier.insert(version.expect("a version"), commit);
            assert!(
                earlier.is_none_or(|earlier| earlier == commit),
                "{name}: {object}"
            );
        }
        for (name, versions) in &writes {
            let commits: Vec<u64> = versions.values().copied().collect();
            // A version that is not of a later commit is a write that changed nothing of what Git
            // has, or one that went back.
            assert!(
                commits.is_sorted_by(|one, next| one < next),
                "{name}: {versions:?}"
            );
        }
        assert_eq!(writes.len(), APPS * OBJECTS);
        writes.values().map(BTreeMap::len).sum()
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Checks that an isolated step runs although receivers wait for other messages, and that a message
/// of a newer version returns to the queue.
fn special_messages(world: &World, workers: &[Worker; 2]) {
    let object = ObjectRef::new(FluxKind::Kustomization, "flux-system", "app-0");
    let isolated = Request {
        isolated: true,
        ..Request::new("hub", object, Cause::Source)
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let nats = world.connect().await;
        let queue = NatsQueue::new(&nats, Duration::from_secs(SWEEP));
        let client = async_nats::connect(world.nats.url()).await;
        let context = async_nats::jetstream::new(client.expect("connect"));
        let newer = json!({"format": 2, "later": true}).to_string();
        let sent = context.publish("driftless.queue.steps", newer.into()).await;
        let sequence = sent.expect("sent").await.expect("an answer").sequence;
        let sent = queue.send(vec![(isolated, Duration::ZERO)]).await;
        sent.expect("sent");
        let stream = context
            .get_stream("driftless-queue")
            .await
            .expect("the stream");
        let start = Instant::now();
        loop {
            let left = stream.info_with_subjects("driftless.queue.isolated").await;
            let left = left.expect("the subjects").count().await;
            let again = "a message is delivered again: written by a newer driftless";
            let is_returned = workers.iter().any(|worker| worker.log().contains(again));
            if left == 0 && is_returned {
                break;
            }
            let logs = workers.each_ref().map(Worker::log_tail).join("\n---\n");
            assert!(
                start.elapsed() < PATIENCE,
                "{left} isolated steps wait: {logs}"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        eprintln!("  an isolated step: {:.1} s", start.elapsed().as_secs_f64());
        let dead = context
            .get_stream("driftless-dead")
            .await
            .expect("the stream");
        assert_eq!(dead.cached_info().state.messages, 0, "a message is dead");
        let deleted = stream.delete_message(sequence).await;
        assert!(deleted.expect("deleted"), "the message is not in the queue");
    });
}

#[test]
fn two_workers_one_stream() {
    let kills = number("DRIFTLESS_WORKER_KILLS", KILLS);
    let seed = number("DRIFTLESS_WORKER_KILLS_SEED", u64::from(std::process::id()));
    println!("seed {seed} (DRIFTLESS_WORKER_KILLS_SEED)");
    let mut random = Random::new(seed);
    let mut world = World::start("workers");
    let mut workers = [world.worker(), world.worker()];
    world.converges("the first revision", &[&workers[0], &workers[1]]);
    let (start, mut ended) = (Instant::now(), 0);
    for kill in 1..=kills {
        world.push_at_random(&mut random);
        std::thread::sleep(Duration::from_millis(random.below(400) as u64));
        let number = random.below(workers.len());
        workers[number].kill();
        if kill % ROUND == 0 || kill == kills {
            workers[1 - number].kill();
            ended += world.time_passes();
            workers[1 - number].resume();
        }
        workers[number].resume();
    }
    println!(
        "{kills} kills in {:.0} s; {ended} steps were interrupted",
        start.elapsed().as_secs_f64()
    );
    assert!(ended > 0, "no kill hit a step");
    world.converges("the last revision", &[&workers[0], &workers[1]]);
    let writes = world.nothing_was_done_twice();
    println!(
        "{} commits, {writes} writes of {} objects",
        world.commit,
        APPS * OBJECTS
    );
    let versions = world.versions();
    std::thread::sleep(Duration::from_secs(2 * SWEEP + 1));
    assert_eq!(world.versions(), versions, "an object at rest was written");
    assert_eq!(world.nothing_was_done_twice(), writes);
}

#[test]
fn workers_share_the_sweeps_and_survive_the_server() {
    let mut world = World::start("server");
    let mut workers = [world.worker(), world.worker()];
    world.converges("the first revision", &[&workers[0], &workers[1]]);

    // All workers together sweep a hub once in each interval.
    let done = |workers: &[Worker; 2]| -> u64 {
        let name = "driftless_sweeps_total{result=\"done\"}";
        workers.iter().map(|worker| worker.metric(name)).sum()
    };
    let (before, start) = (done(&workers), Instant::now());
    std::thread::sleep(Duration::from_secs(5 * SWEEP));
    let (count, intervals) = (done(&workers) - before, start.elapsed().as_secs() / SWEEP);
    assert!(
        (intervals.saturating_sub(1)..=intervals + 1).contains(&count),
        "{count} sweeps in {intervals} intervals"
    );

    special_messages(&world, &workers);

    // What is not queued is not accepted, and the workers connect again by themselves. A delivery
    // waits some seconds for the server.
    world.github.remove_webhooks();
    world
        .github
        .add_webhook(&workers[0].url("/webhook"), SECRET);
    for round in 0..2 {
        world.push(&[0, 1, 2, 3, 4, 5], &[]);
        std::thread::sleep(Duration::from_millis(100 + 150 * round));
        world.nats.kill();
        let refused = world.push(&[1, 3], &[]);
        for delivery in &refused.deliveries {
            assert_eq!(delivery.status, Some(503), "{}", delivery.answer);
        }
        for worker in &workers {
            assert_eq!(worker.get("/healthz").status, 200);
            assert_eq!(worker.get("/readyz").status, 503);
        }
        world.nats.resume();
        for worker in &workers {
            let start = Instant::now();
            while worker.get("/readyz").status != 200 {
                assert!(start.elapsed() < PATIENCE, "{}", worker.log_tail());
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        // GitHub does not repeat a refused delivery by itself: without this request, the source
        // finds the push in its interval, a minute later.
        for delivery in &refused.deliveries {
            for again in world.github.redeliver(delivery) {
                assert_eq!(again.status, Some(202), "{}", again.answer);
            }
        }
    }
    // Steps that could not write their records have left leases.
    std::thread::sleep(Duration::from_secs(3));
    for worker in &mut workers {
        let time = worker.terminate();
        assert!(time < Duration::from_secs(25), "the end took {time:?}");
        assert!(worker.log().contains("stopped"), "{}", worker.log_tail());
    }
    world.time_passes();
    world.registration_is_restored();
    for worker in &mut workers {
        worker.resume();
    }
    world.converges("the last revision", &[&workers[0], &workers[1]]);
    world.nothing_was_done_twice();

    // Paths of serve are refused with the reason.
    let refused = workers[0].get("/api/objects");
    assert_eq!(refused.status, 404);
    assert!(
        refused.text().contains("driftless serve"),
        "{}",
        refused.text()
    );
}
