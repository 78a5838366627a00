//! Which HelmReleases need no step: their step is rehearsed.
//!
//! A rehearsal runs the very step over ports that only read, from one [`Snapshot`] for all of them. The first thing that the step
//! would write, or for which it would open a chart, ends the rehearsal: a message lets the real step read and decide anew. A
//! rehearsal that comes to its end has shown that the real step would do nothing.

use super::snapshot::Snapshot;
use crate::concurrent;
use crate::driver;
use crate::flux::ObjectRef;
use crate::helmrelease::HelmReleases;
use crate::hub::Hub;
use crate::kernel::{Context, Outcome, Recorder};
use crate::ports::{
    Abilities, Access, Apply, Blobs, Cause, Cluster, Clusters, Delete, Deleted, Impersonation,
    Patch, Ports, Precondition, Put, Queue, Request, Resource, Result, Token, TokenAsk, Version,
};
use crate::source::artifact;
use async_trait::async_trait;
use bytes::Bytes;
use driftless_manifest::{Gvk, Object};
use futures::FutureExt as _;
use futures::future::{AbortHandle, Abortable, pending};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How many steps are rehearsed at once.
const CONCURRENCY: usize = 16;

/// Those of the HelmReleases whose step would do nothing; `all` are the hub's Flux objects as they were listed.
pub async fn settled(
    ports: &Ports,
    hub: &Hub,
    due: &[ObjectRef],
    all: &[(ObjectRef, Object)],
) -> BTreeSet<ObjectRef> {
    if due.is_empty() {
        return BTreeSet::new();
    }
    let flux: Vec<Object> = all.iter().map(|(_, object)| object.clone()).collect();
    let house = House {
        hub: Arc::new(Snapshot::new(hub.cluster.clone(), Some(Arc::new(flux)))),
        ways: ports.clusters.clone(),
        others: Arc::default(),
    };
    let due: BTreeSet<&ObjectRef> = due.iter().collect();
    let candidates = all.iter().filter(|(id, _)| due.contains(id));
    let rehearsals = candidates.map(|(id, object)| {
        let house = &house;
        async move {
            let is_settled = house.rehearse(ports, hub, id, object).await;
            is_settled.then(|| id.clone())
        }
        .boxed()
    });
    let settled = concurrent::run(CONCURRENCY, rehearsals.collect()).await;
    settled.into_iter().flatten().collect()
}

/// The snapshots that all rehearsals of a sweep share.
struct House {
    hub: Arc<Snapshot>,
    ways: Arc<dyn Clusters>,
    others: Others,
}

/// A snapshot a server and user: what one may read is not another's to see.
type Others = Arc<Mutex<Vec<(Access, Option<Impersonation>, Arc<Snapshot>)>>>;

impl House {
    async fn rehearse(&self, ports: &Ports, hub: &Hub, id: &ObjectRef, object: &Object) -> bool {
        let (stop, registration) = AbortHandle::new_pair();
        let ports = Ports {
            blobs: Arc::new(Reads(ports.blobs.clone(), stop.clone())),
            queue: Arc::new(Nobody(stop.clone())),
            clusters: Arc::new(Ways {
                ways: self.ways.clone(),
                others: self.others.clone(),
                stop: stop.clone(),
            }),
            ..ports.clone()
        };
        let context = Context {
            ports: &ports,
            hub: Hub {
                cluster: Arc::new(Stage(self.hub.clone(), stop)),
                ..hub.clone()
            },
            id: id.clone(),
            cause: Cause::Timer,
            wait_budget: Duration::ZERO,
            events: Recorder::default(),
        };
        let step = driver::rehearse::<HelmReleases>(&context, object.clone());
        match Abortable::new(step, registration).await {
            Ok(Ok(Some(outcome))) => is_nothing(&outcome),
            _ => false,
        }
    }
}

fn is_nothing(outcome: &Outcome) -> bool {
    outcome.requeue_after.is_none() && outcome.enqueue.is_empty() && outcome.failure.is_none()
}

