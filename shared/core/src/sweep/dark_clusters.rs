//! Objects whose remote cluster did not answer. After some tries no message requeues them:
//! the sweep sends one request to each dark cluster, and queues its objects when it answers.

use super::clusters;
use driftless_flux::{Conditions, KubeConfigRef, ObjectRef, READY};
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::{Ports, in_time};
use driftless_kernel::schedule::Records;
use driftless_kernel::target::{self, TargetsCluster};
use driftless_manifest::Object;
use futures::FutureExt as _;
use futures::stream::BoxStream;
use std::time::Duration;

/// The limit of the time in which a cluster must answer.
const LIMIT: Duration = Duration::from_secs(5);

/// An object that waits for its cluster.
struct WaitingObject {
    id: ObjectRef,
    kube_config: KubeConfigRef,
}

impl TargetsCluster for WaitingObject {
    fn namespace(&self) -> &str {
        &self.id.namespace
    }

    fn kube_config(&self) -> Option<&KubeConfigRef> {
        Some(&self.kube_config)
    }

    fn service_account(&self) -> Option<&str> {
        None
    }
}

/// Returns the objects of each dark cluster that answers again. An object whose last try was not
/// long ago is left out, so that a cluster that answers this request and no other does not cause a
/// step of each object in each minute.
pub fn answering<'a>(
    ports: &'a Ports,
    hub: &'a Hub,
    quiet: &[&Object],
    records: &Records,
) -> BoxStream<'a, Vec<ObjectRef>> {
    let now = ports.clock.now();
    let may_try = |one: &WaitingObject| {
        let record = records.of(&hub.settings.name, &one.id);
        record.is_some_and(|record| record.may_try_cluster(now))
    };
    let objects = quiet.iter().filter_map(|object| waiting(object));
    let probes = clusters::by_cluster(objects.filter(may_try)).into_values();
    let probes = probes.map(|objects| probe_in_time(ports, hub, objects).boxed());
    clusters::run(ports.clock.as_ref(), probes.collect())
}

/// Returns the object with its cluster, if it has a remote one and is not ready or is being
/// deleted: a failed cleanup leaves `Ready` unchanged.
fn waiting(object: &Object) -> Option<WaitingObject> {
    let reference = object.pointer("/spec/kubeConfig")?;
    let is_deleted = !object.meta("deletionTimestamp").is_empty();
    if Conditions::of(object).is_true(READY) && !is_deleted {
        return None;
    }
    Some(WaitingObject {
        id: ObjectRef::of(object)?,
        kube_config: serde_json::from_value(reference.clone()).ok()?,
    })
}

/// Returns the objects of a cluster if it answers in time.
async fn probe_in_time(ports: &Ports, hub: &Hub, objects: Vec<WaitingObject>) -> Vec<ObjectRef> {
    let Some(first) = objects.first() else {
        return Vec::new();
    };
    let probe = probe(ports, hub, first).boxed();
    match in_time(ports.clock.as_ref(), LIMIT, probe).await {
        Some(true) => objects.into_iter().map(|one| one.id).collect(),
        _ => Vec::new(),
    }
}

/// Returns whether the cluster answers. An object whose kubeconfig is missing or refused is not
/// queued: the write of its Secret queues it.
async fn probe(ports: &Ports, hub: &Hub, object: &WaitingObject) -> bool {
    match target::open(ports, hub, object, None).await {
        Ok(target) => target.cluster.abilities().await.is_ok(),
        Err(_) => false,
    }
}
