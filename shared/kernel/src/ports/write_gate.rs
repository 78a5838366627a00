//! Clusters whose writes pass a gate, which may refuse them.

use super::{
    Access, ApiCapabilities, Apply, Changes, Cluster, Clusters, Delete, Deleted, Impersonation,
    Page, Patch, Resource, Result, Token, TokenRequest,
};
use async_trait::async_trait;
use driftless_manifest::{Gvk, Object};
use std::sync::Arc;
use std::time::Duration;

/// A check before each write to a cluster, including dry runs. Reads are not checked, and requests
/// for tokens are not: the server stores nothing for them.
#[async_trait]
pub trait Gate: Send + Sync {
    /// Allows or refuses a write.
    ///
    /// # Errors
    /// The reason why the write must not be sent.
    async fn pass(&self) -> Result<()>;
}

/// The port to clusters, with a gate before their writes.
pub struct GatedClusters {
    /// The port without the gate.
    pub clusters: Arc<dyn Clusters>,
    /// The gate before every write.
    pub gate: Arc<dyn Gate>,
}

#[async_trait]
impl Clusters for GatedClusters {
    async fn connect(
        &self,
        access: &Access,
        user: Option<&Impersonation>,
    ) -> Result<Arc<dyn Cluster>> {
        let cluster = self.clusters.connect(access, user).await?;
        let gate = self.gate.clone();
        Ok(Arc::new(GatedCluster { cluster, gate }))
    }
}

/// A cluster with a gate before its writes.
pub struct GatedCluster {
    /// The cluster without the gate.
    pub cluster: Arc<dyn Cluster>,
    /// The gate before every write.
    pub gate: Arc<dyn Gate>,
}

#[async_trait]
impl Cluster for GatedCluster {
    async fn resource(&self, gvk: &Gvk) -> Result<Option<Resource>> {
        self.cluster.resource(gvk).await
    }

    async fn versions(&self, group: &str, kind: &str) -> Result<Vec<Resource>> {
        self.cluster.versions(group, kind).await
    }

    async fn abilities(&self) -> Result<ApiCapabilities> {
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

    async fn page(&self, resource: &Resource, selector: &str, next: &str) -> Result<Page> {
        self.cluster.page(resource, selector, next).await
    }

    async fn watch(
        &self,
        resource: &Resource,
        selector: &str,
        version: &str,
        time: Duration,
    ) -> Result<Changes> {
        self.cluster.watch(resource, selector, version, time).await
    }

    async fn apply(&self, resource: &Resource, object: &Object, how: Apply<'_>) -> Result<Object> {
        self.gate.pass().await?;
        self.cluster.apply(resource, object, how).await
    }

    async fn create(&self, resource: &Resource, object: &Object, manager: &str) -> Result<Object> {
        self.gate.pass().await?;
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
        self.gate.pass().await?;
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
        self.gate.pass().await?;
        self.cluster.delete(resource, namespace, name, how).await
    }

    async fn token(&self, ask: &TokenRequest, now: Duration) -> Result<Token> {
        self.cluster.token(ask, now).await
    }
}
