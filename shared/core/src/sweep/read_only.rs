//! Ports that only read: the first write, download of files, or read of another part of the bucket
//! than [`READ`] through them ends the rehearsal that uses them.

use super::snapshot::Snapshot;
use async_trait::async_trait;
use bytes::Bytes;
use driftless_flux::{GitReference, ObjectRef};
use driftless_kernel::ports::{
    Access, BlobEntry, Blobs, Bucket, BucketAddress, BucketEntry, BucketObject, Buckets, Charts,
    Cluster, Clusters, Commit, Connection, DownloadOutcome, FetchLimits, Gate, GatedCluster, Git,
    GitAuth, Impersonation, Layer, Manifest, Ports, Precondition, PutOutcome, Queue, Referrer,
    Request, Result, SignedObjects, Validator, Version,
};
use driftless_kernel::schedule::Records;
use driftless_manifest::FileTree;
use futures::future::{AbortHandle, pending};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The directories of the bucket that rehearsals read. The role of the drift function
/// (infra/template.yaml) may read no others: a read of an artifact would be refused.
const READ: [&str; 4] = ["index/", "notifications/", "objects/", "receivers/"];

/// The clusters that the rehearsals of a sweep read, apart from the hub as its own identity.
pub struct SnapshotsOfClusters {
    clusters: Arc<dyn Clusters>,
    snapshots: Snapshots,
    owner_label: &'static str,
}

/// A snapshot for each server and user: one user must not read what only another one may.
type Snapshots = Arc<Mutex<Vec<(Access, Option<Impersonation>, Arc<Snapshot>)>>>;

impl SnapshotsOfClusters {
    /// Returns the clusters, none of which is read yet. Applied objects are those with the owner
    /// label.
    pub fn new(clusters: Arc<dyn Clusters>, owner_label: &'static str) -> Self {
        Self {
            clusters,
            owner_label,
            snapshots: Arc::default(),
        }
    }
}

/// The parts of which the ports of one rehearsal are made.
pub struct ReadOnly<'a> {
    /// The name of the hub.
    pub hub: &'a str,
    /// The object of the rehearsal.
    pub id: &'a ObjectRef,
    /// The records that the sweep has read.
    pub records: &'a Arc<Records>,
    /// The clusters that all rehearsals share.
    pub clusters: &'a SnapshotsOfClusters,
    /// Ends the rehearsal.
    pub stop: AbortHandle,
}

impl ReadOnly<'_> {
    /// Returns ports that only read.
    pub fn ports(&self, ports: &Ports) -> Ports {
        let tenant = ports.of_tenant(self.hub, &self.id.namespace);
        let stop = &self.stop;
        Ports {
            git: Arc::new(ResolvingGit(tenant.git.clone(), stop.clone())),
            charts: Arc::new(ListingCharts(tenant.charts.clone(), stop.clone())),
            buckets: Arc::new(ListingBuckets(tenant.buckets.clone(), stop.clone())),
            blobs: Arc::new(ReadOnlyBlobs {
                blobs: ports.blobs.clone(),
                records: self.records.clone(),
                stop: stop.clone(),
            }),
            queue: Arc::new(ClosedQueue(stop.clone())),
            clusters: Arc::new(SnapshotClusters {
                clusters: self.clusters.clusters.clone(),
                snapshots: self.clusters.snapshots.clone(),
                owner_label: self.clusters.owner_label,
                stop: stop.clone(),
            }),
            ..tenant
        }
    }

    /// Returns a snapshot as a cluster for reads only.
    pub fn cluster(&self, snapshot: Arc<Snapshot>) -> Arc<dyn Cluster> {
        staged(snapshot, self.stop.clone())
    }
}

/// Aborts the rehearsal, and never returns.
async fn stop<T>(handle: &AbortHandle) -> T {
    handle.abort();
    pending().await
}

/// Git hosts whose references are resolved, and whose files are not fetched.
struct ResolvingGit(Arc<dyn Git>, AbortHandle);

#[async_trait]
impl Git for ResolvingGit {
    async fn resolve(
        &self,
        url: &str,
        reference: &GitReference,
        auth: &GitAuth,
        known: Option<&Commit>,
    ) -> Result<Commit> {
        self.0.resolve(url, reference, auth, known).await
    }
    async fn fetch(&self, _: &str, _: &Commit, _: &GitAuth, _: FetchLimits) -> Result<FileTree> {
        stop(&self.1).await
    }
    async fn signed(&self, _: &str, _: &Commit, _: &GitAuth) -> Result<Option<SignedObjects>> {
        stop(&self.1).await
    }
}

