//! Reads the state of the fleets over the ports of the core.

use crate::actions::Action;
use crate::data::{Data, DataError};
use crate::model::{Hub, Journals, Place, Row, Snapshot, State};
use crate::place;
use async_trait::async_trait;
use driftless_core::kustomization::live_objects;
use driftless_flux::{
    ConditionStatus, Conditions, FLUX_SYSTEM, FluxKind, HelmRepository, ObjectRef, generation,
    is_suspended, parse_rfc3339, source_of,
};
use driftless_kernel::hub;
use driftless_kernel::journal::{self, Journal};
use driftless_kernel::ports::{Patch, PatchRequest, Ports, in_time};
use driftless_kernel::state::millis;
use driftless_manifest::Object;
use futures::FutureExt as _;
use futures::future::join_all;
use futures::lock::Mutex;
use serde_json::Value;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// The field manager of actions.
const MANAGER: &str = "driftless-dashboard";
/// The time for the reading of one hub.
const HUB_TIMEOUT: Duration = Duration::from_secs(8);
/// The age up to which a reading is shown at once by a page that follows changes.
const RECENT: Duration = Duration::from_secs(600);

/// The state of the fleets, read over ports and kept for a short time.
pub struct PortsData {
    ports: Ports,
    ttl: Duration,
    /// The last reading and its time.
    kept: std::sync::Mutex<Option<(Duration, Arc<Snapshot>)>>,
    /// Held while the hubs are read: requests that come meanwhile share the result.
    reading: Mutex<()>,
}

impl PortsData {
    /// Reads over these ports; what was read is shown again for `ttl`.
    pub fn new(ports: Ports, ttl: Duration) -> Self {
        Self {
            ports,
            ttl,
            kept: std::sync::Mutex::default(),
            reading: Mutex::default(),
        }
    }

    /// Returns the last reading if it is younger than this.
    fn newest(&self, age: Duration) -> Option<Arc<Snapshot>> {
        let now = self.ports.clock.now();
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, snapshot) = kept.as_ref()?;
        (now.saturating_sub(*at) < age).then(|| snapshot.clone())
    }

    fn keep(&self, snapshot: Option<Arc<Snapshot>>) {
        let kept = snapshot.map(|snapshot| (self.ports.clock.now(), snapshot));
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = kept;
    }
}

#[async_trait]
impl Data for PortsData {
    async fn snapshot(&self) -> Result<Arc<Snapshot>, DataError> {
        let _reading = self.reading.lock().await;
        if let Some(snapshot) = self.newest(self.ttl) {
            return Ok(snapshot);
        }
        let snapshot = Arc::new(read(&self.ports).await?);
        self.keep(Some(snapshot.clone()));
        Ok(snapshot)
    }

    async fn recent(&self) -> Result<Arc<Snapshot>, DataError> {
        match self.newest(RECENT) {
            Some(snapshot) => Ok(snapshot),
            None => self.snapshot().await,
        }
    }

    async fn journal(&self, hub: &str, object: &ObjectRef) -> Result<Journal, DataError> {
        Ok(journal::read(self.ports.blobs.as_ref(), hub, object).await?)
    }

    async fn journals(&self, hub: &str) -> Result<Arc<Journals>, DataError> {
        Ok(Arc::new(journal::read_all(&self.ports, hub).await?))
    }

    async fn place(&self, row: &Row, snapshot: &Snapshot) -> Option<Place> {
        place::find(&self.ports, row, snapshot).await
    }

    async fn act(&self, hub: &str, object: &ObjectRef, action: &Action) -> Result<(), DataError> {
        let hub = hub::connect(&self.ports, hub).await?;
        let resource = hub.resource(object.kind).await?;
        let patch = Patch::Merge(action.patch(object.kind));
        let (namespace, name) = (&object.namespace, &object.name);
        let request = PatchRequest {
            resource: &resource,
            namespace,
            name,
            subresource: None,
            patch: &patch,
            manager: MANAGER,
        };
        let patched = hub.cluster.patch(&request);
        patched.await?;
        self.keep(None);
        Ok(())
    }
}

/// Reads all hubs concurrently.
async fn read(ports: &Ports) -> Result<Snapshot, DataError> {
    let mut names = hub::names(ports).await?;
    names.sort();
    let reads: Vec<_> = names
        .iter()
        .map(|name| read_in_time(ports, name).boxed())
        .collect();
    let hubs = join_all(reads).await;
    let mut snapshot = Snapshot {
        taken: millis(ports.clock.now()),
        ..Snapshot::default()
    };
    for (hub, rows) in hubs {
        snapshot.hubs.push(hub);
        snapshot.objects.extend(rows);
    }
    Ok(snapshot)
}

/// Reads a hub; one that does not answer in time must not keep back the others.
async fn read_in_time(ports: &Ports, name: &str) -> (Hub, Vec<Row>) {
    let work = read_hub(ports, name).boxed();
    let read = in_time(ports.clock.as_ref(), HUB_TIMEOUT, work).await;
    read.unwrap_or_else(|| {
        let seconds = HUB_TIMEOUT.as_secs();
        let hub = Hub {
            name: name.to_owned(),
            error: Some(format!("the hub did not answer within {seconds} s")),
            ..Hub::default()
        };
        (hub, Vec::new())
    })
}

