//! The course of a run: every world, each on its own API server, under every system.

use super::measure::{Counters, Figures};
use super::observe::{Watched, flux_object, version};
use super::options::Options;
use super::systems::System;
use super::worlds::{self, APPS, COLLECTIONS, FLUX, World};
use super::{floor, report};
use driftless_harness::charts::Host;
use driftless_harness::cluster::{Api, Cluster};
use driftless_harness::github::{Change, GitHub, Repository};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The time after which the requests of finished work have been logged.
const SETTLE: Duration = Duration::from_secs(3);

/// Measures everything, and prints the table.
pub fn run(options: &Options) {
    eprintln!("driftless is {}", options.program.display());
    let mut all = report::earlier(options);
    for &size in &options.sizes {
        for system in &options.systems {
            all.extend(match system == floor::COMMAND {
                true => floor::measure(size),
                false => Run::start(options, system, World::Kustomizations, size).measure(),
            });
            report::write(options, &all);
        }
    }
    for &size in &options.releases {
        let systems = options.systems.iter();
        for system in systems.filter(|system| *system != floor::COMMAND) {
            all.extend(Run::start(options, system, World::Releases, size).measure());
            report::write(options, &all);
        }
    }
    println!("{}", report::table(&all));
}

/// One world under one system.
struct Run<'a> {
    options: &'a Options,
    name: &'a str,
    world: World,
    size: usize,
    fleet: Arc<Repository>,
    flux: Watched,
    applied: Watched,
    figures: Vec<Figures>,
    // Dropped in this order.
    system: System,
    github: GitHub,
    _charts: Host,
    cluster: Cluster,
}

impl<'a> Run<'a> {
    /// Prepares a world in which only the Git source is missing.
    fn start(options: &'a Options, name: &'a str, world: World, size: usize) -> Self {
        eprintln!("{}({size}) under {name}", world.letter());
        let cluster = Cluster::start_measured(name);
        let (github, charts) = (GitHub::start(), Host::start());
        let fleet = github.repository("acme/fleet");
        let system = System::start(name, &options.program, &cluster, &github);
        for namespace in [FLUX, APPS] {
            cluster.namespace(namespace);
        }
        if world == World::Releases {
            let directory = tempfile::tempdir().expect("a directory");
            worlds::publish_chart(directory.path(), &charts);
            create(&cluster, SOURCES, &worlds::helm_repository(&charts));
        }
        let run = Self {
            flux: Watched::start(&cluster, &world.collection(), flux_object),
            applied: Watched::start(
                &cluster,
                &format!("/api/v1/namespaces/{APPS}/configmaps"),
                version,
            ),
            figures: Vec::new(),
            options,
            name,
            world,
            size,
            fleet,
            system,
            github,
            _charts: charts,
            cluster,
        };
        run.create_followers();
        run
    }

    fn create_followers(&self) {
        let followers = self.world.followers(self.size);
        let collection = World::Kustomizations.collection();
        in_parallel(&self.cluster, &followers, |api, follower| {
            let created = api.create(&collection, follower);
            created.unwrap_or_else(|error| panic!("{collection}: {error}"));
        });
        // Every follower has noticed that the source is missing.
        let of_followers;
        let all = match self.world {
            World::Kustomizations => &self.flux,
            World::Releases => {
                of_followers = Watched::start(&self.cluster, &collection, flux_object);
                &of_followers
            }
        };
        all.until(
            "found no source",
            Instant::now(),
            followers.len(),
            |_, k| k["ready"] == "False",
        );
        std::thread::sleep(SETTLE);
    }

    fn measure(mut self) -> Vec<Figures> {
        let first = self.commit(0..self.size, 0);
        let url = self.system.url(&self.github, &self.fleet);
        self.row("cold", |run| {
            let start = Instant::now();
            create(&run.cluster, SOURCES, &worlds::git_repository(&url));
            run.system.sweep();
            run.all_ready("cold", start, &first, 0)
        });
        self.check_objects(0);
        let second = self.commit(0..self.size, 1);
        self.row("push-all", |run| {
            let start = run.announce(&first, &second);
            run.all_ready("push-all", start, &second, 1)
        });
        self.check_objects(1);
        self.push_one(&second);
        let mut swept = None;
        self.row("sweep", |run| {
            swept = run.system.sweep();
            swept.unwrap_or_default()
        });
        if swept.is_none() {
            self.figures.pop();
        }
        self.row("requestedAt", Self::ask_all);
        if !self.options.rest.is_zero() {
            // What the work before has changed is known to the next sweep.
            self.system.sweep();
            std::thread::sleep(SETTLE);
            self.row("rest", |run| {
                std::thread::sleep(run.options.rest);
                run.options.rest
            });
        }
        self.figures
    }

