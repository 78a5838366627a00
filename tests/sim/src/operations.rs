//! The operations of users and the trouble of the world, chosen by the seed.

use crate::check::{CONFIGS, Difference, KUSTOMIZATIONS, OWNER_NAME, OWNER_NAMESPACE};
use crate::fleet::{
    APP, APPS, Broken, Commit, Content, FLEET, Release, State, Tenant, dependents, desired_state,
};
use crate::rng::Rng;
use crate::servers::Light;
use crate::world::{CANARY, HUB, World};
use driftless_flux::reason;
use driftless_plans::inventory::PRUNE_APPROVED;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The time that trouble may have effects after its end: the longest wait between two tries.
const ECHO: Duration = Duration::from_secs(720);

/// A repository as users see it.
struct Repository {
    commits: Vec<Commit>,
    head: usize,
}

impl Repository {
    fn state(&self) -> &State {
        &self.commits[self.head].state
    }
}

/// All users and everything else that acts from outside driftless.
pub struct Users {
    world: Arc<World>,
    rng: Rng,
    fleet: Repository,
    app: Repository,
    number: u64,
    next_object: u64,
    suspended: BTreeSet<String>,
    /// Tenants with their own repository that the fleet has dropped.
    dropped: BTreeMap<String, Tenant>,
    /// An object that is changed again at once, and the number of changes that are left.
    burst: Option<(String, usize)>,
    /// The tenants, clusters and repositories whose trouble may still have effects, and until when.
    trouble: BTreeMap<String, Instant>,
    /// True if webhooks get lost.
    lossy: bool,
}

/// The operations with their weights.
const OPERATIONS: [(&str, usize); 29] = [
    ("change", 26),
    ("burst", 8),
    ("add", 10),
    ("remove", 12),
    ("rename", 5),
    ("move", 8),
    ("new tenant", 3),
    ("drop tenant", 4),
    ("rename tenant", 4),
    ("force push", 7),
    ("break", 5),
    ("fix", 6),
    ("suspend", 4),
    ("resume", 6),
    ("request", 5),
    ("delete kustomization", 4),
    ("edit by hand", 6),
    ("delete by hand", 5),
    ("dark", 5),
    ("hang", 2),
    ("light", 8),
    ("git gone", 3),
    ("restart", 3),
    ("rotate", 2),
    ("change release", 6),
    ("new release", 4),
    ("drop release", 3),
    ("change chart", 3),
    ("change record", 3),
];

impl Users {
    /// Makes the first commits of a random fleet.
    pub fn new(world: Arc<World>, mut rng: Rng, tenants: usize, lossy: bool) -> Self {
        let mut fleet = State::default();
        let mut app = State::default();
        let clusters: Vec<String> = world.servers.keys().cloned().collect();
        let mut next_object = 0;
        for at in 0..tenants {
            let name = format!("t{at}");
            let tenant = Tenant {
                // The second tenant is on a remote cluster, so that every world has one.
                cluster: match at {
                    1 => clusters.last().cloned().unwrap_or_default(),
                    _ => rng.pick(&clusters).cloned().unwrap_or_default(),
                },
                own_repository: at == 2 || rng.chance(1500),
                depends_on: match at > 0 && rng.chance(4000) {
                    true => vec![format!("t{}", rng.below(at))],
                    false => Vec::new(),
                },
                waits: rng.chance(1500),
            };
            let source = if tenant.own_repository {
                &mut app
            } else {
                &mut fleet
            };
            let objects = source.objects.entry(name.clone()).or_default();
            for _ in 0..rng.between(1, 4) {
                objects.insert(format!("cm-{next_object}"), Content { commit: 0 });
                next_object += 1;
            }
            fleet.tenants.insert(name, tenant);
        }
        for at in 0..rng.below(3) {
            let release = Release {
                cluster: rng.pick(&clusters).cloned().unwrap_or_default(),
                content: Content { commit: 0 },
                has_extra: rng.chance(5000),
                retries: true,
            };
            fleet.releases.insert(format!("r{at}"), release);
        }
        let mut users = Self::with(world, rng, fleet, app, lossy);
        users.next_object = next_object;
        users
    }

    /// Makes the first commits of the given fleet of one repository, whose webhooks all arrive.
    pub fn of(world: Arc<World>, rng: Rng, fleet: State) -> Self {
        Self::with(world, rng, fleet, State::default(), false)
    }

