//! Reads the objects of a cluster in each sweep: one LIST at first, and then only what has changed,
//! by a WATCH from the resourceVersion that is known.
//!
//! A watch ends when the API server has sent what it knows. What it misses, because the server was
//! late, comes in the next sweep: a watch from a resourceVersion leaves nothing out. A step reads
//! again before it decides, so a late sweep costs a minute, and nothing else.

use crate::kustomization;
use driftless_flux::{FluxKind, HELM_CONTROLLER, KUSTOMIZE_CONTROLLER, ObjectRef};
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::{
    Change, Cluster, ErrorKind, Ports, Resource, Result, Values, WatchSnapshot, all_pages,
};
use driftless_manifest::{Gvk, Object};
use driftless_plans::apply::fingerprint::fingerprint;
use std::sync::Arc;
use std::time::Duration;

/// The age at which objects are read by a LIST, regardless of watches: for a server whose
/// resourceVersions began anew, such as one that was restored from a backup.
const MAX_AGE: Duration = Duration::from_secs(3600);
/// The length of a watch that ends when the server has sent what it knows.
const WATCH_DURATION: Duration = Duration::ZERO;
/// The length of a watch that gets a bookmark: an API server sends it 2 s before the end.
const BOOKMARK_WATCH_DURATION: Duration = Duration::from_secs(3);
/// The age of a resourceVersion at which a bookmark is needed: the API server keeps the changes of
/// a kind for more than a minute, and for longer if there are few.
const BOOKMARK_AFTER: Duration = Duration::from_secs(300);

/// The objects of one kind and selector on one cluster.
struct Query<'a> {
    ports: &'a Ports,
    cluster: &'a dyn Cluster,
    resource: &'a Resource,
    selector: &'a str,
    /// The key under which the process keeps them.
    key: String,
    /// Returns what is kept of an object.
    value: &'a (dyn Fn(Object) -> String + Sync),
}

/// Returns every Flux object of a kind on the hub; nothing if the hub does not serve the kind.
///
/// # Errors
/// The cluster's.
pub async fn flux_objects(
    ports: &Ports,
    hub: &Hub,
    kind: FluxKind,
) -> Result<Vec<(ObjectRef, Object)>> {
    let Some(resource) = hub.served(kind).await? else {
        return Ok(Vec::new());
    };
    let access = flux_access(hub);
    let document = |object: Object| object.into_value().to_string();
    let query = Query::new(
        ports,
        hub.cluster.as_ref(),
        &access,
        &resource,
        "",
        &document,
    );
    Ok(parsed(query.read().await?.as_ref()))
}

/// Returns the Flux objects of a kind that the last sweep of this process has read, without a
/// request for them; nothing before the first sweep.
///
/// # Errors
/// The cluster's.
pub async fn known_flux_objects(
    ports: &Ports,
    hub: &Hub,
    kind: FluxKind,
) -> Result<Vec<(ObjectRef, Object)>> {
    let Some(resource) = hub.served(kind).await? else {
        return Ok(Vec::new());
    };
    let known = ports.watches.get(&key(&flux_access(hub), &resource, ""));
    Ok(known.map_or_else(Vec::new, |known| parsed(&known.values)))
}

fn parsed(documents: &Values) -> Vec<(ObjectRef, Object)> {
    let parsed = documents.values().filter_map(|text| {
        let object = Object::new(serde_json::from_str(text).ok()?).ok()?;
        Some((ObjectRef::of(&object)?, object))
    });
    parsed.collect()
}

/// Returns the cluster and credentials of Flux objects.
fn flux_access(hub: &Hub) -> String {
    format!("{} {}", hub.settings.name, hub.access.identity())
}

/// Returns the key under which the process keeps the objects of a kind.
fn key(access: &str, resource: &Resource, selector: &str) -> String {
    let gvk = &resource.gvk;
    format!("{access} {} {} {selector}", gvk.api_version(), gvk.kind)
}