    /// Measures a push that changes one application: until it is applied, and until every object
    /// is at the new revision.
    fn push_one(&mut self, before: &str) {
        let one = self.size / 2;
        let sha = self.commit(one..one + 1, 2);
        let mut applied = Duration::ZERO;
        self.row("push-one, all at the revision", |run| {
            let start = run.announce(before, &sha);
            let name = worlds::name(one);
            applied = run
                .applied
                .until("push-one", start, 1, |n, v| n == name && v == "2");
            match run.world {
                World::Kustomizations => run.all_ready("push-one", start, &sha, 2),
                World::Releases => run.flux.until("push-one", start, 1, |n, release| {
                    n == name && is_ready(release) && release["version"] == "2"
                }),
            }
        });
        let Some(all) = self.figures.last() else {
            return;
        };
        let first = Figures {
            work: "push-one".to_owned(),
            seconds: applied.as_secs_f64(),
            requests: all.requests.clone(),
            system: all.system.clone(),
            world: all.world.clone(),
            ..*all
        };
        self.figures.insert(self.figures.len() - 1, first);
    }

    /// Asks every object to be reconciled, and waits until all have been.
    fn ask_all(&self) -> Duration {
        let collection = self.world.collection();
        let patch =
            json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": "now"}}});
        let names: Vec<String> = (0..self.size).map(worlds::name).collect();
        let start = Instant::now();
        in_parallel(&self.cluster, &names, |api, name| {
            let patched = api.patch(&format!("{collection}/{name}"), &patch);
            patched.unwrap_or_else(|error| panic!("{name}: {error}"));
        });
        self.flux.until("requestedAt", start, self.size, |_, one| {
            one["handled"] == "now" && is_ready(one)
        })
    }

    /// Measures one piece of work.
    fn row(&mut self, work: &'static str, does: impl FnOnce(&Self) -> Duration) {
        let counters = Counters::read(&self.cluster, self.system.processes());
        let time = does(self);
        if work != "rest" {
            std::thread::sleep(SETTLE);
        }
        let world = (self.world.letter(), self.size);
        let figures = counters.figures(self.name, world, work, time);
        eprintln!(
            "  {work}: {:.2} s, {} requests, {:.2} s CPU",
            figures.seconds,
            figures.total(),
            figures.cpu
        );
        self.figures.push(figures);
    }

    fn commit(&self, apps: std::ops::Range<usize>, version: usize) -> String {
        let changes: Vec<Change> = apps.map(|app| self.world.files(app, version)).collect();
        self.fleet.commit("main", &changes, "Change by the bench")
    }

    fn announce(&self, before: &str, sha: &str) -> Instant {
        self.system
            .announce(&self.cluster, &self.github, &self.fleet, before, sha)
    }

    fn all_ready(&self, what: &str, start: Instant, sha: &str, version: usize) -> Duration {
        let version = version.to_string();
        let is_done = |one: &Value| match self.world {
            World::Kustomizations => {
                let revision = one["revision"].as_str().unwrap_or_default();
                revision.ends_with(sha)
            }
            World::Releases => one["version"] == version,
        };
        self.flux.until(what, start, self.size, |_, one| {
            is_ready(one) && is_done(one)
        })
    }

    /// Panics unless every object is at this version.
    fn check_objects(&self, expected: usize) {
        let expected = expected.to_string();
        for (api, plural) in COLLECTIONS {
            let path = format!("{api}/namespaces/{APPS}/{plural}?labelSelector=app");
            let objects = self.cluster.api().list(&path).expect("a list");
            let at = |object: &&Value| version(object) == expected;
            let count = objects.iter().filter(at).count();
            assert_eq!(count, self.size, "{plural} at version {expected}");
        }
    }
}

const SOURCES: &str = "/apis/source.toolkit.fluxcd.io/v1/namespaces/fleet";

fn is_ready(one: &Value) -> bool {
    one["ready"] == "True" && one["current"] == true
}

/// Creates a source.
fn create(cluster: &Cluster, sources: &str, object: &Value) {
    let plural = match object["kind"].as_str() {
        Some("GitRepository") => "gitrepositories",
        _ => "helmrepositories",
    };
    let created = cluster.api().create(&format!("{sources}/{plural}"), object);
    created.unwrap_or_else(|error| panic!("create {object}: {error}"));
}

/// Calls `does` for each item, 16 at a time, each with its own connection.
fn in_parallel<T: Sync>(cluster: &Cluster, items: &[T], does: impl Fn(&Api, &T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..16.min(items.len()) {
            let api = cluster.api_with_token(cluster.token());
            let (next, does) = (&next, &does);
            scope.spawn(move || {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    does(&api, item);
                }
            });
        }
    });
}