    /// Makes the first commits of the crash points: a tenant on each cluster, one with its own
    /// repository, and one that is dropped; a release that is upgraded, and one that is
    /// uninstalled.
    pub fn canonical(world: Arc<World>, rng: Rng) -> Self {
        let (mut fleet, mut app) = (State::default(), State::default());
        let tenants = [
            ("t0", HUB, false, vec![]),
            ("t1", "remote-0", false, vec!["t0".to_owned()]),
            ("t2", "remote-0", true, vec![]),
            ("t3", "remote-0", false, vec![]),
        ];
        for (at, (name, cluster, own_repository, depends_on)) in tenants.into_iter().enumerate() {
            let tenant = Tenant {
                cluster: cluster.to_owned(),
                own_repository,
                depends_on,
                waits: false,
            };
            let source = if own_repository { &mut app } else { &mut fleet };
            let objects = source.objects.entry(name.to_owned()).or_default();
            for object in 0..3 {
                objects.insert(format!("cm-{at}-{object}"), Content { commit: 0 });
            }
            fleet.tenants.insert(name.to_owned(), tenant);
        }
        for (name, cluster) in [("r0", "remote-0"), ("r1", HUB)] {
            fleet
                .releases
                .insert(name.to_owned(), new_release(cluster, 0));
        }
        Self::with(world, rng, fleet, app, false)
    }

    /// Pushes the commits of the crash points: a change, a new object, a removed one, a moved one,
    /// a dropped tenant; a release that is upgraded and loses an object, one that is uninstalled,
    /// and two that are installed. One of these has no retries if `strict`.
    pub fn script(&mut self, strict: bool) {
        self.commit(FLEET, "the scenario", |state, commit| {
            let objects = state.objects.entry("t0".to_owned()).or_default();
            objects.insert("cm-0-0".to_owned(), Content { commit });
            let moved = objects.remove("cm-0-2").expect("cm-0-2 exists");
            let objects = state.objects.entry("t1".to_owned()).or_default();
            objects.insert("cm-0-2".to_owned(), moved);
            objects.insert("cm-1-9".to_owned(), Content { commit });
            objects.remove("cm-1-1");
            state.tenants.remove("t3");
            state.objects.remove("t3");
            let mut changed = new_release("remote-0", commit);
            changed.has_extra = false;
            state.releases.insert("r0".to_owned(), changed);
            state.releases.remove("r1");
            let mut new = new_release("remote-0", commit);
            new.retries = !strict;
            state.releases.insert("r2".to_owned(), new);
            let short = new_release("remote-0", commit);
            state.releases.insert("r3".to_owned(), short);
        });
        self.commit(APP, "the scenario", |state, commit| {
            let objects = state.objects.entry("t2".to_owned()).or_default();
            objects.insert("cm-2-0".to_owned(), Content { commit });
            objects.remove("cm-2-1");
        });
    }

    /// Pushes a commit after [`Users::script`] that removes a release while it is being installed.
    pub fn take_back(&mut self) {
        self.commit(FLEET, "remove a release during its install", |state, _| {
            state.releases.remove("r3");
        });
    }

    fn with(world: Arc<World>, rng: Rng, fleet: State, app: State, lossy: bool) -> Self {
        let repository = |name, state| Repository {
            commits: vec![Commit::new(name, 0, state)],
            head: 0,
        };
        let mut users = Self {
            world,
            rng,
            fleet: repository(FLEET, fleet),
            app: repository(APP, app),
            number: 0,
            next_object: 0,
            suspended: BTreeSet::new(),
            dropped: BTreeMap::new(),
            burst: None,
            trouble: BTreeMap::new(),
            lossy,
        };
        users.publish(FLEET);
        users.publish(APP);
        users.update_checker();
        users
    }

    fn repository(&mut self, name: &str) -> &mut Repository {
        if name == APP {
            &mut self.app
        } else {
            &mut self.fleet
        }
    }

    /// Puts the head of a repository on the host.
    fn publish(&mut self, name: &'static str) {
        let repository = self.repository(name);
        let commit = repository.commits[repository.head].clone();
        let files = commit.files(CANARY);
        self.world
            .host
            .with(name, |one| one.push(&commit.sha, files));
    }

