//! The ports in memory: for a demo or a check, which keep nothing, and for tests, which make them
//! fail by [`faults`]. One test suite covers the in-memory store, the directory and the bucket.

mod buckets;
mod cluster;
pub mod faults;
mod pull_requests;
mod queue;

pub use buckets::MemoryBuckets;
pub use cluster::MemoryCluster;
pub use pull_requests::MemoryPullRequests;
pub use queue::{MemoryQueue, SqsModel, Taken};

use async_trait::async_trait;
use bytes::Bytes;
use driftless_flux::GitReference;
use driftless_kernel::ports::{
    Access, AcrRegistry, AksCluster, Aws, AwsIdentity, Azure, BlobEntry, Blobs, Bucket,
    BucketAddress, Buckets, Charts, Clock, Clouds, Cluster, ClusterEndpoint, Clusters, Commit,
    Connection, DownloadOutcome, EcrRegistry, EksCluster, EntraIdentity, ErrorKind, FetchLimits,
    Git, GitAuth, GkeCluster, Google, GoogleIdentity, Impersonation, Inline, KeyRequest,
    KeyServices, Layer, Manifest, Notifiers, PortError, Ports, Precondition, PutOutcome, Referrer,
    RegistryLogin, Result, Secret, SecretStore, Token, Validator, Version, part,
};
use driftless_manifest::FileTree;
use driftless_notify::{Transport, TransportError};
use faults::Fault;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An in-memory bucket.
#[derive(Default)]
pub struct MemoryBlobs {
    blobs: Mutex<BTreeMap<String, (Bytes, Version)>>,
    writes: AtomicU64,
    fault: Mutex<Option<Fault>>,
}

impl MemoryBlobs {
    /// Makes the next write fail in this way.
    pub fn fail_next(&self, fault: Fault) {
        *lock(&self.fault) = Some(fault);
    }

    /// Returns the number of writes until now.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Blobs for MemoryBlobs {
    async fn get(&self, key: &str) -> Result<Option<(Bytes, Version)>> {
        Ok(lock(&self.blobs).get(key).cloned())
    }

    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Option<Bytes>> {
        let found = lock(&self.blobs).get(key).cloned();
        found
            .map(|(content, _)| part(key, &content, range))
            .transpose()
    }

    async fn put(&self, key: &str, content: Bytes, when: Precondition) -> Result<PutOutcome> {
        let fault = lock(&self.fault).take();
        let lost = || PortError::new(ErrorKind::Unavailable, format!("{key}: no answer"));
        if fault == Some(Fault::Before) {
            return Err(lost());
        }
        if fault == Some(Fault::Conflict) {
            let message = format!("{key}: another write is in progress");
            return Err(PortError::new(ErrorKind::Conflict, message));
        }
        let mut blobs = lock(&self.blobs);
        let known = blobs.get(key).map(|(_, version)| version);
        let holds = match &when {
            Precondition::None => true,
            Precondition::Absent => known.is_none(),
            Precondition::Is(version) => known == Some(version),
        };
        if !holds {
            return Ok(PutOutcome::PreconditionFailed);
        }
        let version = Version(self.writes.fetch_add(1, Ordering::Relaxed).to_string());
        blobs.insert(key.to_owned(), (content, version.clone()));
        match fault {
            Some(Fault::After) => Err(lost()),
            Some(Fault::Echo) => Ok(PutOutcome::PreconditionFailed),
            _ => Ok(PutOutcome::Done(version)),
        }
    }

    async fn delete(&self, key: &str) -> Result<()> {
        lock(&self.blobs).remove(key);
        Ok(())
    }