/// Returns the fingerprints of all objects of a kind that have the label of a Kustomization or a
/// HelmRelease. `access` identifies the cluster and the credentials.
///
/// # Errors
/// The cluster's.
pub async fn fingerprints(
    ports: &Ports,
    cluster: &dyn Cluster,
    access: &str,
    gvk: &Gvk,
    owner: FluxKind,
) -> Result<Arc<Values>> {
    let (label, manager) = marks(owner);
    // If the kind is no longer served, all of its objects are gone.
    let Some(resource) = cluster.resource(gvk).await? else {
        return Ok(Arc::default());
    };
    let digest = |object: Object| fingerprint(&object, manager);
    let query = Query::new(ports, cluster, access, &resource, label, &digest);
    query.read().await
}

/// Returns the label and the field manager of the objects of a kind of owners.
pub fn marks(owner: FluxKind) -> (&'static str, &'static str) {
    match owner {
        FluxKind::HelmRelease => (driftless_helmrelease::OWNER_NAME, HELM_CONTROLLER),
        _ => (
            kustomization::live_objects::OWNER_NAME,
            KUSTOMIZE_CONTROLLER,
        ),
    }
}

impl<'a> Query<'a> {
    fn new(
        ports: &'a Ports,
        cluster: &'a dyn Cluster,
        access: &str,
        resource: &'a Resource,
        selector: &'a str,
        value: &'a (dyn Fn(Object) -> String + Sync),
    ) -> Self {
        Self {
            key: key(access, resource, selector),
            ports,
            cluster,
            resource,
            selector,
            value,
        }
    }

    /// Returns the current values: by a watch if the state before is known, else by a LIST.
    async fn read(&self) -> Result<Arc<Values>> {
        let now = self.ports.clock.now();
        let known = self.ports.watches.get(&self.key);
        let known = known.filter(|known| now.saturating_sub(known.listed) < MAX_AGE);
        let watched = match known {
            None => self.list(now, false).await?,
            // The user may not watch.
            Some(known) if known.version.is_empty() => {
                return Ok(self.list(now, false).await?.values);
            }
            Some(known) => match self.watch(&known, now).await {
                Ok(watched) => watched,
                Err(error) if error.kind == ErrorKind::Denied => {
                    tracing::warn!(kind = self.resource.gvk.kind, %error,
                        "each sweep lists all objects: the user needs the verb 'watch'");
                    let listed = self.list(now, false).await?;
                    let refused = WatchSnapshot {
                        listed: now,
                        ..WatchSnapshot::default()
                    };
                    self.ports.watches.keep(&self.key, refused);
                    return Ok(listed.values);
                }
                Err(error) => {
                    tracing::info!(kind = self.resource.gvk.kind, %error, "not watched, but listed");
                    self.list(now, known.is_busy || error.is_expired()).await?
                }
            },
        };
        let values = watched.values.clone();
        if !watched.version.is_empty() {
            self.ports.watches.keep(&self.key, watched);
        }
        Ok(values)
    }

    /// Continues from what is known.
    async fn watch(&self, known: &WatchSnapshot, now: Duration) -> Result<WatchSnapshot> {
        let is_old = now.saturating_sub(known.moved) >= BOOKMARK_AFTER;
        let time = if is_old || known.is_busy {
            BOOKMARK_WATCH_DURATION
        } else {
            WATCH_DURATION
        };
        let watch = self
            .cluster
            .watch(self.resource, self.selector, &known.version, time);
        let seen = watch.await?;
        let mut next = known.clone();
        // A kind that does not change gets no bookmark: the next attempt is after the same time.
        if next.version != seen.version || time == BOOKMARK_WATCH_DURATION {
            next.version = seen.version;
            next.moved = now;
        }
        if !seen.changes.is_empty() {
            let values = Arc::make_mut(&mut next.values);
            for change in seen.changes {
                match change {
                    Change::Written(object) => values.insert(object.id(), (self.value)(object)),
                    Change::Deleted(object) => values.remove(&object.id()),
                };
            }
        }
        Ok(next)
    }