    /// Passes the state of the heads to the checker.
    fn update_checker(&self) {
        let checker = &self.world.checker;
        let newest = desired_state(self.fleet.state(), self.app.state(), &checker.newest());
        checker.set_desired(&newest, self.fleet.state().tenants.keys().cloned());
        let app = self.app.state();
        for (name, tenant) in &self.dropped {
            let is_there = self.world.servers[HUB].get(&format!("{KUSTOMIZATIONS}/{name}"));
            if is_there.is_none() || app.broken.get(name) == Some(&Broken::Syntax) {
                continue;
            }
            for (object, content) in app.objects.get(name).into_iter().flatten() {
                let place = (tenant.cluster.clone(), object.clone());
                checker.allow_dropped(&place, *content);
            }
        }
    }

    /// Makes a commit of a repository and pushes it; the webhook of the push may get lost.
    pub fn commit(
        &mut self,
        name: &'static str,
        subject: &str,
        change: impl FnOnce(&mut State, u64),
    ) {
        self.number += 1;
        let number = self.number;
        let repository = self.repository(name);
        let mut state = repository.state().clone();
        change(&mut state, number);
        repository.commits.push(Commit::new(name, number, state));
        repository.head = repository.commits.len() - 1;
        self.push(name, &format!("commit {number}: {subject}"));
    }

    fn push(&mut self, name: &'static str, description: &str) {
        self.update_checker();
        self.publish(name);
        let deliveries = match self.rng.below(10) {
            _ if !self.lossy => 1,
            0 | 1 => 0,
            2 => 2,
            _ => 1,
        };
        let operation = format!("{description} to {name}, {deliveries} deliveries");
        self.world.trace.operation(&operation);
        for _ in 0..deliveries {
            tokio::spawn(self.world.clone().deliver(name));
        }
    }

    /// Notes trouble of a tenant, cluster or repository.
    fn troubled(&mut self, name: impl Into<String>) {
        let until = Instant::now() + ECHO;
        self.trouble.insert(name.into(), until);
    }

    /// Returns a random tenant and its repository.
    fn some_tenant(&mut self) -> Option<(&'static str, String)> {
        let tenants: Vec<String> = self.fleet.state().tenants.keys().cloned().collect();
        let tenant = self.rng.pick(&tenants)?.clone();
        let own = self.fleet.state().tenants[&tenant].own_repository;
        Some((if own { APP } else { FLEET }, tenant))
    }

    fn some_object(&mut self) -> Option<(&'static str, String, String)> {
        let (repository, tenant) = self.some_tenant()?;
        let objects = self.repository(repository).state().objects.get(&tenant)?;
        let names: Vec<String> = objects.keys().cloned().collect();
        let object = self.rng.pick(&names)?.clone();
        Some((repository, tenant, object))
    }

    fn new_object(&mut self) -> String {
        self.next_object += 1;
        format!("cm-{}", self.next_object)
    }

    /// Returns whether the next operation follows at once, as part of a burst.
    pub fn is_hasty(&self) -> bool {
        self.burst.is_some()
    }

    /// Begins a burst of commits that change one object.
    fn burst(&mut self) -> Option<()> {
        let (_, _, object) = self.some_object()?;
        self.burst = Some((object, 1 + self.rng.below(3)));
        self.continue_burst()
    }

    /// Makes the next commit of a burst.
    fn continue_burst(&mut self) -> Option<()> {
        let (object, left) = self.burst.take()?;
        self.burst = (left > 0).then(|| (object.clone(), left.saturating_sub(1)));
        for name in [FLEET, APP] {
            let objects = &self.repository(name).state().objects;
            let tenant = objects.iter().find(|(_, all)| all.contains_key(&object));
            if let Some(tenant) = tenant.map(|(tenant, _)| tenant.clone()) {
                let subject = format!("change {object} of {tenant} in a burst");
                self.commit(name, &subject, |state, commit| {
                    let objects = state.objects.entry(tenant).or_default();
                    objects.insert(object.clone(), Content { commit });
                });
            }
        }
        Some(())
    }

    /// Does one random operation, or the next commit of a burst.
    pub fn act(&mut self) {
        if self.continue_burst().is_some() {
            return;
        }
        let all: usize = OPERATIONS.iter().map(|(_, often)| often).sum();
        let mut at = self.rng.below(all);
        for (name, often) in OPERATIONS {
            if at < often {
                // The operation returns `None` if there is nothing to do it to.
                let _ = self.run_operation(name);
                return;
            }
            at -= often;
        }
    }

