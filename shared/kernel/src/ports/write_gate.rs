//! Clusters whose writes pass a gate, which may refuse them.

use super::{
    Access, Changes, Cluster, ClusterLayer, Clusters, FollowRequest, Following, Impersonation,
    Page, Resource, Result,
};
use async_trait::async_trait;
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
impl ClusterLayer for GatedCluster {
    fn inner(&self) -> &dyn Cluster {
        self.cluster.as_ref()
    }

    async fn before_write(&self) -> Result<()> {
        self.gate.pass().await
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

    fn follow(&self, request: &FollowRequest) -> Following {
        self.cluster.follow(request)
    }
}
