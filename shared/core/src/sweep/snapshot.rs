//! A cluster that a whole sweep reads once: one LIST for each kind and namespace answers every GET
//! and every narrower LIST.

use async_trait::async_trait;
use driftless_flux::FluxKind;
use driftless_kernel::ports::{
    Cluster, ClusterLayer, ErrorKind, ListRequest, PortError, Resource, Result,
};
use driftless_manifest::{Gvk, Object};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

type Objects = Arc<Vec<Object>>;
type SharedList = Shared<BoxFuture<'static, Result<Objects>>>;

/// One API server, as one user, at about one moment, for reads only.
pub struct Snapshot {
    cluster: Arc<dyn Cluster>,
    /// All Flux objects of the server, if they have been read.
    flux: Option<Objects>,
    /// The label of applied objects: that of Kustomizations or of HelmReleases.
    owner_label: &'static str,
    lists: Mutex<BTreeMap<(Gvk, String), SharedList>>,
}

impl Snapshot {
    /// Returns a snapshot in which at most Flux's objects of this server are read. Applied objects
    /// are those with the owner label.
    pub fn new(
        cluster: Arc<dyn Cluster>,
        flux: Option<Objects>,
        owner_label: &'static str,
    ) -> Self {
        Self {
            cluster,
            flux,
            owner_label,
            lists: Mutex::default(),
        }
    }

    fn flux_objects(&self, gvk: &Gvk) -> Option<&Objects> {
        FluxKind::of(gvk).and(self.flux.as_ref())
    }

    /// Returns the label selector of the objects of a kind that a step may read: values and
    /// kubeconfigs are in any ConfigMap or Secret, any ServiceAccount may authenticate to a
    /// cluster, and records that are not superseded hold the state of a release. Of other kinds it
    /// reads what was applied.
    fn selector(&self, gvk: &Gvk) -> &'static str {
        match (gvk.group.as_str(), gvk.kind.as_str()) {
            ("", "Secret") => "status!=superseded",
            ("", "ConfigMap" | "ServiceAccount") => "",
            _ => self.owner_label,
        }
    }

    fn listed(&self, resource: &Resource, namespace: &str) -> SharedList {
        let key = (resource.gvk.clone(), namespace.to_owned());
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let first = || {
            let (cluster, resource) = (self.cluster.clone(), resource.clone());
            let namespace = namespace.to_owned();
            let selector = self.selector(&resource.gvk);
            async move {
                let request = ListRequest {
                    resource: &resource,
                    namespace: &namespace,
                    selector,
                };
                let objects = cluster.list(&request).await?;
                Ok(Arc::new(objects))
            }
            .boxed()
            .shared()
        };
        lists.entry(key).or_insert_with(first).clone()
    }
}

#[async_trait]
impl ClusterLayer for Snapshot {
    fn inner(&self) -> &dyn Cluster {
        self.cluster.as_ref()
    }

    async fn before_write(&self) -> Result<()> {
        let message = "a snapshot of a cluster cannot be written";
        Err(PortError::new(ErrorKind::Unsupported, message))
    }

    /// Returns an object. A user that may read objects but not LIST them reads each one.
    async fn get(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Object>> {
        let fits = |one: &&Object| one.name() == name && one.namespace() == namespace;
        if let Some(flux) = self.flux_objects(&resource.gvk) {
            let mut named = flux.iter().filter(fits);
            return Ok(named.find(|one| one.gvk() == resource.gvk).cloned());
        }
        match self.listed(resource, namespace).await {
            Ok(objects) => match objects.iter().find(fits) {
                Some(found) => Ok(Some(found.clone())),
                // A health check can name an object of another owner.
                None if self.selector(&resource.gvk) == self.owner_label => {
                    self.cluster.get(resource, namespace, name).await
                }
                None => Ok(None),
            },
            Err(error) if error.kind == ErrorKind::Denied => {
                self.cluster.get(resource, namespace, name).await
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the objects that match a selector of `label` and `label=value` terms.
    async fn list(&self, request: &ListRequest<'_>) -> Result<Vec<Object>> {
        let ListRequest {
            resource,
            namespace,
            selector,
        } = *request;
        match self.listed(resource, namespace).await {
            Ok(objects) => {
                let fitting = objects.iter().filter(|one| is_selected(one, selector));
                Ok(fitting.cloned().collect())
            }
            Err(error) if error.kind == ErrorKind::Denied => self.cluster.list(request).await,
            Err(error) => Err(error),
        }
    }
}

fn is_selected(object: &Object, selector: &str) -> bool {
    let mut terms = selector.split(',').filter(|term| !term.is_empty());
    terms.all(|term| match term.split_once('=') {
        Some((label, value)) => object.label(label) == Some(value),
        None => object.label(term).is_some(),
    })
}
