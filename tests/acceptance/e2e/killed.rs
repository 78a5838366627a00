//! The functions are killed repeatedly at any moment, and everything still converges.
//!
//! The deployed functions run as separate processes. During pushes, sweeps and steps, busy ones are
//! killed (`kill -9`), chosen by random numbers from a seed. After the kills, the clusters must
//! reach the state of the newest commits, no object may be orphaned, and no object may ever have
//! returned to an older commit.
//!
//! A killed worker leaves its lease behind, which blocks its object for 150 s. When no step is
//! running, everything is killed and the remaining leases are ended at once, as if the time had
//! passed: so the kills keep hitting work. After the last kill, the leases end by themselves.
//!
//! `DRIFTLESS_KILLS` is the number of kills, `DRIFTLESS_KILLS_SEED` the seed.

use crate::world::World;
use driftless_harness::environment::number;
use driftless_harness::github::Change;
use driftless_harness::process::kill;
use driftless_harness::random::Random;
use driftless_harness::tools;
use driftless_tests::site::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The default number of kills.
const KILLS: usize = 100;
/// The time limit of all kills.
const LONGEST: Duration = Duration::from_secs(600);
const FLEET: &str = "acme/fleet";
const TEAMS: usize = 4;
/// The number of a team's Kustomizations: the first half on the hub, the others on the remote
/// cluster.
const APPS: usize = 6;
const RELEASES: usize = 3;
/// The duration of a lease (`schedule::TERM` of the core).
const TERM: Duration = Duration::from_secs(150);
/// The time without a running step after which all remaining work is assumed to wait for leases of
/// killed workers.
const IDLE: Duration = Duration::from_secs(3);
const SPACE: &str = "flux-system";
const CONFIGS: &str = "/api/v1/namespaces/default/configmaps";

/// The expected objects: of the newest commits, and of all earlier ones.
#[derive(Default)]
struct Commits {
    /// The number of the newest commit, over all repositories.
    commit: u64,
    /// The commits that wrote each object, by cluster and name, in order; `None` where a commit
    /// removed it.
    history: BTreeMap<(String, String), Vec<Option<u64>>>,
}

impl Commits {
    /// Records that the newest commit wrote or removed an object.
    fn record(&mut self, cluster: &str, name: &str, content: Option<u64>) {
        let place = (cluster.to_owned(), name.to_owned());
        self.history.entry(place).or_default().push(content);
    }

    fn now(&self, cluster: &str, name: &str) -> Option<u64> {
        let place = (cluster.to_owned(), name.to_owned());
        self.history.get(&place)?.last().copied().flatten()
    }

    /// Returns the objects that a cluster should have, with their commits.
    fn on(&self, cluster: &str) -> BTreeMap<&str, u64> {
        let here = self.history.iter().filter(|((on, _), _)| on == cluster);
        here.filter_map(|((_, name), said)| Some((name.as_str(), said.last().copied()??)))
            .collect()
    }
}

fn team(number: usize) -> String {
    format!("acme/team-{number}")
}

fn app(team: usize, app: usize) -> String {
    format!("app-{team}-{app}")
}

fn cluster_of(number: usize) -> &'static str {
    if number < APPS / 2 { "hub" } else { "edge" }
}

fn config(name: &str, commit: u64) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"},
        "data": {"commit": commit.to_string()}})
}

fn kube_config(cluster: &str, object: &mut Value) {
    if cluster == "edge" {
        object["spec"]["kubeConfig"] = json!({"secretRef": {"name": "edge-kubeconfig"}});
    }
}

/// Returns a team's objects on the hub: its source, and its Kustomizations.
fn team_objects(number: usize) -> Vec<Value> {
    let name = format!("team-{number}");
    let mut objects = vec![
        json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
            "metadata": {"name": name, "namespace": SPACE},
            "spec": {"interval": "30s", "url": format!("https://github.com/{}", team(number)), "ref": {"branch": "main"}}}),
    ];
    for one in 0..APPS {
        let mut object = json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"name": app(number, one), "namespace": SPACE},
            "spec": {"interval": "1m", "prune": true, "path": format!("./{}", app(number, one)),
                "sourceRef": {"kind": "GitRepository", "name": name}}});
        kube_config(cluster_of(one), &mut object);
        objects.push(object);
    }
    objects
}

fn release_name(number: usize) -> String {
    format!("release-{number}")
}

fn release_cluster(number: usize) -> &'static str {
    if number.is_multiple_of(2) {
        "hub"
    } else {
        "edge"
    }
}

