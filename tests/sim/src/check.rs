//! The invariants, checked at each write and at the end.

use crate::fleet::{APPS, Content, DesiredState, FLUX, Place};
use crate::servers::ApiServer;
use driftless_helm::record::{RecordLimits, Release};
use driftless_manifest::Object;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// The API path of the Kustomizations.
pub const KUSTOMIZATIONS: &str =
    "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations";
/// The API path of the GitRepositories.
pub const SOURCES: &str =
    "/apis/source.toolkit.fluxcd.io/v1/namespaces/flux-system/gitrepositories";
/// The API path of the tenants' ConfigMaps.
pub const CONFIGS: &str = "/api/v1/namespaces/apps/configmaps";
/// The API path of the HelmReleases.
pub const RELEASES: &str = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/flux-system/helmreleases";
/// The API path of the HelmCharts.
pub const CHARTS: &str = "/apis/source.toolkit.fluxcd.io/v1/namespaces/flux-system/helmcharts";
/// The API path of the Secrets with the records of releases.
pub const RECORDS: &str = "/api/v1/namespaces/apps/secrets";
/// The label with the name of a HelmRelease.
const RELEASE_NAME: &str = "helm.toolkit.fluxcd.io/name";
/// The label with the name of an owner.
pub const OWNER_NAME: &str = "kustomize.toolkit.fluxcd.io/name";
/// The label with the namespace of an owner.
pub const OWNER_NAMESPACE: &str = "kustomize.toolkit.fluxcd.io/namespace";

/// The time that the steps of two Kustomizations may take to hand an object over: the time limit of
/// a function, and some more.
const HANDOVER_TIME: Duration = Duration::from_secs(150);

/// The letter of a violated invariant, and a message.
pub type Violation = (char, String);

/// A difference between a cluster and the newest commits.
pub struct Difference {
    /// The Kustomization or HelmRelease of the object; empty for a foreign object.
    pub tenant: String,
    /// The name of the cluster.
    pub cluster: String,
    /// The description of the difference.
    pub text: String,
}

/// The states that users asked for over time, and which of them the core has written.
#[derive(Default)]
pub struct Checker {
    state: Mutex<State>,
    servers: OnceLock<BTreeMap<String, Weak<ApiServer>>>,
}

#[derive(Default)]
struct State {
    /// The contents that each place should have had, in order; `None` for no object.
    desired: BTreeMap<Place, Vec<Option<Content>>>,
    /// The index in `desired` of the content that was last written to each place.
    written: BTreeMap<Place, usize>,
    /// The index of the last content of each place that was written, before it was deleted.
    applied: BTreeMap<Place, usize>,
    /// The last owner of each object, as namespace and name.
    owners: BTreeMap<Place, (String, String)>,
    /// Kustomizations that may be deleted.
    leaving: BTreeSet<String>,
    /// Objects that users created or took over: driftless must not touch them.
    foreign: BTreeSet<Place>,
    /// Objects that a prune handed over to another Kustomization, with the time.
    handed_over: BTreeMap<Place, Instant>,
    /// Objects that only failed upgrades of releases created.
    abandoned: BTreeSet<Place>,
    newest: DesiredState,
}

impl Checker {
    /// Sets the servers that the checks read.
    pub fn set_servers(&self, servers: &BTreeMap<String, Arc<ApiServer>>) {
        let weak = servers
            .iter()
            .map(|(name, server)| (name.clone(), Arc::downgrade(server)));
        // Set once, by the world that makes both.
        let _ = self.servers.set(weak.collect());
    }

    fn server(&self, name: &str) -> Option<Arc<ApiServer>> {
        self.servers.get()?.get(name)?.upgrade()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("the checker")
    }

