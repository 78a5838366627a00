//! Buckets of objects that a user names as a source.

use super::{Connection, Result};
use async_trait::async_trait;
use bytes::Bytes;
use std::sync::Arc;

/// The address of a bucket, and the credentials for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketAddress {
    /// The URL: `https://HOST[:PORT]`, or `http://` without TLS.
    pub endpoint: String,
    /// The bucket's name.
    pub name: String,
    /// The region; empty if the endpoint's name contains it, or the endpoint has none.
    pub region: String,
    /// The options of the connection. The login is an access key's id and its secret; without a
    /// login, requests are anonymous.
    pub connection: Connection,
    /// True if requests are signed with the installation's own AWS role.
    pub as_installation: bool,
}

/// An object in a listing of a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketEntry {
    /// The object's key. It is not validated: it may contain `../`, or be the directory of other
    /// keys.
    pub key: String,
    /// The ETag of the content, without quotes.
    pub etag: String,
    /// The size in bytes.
    pub size: u64,
}

/// An object of a bucket, with its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketObject {
    /// The ETag of the content, without quotes.
    pub etag: String,
    /// The object's content.
    pub bytes: Bytes,
}

/// The port to buckets. Users name the hosts, so an implementation reaches no address of the
/// installation itself unless [`Connection::allow_local`] is set, follows no redirect, and reads no
/// more than its limit.
#[async_trait]
pub trait Buckets: Send + Sync {
    /// Returns the bucket at an address, without a request to it.
    async fn open(&self, address: &BucketAddress) -> Result<Arc<dyn Bucket>>;
}

/// A bucket, for reads only.
#[async_trait]
pub trait Bucket: Send + Sync {
    /// Lists every object whose key starts with `prefix`. Fails with `Invalid` if there are more
    /// than `most`, and with `NotFound` if the bucket does not exist.
    async fn list(&self, prefix: &str, most: usize) -> Result<Vec<BucketEntry>>;

    /// Reads an object of at most `limit` bytes; `None` if no object has that key.
    async fn get(&self, key: &str, limit: u64) -> Result<Option<BucketObject>>;
}
