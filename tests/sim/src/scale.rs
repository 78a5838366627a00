//! The cost of fleets with many remote clusters: of their first sync, pushes, time at rest, a
//! cluster that is dark for days, and a hub that is restored from a backup.

use crate::economy::Cost;
use crate::fleet::{Content, FLEET, State, Tenant};
use crate::gate::Kind;
use crate::operations::Users;
use crate::rng::Rng;
use crate::run::{converge, runtime};
use crate::scenario::{Running, SEED, settle};
use crate::servers::Light;
use crate::world::{HUB, Snapshot, World};
use serde_json::{Value, json};
use std::fmt;
use std::time::{Duration, Instant};

/// The number of invocations of the reconcile function at a time: a fifth of the default of
/// infra/template.yaml (`Concurrency`).
const CONCURRENCY: usize = 20;
const MINUTE: Duration = Duration::from_secs(60);

/// The push of a change of every object.
pub const PUSH_ALL: &str = "push of all objects";
/// The push of a change of one object of one cluster.
pub const PUSH_ONE: &str = "push of one object";
/// The time in which one cluster does not answer, and the others are at rest.
pub const DARK: &str = "one cluster dark";

/// A fleet with one Kustomization for each remote cluster.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of remote clusters.
    pub clusters: usize,
    /// The number of objects on each of them.
    pub objects: usize,
    /// The time that one cluster is dark.
    pub dark: Duration,
}

/// The cost of one event.
struct Row {
    event: &'static str,
    cost: Cost,
    /// The processor time of the simulation, about that of the functions.
    wall: Duration,
}

/// The costs of all events of a fleet.
pub struct Scale {
    /// The simulated fleet.
    pub size: Size,
    rows: Vec<Row>,
}

impl Scale {
    /// Simulates the events.
    pub fn measure(size: Size) -> Self {
        World::warm_up();
        let mut scale = Self {
            size,
            rows: Vec::new(),
        };
        let (before, after, begin) = runtime().block_on(scale.live());
        let restored = Snapshot {
            servers: after
                .servers
                .into_iter()
                .map(|(name, server)| match name == HUB {
                    true => (name, before.servers[HUB].clone()),
                    false => (name, server),
                })
                .collect(),
            bucket: after.bucket,
        };
        drop(before);
        runtime().block_on(scale.restored(restored, begin));
        scale
    }

    /// Measures the events up to the dark cluster. Returns the states before and after the push of
    /// all objects, and the time of the latter.
    async fn live(&mut self) -> (Snapshot, Snapshot, Duration) {
        let running = Running::with(1, self.size.clusters, CONCURRENCY, None).await;
        let fleet = fleet(self.size);
        let mut users = Users::of(running.world.clone(), Rng::new(SEED, 11), fleet);
        self.event("first sync", &running, async || {
            assert!(converge(&running.world, &users).await, "the first sync");
        })
        .await;
        settle(&running, &users).await;
        let before = running.world.snapshot();
        self.event(PUSH_ALL, &running, async || {
            push_all(&mut users);
            assert!(converge(&running.world, &users).await, "the push");
        })
        .await;
        settle(&running, &users).await;
        let (after, now) = (running.world.snapshot(), running.world.now());
        self.event(PUSH_ONE, &running, async || {
            push_one(&mut users);
            assert!(converge(&running.world, &users).await, "the push");
        })
        .await;
        settle(&running, &users).await;
        self.event("a minute at rest: one sweep", &running, async || {
            tokio::time::sleep(MINUTE).await;
        })
        .await;
        running.world.servers["remote-0"].set(Light::Dark);
        // The steps of all objects are due once in the interval.
        tokio::time::sleep(10 * MINUTE).await;
        let dark = self.size.dark;
        self.event(DARK, &running, async || {
            tokio::time::sleep(dark).await;
        })
        .await;
        running.world.servers["remote-0"].set(Light::Lit);
        self.event("the cluster is back", &running, async || {
            assert!(converge(&running.world, &users).await, "back");
        })
        .await;
        (before, after, now)
    }

