//! The live clusters of the hubs that a plan is compared with.

use async_trait::async_trait;
use driftless_fleet::plan::{Installed, LiveClusters, Owner, Unreachable};
use driftless_kernel::ports::{Clock, Ports};
use driftless_kernel::target::Target;
use std::collections::BTreeMap;

/// The live clusters, except for objects whose values may come from a Secret: in a plan their
/// values are marks, and the live ones must not be read by everyone who reads a pull request.
pub struct LiveHubs<'p> {
    installed: Installed<'p>,
    ports: &'p Ports,
    /// The registered names of the hubs by their names in the plan.
    registered: BTreeMap<String, String>,
}

impl<'p> LiveHubs<'p> {
    /// Returns the clusters of hubs, by the name of each hub in the plan.
    pub fn new(ports: &'p Ports, registered: BTreeMap<String, String>) -> Self {
        Self {
            installed: Installed::new(ports),
            ports,
            registered,
        }
    }
}

#[async_trait]
impl LiveClusters for LiveHubs<'_> {
    async fn connect(&self, hub: &str, owner: &Owner) -> Result<Target, Unreachable> {
        let Some(registered) = self.registered.get(hub) else {
            let reason = "the directory of the hub is not known";
            return Err(Unreachable(reason.to_owned()));
        };
        self.installed.connect(registered, owner).await
    }

    fn allows(&self, owner: &Owner) -> bool {
        match owner {
            Owner::Kustomization(one) => !one.may_have_secret_values(),
            Owner::HelmRelease(one) => !one.may_have_secret_values(),
        }
    }

    fn clock(&self) -> &dyn Clock {
        self.ports.clock.as_ref()
    }
}