    async fn delete_version(&self, key: &str, version: &Version) -> Result<bool> {
        let mut blobs = lock(&self.blobs);
        let is_replaced = blobs.get(key).is_some_and(|(_, now)| now != version);
        if !is_replaced {
            blobs.remove(key);
        }
        Ok(!is_replaced)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<BlobEntry>> {
        let blobs = lock(&self.blobs);
        let found = blobs
            .range(prefix.to_owned()..)
            .take_while(|(key, _)| key.starts_with(prefix));
        Ok(found
            .map(|(key, (content, version))| BlobEntry {
                key: key.clone(),
                size: content.len() as u64,
                version: Some(version.clone()),
            })
            .collect())
    }

    async fn size(&self, key: &str) -> Result<Option<u64>> {
        let blobs = lock(&self.blobs);
        Ok(blobs.get(key).map(|(content, _)| content.len() as u64))
    }

    async fn set_aside(&self, key: &str, version: &Version) -> Result<()> {
        let mut blobs = lock(&self.blobs);
        if blobs.get(key).is_some_and(|(_, now)| now == version)
            && let Some(damaged) = blobs.remove(key)
        {
            blobs.insert(format!("damaged/{key}"), damaged);
        }
        Ok(())
    }

    fn url(&self, key: &str) -> String {
        format!("memory:///{key}")
    }
}

/// An in-memory secret manager.
#[derive(Default)]
pub struct MemorySecrets(pub BTreeMap<String, Secret>);

#[async_trait]
impl SecretStore for MemorySecrets {
    async fn secret(&self, name: &str) -> Result<Option<Secret>> {
        Ok(self.0.get(name).cloned())
    }
}

/// A clock that advances during each sleep, and whose nonces count up.
#[derive(Default)]
pub struct TestClock {
    millis: AtomicU64,
    nonces: AtomicU64,
    timeouts: Mutex<Vec<Waker>>,
}

impl TestClock {
    /// Advances the time.
    pub fn advance(&self, time: Duration) {
        self.millis.fetch_add(
            u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
            Ordering::Relaxed,
        );
        lock(&self.timeouts).drain(..).for_each(Waker::wake);
    }
}

#[async_trait]
impl Clock for TestClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.millis.load(Ordering::Relaxed))
    }

    async fn sleep(&self, time: Duration) {
        self.advance(time);
    }

    async fn timeout(&self, time: Duration) {
        let end = self.now() + time;
        poll_fn(|context| {
            lock(&self.timeouts).push(context.waker().clone());
            match self.now() >= end {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }

    fn nonce(&self) -> [u8; 16] {
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&self.nonces.fetch_add(1, Ordering::Relaxed).to_be_bytes());
        nonce
    }
}

/// Returns ports over these parts; the ports to Git, charts, buckets, clusters and clouds fail.
pub fn ports(blobs: Arc<MemoryBlobs>, queue: Arc<MemoryQueue>, clock: Arc<TestClock>) -> Ports {
    Ports {
        git: Arc::new(Absent),
        charts: Arc::new(Absent),
        buckets: Arc::new(Absent),
        blobs,
        queue,
        secrets: Arc::new(MemorySecrets::default()),
        clusters: Arc::new(Absent),
        clouds: Clouds {
            aws: Arc::new(Absent),
            azure: Arc::new(Absent),
            google: Arc::new(Absent),
            key_services: Arc::new(Absent),
        },
        notifiers: Arc::new(Absent),
        clock,
        compute: Arc::new(Inline),
        files: Arc::default(),
        read: Arc::default(),
        watches: Arc::default(),
        throttle: Arc::default(),
    }
}

/// A port that fails each request.
struct Absent;

impl Notifiers for Absent {
    fn transport(&self, _: Connection) -> Arc<dyn Transport> {
        Arc::new(Absent)
    }
}

#[async_trait]
impl Transport for Absent {
    async fn http(
        &self,
        _: http::Request<Vec<u8>>,
    ) -> Result<http::Response<Vec<u8>>, TransportError> {
        Err(TransportError {
            message: "this port is absent in the test".to_owned(),
            is_retryable: true,
        })
    }
}

fn absent<T>() -> Result<T> {
    Err(PortError::new(
        ErrorKind::Unavailable,
        "this port is absent in the test",
    ))
}

#[async_trait]
impl Git for Absent {
    async fn resolve(
        &self,
        _: &str,
        _: &GitReference,
        _: &GitAuth,
        _: Option<&Commit>,
    ) -> Result<Commit> {
        absent()
    }

    async fn fetch(&self, _: &str, _: &Commit, _: &GitAuth, _: FetchLimits) -> Result<FileTree> {
        absent()
    }
}

#[async_trait]
impl Charts for Absent {
    async fn get(&self, _: &str, _: &Connection, _: &Validator, _: u64) -> Result<DownloadOutcome> {
        absent()
    }

    async fn tags(&self, _: &str, _: &Connection) -> Result<Vec<String>> {
        absent()
    }

    async fn manifest(&self, _: &str, _: &str, _: &Connection) -> Result<Manifest> {
        absent()
    }

    async fn referrers(&self, _: &str, _: &str, _: &Connection) -> Result<Vec<Referrer>> {
        absent()
    }

    async fn layer(&self, _: &str, _: &Layer, _: &Connection, _: u64) -> Result<Bytes> {
        absent()
    }
}

#[async_trait]
impl Buckets for Absent {
    async fn open(&self, _: &BucketAddress) -> Result<Arc<dyn Bucket>> {
        absent()
    }
}

#[async_trait]
impl Clusters for Absent {
    async fn connect(&self, _: &Access, _: Option<&Impersonation>) -> Result<Arc<dyn Cluster>> {
        absent()
    }
}

#[async_trait]
impl Aws for Absent {
    async fn describe(
        &self,
        _: &EksCluster,
        _: &AwsIdentity,
        _: Duration,
    ) -> Result<ClusterEndpoint> {
        absent()
    }

    async fn token(&self, _: &EksCluster, _: &AwsIdentity, _: Duration) -> Result<Token> {
        absent()
    }

    async fn registry(
        &self,
        _: &EcrRegistry,
        _: &AwsIdentity,
        _: Duration,
    ) -> Result<RegistryLogin> {
        absent()
    }
}

#[async_trait]
impl Azure for Absent {
    async fn describe(
        &self,
        _: &AksCluster,
        _: &EntraIdentity,
        _: Duration,
    ) -> Result<Vec<ClusterEndpoint>> {
        absent()
    }

    async fn token(&self, _: &EntraIdentity, _: Duration) -> Result<Token> {
        absent()
    }

    async fn registry(
        &self,
        _: &AcrRegistry,
        _: &EntraIdentity,
        _: Duration,
    ) -> Result<RegistryLogin> {
        absent()
    }
}

#[async_trait]
impl KeyServices for Absent {
    async fn decrypt(&self, _: &KeyRequest, _: &str, _: Duration) -> Result<Secret> {
        absent()
    }
}

#[async_trait]
impl Google for Absent {
    async fn describe(
        &self,
        _: &GkeCluster,
        _: &GoogleIdentity,
        _: Duration,
    ) -> Result<ClusterEndpoint> {
        absent()
    }

    async fn token(&self, _: &GoogleIdentity, _: Duration) -> Result<Token> {
        absent()
    }
}
