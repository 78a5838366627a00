//! Watches of a hub and of the clusters that it applies to, in place of repeated LISTs: what a user
//! edits is queued at once, and what another client changes in applied objects is put back at once.
//! The sweep remains: it finds what a watch has missed.

mod accounts;
mod alerts;
mod applied_objects;
mod corrections;
mod digests;
mod flux_objects;
mod follower;
mod hub_watch;
mod polling;
mod references;
mod topic;
mod wanted;

pub(crate) use wanted::Wanted;

use driftless_kernel::ports::Ports;
use hub_watch::HubWatch;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// Starts watching a hub. With `drift`, the objects that it has applied are watched too.
pub(crate) fn start(ports: &Ports, hub: &str, wanted: Arc<Wanted>, drift: bool) -> JoinHandle<()> {
    let watch = HubWatch::new(ports.clone(), hub.to_owned(), wanted, drift);
    tokio::spawn(watch.run())
}