    /// Measures how a hub converges that was restored from a backup older than the last push: the
    /// remote clusters and the bucket are as the push has left them.
    async fn restored(&mut self, from: Snapshot, begin: Duration) {
        let running = Running::restored(&from, self.size.clusters, CONCURRENCY, begin).await;
        let fleet = fleet(self.size);
        let mut users = Users::of(running.world.clone(), Rng::new(SEED, 11), fleet);
        push_all(&mut users);
        self.event("hub restored from a backup", &running, async || {
            assert!(converge(&running.world, &users).await, "restored");
        })
        .await;
    }

    async fn event(&mut self, event: &'static str, running: &Running, does: impl AsyncFnOnce()) {
        let (before, start) = (running.cost(), Instant::now());
        does().await;
        self.rows.push(Row {
            event,
            cost: running.since(&before),
            wall: start.elapsed(),
        });
        eprintln!("{event}: {:.1} s", start.elapsed().as_secs_f64());
    }

    /// Returns the cost of an event.
    ///
    /// # Panics
    /// No event has this name.
    pub fn cost(&self, event: &str) -> &Cost {
        let row = self.rows.iter().find(|row| row.event == event);
        &row.expect("an event of the table").cost
    }

    /// Returns the table as JSON.
    pub fn json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            let cost = &row.cost;
            json!({"event": row.event, "seconds": cost.time.as_secs(),
                "processorSeconds": row.wall.as_secs_f64(), "messages": cost.messages,
                "steps": cost.steps, "s3Gets": cost.of(Kind::BlobRead), "s3Puts": cost.of(Kind::BlobWrite),
                "s3Lists": cost.of(Kind::BlobList), "apiReads": cost.of(Kind::ApiRead),
                "apiWrites": cost.of(Kind::ApiWrite), "apiBytes": cost.api_bytes()})
        });
        json!({"clusters": self.size.clusters, "objectsOfEach": self.size.objects,
            "events": rows.collect::<Vec<_>>()})
    }
}

/// Returns a fleet with a Kustomization for each remote cluster.
fn fleet(
    Size {
        clusters, objects, ..
    }: Size,
) -> State {
    let mut fleet = State::default();
    for at in 0..clusters {
        let name = format!("t{at}");
        let tenant = Tenant {
            cluster: format!("remote-{at}"),
            own_repository: false,
            depends_on: Vec::new(),
            waits: false,
        };
        let own = (0..objects).map(|n| (format!("cm-{n}"), Content { commit: 0 }));
        fleet.objects.insert(name.clone(), own.collect());
        fleet.tenants.insert(name, tenant);
    }
    fleet
}

fn push_all(users: &mut Users) {
    users.commit(FLEET, "all objects", |state, commit| {
        for objects in state.objects.values_mut() {
            objects.values_mut().for_each(|one| one.commit = commit);
        }
    });
}

fn push_one(users: &mut Users) {
    users.commit(FLEET, "one object", |state, commit| {
        let objects = state.objects.entry("t0".to_owned()).or_default();
        objects.insert("cm-0".to_owned(), Content { commit });
    });
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Size {
            clusters, objects, ..
        } = self.size;
        writeln!(
            f,
            "{clusters} remote clusters, {objects} objects on each:\n"
        )?;
        writeln!(
            f,
            "| event | time | processor time | messages | steps | S3 GETs | S3 PUTs | S3 LISTs | API reads | API writes | bytes from API servers |"
        )?;
        writeln!(f, "|{}", " --- |".repeat(11))?;
        for Row { event, cost, wall } in &self.rows {
            writeln!(
                f,
                "| {event} | {} s | {:.1} s | {} | {} | {} | {} | {} | {} | {} | {:.1} MB |",
                cost.time.as_secs(),
                wall.as_secs_f64(),
                cost.messages,
                cost.steps,
                cost.of(Kind::BlobRead),
                cost.of(Kind::BlobWrite),
                cost.of(Kind::BlobList),
                cost.of(Kind::ApiRead),
                cost.of(Kind::ApiWrite),
                cost.api_bytes() as f64 / 1e6
            )?;
        }
        Ok(())
    }
}
