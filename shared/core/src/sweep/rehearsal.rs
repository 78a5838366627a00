//! Finds HelmReleases that need no step, by a rehearsal of their step.
//!
//! A rehearsal runs the same step over ports that only read, from one [`Snapshot`] for all
//! rehearsals. It ends as soon as the step would write something or read a chart: then a message is
//! queued, and the real step reads and decides again. A rehearsal that runs to its end has shown
//! that the real step would do nothing.

use super::snapshot::Snapshot;
use crate::concurrent;
use crate::driver;
use crate::flux::ObjectRef;
use crate::helmrelease::HelmReleases;
use crate::hub::Hub;
use crate::kernel::{Context, Outcome, Recorder};
use crate::ports::{
    Access, BlobEntry, Blobs, Cause, Cluster, Clusters, Gate, GatedCluster, Impersonation, Ports,
    Precondition, Put, Queue, Request, Result, Version,
};
use crate::source::artifact;
use async_trait::async_trait;
use bytes::Bytes;
use driftless_manifest::Object;
use futures::FutureExt as _;
use futures::future::{AbortHandle, Abortable, pending};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Steps that are rehearsed concurrently.
const CONCURRENCY: usize = 16;

/// Returns those of the `due` HelmReleases whose step would do nothing; `all` are the hub's Flux
/// objects that were listed.
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
    let session = Session {
        hub: Arc::new(Snapshot::new(hub.cluster.clone(), Some(Arc::new(flux)))),
        clusters: ports.clusters.clone(),
        others: Arc::default(),
    };
    let due: BTreeSet<&ObjectRef> = due.iter().collect();
    let candidates = all.iter().filter(|(id, _)| due.contains(id));
    let rehearsals = candidates.map(|(id, object)| {
        let session = &session;
        async move {
            let is_settled = session.rehearse(ports, hub, id, object).await;
            is_settled.then(|| id.clone())
        }
        .boxed()
    });
    let settled = concurrent::run(CONCURRENCY, rehearsals.collect()).await;
    settled.into_iter().flatten().collect()
}

/// The snapshots that all rehearsals of a sweep share.
struct Session {
    hub: Arc<Snapshot>,
    clusters: Arc<dyn Clusters>,
    others: Others,
}

/// A snapshot for each server and user: one user must not read what only another one may.
type Others = Arc<Mutex<Vec<(Access, Option<Impersonation>, Arc<Snapshot>)>>>;

impl Session {
    async fn rehearse(&self, ports: &Ports, hub: &Hub, id: &ObjectRef, object: &Object) -> bool {
        let (stop, registration) = AbortHandle::new_pair();
        let ports = Ports {
            blobs: Arc::new(ReadOnlyBlobs(ports.blobs.clone(), stop.clone())),
            queue: Arc::new(ClosedQueue(stop.clone())),
            clusters: Arc::new(SnapshotClusters {
                clusters: self.clusters.clone(),
                others: self.others.clone(),
                stop: stop.clone(),
            }),
            ..ports.clone()
        };
        let context = Context {
            ports: &ports,
            hub: Hub {
                cluster: staged(self.hub.clone(), stop),
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

/// Aborts the rehearsal, and never returns.
async fn stop<T>(handle: &AbortHandle) -> T {
    handle.abort();
    pending().await
}

/// The bucket for reads only, without the content of artifacts.
struct ReadOnlyBlobs(Arc<dyn Blobs>, AbortHandle);

#[async_trait]
impl Blobs for ReadOnlyBlobs {
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
    async fn list(&self, prefix: &str) -> Result<Vec<BlobEntry>> {
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

/// A queue whose use ends the rehearsal.
struct ClosedQueue(AbortHandle);

#[async_trait]
impl Queue for ClosedQueue {
    async fn send(&self, _: Vec<(Request, Duration)>) -> Result<()> {
        stop(&self.0).await
    }
}

/// The port to other clusters, and to the hub as other users.
struct SnapshotClusters {
    clusters: Arc<dyn Clusters>,
    others: Others,
    stop: AbortHandle,
}

impl SnapshotClusters {
    fn find(&self, access: &Access, user: Option<&Impersonation>) -> Option<Arc<Snapshot>> {
        let others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fitting = others
            .iter()
            .filter(|(other, other_user, _)| other == access && other_user.as_ref() == user);
        fitting.next().map(|(_, _, snapshot)| snapshot.clone())
    }
}

#[async_trait]
impl Clusters for SnapshotClusters {
    async fn connect(
        &self,
        access: &Access,
        user: Option<&Impersonation>,
    ) -> Result<Arc<dyn Cluster>> {
        let snapshot = match self.find(access, user) {
            Some(known) => known,
            None => {
                let cluster = self.clusters.connect(access, user).await?;
                // Another rehearsal may have been faster.
                self.find(access, user).unwrap_or_else(|| {
                    let new = Arc::new(Snapshot::new(cluster, None));
                    let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
                    others.push((access.clone(), user.cloned(), new.clone()));
                    new
                })
            }
        };
        Ok(staged(snapshot, self.stop.clone()))
    }
}

/// A gate that ends the rehearsal at any write to a cluster, including dry runs.
struct Stop(AbortHandle);

#[async_trait]
impl Gate for Stop {
    async fn pass(&self) -> Result<()> {
        stop(&self.0).await
    }
}

fn staged(snapshot: Arc<Snapshot>, handle: AbortHandle) -> Arc<dyn Cluster> {
    Arc::new(GatedCluster {
        cluster: snapshot,
        gate: Arc::new(Stop(handle)),
    })
}