    /// Adds a new desired state; `tenants` are the Kustomizations that still exist in it.
    pub fn set_desired(&self, desired: &DesiredState, tenants: impl Iterator<Item = String>) {
        let mut state = self.state();
        let old = std::mem::replace(&mut state.newest, desired.clone());
        for (place, (content, owner)) in desired {
            let written = state.written.get(place).copied().unwrap_or_default();
            let applied = state.applied.get(place).copied().unwrap_or_default();
            let line = state.desired.entry(place.clone()).or_default();
            // The old owner may delete a moved object before the new one applies it, as in Flux. A
            // Kustomization that returns begins with the revision of its source, which may not have
            // changed since it was dropped.
            let moves = old.get(place).is_some_and(|(_, before)| before != owner);
            let returns = !old.contains_key(place) && line.contains(&Some(*content));
            if returns {
                replay(line, applied);
            } else if moves {
                replay(line, written);
            }
            if line.last() != Some(&Some(*content)) {
                line.push(Some(*content));
            }
        }
        for place in old.keys().filter(|place| !desired.contains_key(*place)) {
            state.desired.entry(place.clone()).or_default().push(None);
        }
        let tenants: BTreeSet<String> = tenants.collect();
        let gone: Vec<String> = old
            .values()
            .map(|(_, owner)| owner.clone())
            .filter(|owner| !tenants.contains(owner))
            .collect();
        state.leaving.extend(gone);
    }

    /// Allows content that a dropped Kustomization applies from its own source until it is deleted.
    pub fn allow_dropped(&self, place: &Place, content: Content) {
        let mut state = self.state();
        if !state.newest.contains_key(place) {
            let line = state.desired.entry(place.clone()).or_default();
            line.extend([Some(content), None]);
        }
    }

    /// Notes that a user deletes a Kustomization: its objects are deleted, and come back when the
    /// root applies it again.
    pub fn expect_recreation(&self, tenant: &str) {
        let mut state = self.state();
        state.leaving.insert(tenant.to_owned());
        let newest = state.newest.clone();
        // Objects that it has now and should no longer have may come back while its source is
        // behind.
        let owned = state.owners.iter().filter(|(_, (_, name))| name == tenant);
        let outdated = owned.map(|(place, _)| place.clone());
        let outdated: Vec<Place> = outdated
            .filter(|place| newest.get(place).is_none_or(|(_, owner)| owner != tenant))
            .collect();
        for place in outdated {
            let from = state.written.get(&place).copied().unwrap_or_default();
            replay(state.desired.entry(place).or_default(), from);
        }
        for (place, (content, _)) in newest.iter().filter(|(_, (_, owner))| owner == tenant) {
            let from = state.written.get(place).copied().unwrap_or_default();
            let line = state.desired.entry(place.clone()).or_default();
            replay(line, from);
            if line.last() != Some(&Some(*content)) {
                line.push(Some(*content));
            }
        }
    }

    /// Returns the newest desired state.
    pub fn newest(&self) -> DesiredState {
        self.state().newest.clone()
    }

    /// Notes that an object belongs to a user: driftless must not touch it.
    pub fn mark_foreign(&self, place: Place) {
        self.state().foreign.insert(place);
    }

    /// Notes that a user has deleted an object by hand, foreign or not.
    pub fn note_manual_deletion(&self, place: &Place) {
        self.state().foreign.remove(place);
    }

    /// Returns the owner, as namespace and name, of the labels that an object had when the core
    /// wrote it last.
    pub fn last_owner(&self, server: &str, path: &str) -> Option<(String, String)> {
        let name = path.rsplit('/').next().unwrap_or_default();
        let place = (server.to_owned(), name.to_owned());
        self.state().owners.get(&place).cloned()
    }

    /// Returns whether writes to a path are checked.
    pub fn watches(&self, path: &str) -> bool {
        path.starts_with(CONFIGS) || path.starts_with(KUSTOMIZATIONS)
    }

    /// Checks a write of the core. A merge patch that changes only the labels hands the object
    /// over.
    pub fn check_write(
        &self,
        server: &ApiServer,
        path: &str,
        merges: bool,
        before: Option<&Value>,
        after: Option<&Value>,
    ) -> Vec<Violation> {
        let name = path.rsplit('/').next().unwrap_or_default();
        if path.starts_with(KUSTOMIZATIONS) {
            return self.kustomization(server, name, before, after);
        }
        let place = (server.name.clone(), name.to_owned());
        let mut found = Vec::new();
        match (before, after) {
            (Some(before), None) => found.extend(self.check_deletion(&place, before)),
            (before, Some(after)) if before != Some(after) => {
                if let Some(owner) = owner(after) {
                    self.state().owners.insert(place.clone(), owner);
                }
                found.extend(self.check_apply(&place, after));
                let is_handover = merges
                    && before.is_some_and(|before| {
                        owner(before).is_some() && before["data"] == after["data"]
                    });
                let mut state = self.state();
                if is_handover {
                    // The heir may drop it at the same moment, so `check_handovers` checks it
                    // later.
                    state.handed_over.insert(place, Instant::now());
                } else {
                    state.handed_over.remove(&place);
                    drop(state);
                    found.extend(self.check_inventory(server, after));
                }
            }
            _ => {}
        }
        found
    }

