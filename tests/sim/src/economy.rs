//! Counts what driftless costs: at rest, for one push, and with objects that fail for a day.

use crate::bugs::Bug;
use crate::check::{CONFIGS, KUSTOMIZATIONS, RELEASES};
use crate::fleet::{Content, FLEET, FLUX};
use crate::gate::{Fault, Kind, Plan};
use crate::operations::Users;
use crate::rng::Rng;
use crate::run::{converge, runtime};
use crate::scenario::{Running, SEED, config, fleet, kustomization, release, settle};
use crate::servers::Light;
use crate::world::{HUB, World};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// The length of a day.
pub const DAY: Duration = Duration::from_secs(24 * 3600);
/// The lowest and the highest number of steps for an object that fails or waits for a day.
pub const FAILING_STEPS: std::ops::RangeInclusive<u64> = 120..=150;
/// The lowest and the highest number of steps for an object whose cluster is dark for a day: it
/// tries the cluster each hour.
pub const DARK_STEPS: std::ops::RangeInclusive<u64> = 16..=40;
/// The number of Kustomizations when the cost of a push is counted.
pub const FLEET_SIZE: usize = 30;
/// The highest number of requests to API servers for the push of one file of one Kustomization: of
/// each other one, the revision in its status is written, which changes nothing for it.
pub const MAX_PUSH_REQUESTS: u64 = 2 * FLEET_SIZE as u64;
/// The number of Kustomizations in a chain of dependencies.
pub const CHAIN_LENGTH: usize = 6;
/// The longest time that a push through the chain may take.
pub const MAX_CHAIN_TIME: Duration = Duration::from_secs(60);
/// The number of Kustomizations in a chain with more steps than Lambda's recursive loop detection
/// allows.
pub const LONG_CHAIN_LENGTH: usize = 40;
/// The longest time that a push of one object may take.
pub const MAX_PUSH_TIME: Duration = Duration::from_secs(30);

/// The cost of a period of time.
#[derive(Clone, Debug, Default)]
pub struct Cost {
    /// The length of the period.
    pub time: Duration,
    /// The number of messages that were sent.
    pub messages: u64,
    /// The number of steps that were not skipped.
    pub steps: u64,
    /// The number of calls of the core by kind.
    pub calls: BTreeMap<Kind, u64>,
    /// The bytes that the functions received, by the kind of the call.
    pub received: BTreeMap<Kind, u64>,
    /// The number of invocations of each function, and their time together: that of the calls, not
    /// of computations.
    pub invocations: BTreeMap<&'static str, (u64, Duration)>,
}

impl Cost {
    /// Returns the number of calls of a kind.
    pub fn of(&self, kind: Kind) -> u64 {
        self.calls.get(&kind).copied().unwrap_or_default()
    }

    /// Returns the bytes that calls of a kind received.
    pub fn bytes(&self, kind: Kind) -> u64 {
        self.received.get(&kind).copied().unwrap_or_default()
    }

    /// Returns the bytes that API servers sent.
    pub fn api_bytes(&self) -> u64 {
        self.bytes(Kind::ApiRead) + self.bytes(Kind::ApiWrite)
    }

    /// Returns the number of requests to the bucket.
    pub fn bucket(&self) -> u64 {
        self.of(Kind::BlobRead) + self.of(Kind::BlobList) + self.of(Kind::BlobWrite)
    }

    /// Returns the number of requests to API servers.
    pub fn api(&self) -> u64 {
        self.of(Kind::ApiRead) + self.of(Kind::ApiWrite)
    }
}

