//! Buckets of objects that a user names as a source.

use super::{Connection, Result};
use async_trait::async_trait;
use bytes::Bytes;
use std::sync::Arc;

/// Where a bucket is, and who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketAddress {
    /// `https://HOST[:PORT]`, or `http://` for one without TLS.
    pub endpoint: String,
    /// The bucket's name.
    pub name: String,
    /// The region; empty when the endpoint tells it, or has none.
    pub region: String,
    /// How to talk to the endpoint. The login is an access key's id and its secret; without one nobody in particular asks.
    pub how: Connection,
    /// Ask with the installation's own AWS role.
    pub as_installation: bool,
}

/// An object as a list of a bucket has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketEntry {
    /// Its key. Anything may stand there, such as `../` and names that other keys have as a directory.
    pub key: String,
    /// What stands for its content, without quotes.
    pub etag: String,
    /// How many bytes it has.
    pub size: u64,
}

/// An object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketObject {
    /// What stands for its content, without quotes.
    pub etag: String,
    /// Its content.
    pub bytes: Bytes,
}

/// Ways to buckets. Users name their hosts, so an implementation reaches no address of the installation itself unless
/// [`Connection::allow_local`] says so, follows no redirect, and reads no more than it was told to.
#[async_trait]
pub trait Buckets: Send + Sync {
    /// The bucket at an address. It is not asked anything yet.
    async fn open(&self, address: &BucketAddress) -> Result<Arc<dyn Bucket>>;
}

/// A bucket that is only read.
#[async_trait]
pub trait Bucket: Send + Sync {
    /// Every object whose key starts with `prefix`; more than `most` are refused (`Invalid`). `NotFound`: there is no such
    /// bucket.
    async fn list(&self, prefix: &str, most: usize) -> Result<Vec<BucketEntry>>;

    /// An object of at most `limit` bytes; none when there is none with that key.
    async fn get(&self, key: &str, limit: u64) -> Result<Option<BucketObject>>;
}