    /// Checks **P** and **W**: a newer state asks for the deletion.
    fn check_deletion(&self, place: &Place, before: &Value) -> Option<Violation> {
        let mut state = self.state();
        if owner(before).is_none() && release(before).is_none() {
            let message = format!("{place:?} has no owner labels, and was deleted");
            return Some(('P', message));
        }
        match state.advance(place, None) || self.is_owner_leaving(before) {
            true => None,
            false => {
                let newest = state.newest.get(place).cloned();
                let message = format!(
                    "{place:?} was deleted, and no newer commit asks for it; newest: {newest:?}"
                );
                Some(('P', message))
            }
        }
    }

    /// Returns whether the Kustomization that owns an object is being deleted. That is checked by
    /// `kustomization`. Its repository may have newer commits than the one that has dropped it.
    fn is_owner_leaving(&self, object: &Value) -> bool {
        let path = owner(object).map(|(_, name)| format!("{KUSTOMIZATIONS}/{name}"));
        let found = self
            .server("hub")
            .zip(path)
            .and_then(|(hub, path)| hub.get(&path));
        found.is_some_and(|found| !found["metadata"]["deletionTimestamp"].is_null())
    }

    /// Checks **W**: the last written state or a newer one asks for the content. A frozen function
    /// is not an exception: the request that it had just sent has its effect before the freeze
    /// (README.md).
    fn check_apply(&self, place: &Place, after: &Value) -> Option<Violation> {
        let mut state = self.state();
        let commit = after["data"]["commit"].as_str()?.parse().ok()?;
        if state.advance(place, Some(Content { commit })) {
            // A commit asks for it, so an apply takes it over, as in Flux.
            state.foreign.remove(place);
            return None;
        }
        if state.foreign.contains(place) {
            return Some(('P', format!("{place:?} is foreign, and was written")));
        }
        let newest = state.newest.get(place).cloned();
        let message = format!(
            "commit {commit} was written to {place:?} after a newer one; newest: {newest:?}"
        );
        Some(('W', message))
    }

    /// Checks **N**: an object with owner labels is in its owner's inventory.
    fn check_inventory(&self, server: &ApiServer, object: &Value) -> Option<Violation> {
        let (namespace, name) = owner(object)?;
        let hub = self.server("hub")?;
        let id = inventory_id(object);
        let path = format!("{KUSTOMIZATIONS}/{name}");
        let found = hub.get(&path).filter(|_| namespace == FLUX);
        let Some(found) = found else {
            let message = format!(
                "{}: {id} has the labels of Kustomization {name}, which does not exist",
                server.name
            );
            return Some(('N', message));
        };
        (!lists(&found, &id)).then(|| {
            let message = format!(
                "{}: {id} is not in the inventory of its owner {name}: {}",
                server.name, found["status"]["inventory"]
            );
            ('N', message)
        })
    }

    fn kustomization(
        &self,
        server: &ApiServer,
        name: &str,
        before: Option<&Value>,
        after: Option<&Value>,
    ) -> Vec<Violation> {
        let mut found = Vec::new();
        let leaves = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
        let begins = after.is_some_and(leaves) && !before.is_some_and(leaves);
        if begins && !self.state().leaving.contains(name) {
            found.push((
                'P',
                format!("Kustomization {name} was deleted, and no commit or user asked for it"),
            ));
        }
        let Some(before) = before.filter(|_| server.name == "hub") else {
            return found;
        };
        // An object that left the inventory must not be live with the owner's labels.
        let listed = entries(before);
        let left = listed
            .iter()
            .filter(|id| after.is_none_or(|after| !lists(after, id)));
        for id in left.filter(|id| id.ends_with("__ConfigMap")) {
            let object = id.trim_start_matches(&format!("{APPS}_"));
            let object = object.trim_end_matches("__ConfigMap").to_owned();
            found.extend(self.check_left(name, before, &object));
        }
        found
    }

