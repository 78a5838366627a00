//! The hubs of a fleet with the clusters that they lead to, connected to by the user's own
//! kubeconfig.

use super::Connection;
use super::kubeconfig::load;
use super::plugin::UserClusters;
use crate::error::Error;
use driftless_adapters::config;
use driftless_fleet::Fleet;
use driftless_fleet::plan::{Installed, Unreachable};
use driftless_kernel::address;
use driftless_kernel::hub::{Hub, Settings};
use driftless_kernel::ports::Ports;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The hubs of a fleet, and the ports that connect to their remote clusters.
pub struct LiveHubs {
    ports: Ports,
    hubs: BTreeMap<String, Result<Hub, Unreachable>>,
}

impl LiveHubs {
    /// Connects to the hubs of a fleet: a single one by the context of the flags, several by the
    /// contexts with their names.
    ///
    /// # Errors
    /// The kubeconfig of a single hub cannot be used, or the flags name one context for several
    /// hubs.
    pub async fn connect(connection: &Connection, states: [&Fleet; 2]) -> Result<Self, Error> {
        let names = states.iter().flat_map(|fleet| &fleet.hubs);
        let names: BTreeSet<&str> = names.map(|hub| &*hub.name).collect();
        let is_single = names.len() == 1;
        if !is_single && connection.context.is_some() {
            let count = names.len();
            return Err(Error::usage(format!(
                "--context names the context of one hub, and the fleet has {count}"
            ))
            .next("leave --context out, so that each hub has the context with its name, or choose a hub with --path"));
        }
        let mut ports = config::cluster_ports();
        let mut clusters = UserClusters::new(ports.clusters.clone());
        let mut hubs = BTreeMap::new();
        for name in names {
            let context = match is_single {
                true => connection.context.as_deref(),
                false => Some(name),
            };
            let text = load(connection.kubeconfig.as_deref(), context);
            let nonce = ports.clock.nonce();
            let access = match text.and_then(|text| clusters.open(text, nonce)) {
                Ok(access) => access,
                Err(error) if is_single => return Err(error),
                Err(error) => {
                    hubs.insert(name.to_owned(), Err(Unreachable(error.message)));
                    continue;
                }
            };
            let settings = Settings {
                name: name.to_owned(),
                allow_local_clusters: address::is_local_host(host(&access.server)),
                ..states[1].rules.clone()
            };
            hubs.insert(name.to_owned(), Ok((settings, access)));
        }
        ports.clusters = Arc::new(clusters);
        let mut connected = BTreeMap::new();
        for (name, hub) in hubs {
            let hub = match hub {
                Ok((settings, access)) => match ports.clusters.connect(&access, None).await {
                    Ok(cluster) => Ok(Hub {
                        settings,
                        cluster,
                        access,
                    }),
                    Err(error) => Err(Unreachable(error.message)),
                },
                Err(unreachable) => Err(unreachable),
            };
            connected.insert(name, hub);
        }
        Ok(Self {
            ports,
            hubs: connected,
        })
    }

    /// Returns the clusters of the hubs.
    pub fn clusters(&self) -> Installed<'_> {
        let installed = Installed::new(&self.ports);
        self.hubs.iter().fold(installed, |installed, (name, hub)| {
            installed.with_hub(name, hub.clone())
        })
    }
}

/// Returns the host of `https://HOST:PORT/PATH`.
fn host(server: &str) -> &str {
    let rest = server.trim_start_matches("https://");
    let authority = rest.split('/').next().unwrap_or_default();
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => host,
        _ => authority,
    }
}