async fn read_hub(ports: &Ports, name: &str) -> (Hub, Vec<Row>) {
    let mut hub = Hub {
        name: name.to_owned(),
        ..Hub::default()
    };
    let connected = match hub::connect(ports, name).await {
        Ok(connected) => connected,
        Err(failure) => {
            hub.error = Some(failure.message);
            return (hub, Vec::new());
        }
    };
    let roots = connected.settings.roots();
    hub.fleet = roots
        .values()
        .next()
        .copied()
        .unwrap_or_default()
        .to_owned();
    let lists = FluxKind::ALL.into_iter().map(|kind| connected.list(kind));
    let mut rows = Vec::new();
    for (kind, list) in FluxKind::ALL.into_iter().zip(join_all(lists).await) {
        match list {
            Ok(objects) => rows.extend(objects.iter().filter_map(|object| row(name, object))),
            Err(error) => hub.error = Some(format!("{kind}: {}", error.message)),
        }
    }
    rows.sort_by(|a, b| order(a).cmp(&order(b)));
    if hub.fleet.is_empty() {
        // A hub that is served without a registered root: the address of its root is used.
        let is_root = |row: &&Row| row.id.namespace == FLUX_SYSTEM && row.id.name == FLUX_SYSTEM;
        let mut sources = rows.iter().filter(|row| row.id.kind.is_source());
        let root = sources.find(is_root);
        hub.fleet = root.map(|row| row.url.clone()).unwrap_or_default();
    }
    (hub, rows)
}

fn order(row: &Row) -> (&str, &str, &str) {
    (&row.id.namespace, row.id.kind.as_str(), &row.id.name)
}

/// Returns a string of an object; empty if it is missing.
fn text<'o>(object: &'o Object, pointer: &str) -> &'o str {
    let value = object.pointer(pointer).and_then(Value::as_str);
    value.unwrap_or_default()
}

/// Returns the row of a Flux object.
pub(crate) fn row(hub: &str, object: &Object) -> Option<Row> {
    let id = ObjectRef::of(object)?;
    let conditions = Conditions::of(object);
    let ready = conditions.ready();
    let time = |text: &str| parse_rfc3339(text).map_or(0, millis);
    let applied = object.pointer("/status/inventory/entries");
    let mut row = Row {
        hub: hub.to_owned(),
        cluster: cluster(hub, object),
        owner: live_objects::owner(object),
        source: source_of(object),
        depends_on: depends_on(object),
        state: state(object, &conditions),
        is_suspended: is_suspended(object),
        reason: ready.map(|ready| ready.reason.clone()).unwrap_or_default(),
        message: ready.map(|ready| ready.message.clone()).unwrap_or_default(),
        revision: String::new(),
        attempted: text(object, "/status/lastAttemptedRevision").to_owned(),
        since: ready.map_or(0, |ready| time(&ready.last_transition_time)),
        created: time(object.meta("creationTimestamp")),
        applied: applied.and_then(Value::as_array).map_or(0, Vec::len),
        path: text(object, "/spec/path").to_owned(),
        url: text(object, "/spec/url").to_owned(),
        drift: conditions
            .get("Drifted")
            .filter(|drifted| drifted.status == ConditionStatus::True)
            .map(|drifted| drifted.message.clone()),
        id,
    };
    row.revision = match row.id.kind {
        FluxKind::Kustomization => text(object, "/status/lastAppliedRevision"),
        FluxKind::HelmRelease => text(object, "/status/history/0/chartVersion"),
        _ => text(object, "/status/artifact/revision"),
    }
    .to_owned();
    if row.attempted == row.revision {
        row.attempted.clear();
    }
    if HelmRepository::is_static(object) {
        "Helm repository is Ready".clone_into(&mut row.message);
    }
    Some(row)
}

/// Returns the cluster that an object acts on. One that a kubeconfig leads to is named after it.
fn cluster(hub: &str, object: &Object) -> String {
    let places = ["secretRef", "configMapRef"];
    let named = places.iter().find_map(|field| {
        let pointer = format!("/spec/kubeConfig/{field}/name");
        object.pointer(&pointer)?.as_str()
    });
    named.unwrap_or(hub).to_owned()
}

/// Returns the objects of the same kind that an object depends on.
fn depends_on(object: &Object) -> Vec<ObjectRef> {
    let Some(kind) = FluxKind::of(&object.gvk()) else {
        return Vec::new();
    };
    let entries = object.pointer("/spec/dependsOn").and_then(Value::as_array);
    let entries = entries.into_iter().flatten();
    let named = entries.filter_map(|entry| {
        let namespace = entry["namespace"].as_str().unwrap_or(object.namespace());
        Some(ObjectRef::new(kind, namespace, entry["name"].as_str()?))
    });
    named.collect()
}

fn state(object: &Object, conditions: &Conditions) -> State {
    if is_suspended(object) {
        return State::Suspended;
    }
    let is_configuration = matches!(
        FluxKind::of(&object.gvk()),
        Some(FluxKind::Alert | FluxKind::Provider)
    );
    let Some(ready) = conditions.ready() else {
        return match HelmRepository::is_static(object) || is_configuration {
            true => State::Ready,
            false => State::Progressing,
        };
    };
    let is_current =
        ready.observed_generation == 0 || ready.observed_generation == generation(object);
    match ready.status {
        ConditionStatus::False if ready.is_waiting() => State::Waiting,
        ConditionStatus::False => State::Failed,
        ConditionStatus::True if is_current => State::Ready,
        ConditionStatus::True | ConditionStatus::Unknown => State::Progressing,
    }
}
