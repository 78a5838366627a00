//! Clusters that accept an object with placeholders although the API server refuses it: the real
//! values may be valid.

use super::apiserver::{ApiServer, SCALE_TO_ZERO, off_by_default};
use async_trait::async_trait;
use driftless_kernel::ports::{
    Access, ApplyRequest, Cluster, ClusterLayer, Clusters, Delete, Deleted, ErrorKind,
    FollowRequest, Following, Impersonation, ListRequest, PortError, Resource, Result,
};
use driftless_manifest::{Gvk, Object, ObjectId};
use serde_json::json;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The placeholders, and the objects that were refused because of them.
#[derive(Clone, Default)]
pub struct LenientState(Arc<Mutex<LenientRecords>>);

#[derive(Default)]
struct LenientRecords {
    /// The objects that need a flag of an API server whose value is not known, by flag.
    unknown_flags: BTreeMap<String, BTreeSet<String>>,
    /// Objects of versions that are off by default, by cluster.
    off: BTreeMap<(String, ObjectId), Object>,
    placeholders: BTreeSet<String>,
    /// The refused objects, each as JSON.
    objects: BTreeMap<ObjectId, String>,
}

impl LenientState {
    /// Returns the refused objects, each as JSON.
    pub fn objects(&self) -> BTreeMap<ObjectId, String> {
        self.lock().objects.clone()
    }

    /// Returns the flags of API servers whose values are not known, each with the objects that need
    /// it.
    pub fn unknown_flags(&self) -> BTreeMap<String, BTreeSet<String>> {
        self.lock().unknown_flags.clone()
    }

    fn add_unknown_flag(&self, flag: String, object: &Object) {
        let mut known = self.lock();
        let objects = known.unknown_flags.entry(flag).or_default();
        objects.insert(object.id().to_string());
    }

    /// Registers placeholders that later writes may contain.
    pub fn add_placeholders(&self, placeholders: impl IntoIterator<Item = String>) {
        self.lock().placeholders.extend(placeholders);
    }

    fn lock(&self) -> MutexGuard<'_, LenientRecords> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the server's result of a write, or success if the server refused an object with
    /// placeholders.
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

/// Checks for missing rights, and for a namespace or kind that does not exist: other values would
/// not fix these.
fn is_about_something_else(error: &PortError) -> bool {
    matches!(error.kind, ErrorKind::Denied | ErrorKind::NotFound)
}

/// Clusters that accept placeholders.
pub struct LenientClusters {
    /// The clusters with their API servers.
    pub inner: Arc<dyn Clusters>,
    /// The refused objects, shared with the check.
    pub refused: LenientState,
    /// The settings of the API servers.
    pub servers: Arc<ApiServer>,
}

#[async_trait]
impl Clusters for LenientClusters {
    async fn connect(
        &self,
        access: &Access,
        user: Option<&Impersonation>,
    ) -> Result<Arc<dyn Cluster>> {
        let inner = self.inner.connect(access, user).await?;
        Ok(Arc::new(LenientCluster {
            inner,
            refused: self.refused.clone(),
            servers: self.servers.clone(),
            server: access.server.clone(),
        }))
    }
}

struct LenientCluster {
    inner: Arc<dyn Cluster>,
    refused: LenientState,
    servers: Arc<ApiServer>,
    /// The cluster's URL.
    server: String,
}

impl LenientCluster {
    /// Returns the object without the fields that need a feature gate which may be enabled.
    fn admissible<'o>(&self, object: &'o Object) -> Cow<'o, Object> {
        let is_zero = object.kind() == "HorizontalPodAutoscaler"
            && object.pointer("/spec/minReplicas") == Some(&json!(0));
        let gate = self.servers.gate(SCALE_TO_ZERO);
        if !is_zero || gate == Some(false) {
            return Cow::Borrowed(object);
        }
        if gate.is_none() {
            let flag = format!("--api-feature-gates {SCALE_TO_ZERO}=true");
            self.refused.add_unknown_flag(flag, object);
        }
        let mut object = object.clone();
        if let Some(spec) = object.as_map_mut().get_mut("spec") {
            spec["minReplicas"] = json!(1);
        }
        Cow::Owned(object)
    }

    fn key(&self, resource: &Resource, namespace: &str, name: &str) -> (String, ObjectId) {
        let id = ObjectId {
            group: resource.gvk.group.clone(),
            kind: resource.gvk.kind.clone(),
            namespace: match resource.namespaced {
                true => namespace.to_owned(),
                false => String::new(),
            },
            name: name.to_owned(),
        };
        (self.server.clone(), id)
    }

    /// Checks whether the API server serves no version of a kind, because all of them are off by
    /// default.
    async fn is_off(&self, gvk: &Gvk) -> Result<bool> {
        Ok(off_by_default(gvk).is_some() && self.inner.resource(gvk).await?.is_none())
    }

    /// Stores an object without validation.
    fn keep(&self, resource: &Resource, object: &Object, dry_run: bool) -> Object {
        if self.servers.version(&resource.gvk).is_none() {
            let flag = format!("--runtime-config {}=true", resource.gvk.api_version());
            self.refused.add_unknown_flag(flag, object);
        }
        if !dry_run {
            let key = self.key(resource, object.namespace(), object.name());
            self.refused.lock().off.insert(key, object.clone());
        }
        object.clone()
    }
}

#[async_trait]
impl ClusterLayer for LenientCluster {
    fn inner(&self) -> &dyn Cluster {
        self.inner.as_ref()
    }

    async fn resource(&self, gvk: &Gvk) -> Result<Option<Resource>> {
        let served = self.inner.resource(gvk).await?;
        let is_on = self.servers.version(gvk) != Some(false);
        Ok(served.or_else(|| {
            let namespaced = off_by_default(gvk).filter(|_| is_on)?;
            Some(Resource {
                gvk: gvk.clone(),
                plural: gvk.kind.to_lowercase() + "s",
                namespaced,
            })
        }))
    }

    async fn get(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Object>> {
        if self.is_off(&resource.gvk).await? {
            let key = self.key(resource, namespace, name);
            return Ok(self.refused.lock().off.get(&key).cloned());
        }
        self.inner.get(resource, namespace, name).await
    }

    async fn list(&self, request: &ListRequest<'_>) -> Result<Vec<Object>> {
        if self.is_off(&request.resource.gvk).await? {
            return Ok(Vec::new());
        }
        self.inner.list(request).await
    }

    fn follow(&self, request: &FollowRequest) -> Following {
        self.inner.follow(request)
    }

    async fn apply(&self, request: &ApplyRequest<'_>) -> Result<Object> {
        if self.is_off(&request.resource.gvk).await? {
            return Ok(self.keep(request.resource, request.object, request.dry_run));
        }
        let object = &*self.admissible(request.object);
        let request = ApplyRequest { object, ..*request };
        let answer = self.inner.apply(&request).await;
        self.refused.answer(object, answer)
    }

    async fn create(&self, resource: &Resource, object: &Object, manager: &str) -> Result<Object> {
        if self.is_off(&resource.gvk).await? {
            return Ok(self.keep(resource, object, false));
        }
        let object = &*self.admissible(object);
        let answer = self.inner.create(resource, object, manager).await;
        self.refused.answer(object, answer)
    }

    async fn delete(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        options: &Delete,
    ) -> Result<Deleted> {
        if self.is_off(&resource.gvk).await? {
            let key = self.key(resource, namespace, name);
            self.refused.lock().off.remove(&key);
            return Ok(Deleted::Gone);
        }
        self.inner.delete(resource, namespace, name, options).await
    }
}
