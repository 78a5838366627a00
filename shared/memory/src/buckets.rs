//! In-memory buckets.

use super::lock;
use async_trait::async_trait;
use bytes::Bytes;
use driftless_kernel::ports::{
    Bucket, BucketAddress, BucketEntry, BucketObject, Buckets, ErrorKind, PortError, Result,
};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// In-memory hosts of buckets. A bucket without an access key is public.
#[derive(Clone, Default)]
pub struct MemoryBuckets(Arc<Mutex<Hosts>>);

#[derive(Default)]
struct Hosts {
    buckets: BTreeMap<String, BTreeMap<String, Bytes>>,
    /// The id and secret of the access key of each bucket that has one.
    keys: BTreeMap<String, (String, Vec<u8>)>,
}

impl MemoryBuckets {
    /// Creates a bucket, unless it exists.
    pub fn create(&self, bucket: &str) {
        lock(&self.0).buckets.entry(bucket.to_owned()).or_default();
    }

    /// Puts an object into a bucket.
    pub fn put(&self, bucket: &str, key: &str, content: impl Into<Bytes>) {
        let mut hosts = lock(&self.0);
        let bucket = hosts.buckets.entry(bucket.to_owned()).or_default();
        bucket.insert(key.to_owned(), content.into());
    }

    /// Deletes an object from a bucket.
    pub fn delete(&self, bucket: &str, key: &str) {
        if let Some(bucket) = lock(&self.0).buckets.get_mut(bucket) {
            bucket.remove(key);
        }
    }

    /// Restricts a bucket to this access key.
    pub fn require(&self, bucket: &str, id: &str, secret: &str) {
        let key = (id.to_owned(), secret.as_bytes().to_vec());
        lock(&self.0).keys.insert(bucket.to_owned(), key);
    }
}

#[async_trait]
impl Buckets for MemoryBuckets {
    async fn open(&self, address: &BucketAddress) -> Result<Arc<dyn Bucket>> {
        Ok(Arc::new(MemoryBucket {
            hosts: self.0.clone(),
            address: address.clone(),
        }))
    }
}

struct MemoryBucket {
    hosts: Arc<Mutex<Hosts>>,
    address: BucketAddress,
}

impl MemoryBucket {
    /// Returns the bucket's objects, if the login may read them.
    fn objects(&self, request: String) -> Result<BTreeMap<String, Bytes>> {
        let name = &self.address.name;
        let hosts = lock(&self.hosts);
        let login = self.address.connection.login.as_ref();
        let login = login.map(|(id, secret)| (id.clone(), secret.expose().to_vec()));
        let refuse = |kind| Err(PortError::new(kind, format!("{request}: {name}")));
        match (hosts.buckets.get(name), hosts.keys.get(name)) {
            (Some(_), Some(key)) if login.as_ref() != Some(key) => refuse(ErrorKind::Denied),
            (Some(objects), _) => Ok(objects.clone()),
            (None, _) => refuse(ErrorKind::NotFound),
        }
    }
}

fn etag(content: &Bytes) -> String {
    hex::encode(&Sha256::digest(content)[..16])
}

#[async_trait]
impl Bucket for MemoryBucket {
    async fn list(&self, prefix: &str, most: usize) -> Result<Vec<BucketEntry>> {
        let objects = self.objects(format!("list {prefix}"))?;
        let entry = |(key, content): (String, Bytes)| BucketEntry {
            etag: etag(&content),
            size: content.len() as u64,
            key,
        };
        let found = objects
            .into_iter()
            .filter(|(key, _)| key.starts_with(prefix));
        let found: Vec<BucketEntry> = found.map(entry).collect();
        match found.len() > most {
            true => Err(PortError::new(
                ErrorKind::Invalid,
                format!("the bucket has more than {most} objects"),
            )),
            false => Ok(found),
        }
    }

    async fn get(&self, key: &str, limit: u64) -> Result<Option<BucketObject>> {
        let objects = self.objects(format!("get {key}"))?;
        let Some(content) = objects.get(key) else {
            return Ok(None);
        };
        match content.len() as u64 > limit {
            true => Err(PortError::new(
                ErrorKind::Invalid,
                format!("{key}: the object is larger than {limit} bytes"),
            )),
            false => Ok(Some(BucketObject {
                etag: etag(content),
                bytes: content.clone(),
            })),
        }
    }
}
