//! Kubeconfig Secrets of provisioned clusters: they appear minutes after the objects that need
//! them, and are rotated later.
//!
//! An object that is not ready and has a remote cluster is queued if its Secret was written after
//! its last step, so that it waits for the sweep and not for its own retry. Kamaji's Secret is
//! `NAME-admin-kubeconfig`, Cluster API's `NAME-kubeconfig`; any other one is found in the same
//! way.

use super::due::Entry;
use driftless_flux::{ConditionStatus, Conditions, ObjectRef, parse_rfc3339};
use driftless_kernel::concurrent;
use driftless_kernel::hub::Hub;
use driftless_kernel::ports::Resource;
use driftless_manifest::{Gvk, Object};
use futures::FutureExt as _;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Secrets that are read concurrently.
const READS: usize = 16;
/// The most Secrets that a sweep reads. The other objects wait for their own retry.
const MAX_SECRETS: usize = 500;
/// The time by which the clock of the API server may be behind.
const SKEW: Duration = Duration::from_secs(30);

/// A Secret by its namespace and name.
type SecretName = (String, String);

/// Returns the objects that wait for a cluster whose Secret was written since their last step.
pub async fn written(
    hub: &Hub,
    objects: &[(ObjectRef, Object)],
    quiet: &BTreeSet<ObjectRef>,
    entries: &BTreeMap<String, Entry>,
) -> Vec<ObjectRef> {
    let mut waiting: BTreeMap<SecretName, Vec<(&ObjectRef, Duration)>> = BTreeMap::new();
    for (id, object) in objects.iter().filter(|(id, _)| quiet.contains(id)) {
        if let Some(name) = waits_for(object)
            && let Some(entry) = entries.get(&id.key())
        {
            let secret = (id.namespace.clone(), name);
            waiting.entry(secret).or_default().push((id, entry.at()));
        }
    }
    if waiting.is_empty() {
        return Vec::new();
    }
    // If Secrets cannot be read, the object's own step reports it.
    let Ok(Some(resource)) = hub.cluster.resource(&Gvk::new("v1", "Secret")).await else {
        return Vec::new();
    };
    let names: Vec<&SecretName> = waiting.keys().take(MAX_SECRETS).collect();
    let reads = names
        .iter()
        .map(|name| write_time(hub, &resource, name).boxed())
        .collect();
    let times = concurrent::run(READS, reads).await;
    let mut found = Vec::new();
    for (name, time) in names.into_iter().zip(times) {
        let Some(time) = time else { continue };
        let queued = waiting.get(name).into_iter().flatten();
        let since = queued.filter(|(_, at)| time + SKEW >= *at);
        found.extend(since.map(|(id, _)| (*id).clone()));
    }
    found
}

/// Returns the name of the Secret with the kubeconfig of an object that is not ready.
fn waits_for(object: &Object) -> Option<String> {
    let name = object
        .pointer("/spec/kubeConfig/secretRef/name")?
        .as_str()?;
    let conditions = Conditions::of(object);
    let ready = conditions.ready()?;
    (ready.status != ConditionStatus::True).then(|| name.to_owned())
}

/// Returns the time of the last write to a Secret; `None` if it does not exist or cannot be read.
async fn write_time(hub: &Hub, resource: &Resource, name: &SecretName) -> Option<Duration> {
    let secret = hub.cluster.get(resource, &name.0, &name.1).await.ok()??;
    let fields = secret.pointer("/metadata/managedFields");
    let fields = fields.and_then(Value::as_array).into_iter().flatten();
    let times = fields.filter_map(|entry| parse_rfc3339(entry["time"].as_str()?));
    times
        .chain(parse_rfc3339(secret.meta("creationTimestamp")))
        .max()
}