/// Returns a release that retries failures in place, and so never rolls back.
fn release(number: usize, commit: u64) -> Change {
    let name = release_name(number);
    let strategy = json!({"strategy": {"name": "RetryOnFailure", "retryInterval": "10s"}});
    let mut object = json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {"interval": "1m", "timeout": "1m", "releaseName": name, "targetNamespace": "default",
            "storageNamespace": "default", "install": strategy, "upgrade": strategy,
            "chart": {"spec": {"chart": "./charts/web", "interval": "1m",
                "sourceRef": {"kind": "GitRepository", "name": SPACE}}},
            "values": {"commit": commit.to_string()}}});
    kube_config(release_cluster(number), &mut object);
    Change::write(&format!("clusters/hub/{name}.yaml"), object.to_string())
}

struct Fleet<'w> {
    world: &'w World,
    wanted: Commits,
}

impl<'w> Fleet<'w> {
    fn start(world: &'w World) -> Self {
        let mut fleet = Self {
            world,
            wanted: Commits::default(),
        };
        fleet.wanted.commit = 1;
        let kubeconfig = json!({"value": fleet.cluster("edge").kubeconfig()});
        fleet
            .cluster("hub")
            .secret(SPACE, "edge-kubeconfig", &kubeconfig);
        let chart = "apiVersion: v2\nname: web\nversion: 1.0.0\n";
        let template = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  commit: {{ .Values.commit | quote }}\n";
        let mut changes = vec![
            Change::write("charts/web/Chart.yaml", chart),
            Change::write("charts/web/templates/config.yaml", template),
        ];
        for number in 0..TEAMS {
            for object in team_objects(number) {
                let name = object["metadata"]["name"].as_str().expect("a name");
                let path = format!("clusters/hub/{name}.yaml");
                changes.push(Change::write(&path, object.to_string()));
            }
            let configs = (0..APPS).map(|one| fleet.write(number, one, "config"));
            let configs: Vec<Change> = configs.collect();
            fleet.world.commit(&team(number), &configs);
        }
        for number in 0..RELEASES {
            changes.push(release(number, 1));
            let name = release_name(number);
            fleet.wanted.record(release_cluster(number), &name, Some(1));
        }
        fleet.world.commit(FLEET, &changes);
        fleet
    }

    fn cluster(&self, name: &str) -> &dyn Node {
        self.world.cluster(name)
    }

    /// Returns the change that writes an app's object with the newest commit's number.
    fn write(&mut self, team: usize, one: usize, suffix: &str) -> Change {
        let (directory, commit) = (app(team, one), self.wanted.commit);
        let name = format!("{directory}-{suffix}");
        self.wanted.record(cluster_of(one), &name, Some(commit));
        let text = config(&name, commit).to_string();
        Change::write(&format!("{directory}/{suffix}.yaml"), text)
    }

    /// Pushes a commit that changes, adds and removes a few objects.
    fn push(&mut self, random: &mut Random) {
        self.wanted.commit += 1;
        let commit = self.wanted.commit;
        if random.percent(15) {
            let number = random.below(RELEASES);
            let (cluster, name) = (release_cluster(number), release_name(number));
            self.wanted.record(cluster, &name, Some(commit));
            self.world.push(FLEET, &[release(number, commit)]);
            return;
        }
        let number = random.below(TEAMS);
        let mut changes = Vec::new();
        for one in 0..APPS {
            if random.percent(60) {
                changes.push(self.write(number, one, "config"));
            }
            let name = format!("{}-extra", app(number, one));
            if random.percent(60) {
                continue;
            }
            if self.wanted.now(cluster_of(one), &name).is_some() {
                self.wanted.record(cluster_of(one), &name, None);
                let path = format!("{}/extra.yaml", app(number, one));
                changes.push(Change::remove(&path));
            } else {
                changes.push(self.write(number, one, "extra"));
            }
        }
        if changes.is_empty() {
            changes.push(self.write(number, 0, "config"));
        }
        self.world.push(&team(number), &changes);
    }

