//! The clusters of a sweep: objects by their cluster, and the order of the clusters.

use driftless_kernel::ports::Clock;
use driftless_kernel::target::TargetsCluster;
use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt as _};
use serde_json::json;
use std::collections::BTreeMap;

/// Clusters that are read concurrently.
const CONCURRENCY: usize = 64;

/// Groups objects by their cluster: the hub itself, whose key is empty, or a kubeconfig reference
/// in a namespace.
pub fn by_cluster<O: TargetsCluster>(objects: impl Iterator<Item = O>) -> BTreeMap<String, Vec<O>> {
    let mut groups: BTreeMap<String, Vec<O>> = BTreeMap::new();
    for one in objects {
        let group = match one.kube_config() {
            None => String::new(),
            Some(reference) => format!("{} {}", one.namespace(), json!(reference)),
        };
        groups.entry(group).or_default().push(one);
    }
    groups
}

/// Runs the work of each cluster. Returns each result when it is there. The order of the clusters
/// differs in each minute, so that none is always the last.
pub fn run<'a, T: Send + 'a>(
    clock: &dyn Clock,
    mut work: Vec<BoxFuture<'a, T>>,
) -> BoxStream<'a, T> {
    let minute = usize::try_from(clock.now().as_secs() / 60).unwrap_or_default();
    let first = minute.wrapping_mul(CONCURRENCY) % work.len().max(1);
    work.rotate_left(first);
    futures::stream::iter(work)
        .buffer_unordered(CONCURRENCY)
        .boxed()
}