    fn run_operation(&mut self, name: &str) -> Option<()> {
        match name {
            "change" => self.change(),
            "burst" => self.burst(),
            "add" => self.add(),
            "remove" => self.remove(),
            "rename" => self.rename(),
            "move" => self.move_object(),
            "new tenant" => self.new_tenant(),
            "drop tenant" => self.drop_tenant(),
            "rename tenant" => self.rename_tenant(),
            "force push" => self.force_push(),
            "break" => self.break_tenant(),
            "fix" => self.fix(),
            "suspend" => self.suspend(),
            "resume" => self.resume(),
            "request" => self.request(),
            "delete kustomization" => self.delete_kustomization(),
            "edit by hand" => self.change_by_hand(false),
            "delete by hand" => self.change_by_hand(true),
            "dark" => self.darken(Light::Dark),
            "hang" => self.darken(Light::Hung),
            "light" => self.lighten(),
            "git gone" => self.git_gone(),
            "restart" => self.restart(),
            "rotate" => self.rotate(),
            "change release" => self.change_release(),
            "new release" => self.new_release(),
            "drop release" => self.drop_release(),
            "change chart" => self.change_chart(),
            "change record" => self.change_record(),
            other => panic!("unknown operation {other}"),
        }
    }

    fn change(&mut self) -> Option<()> {
        let (repository, tenant, object) = self.some_object()?;
        let subject = format!("change {object} of {tenant}");
        self.commit(repository, &subject, |state, commit| {
            let objects = state.objects.entry(tenant).or_default();
            objects.insert(object, Content { commit });
        });
        Some(())
    }

    fn add(&mut self) -> Option<()> {
        let (repository, tenant) = self.some_tenant()?;
        let object = self.new_object();
        let subject = format!("add {object} to {tenant}");
        self.commit(repository, &subject, |state, commit| {
            let objects = state.objects.entry(tenant).or_default();
            objects.insert(object, Content { commit });
        });
        Some(())
    }

    fn remove(&mut self) -> Option<()> {
        let (repository, tenant, object) = self.some_object()?;
        if self.repository(repository).state().objects[&tenant].len() < 2 {
            return None;
        }
        let cluster = self.fleet.state().tenants[&tenant].cluster.clone();
        let subject = format!("remove {object} from {tenant}");
        let name = object.clone();
        self.commit(repository, &subject, |state, _| {
            state.objects.entry(tenant).or_default().remove(&name);
        });
        match self.rng.below(10) {
            0..3 => self.ambush(&cluster, &object),
            3..5 => self.take_over(&cluster, &object),
            _ => {}
        }
        Some(())
    }

    /// Lets a user replace an object with another one just before the core deletes it.
    fn ambush(&mut self, cluster: &str, object: &str) {
        let world = self.world.clone();
        let place = (cluster.to_owned(), object.to_owned());
        let expected = format!("{CONFIGS}/{object}");
        self.world.servers[cluster].ambush(move |server, path| {
            if path != expected {
                return;
            }
            server.delete(path);
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": place.1}, "data": {"owner": "a user"}});
            if server.create(CONFIGS, &object) {
                world.trace.operation(&format!(
                    "a user replaces {place:?} just before its deletion"
                ));
                world.checker.mark_foreign(place);
            }
        });
    }

    /// Removes the owner labels of an object that is about to be deleted, as a user.
    fn take_over(&mut self, cluster: &str, object: &str) {
        let labels = json!({"metadata": {"labels": {OWNER_NAME: null, OWNER_NAMESPACE: null}}});
        let server = &self.world.servers[cluster];
        if server.merge(&format!("{CONFIGS}/{object}"), &labels) {
            let operation = format!("a user takes {object} on {cluster} over");
            self.world.trace.operation(&operation);
            let place = (cluster.to_owned(), object.to_owned());
            self.world.checker.mark_foreign(place);
        }
    }

    fn rename(&mut self) -> Option<()> {
        let (repository, tenant, object) = self.some_object()?;
        let new = self.new_object();
        let subject = format!("rename {object} of {tenant} to {new}");
        self.commit(repository, &subject, |state, commit| {
            let objects = state.objects.entry(tenant).or_default();
            objects.remove(&object);
            objects.insert(new, Content { commit });
        });
        Some(())
    }

    fn move_object(&mut self) -> Option<()> {
        let (repository, from, object) = self.some_object()?;
        if self.repository(repository).state().objects[&from].len() < 2 {
            return None;
        }
        let (other, to) = self.some_tenant()?;
        if other != repository || from == to {
            return None;
        }
        let subject = format!("move {object} from {from} to {to}");
        self.commit(repository, &subject, |state, _| {
            let content = state
                .objects
                .entry(from)
                .or_default()
                .remove(&object)
                .expect("the object exists");
            state.objects.entry(to).or_default().insert(object, content);
        });
        Some(())
    }

