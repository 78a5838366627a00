//! The hub that a command connects to, found as kubectl finds its cluster.

mod apply;
mod kubeconfig;
mod live;
mod plugin;

use crate::error::Error;
use crate::kinds::KindName;
use driftless_adapters::cluster::KubeClusters;
use driftless_flux::{FluxKind, ObjectRef};
use driftless_kernel::hub::{self, Settings};
use driftless_kernel::ports::{Cluster, Clusters as _};
use driftless_manifest::Object;
use std::path::PathBuf;
use std::sync::Arc;

pub use apply::{MANAGER, apply, apply_as, resource};
pub use kubeconfig::{access, load};
pub use live::LiveHubs;

/// The flags that choose the hub.
#[derive(clap::Args)]
pub struct Connection {
    /// The kubeconfig file [default: KUBECONFIG, else ~/.kube/config]
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,
}

/// The flags that choose the hub and a namespace on it.
#[derive(clap::Args)]
pub struct Scope {
    #[command(flatten)]
    pub connection: Connection,
    /// The namespace
    #[arg(
        short,
        long,
        global = true,
        value_name = "NAME",
        default_value = "flux-system"
    )]
    pub namespace: String,
}

impl Connection {
    /// Returns the address of the API server, without a request to it.
    pub fn server(&self) -> Result<String, Error> {
        let text = load(self.kubeconfig.as_deref(), self.context.as_deref())?;
        let place = driftless_kernel::kubeconfig::place(&text);
        let (server, _) = place.map_err(|error| Error::new(format!("kubeconfig: {error}")))?;
        Ok(server)
    }

    /// Connects as the user of the kubeconfig, whose credential plugin is run if it has one.
    pub async fn connect(&self) -> Result<hub::Hub, Error> {
        let text = load(self.kubeconfig.as_deref(), self.context.as_deref())?;
        let (text, plugin) = plugin::take(text)?;
        let access = access(&text)?;
        let cluster: Arc<dyn Cluster> = match plugin {
            Some(plugin) => Arc::new(plugin.connect(&access)?),
            None => KubeClusters::new().connect(&access, None).await?,
        };
        // Every command begins with this request. Here the error of a wrong address or wrong
        // credentials gets the server's name.
        let kind = FluxKind::Kustomization;
        let answer = cluster.versions(kind.group(), kind.as_str()).await;
        answer.map_err(|error| Error::from(error).at(&access.server))?;
        Ok(hub::Hub {
            settings: Settings {
                name: "hub".to_owned(),
                ..Settings::default()
            },
            cluster,
            access,
        })
    }
}

/// Reads an object; fails if it does not exist.
pub async fn object(
    hub: &hub::Hub,
    kind: FluxKind,
    namespace: &str,
    name: &str,
) -> Result<Object, Error> {
    let found = hub.get(&ObjectRef::new(kind, namespace, name)).await?;
    found.ok_or_else(|| {
        Error::new(format!(
            "{kind} object '{name}' not found in \"{namespace}\" namespace"
        ))
        .next(format!("driftless get {} -A", KindName::of(kind).listed()))
    })
}
