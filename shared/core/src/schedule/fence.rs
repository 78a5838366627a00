//! A worker whose lease is over changes nothing on a cluster any more.
//!
//! A function may stand still and go on when another worker has long had its object. What it would write then is older than
//! what stands there, and an API server takes an apply from whoever sends it last. So a worker looks at its own clock before
//! each write. What is left is a request that was on its way already: that only the API server could refuse.

use crate::ports::{
    Abilities, Access, Apply, Clock, Cluster, Clusters, Delete, Deleted, ErrorKind, Impersonation,
    Patch, PortError, Ports, Resource, Result, Token, TokenAsk,
};
use async_trait::async_trait;
use driftless_manifest::{Gvk, Object};
use std::sync::Arc;
use std::time::Duration;

/// The ports of a worker that may write until `end`, by its own clock.
pub fn fenced(ports: &Ports, end: Duration) -> Ports {
    let fence = Fence {
        clock: ports.clock.clone(),
        end,
    };
    let ways = ports.clusters.clone();
    Ports {
        clusters: Arc::new(Ways { ways, fence }),
        ..ports.clone()
    }
}

#[derive(Clone)]
struct Fence {
    clock: Arc<dyn Clock>,
    end: Duration,
}

impl Fence {
    fn check(&self) -> Result<()> {
        if self.clock.now() < self.end {
            return Ok(());
        }
        let what = "not written: the lease of this worker is over, another one may have the object";
        Err(PortError::new(ErrorKind::Unavailable, what))
    }
}

struct Ways {
    ways: Arc<dyn Clusters>,
    fence: Fence,
}

#[async_trait]
impl Clusters for Ways {
    async fn connect(
        &self,
        access: &Access,
        user: Option<&Impersonation>,
    ) -> Result<Arc<dyn Cluster>> {
        let cluster = self.ways.connect(access, user).await?;
        let fence = self.fence.clone();
        Ok(Arc::new(Fenced { cluster, fence }))
    }
}

/// A cluster that is only read once the time is over.
struct Fenced {
    cluster: Arc<dyn Cluster>,
    fence: Fence,
}

#[async_trait]
impl Cluster for Fenced {
    async fn resource(&self, gvk: &Gvk) -> Result<Option<Resource>> {
        self.cluster.resource(gvk).await
    }
    async fn versions(&self, group: &str, kind: &str) -> Result<Vec<Resource>> {
        self.cluster.versions(group, kind).await
    }
    async fn abilities(&self) -> Result<Abilities> {
        self.cluster.abilities().await
    }
    async fn get(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Object>> {
        self.cluster.get(resource, namespace, name).await
    }
    async fn list(
        &self,
        resource: &Resource,
        namespace: &str,
        selector: &str,
    ) -> Result<Vec<Object>> {
        self.cluster.list(resource, namespace, selector).await
    }
    async fn apply(&self, resource: &Resource, object: &Object, how: Apply<'_>) -> Result<Object> {
        self.fence.check()?;
        self.cluster.apply(resource, object, how).await
    }
    async fn create(&self, resource: &Resource, object: &Object, manager: &str) -> Result<Object> {
        self.fence.check()?;
        self.cluster.create(resource, object, manager).await
    }
    async fn patch(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        subresource: Option<&str>,
        patch: &Patch,
        manager: &str,
    ) -> Result<Object> {
        self.fence.check()?;
        self.cluster
            .patch(resource, namespace, name, subresource, patch, manager)
            .await
    }
    async fn delete(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        how: &Delete,
    ) -> Result<Deleted> {
        self.fence.check()?;
        self.cluster.delete(resource, namespace, name, how).await
    }
    async fn token(&self, ask: &TokenAsk, now: Duration) -> Result<Token> {
        self.cluster.token(ask, now).await
    }
}