    /// Reads all objects, page by page, of which only the values are kept.
    async fn list(&self, now: Duration, is_busy: bool) -> Result<WatchSnapshot> {
        let read = |next: String| async move {
            self.cluster.page(self.resource, self.selector, &next).await
        };
        let add = |values: &mut Values, page: Vec<Object>| {
            let page = page.into_iter();
            values.extend(page.map(|object| (object.id(), (self.value)(object))));
        };
        let (values, version) = all_pages(read, add).await?;
        Ok(WatchSnapshot {
            values: Arc::new(values),
            version,
            listed: now,
            moved: now,
            is_busy,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_manifest::ObjectId;
    use driftless_memory::{MemoryCluster, TestClock};
    use futures::FutureExt as _;
    use serde_json::json;

    /// A cluster, read by the sweeps of one process.
    struct World {
        cluster: MemoryCluster,
        clock: Arc<TestClock>,
        ports: Ports,
    }

    impl World {
        fn new() -> Self {
            let clock = Arc::<TestClock>::default();
            Self {
                cluster: MemoryCluster::default(),
                ports: driftless_memory::ports(Arc::default(), Arc::default(), clock.clone()),
                clock,
            }
        }

        /// Writes a ConfigMap that a Kustomization has applied, with these fields.
        fn write(&self, name: &str, fields: &str) -> ObjectId {
            let labels = json!({kustomization::live_objects::OWNER_NAME: "apps"});
            let managed = json!([{"manager": KUSTOMIZE_CONTROLLER, "fieldsV1": fields}]);
            let metadata = json!({"name": name, "namespace": "apps", "labels": labels,
                "managedFields": managed});
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
            self.cluster.put(Object::new(object).unwrap()).id()
        }

        /// Advances the clock by a minute. Returns the names and fingerprints of the objects, and
        /// the requests for them.
        fn sweep(&self) -> (Vec<(String, String)>, Vec<String>) {
            self.clock.advance(Duration::from_secs(60));
            let gvk = Gvk::new("v1", "ConfigMap");
            let owner = FluxKind::Kustomization;
            let read = fingerprints(&self.ports, &self.cluster, "hub", &gvk, owner);
            let found = read.now_or_never().unwrap().unwrap();
            let found = found
                .iter()
                .map(|(id, value)| (id.name.clone(), value.clone()));
            (found.collect(), self.cluster.take_requests())
        }

        fn names(&self) -> (String, String) {
            let (found, requests) = self.sweep();
            let names: Vec<String> = found.into_iter().map(|(name, _)| name).collect();
            (names.join(" "), requests.join(", "))
        }
    }

    const LIST: &str = "LIST ConfigMap";
    const WATCH: &str = "WATCH ConfigMap 0";

    fn result(names: &str, requests: &str) -> (String, String) {
        (names.to_owned(), requests.to_owned())
    }

    #[test]
    fn after_the_first_list_only_changes_are_read() {
        let world = World::new();
        let a = world.write("a", "x");
        world.write("b", "x");
        assert_eq!(world.names(), result("a b", LIST));
        assert_eq!(world.names(), result("a b", WATCH));
        world.write("c", "x");
        world.cluster.remove(&a);
        assert_eq!(world.names(), result("b c", WATCH));
        let (before, _) = world.sweep();
        world.write("b", "y");
        let (after, requests) = world.sweep();
        assert_eq!(requests, [WATCH]);
        assert!(before[0] != after[0] && before[1] == after[1]);
        // An object that loses the label is no longer one of ours.
        let plain = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "c", "namespace": "apps"}});
        world.cluster.put(Object::new(plain).unwrap());
        assert_eq!(world.names(), result("b", WATCH));
    }

    #[test]
    fn a_late_change_comes_in_the_next_sweep() {
        let world = World::new();
        world.write("a", "x");
        world.sweep();
        world.cluster.switch(|switches| switches.is_late = true);
        world.write("b", "x");
        assert_eq!(world.names(), result("a", WATCH));
        world.cluster.switch(|switches| switches.is_late = false);
        assert_eq!(world.names(), result("a b", WATCH));
    }

