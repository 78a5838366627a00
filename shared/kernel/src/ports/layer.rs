//! Clients of a cluster that change some requests, and pass the others on to another client.

use super::{
    ApiCapabilities, ApplyRequest, Changes, Cluster, Delete, Deleted, FollowRequest, Following,
    ListRequest, Page, PatchRequest, Resource, Result, Token, TokenRequest, follow,
};
use async_trait::async_trait;
use driftless_manifest::{Gvk, Object};
use std::time::Duration;

/// A client of a cluster around another one. It implements what it changes.
///
/// [`page`](Self::page), [`watch`](Self::watch) and [`follow`](Self::follow) are not passed on,
/// since a layer that changes lists must change all of them: the first lists, the others refuse.
#[async_trait]
pub trait ClusterLayer: Send + Sync {
    /// Returns the client that gets the requests.
    fn inner(&self) -> &dyn Cluster;

    /// Allows or refuses a write, including a dry run, before it is passed on.
    ///
    /// # Errors
    /// The reason why the write must not be sent.
    async fn before_write(&self) -> Result<()> {
        Ok(())
    }

    /// Serves a call of [`Cluster::resource`].
    async fn resource(&self, gvk: &Gvk) -> Result<Option<Resource>> {
        self.inner().resource(gvk).await
    }

    /// Serves a call of [`Cluster::get`].
    async fn get(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Object>> {
        self.inner().get(resource, namespace, name).await
    }

    /// Serves a call of [`Cluster::list`].
    async fn list(&self, request: &ListRequest<'_>) -> Result<Vec<Object>> {
        self.inner().list(request).await
    }

    /// Serves a call of [`Cluster::page`].
    async fn page(&self, resource: &Resource, selector: &str, _next: &str) -> Result<Page> {
        let all = ListRequest::all(resource);
        let objects = self.list(&ListRequest { selector, ..all }).await?;
        Ok(Page::whole(objects))
    }

    /// Serves a call of [`Cluster::watch`].
    async fn watch(
        &self,
        _resource: &Resource,
        _selector: &str,
        _version: &str,
        _time: Duration,
    ) -> Result<Changes> {
        Changes::unsupported()
    }

    /// Serves a call of [`Cluster::follow`].
    fn follow(&self, _request: &FollowRequest) -> Following {
        follow::unsupported()
    }

    /// Serves a call of [`Cluster::apply`].
    async fn apply(&self, request: &ApplyRequest<'_>) -> Result<Object> {
        self.inner().apply(request).await
    }

    /// Serves a call of [`Cluster::create`].
    async fn create(&self, resource: &Resource, object: &Object, manager: &str) -> Result<Object> {
        self.inner().create(resource, object, manager).await
    }

    /// Serves a call of [`Cluster::delete`].
    async fn delete(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        options: &Delete,
    ) -> Result<Deleted> {
        self.inner()
            .delete(resource, namespace, name, options)
            .await
    }
}

#[async_trait]
impl<L: ClusterLayer> Cluster for L {
    async fn resource(&self, gvk: &Gvk) -> Result<Option<Resource>> {
        ClusterLayer::resource(self, gvk).await
    }

    async fn versions(&self, group: &str, kind: &str) -> Result<Vec<Resource>> {
        self.inner().versions(group, kind).await
    }

    async fn abilities(&self) -> Result<ApiCapabilities> {
        self.inner().abilities().await
    }

    async fn get(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Object>> {
        ClusterLayer::get(self, resource, namespace, name).await
    }

    async fn list(&self, request: &ListRequest<'_>) -> Result<Vec<Object>> {
        ClusterLayer::list(self, request).await
    }

    async fn page(&self, resource: &Resource, selector: &str, next: &str) -> Result<Page> {
        ClusterLayer::page(self, resource, selector, next).await
    }

    async fn watch(
        &self,
        resource: &Resource,
        selector: &str,
        version: &str,
        time: Duration,
    ) -> Result<Changes> {
        ClusterLayer::watch(self, resource, selector, version, time).await
    }

    fn follow(&self, request: &FollowRequest) -> Following {
        ClusterLayer::follow(self, request)
    }

    async fn apply(&self, request: &ApplyRequest<'_>) -> Result<Object> {
        self.before_write().await?;
        ClusterLayer::apply(self, request).await
    }

    async fn create(&self, resource: &Resource, object: &Object, manager: &str) -> Result<Object> {
        self.before_write().await?;
        ClusterLayer::create(self, resource, object, manager).await
    }

    async fn patch(&self, request: &PatchRequest<'_>) -> Result<Object> {
        self.before_write().await?;
        self.inner().patch(request).await
    }

    async fn delete(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        options: &Delete,
    ) -> Result<Deleted> {
        self.before_write().await?;
        ClusterLayer::delete(self, resource, namespace, name, options).await
    }

    async fn token(&self, ask: &TokenRequest, now: Duration) -> Result<Token> {
        self.inner().token(ask, now).await
    }
}
