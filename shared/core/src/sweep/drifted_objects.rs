//! Finds Kustomizations and HelmReleases that have drifted: the live objects of each kind and
//! cluster, compared with the fingerprints of their last step.

use super::{cluster_watch, clusters};
use crate::kustomization;
use driftless_flux::{DriftMode, FluxKind, HelmRelease, KubeConfigRef, Kustomization, ObjectRef};
use driftless_kernel::concurrent;
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::{Ports, Values, in_time};
use driftless_kernel::schedule::{Record, Records};
use driftless_kernel::target::{self, Target, TargetsCluster};
use driftless_manifest::{Gvk, Object, ObjectId};
use driftless_plans::apply::fingerprint::AppliedState;
use futures::FutureExt as _;
use futures::stream::BoxStream;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Kinds of one cluster that are read concurrently.
const CONCURRENCY: usize = 16;
/// The limit of the time to read one cluster: one that hangs must not delay the others.
const CLUSTER_LIMIT: Duration = Duration::from_secs(15);

/// A Kustomization or HelmRelease, with the fingerprints of its objects at its last step.
struct DriftCandidate {
    id: ObjectRef,
    kube_config: Option<KubeConfigRef>,
    applied: BTreeMap<ObjectId, AppliedState>,
}

/// The fingerprints of the live objects of one kind and with one owner's label.
type Live = Arc<Values>;

/// The objects to read: their kind, and the kind of their owner.
type Query = (Gvk, FluxKind);

/// Returns the owners whose objects are gone or changed, for each cluster when it has answered. The
/// objects of a cluster that cannot be read count as unchanged.
pub fn drifted<'a>(
    ports: &'a Ports,
    hub: &'a Hub,
    quiet: &[&Object],
    records: &Records,
) -> BoxStream<'a, BTreeSet<ObjectRef>> {
    let loaded = quiet.iter().map(|object| candidate(hub, object, records));

    let checks = clusters::by_cluster(loaded.flatten())
        .into_iter()
        .map(|(group, candidates)| check_in_time(ports, hub, group, candidates).boxed());
    clusters::run(ports.clock.as_ref(), checks.collect())
}

/// Returns an object with its fingerprints; `None` if it is not ready, is suspended, or does not
/// detect drift.
fn candidate(hub: &Hub, object: &Object, records: &Records) -> Option<DriftCandidate> {
    let id = ObjectRef::of(object)?;
    let kube_config = checked(object)?;
    let record = records.of(&hub.settings.name, &id)?;
    let applied = applied(id.kind, &record);
    let applied = applied
        .into_iter()
        .filter_map(|(id, applied)| Some((ObjectId::from_inventory_id(&id)?, applied)));
    Some(DriftCandidate {
        id,
        kube_config,
        applied: applied.collect(),
    })
}

/// Returns the cluster of an object whose drift is checked now: it is ready, not suspended, and
/// detects drift.
pub fn checked(object: &Object) -> Option<Option<KubeConfigRef>> {
    match ObjectRef::of(object)?.kind {
        FluxKind::Kustomization => {
            let one = Kustomization::from_object(object.clone()).ok()?;
            let is_checked = !one.spec.suspend && one.status.conditions.is_true("Ready");
            is_checked.then_some(one.spec.kube_config)
        }
        FluxKind::HelmRelease => {
            let one = HelmRelease::from_object(object.clone()).ok()?;
            let is_off = one.spec.suspend || one.drift_mode() == DriftMode::Disabled;
            let is_checked = !is_off && one.status.conditions.is_true("Ready");
            is_checked.then_some(one.spec.kube_config)
        }
        _ => None,
    }
}

/// Returns the state of the objects that the last step has left, by inventory id.
pub fn applied(kind: FluxKind, record: &Record) -> BTreeMap<String, AppliedState> {
    match kind {
        FluxKind::HelmRelease => {
            let memory: driftless_helmrelease::memory::Memory = record.memory();
            memory.seen
        }
        _ => {
            let memory: kustomization::memory::Memory = record.memory();
            memory.applied
        }
    }
}

/// Checks the objects of one cluster; nothing has drifted on a cluster that is late.
async fn check_in_time(
    ports: &Ports,
    hub: &Hub,
    name: String,
    group: Vec<DriftCandidate>,
) -> BTreeSet<ObjectRef> {
    let first = group.first().map(|one| one.id.clone());
    let check = check_group(ports, hub, name, group).boxed();
    let drifted = in_time(ports.clock.as_ref(), CLUSTER_LIMIT, check).await;
    drifted.unwrap_or_else(|| {
        let (object, seconds) = (first.map(|id| id.to_string()), CLUSTER_LIMIT.as_secs());
        tracing::warn!(object, "drift not checked: no answer within {seconds} s");
        BTreeSet::new()
    })
}

async fn check_group(
    ports: &Ports,
    hub: &Hub,
    name: String,
    group: Vec<DriftCandidate>,
) -> BTreeSet<ObjectRef> {
    let mut drifted = BTreeSet::new();
    let Some(first) = group.first() else {
        return drifted;
    };
    let target = match target::open(ports, hub, first, None).await {
        Ok(target) => target,
        Err(error) => {
            let failure: driftless_kernel::failure::Failure = error.into();
            tracing::warn!(object = %first.id, "drift not checked: {failure}");
            return drifted;
        }
    };
    let access = format!("{} {name} {}", hub.settings.name, target.identity);
    let queries: BTreeSet<Query> = group.iter().flat_map(DriftCandidate::queries).collect();
    let reads = queries
        .into_iter()
        .map(|query| read(ports, &target, &access, query).boxed());
    let live: BTreeMap<Query, Live> = concurrent::run(CONCURRENCY, reads.collect())
        .await
        .into_iter()
        .flatten()
        .collect();
    let drifts = group.into_iter().filter(|one| one.differs(&live));
    drifted.extend(drifts.map(|one| one.id));
    drifted
}

/// Returns the fingerprints of the live objects; `None` if the cluster does not answer.
async fn read(
    ports: &Ports,
    target: &Target,
    access: &str,
    (gvk, owner): Query,
) -> Option<(Query, Live)> {
    let cluster = target.cluster.as_ref();
    match cluster_watch::fingerprints(ports, cluster, access, &gvk, owner).await {
        Ok(live) => Some(((gvk, owner), live)),
        Err(error) => {
            tracing::warn!(kind = gvk.kind, %error, "drift not checked");
            None
        }
    }
}

impl DriftCandidate {
    fn queries(&self) -> impl Iterator<Item = Query> {
        let kind = self.id.kind;
        let applied = self.applied.iter();
        applied.map(move |(id, applied)| (gvk(id, applied), kind))
    }

    /// Returns whether a live object differs from its fingerprint. Objects that could not be read
    /// count as unchanged.
    fn differs(&self, live: &BTreeMap<Query, Live>) -> bool {
        self.applied.iter().any(|(id, applied)| {
            let read = live.get(&(gvk(id, applied), self.id.kind));
            read.is_some_and(|read| applied.is_changed(read.get(id).map(String::as_str)))
        })
    }
}

impl TargetsCluster for DriftCandidate {
    fn namespace(&self) -> &str {
        &self.id.namespace
    }

    fn kube_config(&self) -> Option<&KubeConfigRef> {
        self.kube_config.as_ref()
    }

    fn service_account(&self) -> Option<&str> {
        None
    }
}

fn gvk(id: &ObjectId, applied: &AppliedState) -> Gvk {
    Gvk {
        group: id.group.clone(),
        version: applied.version.clone(),
        kind: id.kind.clone(),
    }
}