/// Returns the bounds that a time at rest misses. For 500 Kustomizations, a day has at most 4,000
/// messages and 40,000 requests to S3, and an hour has at most 5 MB from API servers; nothing is
/// written to one.
pub fn missed_bounds(kustomizations: usize, cost: &Cost) -> Vec<String> {
    let share = cost.time.as_secs_f64() / DAY.as_secs_f64();
    // The bound of a day: what the sweep of each minute needs, and what 500 objects add.
    let bound = |sweeps: f64, objects: f64| {
        ((sweeps + objects * kustomizations as f64 / 500.0) * share) as u64
    };
    let bounds = [
        ("messages", cost.messages, bound(0.0, 0.0), bound(0.0, 4e3)),
        (
            "sweeps and other sends",
            cost.of(Kind::Send),
            bound(1_400.0, 0.0),
            bound(1_500.0, 2_500.0),
        ),
        (
            "requests to S3",
            cost.bucket(),
            bound(1_440.0, 0.0),
            bound(14e3, 26e3),
        ),
        ("writes to API servers", cost.of(Kind::ApiWrite), 0, 0),
        (
            "bytes from API servers",
            cost.api_bytes(),
            bound(1e6, 0.0),
            bound(24e6, 96e6),
        ),
    ];
    let missed = bounds
        .iter()
        .filter(|(_, count, least, most)| !(*least..=*most).contains(count));
    missed
        .map(|(name, count, least, most)| format!("{count} {name}, expected {least} to {most}"))
        .collect()
}

/// Runs a source with `interval: 1m` whose repository does not exist. Returns the number of its
/// steps.
pub fn failing_source(time: Duration, bug: Option<Bug>) -> u64 {
    World::warm_up();
    runtime().block_on(async {
        let running = Running::start(4, bug).await;
        tokio::time::sleep(time).await;
        let counts = running.world.step_counts();
        let of_sources = counts
            .iter()
            .filter(|(object, _)| object.starts_with("GitRepository/"));
        of_sources.map(|(_, count)| count).sum()
    })
}

/// Lets a fleet converge. Returns what it costs for `time` at rest.
pub fn rest(kustomizations: usize, time: Duration) -> Cost {
    World::warm_up();
    runtime().block_on(async {
        let running = Running::start(20, None).await;
        let fleet = fleet(kustomizations, |_| Vec::new());
        let users = Users::of(running.world.clone(), Rng::new(SEED, 11), fleet);
        settle(&running, &users).await;
        let before = running.cost();
        tokio::time::sleep(time).await;
        running.since(&before)
    })
}

/// Pushes a change of one file of one Kustomization. Returns what that costs until the fleet has
/// converged.
pub fn push(kustomizations: usize, bug: Option<Bug>) -> Cost {
    World::warm_up();
    runtime().block_on(async {
        let running = Running::start(20, bug).await;
        let fleet = fleet(kustomizations, |_| Vec::new());
        let mut users = Users::of(running.world.clone(), Rng::new(SEED, 11), fleet);
        settle(&running, &users).await;
        let before = running.cost();
        users.commit(FLEET, "one file", |state, commit| {
            let objects = state.objects.entry("t0".to_owned()).or_default();
            objects.insert("cm-0".to_owned(), Content { commit });
        });
        let converged = converge(&running.world, &users).await;
        assert!(converged, "{:?}", running.world.trace.end().violations);
        running.since(&before)
    })
}

/// Pushes a commit, and another one 40 s later, when the first is applied. Returns the time until
/// the second is applied.
pub fn second_push(bug: Option<Bug>) -> Duration {
    World::warm_up();
    runtime().block_on(async {
        let running = Running::start(20, bug).await;
        let mut users = Users::of(
            running.world.clone(),
            Rng::new(SEED, 11),
            fleet(1, |_| Vec::new()),
        );
        settle(&running, &users).await;
        let mut time = Duration::ZERO;
        for _ in 0..2 {
            let mut number = String::new();
            users.commit(FLEET, "a change", |state, commit| {
                number = commit.to_string();
                let objects = state.objects.entry("t0".to_owned()).or_default();
                objects.insert("cm-0".to_owned(), Content { commit });
            });
            time = running.until_applied("cm-0", &number).await;
            tokio::time::sleep(Duration::from_secs(40).saturating_sub(time)).await;
        }
        time
    })
}