    fn new_tenant(&mut self) -> Option<()> {
        let clusters: Vec<String> = self.world.servers.keys().cloned().collect();
        let cluster = self.rng.pick(&clusters)?.clone();
        let object = self.new_object();
        let name = format!("t{}", self.next_object + 100);
        let subject = format!("new tenant {name} on {cluster} with {object}");
        self.commit(FLEET, &subject, |state, commit| {
            let tenant = Tenant {
                cluster,
                own_repository: false,
                depends_on: Vec::new(),
                waits: false,
            };
            state.tenants.insert(name.clone(), tenant);
            let objects = state.objects.entry(name).or_default();
            objects.insert(object, Content { commit });
        });
        Some(())
    }

    fn drop_tenant(&mut self) -> Option<()> {
        let (_, tenant) = self.some_tenant()?;
        // A suspended Kustomization that is deleted leaves its objects behind, as in Flux.
        if self.fleet.state().tenants.len() < 2 || !self.suspended.is_empty() {
            return None;
        }
        let mut dropped = None;
        self.commit(FLEET, &format!("drop tenant {tenant}"), |state, _| {
            dropped = state.tenants.remove(&tenant);
            state.objects.remove(&tenant);
            state.broken.remove(&tenant);
            for other in state.tenants.values_mut() {
                other.depends_on.retain(|on| *on != tenant);
            }
        });
        let own = dropped.filter(|one| one.own_repository);
        self.dropped.extend(own.map(|one| (tenant, one)));
        Some(())
    }

    /// Renames a Kustomization; its objects move to the directory of the new name.
    fn rename_tenant(&mut self) -> Option<()> {
        let (repository, tenant) = self.some_tenant()?;
        let is_broken = self.fleet.state().broken.contains_key(&tenant);
        if repository == APP || is_broken || !self.suspended.is_empty() {
            return None;
        }
        self.next_object += 1;
        let name = format!("t{}", self.next_object + 100);
        self.commit(
            FLEET,
            &format!("rename tenant {tenant} to {name}"),
            |state, _| {
                if let Some(one) = state.tenants.remove(&tenant) {
                    state.tenants.insert(name.clone(), one);
                }
                if let Some(objects) = state.objects.remove(&tenant) {
                    state.objects.insert(name.clone(), objects);
                }
                if let Some(broken) = state.broken.remove(&tenant) {
                    state.broken.insert(name.clone(), broken);
                }
                for other in state.tenants.values_mut() {
                    let depends = other.depends_on.iter_mut();
                    depends
                        .filter(|on| **on == tenant)
                        .for_each(|on| on.clone_from(&name));
                }
            },
        );
        // The renamed tenant keeps its trouble.
        if let Some(until) = self.trouble.get(&tenant).copied() {
            self.trouble.insert(name, until);
        }
        Some(())
    }

    fn force_push(&mut self) -> Option<()> {
        let name = if self.rng.chance(7000) { FLEET } else { APP };
        if !self.suspended.is_empty() {
            return None;
        }
        let length = self.repository(name).commits.len();
        let back = 1 + self.rng.below(3);
        let repository = self.repository(name);
        let to = repository.head.checked_sub(back)?;
        repository.head = to.min(length - 1);
        let number = repository.commits[repository.head].number;
        self.push(name, &format!("force push back to commit {number}"));
        Some(())
    }

    fn break_tenant(&mut self) -> Option<()> {
        let (repository, tenant) = self.some_tenant()?;
        let broken = match self.rng.chance(5000) {
            true => Broken::Syntax,
            false => Broken::Refused,
        };
        self.troubled(&tenant);
        self.commit(
            repository,
            &format!("break {tenant}: {broken:?}"),
            |state, _| {
                state.broken.insert(tenant, broken);
            },
        );
        Some(())
    }

    fn fix(&mut self) -> Option<()> {
        for name in [FLEET, APP] {
            let broken: Vec<String> = self
                .repository(name)
                .state()
                .broken
                .keys()
                .cloned()
                .collect();
            if !broken.is_empty() {
                broken.iter().for_each(|tenant| self.troubled(tenant));
                self.commit(name, &format!("fix {}", broken.join(", ")), |state, _| {
                    state.broken.clear();
                });
            }
        }
        Some(())
    }