    /// Returns all differences from the newest commits as an error.
    fn open(&self) -> Result<(), String> {
        let mut open = Vec::new();
        for cluster in ["hub", "edge"] {
            let mut wanted = self.wanted.on(cluster);
            for live in items(self.cluster(cluster), CONFIGS) {
                let name = text(&live["metadata"]["name"]);
                let labels = &live["metadata"]["labels"];
                let is_ours = !labels["kustomize.toolkit.fluxcd.io/name"].is_null()
                    || !labels["helm.toolkit.fluxcd.io/name"].is_null();
                let commit = text(&live["data"]["commit"]);
                match wanted.remove(name) {
                    Some(expected) if commit == expected.to_string() => {}
                    Some(expected) => {
                        open.push(format!("{cluster}: {name} is of {commit}, not {expected}"))
                    }
                    None if is_ours => open.push(format!("{cluster}: {name} is left")),
                    None => {}
                }
            }
            let missing = wanted.keys().map(|name| format!("{cluster}: no {name}"));
            open.extend(missing);
        }
        let hub = self.cluster("hub");
        for number in 0..TEAMS {
            let head = self.world.head(&team(number));
            let apps = (0..APPS).map(|one| is_ready(hub, SPACE, &app(number, one), &head));
            open.extend(apps.filter_map(Result::err));
        }
        open.extend(is_ready(hub, SPACE, SPACE, &self.world.head(FLEET)).err());
        for number in 0..RELEASES {
            let name = release_name(number);
            let object = hub.find(&path("HelmRelease", SPACE, &name));
            let object = object.unwrap_or_default();
            let (status, reason, message) = ready(hub, "HelmRelease", SPACE, &name);
            let is_observed =
                object["status"]["observedGeneration"] == object["metadata"]["generation"];
            if status != "True" || !is_observed {
                open.push(format!("{name}: {status} {reason}: {message}"));
            }
        }
        match open.is_empty() {
            true => Ok(()),
            false => Err(format!("{} open: {}", open.len(), open.join("\n  "))),
        }
    }

    /// Checks that each Kustomization's inventory is complete, and that only the newest record of
    /// each release is deployed.
    fn nothing_is_orphaned(&self) {
        let hub = self.cluster("hub");
        for cluster in ["hub", "edge"] {
            for live in items(self.cluster(cluster), CONFIGS) {
                let owner = &live["metadata"]["labels"]["kustomize.toolkit.fluxcd.io/name"];
                let Some(owner) = owner.as_str() else {
                    continue;
                };
                let id = format!("default_{}__ConfigMap", text(&live["metadata"]["name"]));
                let listed = inventory(&hub.get(&path("Kustomization", SPACE, owner)));
                assert!(
                    listed.contains(&id),
                    "{cluster}: {id} is not in {owner}: {listed:?}"
                );
            }
        }
        for (number, one) in (0..TEAMS).flat_map(|team| (0..APPS).map(move |app| (team, app))) {
            let name = app(number, one);
            let wanted = ["config", "extra"].map(|suffix| format!("{name}-{suffix}"));
            let is_there = |name: &&String| self.wanted.now(cluster_of(one), name).is_some();
            let wanted = wanted.iter().filter(is_there);
            let wanted: BTreeSet<String> = wanted
                .map(|name| format!("default_{name}__ConfigMap"))
                .collect();
            let listed = inventory(&hub.get(&path("Kustomization", SPACE, &name)));
            assert_eq!(listed, wanted, "the inventory of {name}");
        }
        for number in 0..RELEASES {
            let name = release_name(number);
            let query = format!("?labelSelector=owner%3Dhelm%2Cname%3D{name}");
            let secrets = format!("/api/v1/namespaces/default/secrets{query}");
            let mut records: Vec<(u64, String)> =
                items(self.cluster(release_cluster(number)), &secrets)
                    .iter()
                    .map(|record| {
                        let labels = &record["metadata"]["labels"];
                        let version = text(&labels["version"]).parse().expect("a version");
                        (version, text(&labels["status"]).to_owned())
                    })
                    .collect();
            records.sort();
            let deployed = records.iter().filter(|(_, status)| status == "deployed");
            assert_eq!(deployed.count(), 1, "{name}: {records:?}");
            let newest = records.last().expect("a record");
            assert_eq!(newest.1, "deployed", "{name}: {records:?}");
        }
    }