/// Removes an object whose deletes the API server refuses for a while. Returns whether it is
/// deleted after that.
pub fn failed_delete(bug: Option<Bug>) -> bool {
    World::warm_up();
    runtime().block_on(async {
        let running = Running::start(20, bug).await;
        let mut fleet = fleet(1, |_| Vec::new());
        let objects = fleet.objects.entry("t0".to_owned()).or_default();
        objects.extend((1..6).map(|at| (format!("cm-{at}"), Content { commit: 0 })));
        let mut users = Users::of(running.world.clone(), Rng::new(SEED, 11), fleet);
        settle(&running, &users).await;
        let delete = format!("DELETE {CONFIGS}/cm-0");
        running.world.gate.plan(Plan::Named(delete, Fault::Before));
        users.commit(FLEET, "one object less", |state, _| {
            state
                .objects
                .entry("t0".to_owned())
                .or_default()
                .remove("cm-0");
        });
        tokio::time::sleep(Duration::from_secs(600)).await;
        running.world.gate.plan(Plan::Clean);
        tokio::time::sleep(Duration::from_secs(1500)).await;
        running
            .world
            .hub()
            .get(&format!("{CONFIGS}/cm-0"))
            .is_none()
    })
}

/// Pushes a change of each Kustomization of a chain, in which each depends on the one before.
/// Returns the time until all are ready.
pub fn chain(length: usize, bug: Option<Bug>) -> Duration {
    chain_with_dead(length, bug).0
}

/// Pushes a change of each Kustomization of a chain that is longer than Lambda's recursive loop
/// detection allows. Returns the number of messages that are dead.
pub fn long_chain(bug: Option<Bug>) -> usize {
    chain_with_dead(LONG_CHAIN_LENGTH, bug).1
}

fn chain_with_dead(length: usize, bug: Option<Bug>) -> (Duration, usize) {
    World::warm_up();
    runtime().block_on(async {
        let running = Running::start(20, bug).await;
        let fleet = fleet(length, |at| {
            let before = at.checked_sub(1).map(|at| format!("t{at}"));
            before.into_iter().collect()
        });
        let mut users = Users::of(running.world.clone(), Rng::new(SEED, 11), fleet);
        settle(&running, &users).await;
        let start = Instant::now();
        users.commit(FLEET, "all of them", |state, commit| {
            for objects in state.objects.values_mut() {
                objects.values_mut().for_each(|one| one.commit = commit);
            }
        });
        let converged = converge(&running.world, &users).await;
        assert!(converged, "{:?}", running.world.trace.end().violations);
        let time = start.elapsed();
        tokio::time::sleep(Duration::from_secs(150)).await;
        (time, running.world.sqs.waiting().1.len())
    })
}

/// The remote cluster that goes dark.
const REMOTE: &str = "remote-0";

/// Runs Kustomizations and HelmReleases whose cluster is dark for `time`; one of each is being
/// deleted. Returns the number of steps of each, and the time until they are ready again.
pub fn dark_cluster(each: usize, time: Duration) -> (BTreeMap<String, u64>, Duration) {
    World::warm_up();
    runtime().block_on(async {
        let running = Running::start(10, None).await;
        let chart = json!({"apiVersion": "v2", "name": "web", "version": "1.0.0"});
        let mut files = vec![
            ("charts/web/Chart.yaml", chart),
            (
                "charts/web/templates/web.yaml",
                config("web-{{ .Release.Name }}", &[]),
            ),
        ];
        let paths: Vec<String> = (0..each)
            .map(|at| format!("apps/{at}/config.yaml"))
            .collect();
        for (at, path) in paths.iter().enumerate() {
            files.push((path, config(&format!("k-{at}"), &[])));
        }
        running.push_files(1, &files);
        let mut objects = Vec::new();
        for at in 0..each {
            let (k, r) = (format!("k-{at}"), format!("r-{at}"));
            let path = format!("./apps/{at}");
            running.create(KUSTOMIZATIONS, &kustomization(&k, &path, REMOTE));
            running.create(RELEASES, &release(&r, REMOTE));
            objects.extend([format!("{KUSTOMIZATIONS}/{k}"), format!("{RELEASES}/{r}")]);
        }
        for object in &objects {
            running.until_ready(object).await;
        }
        running.world.servers[REMOTE].set(Light::Dark);
        // A new revision changes no file of the Kustomizations.
        running.push_files(2, &files);
        for object in objects.drain(..2) {
            assert!(running.world.hub().delete(&object), "{object}");
        }
        tokio::time::sleep(Duration::from_secs(1800)).await;
        let before = running.world.step_counts();
        tokio::time::sleep(time).await;
        let steps = running.steps_since(&before);
        running.world.servers[REMOTE].set(Light::Lit);
        let mut longest = Duration::ZERO;
        for object in &objects {
            longest += running.until_ready(object).await;
        }
        let steps = steps
            .into_iter()
            .filter(|(object, _)| object.starts_with("HelmRelease/") || object.contains("/k-"));
        (steps.collect(), longest)
    })
}