/// Ends the rehearsal.
async fn stop<T>(handle: &AbortHandle) -> T {
    handle.abort();
    pending().await
}

/// The bucket without writes, and without the content of artifacts.
struct Reads(Arc<dyn Blobs>, AbortHandle);

#[async_trait]
impl Blobs for Reads {
    async fn get(&self, key: &str) -> Result<Option<(Bytes, Version)>> {
        match artifact::is_key(key) {
            true => stop(&self.1).await,
            false => self.0.get(key).await,
        }
    }
    async fn put(&self, _: &str, _: Bytes, _: Precondition) -> Result<Put> {
        stop(&self.1).await
    }
    async fn delete(&self, _: &str) -> Result<()> {
        stop(&self.1).await
    }
    async fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        self.0.list(prefix).await
    }
    async fn size(&self, key: &str) -> Result<Option<u64>> {
        self.0.size(key).await
    }
    async fn set_aside(&self, _: &str, _: &Version) -> Result<()> {
        stop(&self.1).await
    }
    fn url(&self, key: &str) -> String {
        self.0.url(key)
    }
}

/// A queue that takes nothing.
struct Nobody(AbortHandle);

#[async_trait]
impl Queue for Nobody {
    async fn send(&self, _: Vec<(Request, Duration)>) -> Result<()> {
        stop(&self.0).await
    }
}

/// The ways to other clusters, and to the hub as other users.
struct Ways {
    ways: Arc<dyn Clusters>,
    others: Others,
    stop: AbortHandle,
}

impl Ways {
    fn known(&self, access: &Access, user: Option<&Impersonation>) -> Option<Arc<Snapshot>> {
        let others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fitting = others
            .iter()
            .filter(|(place, who, _)| place == access && who.as_ref() == user);
        fitting.next().map(|(_, _, snapshot)| snapshot.clone())
    }
}

#[async_trait]
impl Clusters for Ways {
    async fn connect(
        &self,
        access: &Access,
        user: Option<&Impersonation>,
    ) -> Result<Arc<dyn Cluster>> {
        let snapshot = match self.known(access, user) {
            Some(known) => known,
            None => {
                let cluster = self.ways.connect(access, user).await?;
                // Another rehearsal may have been faster.
                self.known(access, user).unwrap_or_else(|| {
                    let new = Arc::new(Snapshot::new(cluster, None));
                    let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
                    others.push((access.clone(), user.cloned(), new.clone()));
                    new
                })
            }
        };
        Ok(Arc::new(Stage(snapshot, self.stop.clone())))
    }
}

/// A snapshot as a cluster: whatever would change it ends the rehearsal, a dry run too.
struct Stage(Arc<Snapshot>, AbortHandle);

#[async_trait]
impl Cluster for Stage {
    async fn resource(&self, gvk: &Gvk) -> Result<Option<Resource>> {
        self.0.resource(gvk).await
    }
    async fn versions(&self, group: &str, kind: &str) -> Result<Vec<Resource>> {
        self.0.versions(group, kind).await
    }
    async fn abilities(&self) -> Result<Abilities> {
        self.0.abilities().await
    }
    async fn get(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Object>> {
        self.0.get(resource, namespace, name).await
    }
    async fn list(
        &self,
        resource: &Resource,
        namespace: &str,
        selector: &str,
    ) -> Result<Vec<Object>> {
        self.0.list(resource, namespace, selector).await
    }
    async fn apply(&self, _: &Resource, _: &Object, _: Apply<'_>) -> Result<Object> {
        stop(&self.1).await
    }
    async fn create(&self, _: &Resource, _: &Object, _: &str) -> Result<Object> {
        stop(&self.1).await
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
        stop(&self.1).await
    }
    async fn delete(&self, _: &Resource, _: &str, _: &str, _: &Delete) -> Result<Deleted> {
        stop(&self.1).await
    }
    /// Changes nothing: a token is stored nowhere.
    async fn token(&self, ask: &TokenAsk, now: Duration) -> Result<Token> {
        self.0.token(ask, now).await
    }
}
