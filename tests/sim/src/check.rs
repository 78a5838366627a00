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

/// Where Kustomizations are.
pub const KUSTOMIZATIONS: &str =
    "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations";
/// Where GitRepositories are.
pub const SOURCES: &str =
    "/apis/source.toolkit.fluxcd.io/v1/namespaces/flux-system/gitrepositories";
/// Where ConfigMaps of tenants are.
pub const CONFIGS: &str = "/api/v1/namespaces/apps/configmaps";
/// Where HelmReleases are.
pub const RELEASES: &str = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/flux-system/helmreleases";
/// Where their HelmCharts are.
pub const CHARTS: &str = "/apis/source.toolkit.fluxcd.io/v1/namespaces/flux-system/helmcharts";
/// Where the records of releases are.
pub const RECORDS: &str = "/api/v1/namespaces/apps/secrets";
/// The label with the name of a HelmRelease.
const RELEASE_NAME: &str = "helm.toolkit.fluxcd.io/name";
/// The label with the name of an owner.
pub const OWNER_NAME: &str = "kustomize.toolkit.fluxcd.io/name";
/// The label with the namespace of an owner.
pub const OWNER_NAMESPACE: &str = "kustomize.toolkit.fluxcd.io/namespace";

/// How long the steps of two Kustomizations may take until one of them has an object that was handed over: the time limit of a function.
const HANDED: Duration = Duration::from_secs(150);

/// An invariant and how it is violated.
pub type Violation = (char, String);

/// Something that is not as it should be.
pub struct Difference {
    /// Whose it is.
    pub tenant: String,
    /// Where it is.
    pub cluster: String,
    /// What it is.
    pub text: String,
}

/// What was wanted when, and what was written.
#[derive(Default)]
pub struct Checker {
    state: Mutex<State>,
    servers: OnceLock<BTreeMap<String, Weak<ApiServer>>>,
}

#[derive(Default)]
struct State {
    /// What each place should hold, one after the other.
    wanted: BTreeMap<Place, Vec<Option<Content>>>,
    /// Which of them was last written there.
    written: BTreeMap<Place, usize>,
    /// Whose each object was last.
    owners: BTreeMap<Place, (String, String)>,
    /// Kustomizations that may be deleted.
    leaving: BTreeSet<String>,
    /// Objects of nobody, by cluster and name.
    foreign: BTreeSet<Place>,
    /// Objects that a prune gave to another Kustomization, and when.
    handed: BTreeMap<Place, Instant>,
    /// Objects that only failed upgrades of releases have.
    abandoned: BTreeSet<Place>,
    newest: DesiredState,
}

impl Checker {
    /// Says which servers there are.
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

    /// Something else is wanted from now on.
    pub fn want(&self, wanted: &DesiredState, tenants: impl Iterator<Item = String>) {
        let mut state = self.state();
        let old = std::mem::replace(&mut state.newest, wanted.clone());
        for (place, (content, owner)) in wanted {
            let from = state.written.get(place).copied().unwrap_or_default();
            let line = state.wanted.entry(place.clone()).or_default();
            // The old owner may delete what moves before the new one applies it, as in Flux.
            let moves = old.get(place).is_some_and(|(_, before)| before != owner);
            let returns = !old.contains_key(place) && line.contains(&Some(*content));
            if moves || returns {
                replay(line, from);
            }
            if line.last() != Some(&Some(*content)) {
                line.push(Some(*content));
            }
        }
        for place in old.keys().filter(|place| !wanted.contains_key(*place)) {
            state.wanted.entry(place.clone()).or_default().push(None);
        }
        let tenants: BTreeSet<String> = tenants.collect();
        let gone: Vec<String> = old
            .values()
            .map(|(_, owner)| owner.clone())
            .filter(|owner| !tenants.contains(owner))
            .collect();
        state.leaving.extend(gone);
    }

    /// A Kustomization that nobody wants any more is still there, and follows its own source until it is deleted.
    pub fn follows(&self, place: &Place, content: Content) {
        let mut state = self.state();
        if !state.newest.contains_key(place) {
            let line = state.wanted.entry(place.clone()).or_default();
            line.extend([Some(content), None]);
        }
    }

    /// A user deletes a Kustomization: its objects go, and come again when the root applies it anew.
    pub fn deletes(&self, tenant: &str) {
        let mut state = self.state();
        state.leaving.insert(tenant.to_owned());
        let newest = state.newest.clone();
        // What it has now and should no longer have: it may have it again, while its source is behind.
        let owned = state.owners.iter().filter(|(_, (_, name))| name == tenant);
        let outdated = owned.map(|(place, _)| place.clone());
        let outdated: Vec<Place> = outdated
            .filter(|place| newest.get(place).is_none_or(|(_, owner)| owner != tenant))
            .collect();
        for place in outdated {
            let from = state.written.get(&place).copied().unwrap_or_default();
            replay(state.wanted.entry(place).or_default(), from);
        }
        for (place, (content, _)) in newest.iter().filter(|(_, (_, owner))| owner == tenant) {
            let from = state.written.get(place).copied().unwrap_or_default();
            let line = state.wanted.entry(place.clone()).or_default();
            replay(line, from);
            if line.last() != Some(&Some(*content)) {
                line.push(Some(*content));
            }
        }
    }

