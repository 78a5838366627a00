//! Detects changes of users on a hub that cannot be watched, so that a sweep follows at once and
//! not at the next tick of the timer.

use super::wanted::Wanted;
use crate::hub_error::HubError;
use driftless_core::sweep::edits::ObjectVersion;
use driftless_flux::FluxKind;
use driftless_kernel::hub;
use driftless_kernel::ports::Ports;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// The interval at which the hub's objects are checked for changes of users.
const CHANGE_INTERVAL: Duration = Duration::from_secs(2);

/// Requests a sweep after each change, without an end. A hub that cannot be read has no change: the
/// timer's sweep logs the reason.
pub(super) async fn poll(ports: Ports, hub: String, wanted: Arc<Wanted>) {
    let mut seen = None;
    loop {
        match object_versions(&ports, &hub).await {
            Ok(versions) => {
                if seen.as_ref() != Some(&versions) {
                    wanted.sweep.notify_one();
                }
                seen = Some(versions);
            }
            Err(error) => tracing::debug!(hub, "cannot check for changes: {error}"),
        }
        tokio::time::sleep(CHANGE_INTERVAL).await;
    }
}

async fn object_versions(ports: &Ports, name: &str) -> Result<BTreeSet<ObjectVersion>, HubError> {
    let hub = hub::connect(ports, name).await?;
    let lists = FluxKind::ALL.into_iter().map(|kind| hub.list(kind));
    let lists = futures::future::try_join_all(lists).await?;
    Ok(lists.iter().flatten().map(ObjectVersion::of).collect())
}