    /// Checks **N** for an object that left the inventory of its owner.
    fn check_left(
        &self,
        owner_name: &str,
        kustomization: &Value,
        object: &str,
    ) -> Option<Violation> {
        let secret = kustomization["spec"]["kubeConfig"]["secretRef"]["name"].as_str();
        let cluster = secret.map_or("hub", |name| name.trim_end_matches("-kubeconfig"));
        let live = self.server(cluster)?.get(&format!("{CONFIGS}/{object}"))?;
        let (namespace, name) = owner(&live)?;
        let place = (cluster.to_owned(), object.to_owned());
        if self.state().handed_over.contains_key(&place) {
            return None;
        }
        (namespace == FLUX && name == owner_name).then(|| {
            let message =
                format!("{cluster}: {object} left the inventory of {owner_name}, and is live");
            ('N', message)
        })
    }

    /// Checks **N** for objects that were handed over, once the steps that did it have ended.
    pub fn check_handovers(&self) -> Vec<Violation> {
        let mut settled = Vec::new();
        self.state().handed_over.retain(|place, since| {
            let is_settled = since.elapsed() > HANDOVER_TIME;
            settled.extend(is_settled.then(|| place.clone()));
            !is_settled
        });
        let found = settled.into_iter().filter_map(|(cluster, name)| {
            let server = self.server(&cluster)?;
            let live = server.get(&format!("{CONFIGS}/{name}"))?;
            self.check_inventory(&server, &live)
        });
        found.collect()
    }

    /// Notes a record of a release that the core has written. As in Helm, an upgrade deletes the
    /// objects that the deployed release has and the new one has not. It ignores a failed release
    /// in between: objects that only that one created stay.
    pub fn note_record(&self, server: &ApiServer, record: &Value) {
        let Some((status, objects)) = manifest(record) else {
            return;
        };
        let place = |name: &String| (server.name.clone(), name.clone());
        if status != "failed" {
            // The objects of a release that is deployed, superseded or uninstalled are deleted when
            // they should be.
            let mut state = self.state();
            objects.iter().for_each(|name| {
                state.abandoned.remove(&place(name));
            });
            return;
        }
        let release = &record["metadata"]["labels"]["name"];
        let others = server.list(RECORDS).into_iter();
        let others = others.filter(|other| other["metadata"]["labels"]["name"] == *release);
        let mut deployed = others
            .filter_map(|other| manifest(&other))
            .filter(|(status, _)| status == "deployed");
        if let Some((_, known)) = deployed.next() {
            let only = objects.difference(&known).map(place);
            self.state().abandoned.extend(only);
        }
    }

    /// Returns the differences between the clusters and the newest state (**L**).
    pub fn differences(&self, servers: &BTreeMap<String, Arc<ApiServer>>) -> Vec<Difference> {
        let (newest, foreign, abandoned) = {
            let state = self.state();
            let abandoned = state.abandoned.clone();
            (state.newest.clone(), state.foreign.clone(), abandoned)
        };
        let mut found = Vec::new();
        for (place, (content, tenant)) in &newest {
            let live = servers[&place.0].get(&format!("{CONFIGS}/{}", place.1));
            let commit = live
                .as_ref()
                .and_then(|live| live["data"]["commit"].as_str());
            if commit != Some(content.commit.to_string().as_str()) {
                let text = format!(
                    "{place:?} of {tenant} has commit {commit:?}, not {}",
                    content.commit
                );
                found.push(Difference {
                    tenant: tenant.clone(),
                    cluster: place.0.clone(),
                    text,
                });
            }
        }
        for (cluster, server) in servers {
            for live in server.list(CONFIGS) {
                let name = live["metadata"]["name"].as_str().unwrap_or_default();
                let place = (cluster.clone(), name.to_owned());
                let tenant = owner(&live).map(|(_, name)| name);
                let Some(tenant) = tenant.or_else(|| release(&live)) else {
                    continue;
                };
                let stays = owner(&live).is_none() && abandoned.contains(&place);
                if !newest.contains_key(&place) && !stays {
                    let text = format!("{place:?} of {tenant} still exists");
                    let cluster = place.0;
                    found.push(Difference {
                        tenant,
                        cluster,
                        text,
                    });
                }
            }
        }
        for place in foreign {
            if servers[&place.0]
                .get(&format!("{CONFIGS}/{}", place.1))
                .is_none()
            {
                let text = format!("{place:?} is foreign, and was deleted");
                found.push(Difference {
                    tenant: String::new(),
                    cluster: place.0,
                    text,
                });
            }
        }
        found
    }