/// Hosts of charts whose listings are read, and whose layers are not fetched.
struct ListingCharts(Arc<dyn Charts>, AbortHandle);

#[async_trait]
impl Charts for ListingCharts {
    async fn get(
        &self,
        url: &str,
        connection: &Connection,
        known: &Validator,
        limit: u64,
    ) -> Result<DownloadOutcome> {
        if known.is_empty() {
            // Without a validator, the host sends the whole body.
            return stop(&self.1).await;
        }
        match self.0.get(url, connection, known, limit).await {
            Ok(DownloadOutcome::Body { .. }) => stop(&self.1).await,
            unchanged => unchanged,
        }
    }
    async fn tags(&self, repository: &str, connection: &Connection) -> Result<Vec<String>> {
        self.0.tags(repository, connection).await
    }
    async fn manifest(
        &self,
        repository: &str,
        reference: &str,
        connection: &Connection,
    ) -> Result<Manifest> {
        self.0.manifest(repository, reference, connection).await
    }
    async fn referrers(&self, _: &str, _: &str, _: &Connection) -> Result<Vec<Referrer>> {
        stop(&self.1).await
    }
    async fn layer(&self, _: &str, _: &Layer, _: &Connection, _: u64) -> Result<Bytes> {
        stop(&self.1).await
    }
}

/// Buckets that are listed, and whose objects are not read.
struct ListingBuckets(Arc<dyn Buckets>, AbortHandle);

#[async_trait]
impl Buckets for ListingBuckets {
    async fn open(&self, address: &BucketAddress) -> Result<Arc<dyn Bucket>> {
        let bucket = self.0.open(address).await?;
        Ok(Arc::new(ListingBucket(bucket, self.1.clone())))
    }
}

/// A bucket that is listed, and whose objects are not read.
struct ListingBucket(Arc<dyn Bucket>, AbortHandle);

#[async_trait]
impl Bucket for ListingBucket {
    async fn list(&self, prefix: &str, most: usize) -> Result<Vec<BucketEntry>> {
        self.0.list(prefix, most).await
    }
    async fn get(&self, _: &str, _: u64) -> Result<Option<BucketObject>> {
        stop(&self.1).await
    }
}

/// The bucket for reads only of the directories in [`READ`]. Records are those that the sweep has
/// read.
struct ReadOnlyBlobs {
    blobs: Arc<dyn Blobs>,
    records: Arc<Records>,
    stop: AbortHandle,
}

impl ReadOnlyBlobs {
    /// Ends the rehearsal if it may not read this key or directory.
    async fn check(&self, key: &str) {
        if !READ.iter().any(|directory| key.starts_with(directory)) {
            stop(&self.stop).await
        }
    }
}

#[async_trait]
impl Blobs for ReadOnlyBlobs {
    async fn get(&self, key: &str) -> Result<Option<(Bytes, Version)>> {
        match self.records.blob(key) {
            // Nothing is written with this version.
            Some(record) => Ok(Some((record.clone(), Version::default()))),
            None => {
                self.check(key).await;
                self.blobs.get(key).await
            }
        }
    }
    async fn put(&self, _: &str, _: Bytes, _: Precondition) -> Result<PutOutcome> {
        stop(&self.stop).await
    }
    async fn delete(&self, _: &str) -> Result<()> {
        stop(&self.stop).await
    }
    async fn delete_version(&self, _: &str, _: &Version) -> Result<bool> {
        stop(&self.stop).await
    }
    async fn list(&self, prefix: &str) -> Result<Vec<BlobEntry>> {
        self.check(prefix).await;
        self.blobs.list(prefix).await
    }
    async fn size(&self, key: &str) -> Result<Option<u64>> {
        self.check(key).await;
        self.blobs.size(key).await
    }
    async fn set_aside(&self, _: &str, _: &Version) -> Result<()> {
        stop(&self.stop).await
    }
    fn url(&self, key: &str) -> String {
        self.blobs.url(key)
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
    snapshots: Snapshots,
    owner_label: &'static str,
    stop: AbortHandle,
}

impl SnapshotClusters {
    fn find(&self, access: &Access, user: Option<&Impersonation>) -> Option<Arc<Snapshot>> {
        let snapshots = self
            .snapshots
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut fitting = snapshots
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
                    let new = Arc::new(Snapshot::new(cluster, None, self.owner_label));
                    let mut snapshots = self
                        .snapshots
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner);
                    snapshots.push((access.clone(), user.cloned(), new.clone()));
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
