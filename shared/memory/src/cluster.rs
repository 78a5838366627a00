//! An in-memory cluster.

use super::faults::Switches;
use super::lock;
use async_trait::async_trait;
use driftless_kernel::ports::{
    ApiCapabilities, ApplyRequest, Change, Changes, Cluster, Delete, Deleted, ErrorKind,
    ListRequest, Page, PatchRequest, PortError, Resource, Result, Token, TokenRequest,
};
use driftless_manifest::{Gvk, Object, ObjectId};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// An in-memory API server that serves every kind, without admission and without merging: an apply
/// replaces the object. It keeps the history of all changes until [`MemoryCluster::compact`].
#[derive(Default)]
pub struct MemoryCluster {
    store: Mutex<Store>,
    switches: Mutex<Switches>,
    requests: Mutex<Vec<String>>,
}

#[derive(Default)]
struct Store {
    objects: BTreeMap<ObjectId, Object>,
    version: u64,
    /// The changes, oldest first: the state of an object before and after each.
    history: Vec<(u64, Option<Object>, Option<Object>)>,
    /// The newest version whose changes are forgotten.
    compacted: u64,
}

impl MemoryCluster {
    /// Changes the faults.
    pub fn switch(&self, change: impl FnOnce(&mut Switches)) {
        change(&mut lock(&self.switches));
    }

    /// Creates an object, or replaces it.
    pub fn put(&self, mut object: Object) -> Object {
        let mut store = lock(&self.store);
        store.version += 1;
        let version = store.version;
        let metadata = object.as_map_mut().entry("metadata");
        let metadata = metadata.or_insert_with(|| serde_json::json!({}));
        metadata["resourceVersion"] = version.to_string().into();
        let before = store.objects.insert(object.id(), object.clone());
        store.history.push((version, before, Some(object.clone())));
        object
    }

    /// Deletes an object, if it exists.
    pub fn remove(&self, id: &ObjectId) {
        let mut store = lock(&self.store);
        if let Some(before) = store.objects.remove(id) {
            store.version += 1;
            let version = store.version;
            store.history.push((version, Some(before), None));
        }
    }

    /// Forgets the history: no watch can continue from an older version than the current one.
    pub fn compact(&self) {
        let mut store = lock(&self.store);
        store.compacted = store.version;
        store.history.clear();
    }

    /// Returns the reads since the last call, as `LIST KIND` and `WATCH KIND SECONDS`.
    pub fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.requests))
    }

    fn note(&self, request: String) {
        lock(&self.requests).push(request);
    }
}

fn is_of(object: &Object, resource: &Resource, selector: &str) -> bool {
    let mut terms = selector.split(',').filter(|term| !term.is_empty());
    object.gvk() == resource.gvk && terms.all(|term| object.label(term).is_some())
}

fn expired() -> PortError {
    PortError {
        reason: "Expired".to_owned(),
        ..PortError::new(ErrorKind::Invalid, "too old resource version")
    }
}

fn unsupported<T>() -> Result<T> {
    let message = "an in-memory cluster does not support this request";
    Err(PortError::new(ErrorKind::Unsupported, message))
}

#[async_trait]
impl Cluster for MemoryCluster {
    async fn resource(&self, gvk: &Gvk) -> Result<Option<Resource>> {
        Ok(Some(Resource {
            gvk: gvk.clone(),
            plural: format!("{}s", gvk.kind.to_lowercase()),
            namespaced: true,
        }))
    }

    async fn versions(&self, group: &str, kind: &str) -> Result<Vec<Resource>> {
        let gvk = Gvk::new(&format!("{group}/v1"), kind);
        Ok(self.resource(&gvk).await?.into_iter().collect())
    }

    async fn abilities(&self) -> Result<ApiCapabilities> {
        unsupported()
    }

    async fn get(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Object>> {
        let store = lock(&self.store);
        let mut of_kind = store
            .objects
            .values()
            .filter(|one| is_of(one, resource, ""));
        let found = of_kind.find(|one| one.namespace() == namespace && one.name() == name);
        Ok(found.cloned())
    }

    async fn list(&self, request: &ListRequest<'_>) -> Result<Vec<Object>> {
        let ListRequest {
            resource,
            namespace,
            selector,
        } = *request;
        self.note(format!("LIST {}", resource.gvk.kind));
        let store = lock(&self.store);
        let all = store.objects.values();
        let fitting = all.filter(|one| {
            is_of(one, resource, selector) && (namespace.is_empty() || one.namespace() == namespace)
        });
        Ok(fitting.cloned().collect())
    }

    /// Returns a page; the token is the number of the objects before it.
    async fn page(&self, resource: &Resource, selector: &str, next: &str) -> Result<Page> {
        let all = ListRequest::all(resource);
        let mut objects = self.list(&ListRequest { selector, ..all }).await?;
        let switches = *lock(&self.switches);
        if !next.is_empty() && switches.expires_token {
            self.switch(|switches| switches.expires_token = false);
            return Err(expired());
        }
        let start = next.parse().unwrap_or(0).min(objects.len());
        objects.drain(..start);
        let size = match switches.page_size {
            0 => objects.len(),
            size => size.min(objects.len()),
        };
        let is_last = size == objects.len();
        objects.truncate(size);
        Ok(Page {
            objects,
            next: if is_last {
                String::new()
            } else {
                (start + size).to_string()
            },
            version: lock(&self.store).version.to_string(),
        })
    }

    async fn watch(
        &self,
        resource: &Resource,
        selector: &str,
        version: &str,
        time: Duration,
    ) -> Result<Changes> {
        self.note(format!("WATCH {} {}", resource.gvk.kind, time.as_secs()));
        let switches = *lock(&self.switches);
        if switches.refuses_watch {
            return Err(PortError::new(ErrorKind::Denied, "the user cannot watch"));
        }
        if switches.breaks_watch {
            return Err(PortError::new(ErrorKind::Unavailable, "connection reset"));
        }
        let store = lock(&self.store);
        let since: u64 = version.parse().unwrap_or(0);
        if since < store.compacted {
            return Err(expired());
        }
        if switches.is_late {
            let version = version.to_owned();
            return Ok(Changes {
                changes: Vec::new(),
                version,
            });
        }
        let later = store
            .history
            .iter()
            .filter(|(version, ..)| *version > since);
        let changes = later.filter_map(|(_, before, after)| {
            let fits = |one: &&Object| is_of(one, resource, selector);
            let (before, after) = (before.as_ref().filter(fits), after.as_ref().filter(fits));
            let written = after.cloned().map(Change::Written);
            written.or_else(|| before.cloned().map(Change::Deleted))
        });
        Ok(Changes {
            changes: changes.collect(),
            version: store.version.to_string(),
        })
    }

    async fn apply(&self, request: &ApplyRequest<'_>) -> Result<Object> {
        let object = request.object.clone();
        match request.dry_run {
            true => Ok(object),
            false => Ok(self.put(object)),
        }
    }

    async fn create(&self, _: &Resource, object: &Object, _: &str) -> Result<Object> {
        Ok(self.put(object.clone()))
    }

    async fn patch(&self, _: &PatchRequest<'_>) -> Result<Object> {
        unsupported()
    }

    async fn delete(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        _: &Delete,
    ) -> Result<Deleted> {
        if let Some(object) = self.get(resource, namespace, name).await? {
            self.remove(&object.id());
        }
        Ok(Deleted::Gone)
    }

    async fn token(&self, _: &TokenRequest, _: Duration) -> Result<Token> {
        unsupported()
    }
}