    /// Checks **N** for all objects of all servers.
    pub fn check_all_inventories(
        &self,
        servers: &BTreeMap<String, Arc<ApiServer>>,
    ) -> Vec<Violation> {
        let live = servers.values().flat_map(|server| {
            server
                .list(CONFIGS)
                .into_iter()
                .map(move |one| (server, one))
        });
        live.filter_map(|(server, one)| self.check_inventory(server, &one))
            .collect()
    }
}

impl State {
    /// Moves `written` to the earliest state, from the last written one on, that asks for the
    /// content. Returns whether there is one.
    fn advance(&mut self, place: &Place, content: Option<Content>) -> bool {
        let Some(line) = self.desired.get(place) else {
            return false;
        };
        let from = self.written.get(place).copied().unwrap_or_default();
        let found = line.iter().skip(from).position(|one| *one == content);
        if let Some(found) = found {
            self.written.insert(place.clone(), from + found);
            if content.is_some() {
                self.applied.insert(place.clone(), from + found);
            }
        }
        found.is_some()
    }
}

/// Appends a deletion and the contents from `from` on: the Kustomization of a place is deleted and
/// comes back, and begins with the revision of its source, which may be behind the branch.
fn replay(line: &mut Vec<Option<Content>>, from: usize) {
    let again = line.get(from..).map(<[_]>::to_vec).unwrap_or_default();
    line.push(None);
    line.extend(again);
}

fn owner(object: &Value) -> Option<(String, String)> {
    let label = |name: &str| {
        object["metadata"]["labels"][name]
            .as_str()
            .map(str::to_owned)
    };
    Some((label(OWNER_NAMESPACE)?, label(OWNER_NAME)?))
}

/// Returns the name of the HelmRelease that an object belongs to.
fn release(object: &Value) -> Option<String> {
    let name = &object["metadata"]["labels"][RELEASE_NAME];
    name.as_str().map(str::to_owned)
}

/// Returns the status of a release's record, and the names in its manifest.
fn manifest(record: &Value) -> Option<(String, BTreeSet<String>)> {
    let mut record = record.clone();
    // The items of a list have no kind.
    record["apiVersion"] = "v1".into();
    record["kind"] = "Secret".into();
    let record = Object::new(record).ok()?;
    let release = Release::from_secret(&record, &RecordLimits::default()).ok()?;
    let lines = release.manifest.lines();
    let names = lines.filter_map(|line| line.trim().strip_prefix("name: "));
    let status = record.label("status").unwrap_or_default();
    Some((status.to_owned(), names.map(str::to_owned).collect()))
}

/// Returns the errors in the release records of a cluster that has converged: each release has one
/// deployed record, its newest.
pub fn check_records(server: &ApiServer, expected: &BTreeSet<String>) -> Vec<String> {
    let mut found: BTreeMap<String, BTreeMap<u64, String>> = BTreeMap::new();
    for secret in server.list(RECORDS) {
        let label = |key: &str| {
            let text = secret["metadata"]["labels"][key].as_str();
            text.unwrap_or_default().to_owned()
        };
        if label("owner") == "helm" {
            let version = label("version").parse().unwrap_or_default();
            let records = found.entry(label("name")).or_default();
            records.insert(version, label("status"));
        }
    }
    let mut wrong = Vec::new();
    for name in expected.iter().filter(|name| !found.contains_key(*name)) {
        wrong.push(format!("{}: release {name} has no record", server.name));
    }
    for (name, records) in found {
        let deployed = records.values().filter(|status| *status == "deployed");
        let is_last = records
            .values()
            .next_back()
            .is_some_and(|last| last == "deployed");
        if !expected.contains(&name) {
            wrong.push(format!(
                "{}: {name} is uninstalled and still has records: {records:?}",
                server.name
            ));
        } else if deployed.count() != 1 || !is_last {
            wrong.push(format!("{}: records of {name}: {records:?}", server.name));
        }
    }
    wrong
}

fn inventory_id(object: &Value) -> String {
    let text = |field: &str| {
        object["metadata"][field]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    format!("{}_{}__ConfigMap", text("namespace"), text("name"))
}

fn entries(kustomization: &Value) -> Vec<String> {
    let entries = kustomization["status"]["inventory"]["entries"].as_array();
    let ids = entries.into_iter().flatten();
    ids.filter_map(|entry| Some(entry["id"].as_str()?.to_owned()))
        .collect()
}

fn lists(kustomization: &Value, id: &str) -> bool {
    entries(kustomization).iter().any(|one| one == id)
}
