//! The hubs of a fleet with the clusters that they lead to, connected to by the user's own
//! kubeconfig.

use super::kubeconfig::{access, load};
use super::{Connection, plugin};
use crate::error::Error;
use async_trait::async_trait;
use driftless_adapters::cluster::Plugin;
use driftless_adapters::config;
use driftless_core::address;
use driftless_core::hub::{Hub, Settings};
use driftless_core::ports::{
    Access, Cluster, Clusters, Impersonation, Login, Ports, Result, Secret,
};
use driftless_fleet::Fleet;
use driftless_fleet::plan::{Installed, Unreachable};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The hubs of a fleet, and the ports that connect to their remote clusters.
pub struct LiveHubs {
    ports: Ports,
    hubs: BTreeMap<String, std::result::Result<Hub, Unreachable>>,
}

impl LiveHubs {
    /// Connects to the hubs of a fleet: a single one by the context of the flags, several by the
    /// contexts with their names.
    ///
    /// # Errors
    /// The kubeconfig of a single hub cannot be used, or the flags name one context for several
    /// hubs.
    pub async fn connect(
        connection: &Connection,
        states: [&Fleet; 2],
    ) -> std::result::Result<Self, Error> {
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
        let mut plugins = Vec::new();
        let mut hubs = BTreeMap::new();
        for name in names {
            let context = match is_single {
                true => connection.context.as_deref(),
                false => Some(name),
            };
            let opened = open(connection, context);
            let (access, plugin) = match opened {
                Ok(opened) => opened,
                Err(error) if is_single => return Err(error),
                Err(error) => {
                    hubs.insert(name.to_owned(), Err(Unreachable(error.message)));
                    continue;
                }
            };
            let mut handle = access.clone();
            if let Some(plugin) = plugin {
                // No kubeconfig of a tenant can have this login.
                handle.login = Login::Token(Secret::new(ports.clock.nonce().to_vec()));
                plugins.push((handle.login.clone(), access, plugin));
            }
            let settings = Settings {
                name: name.to_owned(),
                allow_local_clusters: address::is_local_host(host(&handle.server)),
                ..states[1].rules.clone()
            };
            hubs.insert(name.to_owned(), Ok((settings, handle)));
        }
        ports.clusters = Arc::new(UserClusters {
            plugins,
            others: ports.clusters.clone(),
        });
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

/// Reads the access of a context, with the credential plugin of its user.
fn open(
    connection: &Connection,
    context: Option<&str>,
) -> std::result::Result<(Access, Option<Plugin>), Error> {
    let text = load(connection.kubeconfig.as_deref(), context)?;
    let (text, plugin) = plugin::take(text)?;
    Ok((access(&text)?, plugin))
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

/// Clusters, of which hubs may need the credential plugin of the user's kubeconfig.
struct UserClusters {
    /// The login that stands for a plugin, with the access and the plugin.
    plugins: Vec<(Login, Access, Plugin)>,
    others: Arc<dyn Clusters>,
}

#[async_trait]
impl Clusters for UserClusters {
    async fn connect(
        &self,
        access: &Access,
        user: Option<&Impersonation>,
    ) -> Result<Arc<dyn Cluster>> {
        let mut plugins = self.plugins.iter();
        match plugins.find(|(login, _, _)| *login == access.login) {
            Some((_, access, plugin)) => Ok(Arc::new(plugin.connect_as(access, user)?)),
            None => self.others.connect(access, user).await,
        }
    }
}
