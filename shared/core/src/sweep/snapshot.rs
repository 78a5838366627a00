//! A cluster as it is read by a whole sweep: one LIST a kind and namespace answers every GET and every narrower LIST.

use crate::flux::FluxKind;
use crate::helmrelease::OWNER_NAME;
use crate::ports::{
    ApiCapabilities, Apply, Cluster, Delete, Deleted, ErrorKind, Patch, PortError, Resource,
    Result, Token, TokenAsk,
};
use async_trait::async_trait;
use driftless_manifest::{Gvk, Object};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

type Objects = Arc<Vec<Object>>;
type Listed = Shared<BoxFuture<'static, Result<Objects>>>;

/// One API server, as one user, at about one moment. It is only read.
pub struct Snapshot {
    cluster: Arc<dyn Cluster>,
    /// Flux's objects, where somebody has read them all.
    flux: Option<Objects>,
    lists: Mutex<BTreeMap<(Gvk, String), Listed>>,
}

impl Snapshot {
    /// With nothing read but Flux's objects, when they are of this server.
    pub fn new(cluster: Arc<dyn Cluster>, flux: Option<Objects>) -> Self {
        Self {
            cluster,
            flux,
            lists: Mutex::default(),
        }
    }

    fn flux_objects(&self, gvk: &Gvk) -> Option<&Objects> {
        FluxKind::of(gvk).and(self.flux.as_ref())
    }

    fn listed(&self, resource: &Resource, namespace: &str) -> Listed {
        let key = (resource.gvk.clone(), namespace.to_owned());
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let first = || {
            let (cluster, resource) = (self.cluster.clone(), resource.clone());
            let namespace = namespace.to_owned();
            async move {
                let selector = selector(&resource.gvk);
                let objects = cluster.list(&resource, &namespace, selector).await?;
                Ok(Arc::new(objects))
            }
            .boxed()
            .shared()
        };
        lists.entry(key).or_insert_with(first).clone()
    }
}

#[async_trait]
impl Cluster for Snapshot {
    async fn resource(&self, gvk: &Gvk) -> Result<Option<Resource>> {
        self.cluster.resource(gvk).await
    }

    async fn versions(&self, group: &str, kind: &str) -> Result<Vec<Resource>> {
        self.cluster.versions(group, kind).await
    }

    async fn abilities(&self) -> Result<ApiCapabilities> {
        self.cluster.abilities().await
    }

    /// One object. Who may read objects but not LIST them asks for each.
    async fn get(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Object>> {
        let fits = |one: &&Object| one.name() == name && one.namespace() == namespace;
        if let Some(flux) = self.flux_objects(&resource.gvk) {
            let mut of_kind = flux.iter().filter(|one| one.gvk() == resource.gvk);
            return Ok(of_kind.find(fits).cloned());
        }
        match self.listed(resource, namespace).await {
            Ok(objects) => Ok(objects.iter().find(fits).cloned()),
            Err(error) if error.kind == ErrorKind::Denied => {
                self.cluster.get(resource, namespace, name).await
            }
            Err(error) => Err(error),
        }
    }

    /// The objects that fit a selector of `label` and `label=value` terms.
    async fn list(
        &self,
        resource: &Resource,
        namespace: &str,
        selector: &str,
    ) -> Result<Vec<Object>> {
        match self.listed(resource, namespace).await {
            Ok(objects) => {
                let fitting = objects.iter().filter(|one| is_selected(one, selector));
                Ok(fitting.cloned().collect())
            }
            Err(error) if error.kind == ErrorKind::Denied => {
                self.cluster.list(resource, namespace, selector).await
            }
            Err(error) => Err(error),
        }
    }

    async fn token(&self, ask: &TokenAsk, now: Duration) -> Result<Token> {
        self.cluster.token(ask, now).await
    }

    async fn apply(&self, _: &Resource, _: &Object, _: Apply<'_>) -> Result<Object> {
        only_read()
    }

    async fn create(&self, _: &Resource, _: &Object, _: &str) -> Result<Object> {
        only_read()
    }

    async fn patch(
        &self,
        _: &Resource,
        _: &str,
        _: &str,
        _: Option<&str>,
        _: &Patch,
        _: &str,
    ) -> Result<Object> {
        only_read()
    }

    async fn delete(&self, _: &Resource, _: &str, _: &str, _: &Delete) -> Result<Deleted> {
        only_read()
    }
}

fn only_read<T>() -> Result<T> {
    Err(PortError::new(
        ErrorKind::Unsupported,
        "a snapshot is only read",
    ))
}

/// What of a kind a release may ask for: values and ways to clusters stand in any ConfigMap or Secret, any ServiceAccount may
/// open one, records that are not superseded tell the state, and of other kinds it reads what a release applied.
fn selector(gvk: &Gvk) -> &'static str {
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "Secret") => "status!=superseded",
        ("", "ConfigMap" | "ServiceAccount") => "",
        _ => OWNER_NAME,
    }
}

fn is_selected(object: &Object, selector: &str) -> bool {
    let mut terms = selector.split(',').filter(|term| !term.is_empty());
    terms.all(|term| match term.split_once('=') {
        Some((label, value)) => object.label(label) == Some(value),
        None => object.label(term).is_some(),
    })
}
