//! A complete installation in this process: hubs and remote clusters are embedded API servers,
//! repositories are directories. It needs nothing else and leaves nothing behind.

mod capsule;
mod config_map_clusters;
mod findings;
pub mod needs;
mod places;
mod snapshot;
mod stand_in;

use crate::error::Error;
use crate::fleet::{DirectoryCharts, Files, Fleet, HubPlan};
use driftless_adapters::cluster::KubeCluster;
use driftless_adapters::embedded::{Embedded, EmbeddedClusters, Listener, kubeconfig};
use driftless_adapters::git::DirectoryGit;
use driftless_adapters::local::LocalSecrets;
use driftless_adapters::offline::Offline;
use driftless_apiserver::User;
use driftless_core::bootstrap::{self, Root};
use driftless_core::capsule::AccountFailure;
use driftless_flux::{FLUX_SYSTEM, ObjectRef};
use driftless_kernel::hub::{self, Hub, Settings};
use driftless_kernel::ports::{
    Buckets, Cause, Charts, Clock, Clouds, Inline, Ports, Queue, Request, Secret,
};
use driftless_memory::MemoryBlobs;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use config_map_clusters::DescribedClusters;

pub use capsule::OwnerFinding;
pub use findings::{Finding, object_of, without_wait};
pub use places::Places;
pub use snapshot::{AppliedObject, Objects, Rendered, Row, State};
pub use stand_in::{MANAGED_BY, MANAGER, StandIn, StandInKind};

/// The user of the installation on every cluster.
const ADMIN: &str = "admin";

/// Hubs, remote clusters and the adapters of steps.
pub struct World {
    /// The adapters that steps use.
    pub ports: Ports,
    /// The directories in place of repositories, shared with `ports`.
    pub git: DirectoryGit,
    /// The hubs in the order of the fleet.
    pub hubs: Vec<Cluster>,
    /// Remote clusters, and the references that resolve to them.
    remotes: Mutex<Remotes>,
    clouds: Arc<DescribedClusters>,
    clusters: Arc<EmbeddedClusters>,
    sops_keys: Option<Secret>,
    kube_version: Option<[u64; 3]>,
    /// Clients with the rights of an administrator, by cluster.
    admins: Mutex<BTreeMap<String, KubeCluster>>,
    /// Files in which places of messages were searched, by directory.
    files: Mutex<BTreeMap<PathBuf, Arc<Files>>>,
    /// The failures of the newest work of Capsule's addon, by hub.
    capsule_failures: Mutex<BTreeMap<String, Vec<AccountFailure>>>,
    listens: bool,
}

#[derive(Default)]
struct Remotes {
    clusters: BTreeMap<String, Cluster>,
    /// The name of the cluster by hub and reference: `Secret/NAMESPACE/NAME` or
    /// `ConfigMap/NAMESPACE/NAME`. The kubeconfig of an owner of a Capsule Tenant leads to the hub.
    places: BTreeMap<(String, String), String>,
    /// The name of the cluster by server URL, for clusters of `configMapRef`.
    addresses: BTreeMap<String, String>,
    /// Cluster names with the accounts that have all rights there: `NAMESPACE:SERVICE-ACCOUNT`.
    admitted: BTreeSet<(String, String)>,
}

/// An embedded API server.
#[derive(Clone)]
pub struct Cluster {
    /// The name, unique in a world.
    pub name: String,
    /// The API server.
    pub server: Embedded,
    /// A kubeconfig with the rights of an administrator.
    pub kubeconfig: Secret,
    _listener: Option<Arc<Listener>>,
}

impl World {
    /// Starts the hubs of a fleet with the objects of `driftless bootstrap`, and registers them.
    /// With `listens`, every cluster is served by HTTPS on loopback.
    ///
    /// # Errors
    /// No socket can listen, or a server refuses a request.
    pub async fn start(
        fleet: &Fleet,
        charts: Arc<dyn Charts>,
        buckets: Arc<dyn Buckets>,
        queue: Arc<dyn Queue>,
        clock: Arc<dyn Clock>,
        listens: bool,
    ) -> Result<Self, Error> {
        let clusters = Arc::new(EmbeddedClusters::new());
        let mut hubs = Vec::new();
        for plan in &fleet.hubs {
            hubs.push(Cluster::start(&plan.name, &clock, &clusters, listens).await?);
        }
        let described = Arc::<DescribedClusters>::default();
        let secret = |hub: &Cluster| (format!("hubs/{}", hub.name), hub.kubeconfig.clone());
        let ports = Ports {
            git: Arc::new(fleet.git.clone()),
            charts: Arc::new(DirectoryCharts::new(fleet.git.clone(), charts)),
            buckets,
            blobs: Arc::new(MemoryBlobs::default()),
            queue,
            secrets: Arc::new(LocalSecrets::new(hubs.iter().map(secret).collect(), None)),
            clusters: clusters.clone(),
            clouds: Clouds {
                aws: described.clone(),
                azure: described.clone(),
                google: described.clone(),
                key_services: Arc::new(Offline),
            },
            notifiers: Arc::new(Offline),
            clock,
            compute: Arc::new(Inline),
            files: Arc::default(),
            read: Arc::default(),
            watches: Arc::default(),
            throttle: Arc::default(),
        };
        let world = Self {
            ports,
            git: fleet.git.clone(),
            hubs,
            remotes: Mutex::default(),
            clouds: described,
            clusters,
            sops_keys: fleet.sops_keys.clone(),
            kube_version: fleet.kube_version,
            admins: Mutex::default(),
            files: Mutex::default(),
            capsule_failures: Mutex::default(),
            listens,
        };
        for hub in &world.hubs {
            world.set_version(hub);
        }
        for plan in &fleet.hubs {
            world.install(plan, fleet).await?;
        }
        Ok(world)
    }

