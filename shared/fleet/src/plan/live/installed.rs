//! The live clusters of an installation.

use super::clusters::{LiveClusters, Unreachable};
use super::owner::Owner;
use async_trait::async_trait;
use driftless_kernel::failure::Failure;
use driftless_kernel::hub::{self, Hub};
use driftless_kernel::ports::{Clock, Ports};
use driftless_kernel::target::{self, Target};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The clusters of an installation: its registered hubs, and the remote clusters that kubeconfigs
/// and identities of these hubs lead to.
pub struct Installed<'p> {
    ports: &'p Ports,
    /// The hubs so far, by name. The error of a hub is kept, so that its time-out counts once.
    hubs: Mutex<BTreeMap<String, Result<Hub, Unreachable>>>,
}

impl<'p> Installed<'p> {
    /// Returns the clusters that these ports lead to.
    pub fn new(ports: &'p Ports) -> Self {
        Self {
            ports,
            hubs: Mutex::default(),
        }
    }

    /// Sets the connection to a hub, or its error, in place of the registered one.
    #[must_use]
    pub fn with_hub(self, name: &str, hub: Result<Hub, Unreachable>) -> Self {
        self.keep(name, hub);
        self
    }

    fn keep(&self, name: &str, hub: Result<Hub, Unreachable>) {
        let mut hubs = self.hubs.lock().unwrap_or_else(PoisonError::into_inner);
        hubs.insert(name.to_owned(), hub);
    }

    fn find(&self, name: &str) -> Option<Result<Hub, Unreachable>> {
        let hubs = self.hubs.lock().unwrap_or_else(PoisonError::into_inner);
        hubs.get(name).cloned()
    }

    async fn hub(&self, name: &str) -> Result<Hub, Unreachable> {
        if let Some(known) = self.find(name) {
            return known;
        }
        let connected = hub::connect(self.ports, name).await;
        let connected = connected.map_err(|failure| Unreachable(failure.message));
        self.keep(name, connected.clone());
        connected
    }
}

#[async_trait]
impl LiveClusters for Installed<'_> {
    async fn connect(&self, hub: &str, owner: &Owner) -> Result<Target, Unreachable> {
        let hub = self.hub(hub).await?;
        let target = target::connect_to(self.ports, &hub, owner).await;
        target.map_err(|error| Unreachable(Failure::from(error).message))
    }

    fn clock(&self) -> &dyn Clock {
        self.ports.clock.as_ref()
    }
}