    fn suspend(&mut self) -> Option<()> {
        let (_, tenant) = self.some_tenant()?;
        let path = format!("{KUSTOMIZATIONS}/{tenant}");
        let live = self.world.hub().get(&path)?;
        // If it is being deleted, a suspended Kustomization would leave its objects behind, as in
        // Flux.
        let leaves = live["metadata"]["deletionTimestamp"].is_string();
        if leaves || self.number == 0 || self.recently_left(&tenant) {
            return None;
        }
        self.world
            .hub()
            .merge(&path, &json!({"spec": {"suspend": true}}));
        self.world.trace.operation(&format!("suspend {tenant}"));
        self.troubled(&tenant);
        self.suspended.insert(tenant);
        Some(())
    }

    /// Returns whether a commit without the tenant may still be reconciled.
    fn recently_left(&self, tenant: &str) -> bool {
        self.fleet
            .commits
            .iter()
            .any(|commit| !commit.state.tenants.contains_key(tenant))
    }

    fn resume(&mut self) -> Option<()> {
        for tenant in std::mem::take(&mut self.suspended) {
            let path = format!("{KUSTOMIZATIONS}/{tenant}");
            self.world
                .hub()
                .merge(&path, &json!({"spec": {"suspend": null}}));
            self.world.trace.operation(&format!("resume {tenant}"));
            self.troubled(&tenant);
        }
        Some(())
    }

    fn request(&mut self) -> Option<()> {
        let (_, tenant) = self.some_tenant()?;
        let requested_at = format!("{}", self.world.now().as_millis());
        let patch =
            json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": requested_at}}});
        self.world
            .hub()
            .merge(&format!("{KUSTOMIZATIONS}/{tenant}"), &patch);
        self.world
            .trace
            .operation(&format!("request a reconciliation of {tenant}"));
        Some(())
    }

    fn delete_kustomization(&mut self) -> Option<()> {
        let (_, tenant) = self.some_tenant()?;
        if self.suspended.contains(&tenant) {
            return None;
        }
        self.world.checker.expect_recreation(&tenant);
        self.troubled(&tenant);
        self.world
            .hub()
            .delete(&format!("{KUSTOMIZATIONS}/{tenant}"));
        self.world
            .trace
            .operation(&format!("delete Kustomization {tenant}"));
        Some(())
    }

    fn change_by_hand(&mut self, delete: bool) -> Option<()> {
        let (_, tenant, object) = self.some_object()?;
        let cluster = self.fleet.state().tenants[&tenant].cluster.clone();
        let path = format!("{CONFIGS}/{object}");
        let server = &self.world.servers[&cluster];
        let verb = match delete {
            true => {
                server.delete(&path);
                let place = (cluster.clone(), object.clone());
                self.world.checker.note_manual_deletion(&place);
                "delete"
            }
            false => {
                server.merge(&path, &json!({"data": {"commit": "by hand"}}));
                "edit"
            }
        };
        let operation = format!("{verb} {object} on {cluster} by hand");
        self.world.trace.operation(&operation);
        Some(())
    }

    fn darken(&mut self, light: Light) -> Option<()> {
        let names: Vec<String> = self.world.servers.keys().cloned().collect();
        let mut name = self.rng.pick(&names)?.clone();
        // Without the hub no object is reconciled, so mostly take another cluster.
        if name == HUB && (!self.lossy || self.rng.chance(7000)) {
            name = names.last()?.clone();
        }
        self.world.servers[&name].set(light);
        self.world.trace.operation(&format!("{name} is {light:?}"));
        self.troubled(name);
        Some(())
    }

    fn lighten(&mut self) -> Option<()> {
        let dark: Vec<String> = self
            .world
            .servers
            .iter()
            .filter(|(_, server)| server.light() != Light::Lit)
            .map(|(name, _)| name.clone())
            .collect();
        for name in dark {
            self.world.servers[&name].set(Light::Lit);
            self.world.trace.operation(&format!("{name} is lit"));
            self.troubled(name);
        }
        for name in World::REPOSITORIES {
            let was = self.world.host.with(name, |one| {
                let was = one.gone || one.branchless;
                (one.gone, one.branchless) = (false, false);
                was
            });
            if was {
                self.world.trace.operation(&format!("{name} is back"));
                self.troubled(name);
            }
        }
        Some(())
    }

    fn git_gone(&mut self) -> Option<()> {
        let name = if self.rng.chance(5000) { FLEET } else { APP };
        let branch = self.rng.chance(5000);
        self.world.host.with(name, |one| match branch {
            true => one.branchless = true,
            false => one.gone = true,
        });
        let part = if branch { "'s branch" } else { "" };
        self.world.trace.operation(&format!("{name}{part} is gone"));
        self.troubled(name);
        Some(())
    }