    /// What is wanted now.
    pub fn newest(&self) -> DesiredState {
        self.state().newest.clone()
    }

    /// An object of a user, that nobody else may touch.
    pub fn is_foreign(&self, place: Place) {
        self.state().foreign.insert(place);
    }

    /// A user has deleted an object by hand, whosever it was.
    pub fn is_deleted_by_hand(&self, place: &Place) {
        self.state().foreign.remove(place);
    }

    /// Whose labels an object had when the core wrote it last.
    pub fn last_owner(&self, server: &str, path: &str) -> Option<(String, String)> {
        let name = path.rsplit('/').next().unwrap_or_default();
        let place = (server.to_owned(), name.to_owned());
        self.state().owners.get(&place).cloned()
    }

    /// Whether writes to a path are looked at.
    pub fn watches(&self, path: &str) -> bool {
        path.starts_with(CONFIGS) || path.starts_with(KUSTOMIZATIONS)
    }

    /// The core has written an object; a merge of labels alone hands it over.
    pub fn wrote(
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
            (Some(before), None) => found.extend(self.deleted(&place, before)),
            (before, Some(after)) if before != Some(after) => {
                if let Some(owner) = owner(after) {
                    self.state().owners.insert(place.clone(), owner);
                }
                found.extend(self.applied(&place, after));
                let is_handed = merges
                    && before.is_some_and(|before| {
                        owner(before).is_some() && before["data"] == after["data"]
                    });
                let mut state = self.state();
                if is_handed {
                    // The heir may drop it at the same moment: whose it is then is told by two reads that come later.
                    state.handed.insert(place, Instant::now());
                } else {
                    state.handed.remove(&place);
                    drop(state);
                    found.extend(self.orphaned(server, after));
                }
            }
            _ => {}
        }
        found
    }

    /// **P** and **W**: a delete is what some newer state asks for.
    fn deleted(&self, place: &Place, before: &Value) -> Option<Violation> {
        let mut state = self.state();
        if owner(before).is_none() && release(before).is_none() {
            let what = format!("{place:?} has no owner labels, and was deleted");
            return Some(('P', what));
        }
        match state.explain(place, None) {
            true => None,
            false => {
                let newest = state.newest.get(place).cloned();
                let what = format!(
                    "{place:?} was deleted, and no newer commit asks for it; newest: {newest:?}"
                );
                Some(('P', what))
            }
        }
    }

    /// **W**: what is written is what this or a newer state asks for. A function that stood still is no exception: what it could not
    /// help, the request that it had just sent, has its effect before it stands still (README.md).
    fn applied(&self, place: &Place, after: &Value) -> Option<Violation> {
        let mut state = self.state();
        let commit = after["data"]["commit"].as_str()?.parse().ok()?;
        if state.explain(place, Some(Content { commit })) {
            // Asked for again, or still: an apply takes it over, as in Flux.
            state.foreign.remove(place);
            return None;
        }
        if state.foreign.contains(place) {
            return Some(('P', format!("{place:?} is foreign, and was written")));
        }
        let newest = state.newest.get(place).cloned();
        let what = format!(
            "commit {commit} was written to {place:?} behind a newer one; newest: {newest:?}"
        );
        Some(('W', what))
    }

    /// **N**: what carries owner labels stands in its owner's inventory.
    fn orphaned(&self, server: &ApiServer, object: &Value) -> Option<Violation> {
        let (namespace, name) = owner(object)?;
        let hub = self.server("hub")?;
        let id = inventory_id(object);
        let path = format!("{KUSTOMIZATIONS}/{name}");
        let found = hub.get(&path).filter(|_| namespace == FLUX);
        let Some(found) = found else {
            let what = format!(
                "{}: {id} is of Kustomization {name}, which is gone",
                server.name
            );
            return Some(('N', what));
        };
        (!lists(&found, &id)).then(|| {
            let what = format!(
                "{}: {id} is not in the inventory of its owner {name}: {}",
                server.name, found["status"]["inventory"]
            );
            ('N', what)
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
                format!("Kustomization {name} was deleted, and nobody asked for it"),
            ));
        }
        let Some(before) = before.filter(|_| server.name == "hub") else {
            return found;
        };
        // What left the inventory may not be live and ours.
        let listed = entries(before);
        let left = listed
            .iter()
            .filter(|id| after.is_none_or(|after| !lists(after, id)));
        for id in left.filter(|id| id.ends_with("__ConfigMap")) {
            let object = id.trim_start_matches(&format!("{APPS}_"));
            let object = object.trim_end_matches("__ConfigMap").to_owned();
            found.extend(self.left(name, before, &object));
        }
        found
    }

    /// **N** for an object that left the inventory of its owner.
    fn left(&self, owner_name: &str, kustomization: &Value, object: &str) -> Option<Violation> {
        let secret = kustomization["spec"]["kubeConfig"]["secretRef"]["name"].as_str();
        let cluster = secret.map_or("hub", |name| name.trim_end_matches("-kubeconfig"));
        let live = self.server(cluster)?.get(&format!("{CONFIGS}/{object}"))?;
        let (namespace, name) = owner(&live)?;
        let place = (cluster.to_owned(), object.to_owned());
        if self.state().handed.contains_key(&place) {
            return None;
        }
        (namespace == FLUX && name == owner_name).then(|| {
            let what =
                format!("{cluster}: {object} left the inventory of {owner_name}, and is live");
            ('N', what)
        })
    }

    /// **N** for what was handed over, once the steps have ended that did it.
    pub fn unsettled(&self) -> Vec<Violation> {
        let mut settled = Vec::new();
        self.state().handed.retain(|place, since| {
            let is_settled = since.elapsed() > HANDED;
            settled.extend(is_settled.then(|| place.clone()));
            !is_settled
        });
        let found = settled.into_iter().filter_map(|(cluster, name)| {
            let server = self.server(&cluster)?;
            let live = server.get(&format!("{CONFIGS}/{name}"))?;
            self.orphaned(&server, &live)
        });
        found.collect()
    }

    /// The core has written the record of a release. As in Helm, an upgrade deletes what the release that is deployed has and the
    /// new one has not, and it does not look at a failed one in between: what only that one has made stays.
    pub fn recorded(&self, server: &ApiServer, record: &Value) {
        let Some((status, objects)) = manifest(record) else {
            return;
        };
        let place = |name: &String| (server.name.clone(), name.clone());
        if status != "failed" {
            // What a release that is deployed, replaced or uninstalled has is deleted when it should.
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

    /// What stands in the way of convergence: **L**.
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
                    "{place:?} of {tenant}: {commit:?} is not {}",
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
                    let text = format!("{place:?} of {tenant} is still there");
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
                let text = format!("{place:?} is foreign, and is gone");
                found.push(Difference {
                    tenant: String::new(),
                    cluster: place.0,
                    text,
                });
            }
        }
        found
    }

    /// **N** over everything.
    pub fn orphans(&self, servers: &BTreeMap<String, Arc<ApiServer>>) -> Vec<Violation> {
        let live = servers.values().flat_map(|server| {
            server
                .list(CONFIGS)
                .into_iter()
                .map(move |one| (server, one))
        });
        live.filter_map(|(server, one)| self.orphaned(server, &one))
            .collect()
    }
}