    async fn install(&self, plan: &HubPlan, fleet: &Fleet) -> Result<(), Error> {
        let settings = Settings {
            name: plan.name.clone(),
            allow_local_clusters: true,
            capsule_proxy: Some(capsule::proxy(&plan.name)),
            ..fleet.rules.clone()
        };
        hub::register(&self.ports, &settings).await?;
        let hub = self.hub(&plan.name).await?;
        bootstrap::install(hub.cluster.as_ref(), self.ports.clock.as_ref()).await?;
        let root = Root {
            name: FLUX_SYSTEM.to_owned(),
            url: fleet.url.clone(),
            branch: fleet.branch.clone(),
            path: plan.path.clone(),
            secret: None,
        };
        bootstrap::create_root(hub.cluster.as_ref(), &root).await?;
        if let Some(artifact) = &fleet.artifact {
            stand_in::artifact(&hub, artifact).await?;
        }
        for path in &plan.more {
            stand_in::root(&hub, path).await?;
        }
        Ok(())
    }

    /// Connects to a hub as the core does.
    ///
    /// # Errors
    /// This world does not have the hub.
    pub async fn hub(&self, name: &str) -> Result<Hub, Error> {
        Ok(hub::connect(&self.ports, name).await?)
    }

    /// Returns the newest resourceVersion of each hub, which changes with every write.
    pub fn versions(&self) -> Vec<u64> {
        let newest = |hub: &Cluster| *hub.server.versions().borrow();
        self.hubs.iter().map(newest).collect()
    }

    /// Queues a step of an object without delay.
    ///
    /// # Errors
    /// The queue refuses the message.
    pub async fn queue(&self, hub: &str, object: &ObjectRef, cause: Cause) -> Result<(), Error> {
        let request = Request::new(hub, object.clone(), cause);
        let sent = self.ports.queue.send(vec![(request, Duration::ZERO)]);
        Ok(sent.await?)
    }

    /// Returns the remote clusters so far.
    pub fn remotes(&self) -> Vec<Cluster> {
        self.lock().clusters.values().cloned().collect()
    }

    /// Returns the remote cluster of that name, and starts it if necessary.
    async fn remote(&self, name: &str) -> Result<Cluster, Error> {
        let known = self.lock().clusters.get(name).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let new = Cluster::start(name, &self.ports.clock, &self.clusters, self.listens).await?;
        self.set_version(&new);
        self.lock().clusters.insert(name.to_owned(), new.clone());
        Ok(new)
    }

    fn set_version(&self, cluster: &Cluster) {
        if let Some(version) = self.kube_version {
            cluster.server.set_kubernetes_version(version);
        }
    }

    /// Returns the name of the remote cluster that a Secret or ConfigMap refers to.
    fn place(&self, hub: &str, reference: &str) -> Option<String> {
        let place = (hub.to_owned(), reference.to_owned());
        self.lock().places.get(&place).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Remotes> {
        self.remotes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cluster {
    async fn start(
        name: &str,
        clock: &Arc<dyn Clock>,
        clusters: &EmbeddedClusters,
        listens: bool,
    ) -> Result<Self, Error> {
        let server = Embedded::with_workloads(clock.clone());
        let user = User::admin(ADMIN);
        let (url, text, listener) = if listens {
            let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let listener = server.serve(anywhere).await;
            let listener =
                listener.map_err(|error| Error::new(format!("listen on loopback: {error}")))?;
            let text = listener.kubeconfig(user);
            (listener.url(), text, Some(Arc::new(listener)))
        } else {
            let url = format!("https://{name}.embedded.internal");
            let text = kubeconfig(&url, None, &server.token(user));
            (url, text, None)
        };
        clusters.add(&url, &server);
        Ok(Self {
            name: name.to_owned(),
            server,
            kubeconfig: Secret::new(text),
            _listener: listener,
        })
    }
}