    fn restart(&mut self) -> Option<()> {
        let names: Vec<String> = self.world.servers.keys().cloned().collect();
        let name = self.rng.pick(&names)?;
        self.world.servers[name].restart();
        self.world.trace.operation(&format!("{name} restarts"));
        Some(())
    }

    fn rotate(&mut self) -> Option<()> {
        let turn = self.rng.number();
        self.world.set_keys(turn);
        self.world
            .trace
            .operation("the hub's kubeconfig is rotated");
        Some(())
    }

    fn some_release(&mut self) -> Option<String> {
        let names: Vec<String> = self.fleet.state().releases.keys().cloned().collect();
        self.rng.pick(&names).cloned()
    }

    fn change_release(&mut self) -> Option<()> {
        let name = self.some_release()?;
        let flips = self.rng.chance(4000);
        let subject = format!("change release {name}");
        self.commit(FLEET, &subject, |state, commit| {
            if let Some(release) = state.releases.get_mut(&name) {
                release.content = Content { commit };
                release.has_extra ^= flips;
            }
        });
        Some(())
    }

    fn new_release(&mut self) -> Option<()> {
        let clusters: Vec<String> = self.world.servers.keys().cloned().collect();
        let cluster = self.rng.pick(&clusters)?.clone();
        self.next_object += 1;
        let name = format!("r{}", self.next_object + 100);
        let subject = format!("new release {name} on {cluster}");
        self.commit(FLEET, &subject, |state, commit| {
            state.releases.insert(name, new_release(&cluster, commit));
        });
        Some(())
    }

    fn drop_release(&mut self) -> Option<()> {
        let name = self.some_release()?;
        self.commit(FLEET, &format!("drop release {name}"), |state, _| {
            state.releases.remove(&name);
        });
        Some(())
    }

    fn change_chart(&mut self) -> Option<()> {
        self.some_release()?;
        self.commit(FLEET, "change the chart", |state, commit| {
            state.chart = commit;
        });
        Some(())
    }

    /// Lets another writer, such as `helm rollback`, change the next record that the core writes,
    /// just before that.
    fn change_record(&mut self) -> Option<()> {
        let name = self.some_release()?;
        let cluster = &self.fleet.state().releases[&name].cluster;
        self.world.servers[cluster].change_record();
        let operation = format!("a user is about to change a record on {cluster}");
        self.world.trace.operation(&operation);
        Some(())
    }

    /// Returns the names of the releases of a cluster.
    pub fn releases(&self, cluster: &str) -> BTreeSet<String> {
        let releases = self.fleet.state().releases.iter();
        let here = releases.filter(|(_, release)| release.cluster == cluster);
        here.map(|(name, _)| name.clone()).collect()
    }

    /// Returns the version of the releases' chart.
    pub fn chart_version(&self) -> String {
        self.fleet.state().chart_version()
    }

    /// Ends all trouble: clusters and repositories are available, broken directories are fixed,
    /// suspended Kustomizations are resumed.
    pub fn calm(&mut self) {
        self.world.trace.operation("calm");
        let _ = self.lighten();
        let _ = self.resume();
        let _ = self.fix();
        self.trouble.clear();
    }

    /// Returns the revision of the head of a repository.
    pub fn head(&self, own_repository: bool) -> String {
        let repository = if own_repository {
            &self.app
        } else {
            &self.fleet
        };
        format!("main@sha1:{}", repository.commits[repository.head].sha)
    }

    /// Returns the tenants and the revisions that their Kustomizations should have applied.
    pub fn tenants(&self) -> impl Iterator<Item = (&String, String)> {
        let tenants = self.fleet.state().tenants.iter();
        tenants.map(|(name, tenant)| (name, self.head(tenant.own_repository)))
    }

