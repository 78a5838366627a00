//! One hub, cluster or object that hangs, fails or runs out of memory harms no other one.

use crate::bugs::Bug;
use crate::check::{CONFIGS, KUSTOMIZATIONS, SOURCES};
use crate::fleet::{APP, Content, FLEET, FLUX};
use crate::operations::Users;
use crate::rng::Rng;
use crate::run::runtime;
use crate::scenario::{Running, SEED, fleet, settle};
use crate::servers::Light;
use crate::world::World;
use driftless_flux::reason;
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

/// The longest time that a push may take while the steps of another object do not end.
pub const MAX_NEIGHBOUR_TIME: Duration = Duration::from_secs(45);
/// The longest time until a drift is corrected.
pub const MAX_DRIFT_TIME: Duration = Duration::from_secs(120);
/// The longest time until a user's request is handled: the sweep of a minute finds it.
pub const MAX_REQUEST_TIME: Duration = Duration::from_secs(75);

/// Runs a Kustomization on each of `clusters` remote clusters, of which every fourth hangs. Deletes
/// the object of each healthy one by hand, and returns the longest time until one exists again.
pub fn slices(clusters: usize, bug: Option<Bug>) -> Duration {
    World::warm_up();
    runtime().block_on(async {
        let running = Running::with(1, clusters, 100, bug).await;
        let mut fleet = fleet(clusters, |_| Vec::new());
        for at in 0..clusters {
            let tenant = fleet.tenants.get_mut(&format!("t{at}"));
            tenant.expect("a tenant").cluster = format!("remote-{at}");
        }
        let users = Users::of(running.world.clone(), Rng::new(SEED, 11), fleet);
        settle(&running, &users).await;
        let server = |at: usize| &running.world.servers[&format!("remote-{at}")];
        for at in (0..clusters).step_by(4) {
            server(at).set(Light::Hung);
        }
        tokio::time::sleep(Duration::from_secs(90)).await;
        let path = |at: usize| format!("{CONFIGS}/cm-{at}");
        let mut open: Vec<usize> = (0..clusters).filter(|at| at % 4 != 0).collect();
        for at in &open {
            assert!(server(*at).delete(&path(*at)), "cm-{at}");
        }
        let start = Instant::now();
        while !open.is_empty() && start.elapsed() < Duration::from_secs(3600) {
            tokio::time::sleep(Duration::from_secs(1)).await;
            open.retain(|at| server(*at).get(&path(*at)).is_none());
        }
        start.elapsed()
    })
}

/// Lets 31 of 32 hubs hang, and deletes an object of the other one by hand. Returns the time until
/// it exists again.
pub fn hubs(bug: Option<Bug>) -> Duration {
    World::warm_up();
    runtime().block_on(async {
        let running = Running::with(32, 1, 10, bug).await;
        let users = Users::of(
            running.world.clone(),
            Rng::new(SEED, 11),
            fleet(2, |_| Vec::new()),
        );
        settle(&running, &users).await;
        for server in running.world.other_hubs.values() {
            server.set(Light::Hung);
        }
        tokio::time::sleep(Duration::from_secs(90)).await;
        let path = format!("{CONFIGS}/cm-0");
        assert!(running.world.hub().delete(&path), "{path}");
        let start = Instant::now();
        while running.world.hub().get(&path).is_none()
            && start.elapsed() < Duration::from_secs(3600)
        {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        start.elapsed()
    })
}

/// Lets remote clusters hang, and requests a step of a Kustomization of the hub; six times. Returns
/// the longest time until a request is handled.
pub fn requests() -> Duration {
    World::warm_up();
    runtime().block_on(async {
        let running = Running::with(1, 40, 10, None).await;
        let mut fleet = fleet(41, |_| Vec::new());
        for at in 0..40 {
            let tenant = fleet.tenants.get_mut(&format!("t{at}"));
            tenant.expect("a tenant").cluster = format!("remote-{at}");
        }
        let users = Users::of(running.world.clone(), Rng::new(SEED, 11), fleet);
        settle(&running, &users).await;
        let set_remotes = |light| {
            for at in 0..40 {
                running.world.servers[&format!("remote-{at}")].set(light);
            }
        };
        let path = format!("{KUSTOMIZATIONS}/t40");
        let mut longest = Duration::ZERO;
        for at in 0..6 {
            set_remotes(Light::Hung);
            let number = at.to_string();
            let request = json!({"metadata": {"annotations":
                {"reconcile.fluxcd.io/requestedAt": number}}});
            assert!(running.world.hub().merge(&path, &request), "{path}");
            let start = Instant::now();
            let is_handled = || {
                let object = running.world.hub().get(&path).unwrap_or_default();
                object["status"]["lastHandledReconcileAt"] == *number
            };
            while !is_handled() && start.elapsed() < Duration::from_secs(900) {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            longest = longest.max(start.elapsed());
            set_remotes(Light::Lit);
            tokio::time::sleep(Duration::from_secs(190)).await;
        }
        longest
    })
}

/// The effects of an object whose steps end their function.
#[derive(Debug)]
pub struct Poison {
    /// The time until the object's status shows it.
    pub shown: Duration,
    /// The number of its steps that ended, in [`POISON_TIME`] after it is shown: each reports the
    /// steps that did not end.
    pub steps: u64,
    /// The longest time of a push of a neighbour, after it is shown.
    pub neighbour: Duration,
    /// The time until the object is ready, after it has become smaller: it needs more memory than a
    /// batch of steps has, and less than an isolated step.
    pub ready: Duration,
}

/// The time for which the steps of an object do not end.
pub const POISON_TIME: Duration = Duration::from_secs(6 * 3600);

/// Runs a source whose download runs out of memory, among neighbours.
pub fn poison() -> Poison {
    World::warm_up();
    runtime().block_on(async {
        let running = Running::start(4, None).await;
        let users = Users::of(running.world.clone(), Rng::new(SEED, 11), fleet(5, |_| Vec::new()));
        settle(&running, &users).await;
        let weigh = |bytes| running.world.host.with(APP, |one| one.weight = bytes);
        weigh(4 << 30);
        let path = format!("{SOURCES}/poison");
        let source = json!({"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
            "metadata": {"name": "poison", "namespace": FLUX},
            "spec": {"interval": "1m", "url": format!("https://{APP}"), "ref": {"branch": "main"}}});
        running.create(SOURCES, &source);
        let start = Instant::now();
        let interrupted = ("False".to_owned(), reason::STEP_INTERRUPTED.to_owned());
        while running.ready(&path) != interrupted {
            assert!(start.elapsed() < Duration::from_secs(3600), "{:?}", running.ready(&path));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let shown = start.elapsed();
        let before = running.world.step_counts();
        let mut users = users;
        let mut neighbour = Duration::ZERO;
        for _ in 0..6 {
            let mut number = String::new();
            users.commit(FLEET, "a neighbour", |state, commit| {
                number = commit.to_string();
                let objects = state.objects.entry("t0".to_owned()).or_default();
                objects.insert("cm-0".to_owned(), Content { commit });
            });
            let time = running.until_applied("cm-0", &number).await;
            neighbour = neighbour.max(time);
            tokio::time::sleep((POISON_TIME / 6).saturating_sub(time)).await;
            assert_eq!(running.ready(&path), interrupted);
        }
        let steps = running.steps_since(&before).into_iter();
        let steps = steps.filter(|(object, _)| object.ends_with("/poison"));
        let steps = steps.map(|(_, count)| count).sum();
        weigh(2 << 30);
        let ready = running.until_ready(&path).await;
        Poison { shown, steps, neighbour, ready }
    })
}
