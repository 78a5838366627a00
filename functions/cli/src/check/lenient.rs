//! Clusters that take an object with placeholders although they refuse it: whether the values that are not known fit is not
//! known either.

use async_trait::async_trait;
use driftless_core::ports::{
    Access, ApiCapabilities, Apply, Cluster, Clusters, Delete, Deleted, ErrorKind, Impersonation,
    Patch, PortError, Resource, Result, Token, TokenAsk,
};
use driftless_manifest::{Gvk, Object, ObjectId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Placeholders, and objects that were refused for them.
#[derive(Clone, Default)]
pub struct Refused(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    placeholders: BTreeSet<String>,
    /// Each with its text.
    objects: BTreeMap<ObjectId, String>,
}

impl Refused {
    /// The objects, each with its text.
    pub fn objects(&self) -> BTreeMap<ObjectId, String> {
        self.lock().objects.clone()
    }

    /// From now on these are placeholders.
    pub fn expect(&self, placeholders: impl IntoIterator<Item = String>) {
        self.lock().placeholders.extend(placeholders);
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to a write of an object: that of the server, unless it refused placeholders.
    fn answer(&self, object: &Object, answer: Result<Object>) -> Result<Object> {
        let Err(error) = answer else {
            return answer;
        };
        let text = object.to_value().to_string();
        let mut known = self.lock();
        let mut placeholders = known.placeholders.iter();
        let is_known = !placeholders.any(|placeholder| text.contains(placeholder.as_str()));
        if is_known || is_about_something_else(&error) {
            return Err(error);
        }
        known.objects.insert(object.id(), text);
        Ok(object.clone())
    }
}

/// Missing rights, a namespace or a kind that is not there: nothing that another value would mend.
fn is_about_something_else(error: &PortError) -> bool {
    matches!(error.kind, ErrorKind::Denied | ErrorKind::NotFound)
}

/// Clusters, and what they refused.
pub struct Lenient {
    /// The clusters themselves.
    pub inner: Arc<dyn Clusters>,
    /// What they refused and was taken.
    pub refused: Refused,
}

#[async_trait]
impl Clusters for Lenient {
    async fn connect(
        &self,
        access: &Access,
        user: Option<&Impersonation>,
    ) -> Result<Arc<dyn Cluster>> {
        let inner = self.inner.connect(access, user).await?;
        let refused = self.refused.clone();
        Ok(Arc::new(LenientCluster { inner, refused }))
    }
}

struct LenientCluster {
    inner: Arc<dyn Cluster>,
    refused: Refused,
}

#[async_trait]
impl Cluster for LenientCluster {
    async fn resource(&self, gvk: &Gvk) -> Result<Option<Resource>> {
        self.inner.resource(gvk).await
    }

    async fn versions(&self, group: &str, kind: &str) -> Result<Vec<Resource>> {
        self.inner.versions(group, kind).await
    }

    async fn abilities(&self) -> Result<ApiCapabilities> {
        self.inner.abilities().await
    }

    async fn get(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Object>> {
        self.inner.get(resource, namespace, name).await
    }

    async fn list(
        &self,
        resource: &Resource,
        namespace: &str,
        selector: &str,
    ) -> Result<Vec<Object>> {
        self.inner.list(resource, namespace, selector).await
    }

    async fn apply(&self, resource: &Resource, object: &Object, how: Apply<'_>) -> Result<Object> {
        let answer = self.inner.apply(resource, object, how).await;
        self.refused.answer(object, answer)
    }

    async fn create(&self, resource: &Resource, object: &Object, manager: &str) -> Result<Object> {
        let answer = self.inner.create(resource, object, manager).await;
        self.refused.answer(object, answer)
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
        let patched = self
            .inner
            .patch(resource, namespace, name, subresource, patch, manager);
        patched.await
    }

    async fn delete(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        how: &Delete,
    ) -> Result<Deleted> {
        self.inner.delete(resource, namespace, name, how).await
    }

    async fn token(&self, ask: &TokenAsk, now: Duration) -> Result<Token> {
        self.inner.token(ask, now).await
    }
}