    /// Returns whether a tenant may be late: it, its cluster, its repository, or a tenant that it
    /// depends on has trouble.
    pub fn may_be_late(&self, difference: &Difference) -> bool {
        let now = Instant::now();
        let is_troubled = |name: &str| {
            self.suspended.contains(name)
                || self.trouble.get(name).is_some_and(|until| *until > now)
        };
        let state = self.fleet.state();
        let dark = |name: &String| {
            self.world
                .servers
                .get(name)
                .is_some_and(|server| server.light() != Light::Lit)
        };
        let gone = |name: &str| self.world.host.with(name, |one| one.gone || one.branchless);
        let broken = |name: &String| {
            self.fleet.state().broken.contains_key(name)
                || self.app.state().broken.contains_key(name)
        };
        let own = state.tenants.iter().filter(|(name, one)| {
            let repository = if one.own_repository { APP } else { FLEET };
            is_troubled(name)
                || is_troubled(&one.cluster)
                || dark(&one.cluster)
                || is_troubled(repository)
                || gone(repository)
                || broken(name)
                || one.waits
        });
        let releases = state.releases.iter();
        let releases = releases.filter(|(_, one)| is_troubled(&one.cluster) || dark(&one.cluster));
        let own: BTreeSet<String> = own
            .map(|(name, _)| name.clone())
            .chain(releases.map(|(name, _)| name.clone()))
            .collect();
        // The root Kustomization.
        is_troubled(FLEET)
            || gone(FLEET)
            || is_troubled(HUB)
            || dark(&HUB.to_owned())
            // The tenant may have been dropped, so check its cluster also here.
            || is_troubled(&difference.cluster)
            || dark(&difference.cluster)
            || dependents(state, own).contains(&difference.tenant)
    }
}

fn new_release(cluster: &str, commit: u64) -> Release {
    Release {
        cluster: cluster.to_owned(),
        content: Content { commit },
        has_extra: true,
        retries: true,
    }
}

/// Approves prunes that are held because they would delete many objects: users mean what they
/// commit.
fn approve(world: &World) {
    for live in world.hub().list(KUSTOMIZATIONS) {
        let conditions = live["status"]["conditions"].as_array();
        let is_held = |one: &&Value| one["type"] == "Ready" && one["reason"] == reason::PRUNE_HELD;
        let held = conditions.into_iter().flatten().find(is_held);
        let message = held.and_then(|one| one["message"].as_str());
        let Some((_, revision)) = message.and_then(|text| text.rsplit_once('=')) else {
            continue;
        };
        let name = live["metadata"]["name"].as_str().unwrap_or_default();
        let approved = json!({"metadata": {"annotations": {PRUNE_APPROVED: revision}}});
        if live["metadata"]["annotations"][PRUNE_APPROVED] != revision {
            world
                .hub()
                .merge(&format!("{KUSTOMIZATIONS}/{name}"), &approved);
            let operation = format!("approve the prune of {name} at {revision}");
            world.trace.operation(&operation);
        }
    }
}

/// Plays kubelet: Deployments become ready after a while. Also plays the users who approve large
/// prunes.
pub async fn kubelet(world: Arc<World>, mut rng: Rng) {
    let mut ready: BTreeMap<(String, String), Instant> = BTreeMap::new();
    // The number of writes of each server when all of its Deployments were ready.
    let mut still: BTreeMap<String, u64> = BTreeMap::new();
    let deployments = format!("/apis/apps/v1/namespaces/{APPS}/deployments");
    for turn in 0u64.. {
        tokio::time::sleep(Duration::from_secs(5)).await;
        if turn.is_multiple_of(6) {
            approve(&world);
        }
        for (cluster, server) in &world.servers {
            let writes = server.writes();
            if still.get(cluster) == Some(&writes) {
                continue;
            }
            let (path, mut is_still) = (&deployments, true);
            for live in server.list(path) {
                let name = live["metadata"]["name"].as_str().unwrap_or_default();
                let uid = live["metadata"]["uid"].as_str().unwrap_or_default();
                let generation = live["metadata"]["generation"].clone();
                if live["status"]["observedGeneration"] == generation {
                    continue;
                }
                is_still = false;
                let key = (cluster.clone(), format!("{uid} {generation}"));
                let after = Duration::from_secs(rng.between(1, 200));
                let at = *ready.entry(key).or_insert_with(|| Instant::now() + after);
                if at <= Instant::now() {
                    let status: Value = json!({"status": {"observedGeneration": generation, "replicas": 1,
                        "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
                        "conditions": [{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
                            {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}]}});
                    let path = format!("{path}/{name}/status");
                    let media = "application/merge-patch+json";
                    let sent = server.send("PATCH", &path, media, Some(&status));
                    sent.unwrap_or_else(|(_, message)| panic!("{path}: {message}"));
                    let operation = format!("{name} on {cluster} becomes ready");
                    world.trace.operation(&operation);
                }
            }
            if is_still {
                still.insert(cluster.clone(), writes);
            }
        }
    }
}