    /// Checks that each write and deletion of an object comes from the same commit as the one
    /// before, or a later one. Returns the number of writes.
    fn nothing_went_back(&self) -> usize {
        let mut checked = 0;
        for (name, cluster) in self.world.hubs.iter().chain(&self.world.remotes) {
            // Sorted by version: the log is in the order of the answers.
            let mut acts: BTreeMap<String, Vec<(u64, Option<u64>, String)>> = BTreeMap::new();
            for (request, object) in cluster.written() {
                let config = object.as_ref().map_or(request.name.as_str(), |object| {
                    text(&object["metadata"]["name"])
                });
                let acts = acts.entry(config.to_owned()).or_default();
                let last = acts.last().map_or(0, |(version, ..)| *version);
                let version = object.as_ref().map_or(last, |object| {
                    let version = text(&object["metadata"]["resourceVersion"]);
                    version.parse().expect("a version")
                });
                let content = object.map(|object| text(&object["data"]["commit"]).parse());
                let Ok(content) = content.transpose() else {
                    continue;
                };
                let description = format!(
                    "{} {} -> {content:?} at {version}",
                    request.verb, request.uri
                );
                acts.push((version, content, description));
            }
            for ((cluster, config), commits) in &self.wanted.history {
                let Some(acts) = acts.get_mut(config).filter(|_| cluster == name) else {
                    continue;
                };
                acts.sort_by_key(|(version, ..)| *version);
                let mut from = 0;
                for (_, content, description) in acts.iter() {
                    checked += 1;
                    let found = commits[from..].iter().position(|one| one == content);
                    let Some(found) = found else {
                        let acts: Vec<&str> = acts
                            .iter()
                            .map(|(_, _, description)| description.as_str())
                            .collect();
                        panic!(
                            "{cluster}: {config} went back by {description}; the commits were {commits:?}, and all writes:\n{}",
                            acts.join("\n")
                        );
                    };
                    from += found;
                }
            }
        }
        checked
    }
}

fn items(cluster: &dyn Node, path: &str) -> Vec<Value> {
    let list = cluster.send("GET", path, "application/json", None);
    let mut list = list.unwrap_or_else(|refused| panic!("{path}: {refused}"));
    match list["items"].take() {
        Value::Array(items) => items,
        other => panic!("{path}: {other}"),
    }
}

fn inventory(kustomization: &Value) -> BTreeSet<String> {
    let entries = kustomization["status"]["inventory"]["entries"].as_array();
    let ids = entries
        .into_iter()
        .flatten()
        .map(|entry| text(&entry["id"]));
    ids.map(str::to_owned).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Kills functions at random.
struct Killer<'w> {
    world: &'w World,
    random: Random,
    /// The CPU time of each process at the last check.
    computed: BTreeMap<u32, u64>,
    /// The number of kills by the functions' names.
    killed: BTreeMap<String, usize>,
    /// The number of times that leases of killed workers were ended early.
    aged: usize,
}

impl Killer<'_> {
    fn count(&self) -> usize {
        self.killed.values().sum()
    }

    /// Returns the busy functions: they use CPU time, while those that wait for an event do not.
    fn at_work(&mut self) -> Vec<(u32, String)> {
        let functions = self.world.ministack.functions();
        let now: BTreeMap<u32, u64> = functions
            .iter()
            .map(|(process, _)| (*process, computed(*process)))
            .collect();
        let before = std::mem::replace(&mut self.computed, now);
        let works = |process: &u32| {
            before
                .get(process)
                .is_none_or(|time| *time != self.computed[process])
        };
        functions
            .into_iter()
            .filter(|(process, _)| works(process))
            .collect()
    }

    /// Kills functions until `kills` of them are dead.
    fn run(&mut self, kills: usize) {
        let mut worked = Instant::now();
        let start = Instant::now();
        while self.count() < kills {
            assert!(
                start.elapsed() < LONGEST,
                "{} of {kills} kills",
                self.count()
            );
            let pause = 100 + self.random.below(500);
            std::thread::sleep(Duration::from_millis(pause as u64));
            self.at_work();
            let mut at_work = Vec::new();
            for _ in 0..10 {
                std::thread::sleep(Duration::from_millis(5 + self.random.below(20) as u64));
                at_work = self.at_work();
                if !at_work.is_empty() {
                    break;
                }
            }
            let steps = at_work
                .iter()
                .filter(|(_, name)| name.contains("Reconcile"));
            let steps: Vec<(u32, String)> = steps.cloned().collect();
            if !steps.is_empty() {
                worked = Instant::now();
            }
            // The timer and the webhook are always busy.
            if worked.elapsed() > IDLE {
                self.time_passes();
                worked = Instant::now();
                continue;
            }
            let is_step = !steps.is_empty() && self.random.percent(80);
            let of = if is_step { steps } else { at_work };
            if let [_, ..] = of.as_slice() {
                let (process, function) = self.random.choose(&of).clone();
                if kill(process) {
                    let name = function.split('-').find(|part| part.ends_with("Function"));
                    let name = name.unwrap_or(&function).to_owned();
                    *self.killed.entry(name).or_default() += 1;
                }
            }
        }
    }

    /// Kills all functions, and ends their leases.
    fn time_passes(&mut self) {
        let start = Instant::now();
        let before = loop {
            assert!(start.elapsed() < LONGEST, "functions never end");
            let before = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .expect("a time");
            let running = self.world.ministack.functions();
            if running.is_empty() {
                break before;
            }
            for (process, _) in running {
                kill(process);
            }
        };
        // Requests that they had sent have arrived after this.
        std::thread::sleep(Duration::from_secs(1));
        self.aged += 1;
        let (aws, bucket) = (
            self.world.ministack.aws(),
            self.world.stack.output("Bucket"),
        );
        let millis = |time: Duration| u64::try_from(time.as_millis()).expect("a time");
        for key in aws.keys(bucket, "objects/") {
            let place = json!({"Bucket": bucket, "Key": key});
            let Ok(found) = aws.call("s3", "get_object", &place) else {
                continue;
            };
            let bytes = decode(text(&found["Body"]["$base64"]));
            let mut record: Value = serde_json::from_slice(&bytes).expect("a record");
            let until = record["lease"]["until"].as_u64().unwrap_or_default();
            if until <= millis(before) || until >= millis(before + TERM) {
                continue;
            }
            record["lease"]["until"] = json!(millis(before));
            let mut put = place;
            put["Body"] = json!(record.to_string());
            put["IfMatch"] = found["ETag"].clone();
            // If this fails, another worker has written the record first.
            let _ = aws.call("s3", "put_object", &put);
        }
    }
}