    #[test]
    fn a_version_that_is_too_old_costs_one_list_and_longer_watches() {
        let world = World::new();
        let a = world.write("a", "x");
        world.sweep();
        world.cluster.remove(&a);
        world.write("b", "x");
        world.cluster.compact();
        let (expected, long) = (format!("{WATCH}, {LIST}"), "WATCH ConfigMap 3");
        assert_eq!(world.names(), result("b", &expected));
        assert_eq!(world.names(), result("b", long));
    }

    #[test]
    fn a_version_that_stays_the_same_gets_a_bookmark() {
        let world = World::new();
        world.write("a", "x");
        world.sweep();
        world.cluster.switch(|switches| switches.is_late = true);
        let requests: Vec<String> = (0..6).flat_map(|_| world.sweep().1).collect();
        assert_eq!(requests.join(" ").matches(WATCH).count(), 5, "{requests:?}");
        assert_eq!(requests[4..], ["WATCH ConfigMap 3", WATCH]);
    }

    #[test]
    fn a_watch_that_fails_is_replaced_by_a_list() {
        let world = World::new();
        world.write("a", "x");
        world.sweep();
        world.write("b", "x");
        world
            .cluster
            .switch(|switches| switches.breaks_watch = true);
        let both = format!("{WATCH}, {LIST}");
        assert_eq!(world.names(), result("a b", &both));
        world
            .cluster
            .switch(|switches| switches.breaks_watch = false);
        assert_eq!(world.names(), result("a b", WATCH));
    }

    #[test]
    fn a_user_that_may_not_watch_lists_and_is_asked_again_after_an_hour() {
        let world = World::new();
        world.write("a", "x");
        world.sweep();
        world
            .cluster
            .switch(|switches| switches.refuses_watch = true);
        assert_eq!(world.names(), result("a", &format!("{WATCH}, {LIST}")));
        for _ in 1..60 {
            assert_eq!(world.names(), result("a", LIST));
        }
        world
            .cluster
            .switch(|switches| switches.refuses_watch = false);
        assert_eq!(world.names(), result("a", LIST));
        assert_eq!(world.names(), result("a", WATCH));
    }

    #[test]
    fn each_hour_and_each_process_begins_with_a_list() {
        let world = World::new();
        world.write("a", "x");
        assert_eq!(world.names(), result("a", LIST));
        let requests: Vec<String> = (0..60).flat_map(|_| world.sweep().1).collect();
        assert!(requests[..59].iter().all(|one| one.starts_with("WATCH")));
        assert_eq!(requests[59..], [LIST]);
        let world = World {
            ports: driftless_memory::ports(Arc::default(), Arc::default(), world.clock.clone()),
            ..world
        };
        assert_eq!(world.names(), result("a", LIST));
    }

    #[test]
    fn pages_are_one_list() {
        let world = World::new();
        for name in ["a", "b", "c", "d", "e"] {
            world.write(name, "x");
        }
        world.cluster.switch(|switches| switches.page_size = 2);
        assert_eq!(world.names(), result("a b c d e", &[LIST; 3].join(", ")));
        // The token of the second page is too old: the list begins again.
        let cold = World {
            ports: driftless_memory::ports(Arc::default(), Arc::default(), world.clock.clone()),
            ..world
        };
        cold.cluster
            .switch(|switches| switches.expires_token = true);
        assert_eq!(cold.names(), result("a b c d e", &[LIST; 5].join(", ")));
        assert_eq!(cold.names(), result("a b c d e", WATCH));
    }

    #[test]
    fn the_state_of_another_cluster_is_not_used() {
        let world = World::new();
        world.write("a", "x");
        world.sweep();
        let other = MemoryCluster::default();
        let gvk = Gvk::new("v1", "ConfigMap");
        let read = fingerprints(&world.ports, &other, "other", &gvk, FluxKind::Kustomization);
        assert!(read.now_or_never().unwrap().unwrap().is_empty());
        assert_eq!(other.take_requests(), [LIST]);
        // The objects of HelmReleases have another label.
        let read = fingerprints(
            &world.ports,
            &world.cluster,
            "hub",
            &gvk,
            FluxKind::HelmRelease,
        );
        assert!(read.now_or_never().unwrap().unwrap().is_empty());
    }
}