impl State {
    /// Finds the earliest state from the last written one on that asks for this.
    fn explain(&mut self, place: &Place, content: Option<Content>) -> bool {
        let Some(line) = self.wanted.get(place) else {
            return false;
        };
        let from = self.written.get(place).copied().unwrap_or_default();
        let found = line.iter().skip(from).position(|one| *one == content);
        if let Some(found) = found {
            self.written.insert(place.clone(), from + found);
        }
        found.is_some()
    }
}

/// Its Kustomization goes and comes again, and begins with what its source has then, which may be behind the branch.
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

/// The HelmRelease that an object is of.
fn release(object: &Value) -> Option<String> {
    let name = &object["metadata"]["labels"][RELEASE_NAME];
    name.as_str().map(str::to_owned)
}

/// The status of a release's record, and the names in its manifest.
fn manifest(record: &Value) -> Option<(String, BTreeSet<String>)> {
    let mut record = record.clone();
    // The items of a list do not say their kind.
    record["apiVersion"] = "v1".into();
    record["kind"] = "Secret".into();
    let record = Object::new(record).ok()?;
    let release = Release::from_secret(&record, &RecordLimits::default()).ok()?;
    let lines = release.manifest.lines();
    let names = lines.filter_map(|line| line.trim().strip_prefix("name: "));
    let status = record.label("status").unwrap_or_default();
    Some((status.to_owned(), names.map(str::to_owned).collect()))
}

/// What is wrong with the records of the releases of a cluster, when all is quiet: each has one that is deployed, its newest.
pub fn records(server: &ApiServer, expected: &BTreeSet<String>) -> Vec<String> {
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
                "{}: records of {name} are left: {records:?}",
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