fn decode(text: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD
        .decode(text)
        .expect("Base64")
}

/// Returns the CPU time of a process, in nanoseconds, over all its threads.
fn computed(process: u32) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{process}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let time = |thread: std::fs::DirEntry| -> Option<u64> {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse().ok()
    };
    threads.filter_map(time).sum()
}

/// Sends the timer's event; its function may be killed.
fn sweep(world: &World) {
    let file = tools::workspace().join("events/drift-schedule.json");
    let event = std::fs::read_to_string(file).expect("read the event");
    let event = serde_json::from_str(&event).expect("JSON");
    let function = world.stack.output("DriftFunction");
    let _ = world.ministack.aws().invoke(function, &event);
}

/// `cargo test -p driftless-acceptance --test e2e -- --ignored --nocapture
/// killed_functions_converge`
#[test]
#[ignore = "takes more than five minutes"]
fn killed_functions_converge() {
    let kills = number("DRIFTLESS_KILLS", KILLS as u64) as usize;
    let seed = number("DRIFTLESS_KILLS_SEED", u64::from(std::process::id()));
    println!("seed {seed} (DRIFTLESS_KILLS_SEED)");
    let begin = Instant::now();
    let world = World::start(false, &one_hub(FLEET), &["edge"]);
    let mut fleet = Fleet::start(&world);
    let mut random = Random::new(seed);
    let mut killer = Killer {
        world: &world,
        random: Random::new(seed.wrapping_add(1)),
        computed: BTreeMap::new(),
        killed: BTreeMap::new(),
        aged: 0,
    };
    world.sweep();
    world.eventually("the hub has its objects", || {
        let last = path("Kustomization", SPACE, &app(TEAMS - 1, APPS - 1));
        let found = world.cluster("hub").find(&last);
        found.map(|_| ()).ok_or_else(|| format!("no {last}"))
    });
    let (started, is_over) = (begin.elapsed(), AtomicBool::new(false));
    let is_running = || !is_over.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while is_running() {
                sweep(&world);
                std::thread::sleep(Duration::from_millis(2500));
            }
        });
        scope.spawn(|| {
            while is_running() {
                fleet.push(&mut random);
                std::thread::sleep(Duration::from_millis(500 + random.below(1500) as u64));
            }
        });
        // Also after a panic of the kills, the other threads end.
        let over = EndOnDrop(&is_over);
        killer.run(kills);
        drop(over);
    });
    let killed = begin.elapsed();
    let mut counts = String::new();
    for (name, count) in &killer.killed {
        let _ = write!(counts, " {name} {count}");
    }
    println!(
        "{} kills ({} invocations cut off):{counts}; leases ended early {} times",
        killer.count(),
        world.ministack.cut_off(),
        killer.aged
    );
    let mut last = Instant::now();
    world.within(Duration::from_secs(600), "everything has converged", || {
        if last.elapsed() > Duration::from_secs(3) {
            world.sweep();
            last = Instant::now();
        }
        fleet.open()
    });
    fleet.nothing_is_orphaned();
    let writes = fleet.nothing_went_back();
    println!(
        "{} commits, {writes} writes of objects; {:.0} s to start, {:.0} s of kills, {:.0} s until convergence",
        fleet.wanted.commit,
        started.as_secs_f64(),
        (killed - started).as_secs_f64(),
        (begin.elapsed() - killed).as_secs_f64()
    );
}

/// Ends the other threads when it is dropped.
struct EndOnDrop<'o>(&'o AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