/// Deletes a Kustomization whose child cannot be deleted, because an object of the child keeps its
/// finalizer; another one prunes such an object. Returns the number of steps of each in `time`.
pub fn stuck_deletions(time: Duration) -> BTreeMap<String, u64> {
    World::warm_up();
    runtime().block_on(async {
        let running = Running::start(4, None).await;
        let stuck = ["example.com/stuck"];
        let files = [
            ("parent/child.yaml", kustomization("child", "./child", HUB)),
            // The child may need it to clean up.
            (
                "parent/account.yaml",
                json!({"apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": "child", "namespace": FLUX}}),
            ),
            ("child/config.yaml", config("child", &stuck)),
            ("pruning/kept.yaml", config("kept", &[])),
            ("pruning/removed.yaml", config("removed", &stuck)),
        ];
        running.push_files(1, &files);
        for name in ["parent", "pruning"] {
            let object = kustomization(name, &format!("./{name}"), HUB);
            running.create(KUSTOMIZATIONS, &object);
        }
        for name in ["parent", "child", "pruning"] {
            running
                .until_ready(&format!("{KUSTOMIZATIONS}/{name}"))
                .await;
        }
        running.push_files(2, &files[..4]);
        assert!(
            running
                .world
                .hub()
                .delete(&format!("{KUSTOMIZATIONS}/parent"))
        );
        tokio::time::sleep(Duration::from_secs(1800)).await;
        let before = running.world.step_counts();
        tokio::time::sleep(time).await;
        let steps = running.steps_since(&before);
        for name in ["child", "removed"] {
            let path = format!("{CONFIGS}/{name}");
            let free = json!({"metadata": {"finalizers": null}});
            assert!(running.world.hub().merge(&path, &free), "{path}");
        }
        // The child is gone at its next step, and the parent at the one after that.
        tokio::time::sleep(Duration::from_secs(1260)).await;
        let parent = running.world.hub().get(&format!("{KUSTOMIZATIONS}/parent"));
        assert_eq!(parent, None, "the deletion has ended");
        let names = ["parent", "child", "pruning"];
        let steps = steps.into_iter();
        let steps = steps.filter(|(object, _)| names.iter().any(|name| object.ends_with(name)));
        steps.collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_that_is_missed_is_named() {
        let mut cost = Cost {
            time: DAY,
            messages: 500,
            calls: [(Kind::Send, 1_440), (Kind::BlobRead, 20_000)].into(),
            received: [(Kind::ApiRead, 50_000_000)].into(),
            ..Cost::default()
        };
        assert_eq!(missed_bounds(500, &cost), Vec::<String>::new());
        cost.received.insert(Kind::ApiWrite, 80_000_000);
        cost.messages = 4_001;
        let missed = [
            "4001 messages, expected 0 to 4000",
            "130000000 bytes from API servers, expected 1000000 to 120000000",
        ];
        assert_eq!(missed_bounds(500, &cost), missed);
        // An hour has a 24th of it.
        cost.time = Duration::from_secs(3600);
        assert_eq!(missed_bounds(500, &cost).len(), 4);
    }
}
