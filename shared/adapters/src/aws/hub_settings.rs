//! The registrations of hubs, kept for two minutes by a warm function.

use super::warm_cache::WarmCache;
use async_trait::async_trait;
use bytes::Bytes;
use driftless_kernel::hub;
use driftless_kernel::ports::{BlobEntry, Blobs, Precondition, PutOutcome, Result, Version};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// The time for which a registration is kept, as the kubeconfig of its hub: changed settings apply
/// after at most this time.
const TTL: Duration = Duration::from_secs(120);

/// A bucket whose registrations of hubs are not read for each step.
pub struct HubSettingsCache {
    blobs: Arc<dyn Blobs>,
    known: WarmCache<(Bytes, Version)>,
}

impl HubSettingsCache {
    /// Creates a cache before a bucket.
    pub fn new(blobs: Arc<dyn Blobs>) -> Self {
        Self {
            blobs,
            known: WarmCache::default(),
        }
    }
}

#[async_trait]
impl Blobs for HubSettingsCache {
    async fn get(&self, key: &str) -> Result<Option<(Bytes, Version)>> {
        if !key.starts_with(hub::PREFIX) {
            return self.blobs.get(key).await;
        }
        if let Some(found) = self.known.get(key) {
            return Ok(Some(found));
        }
        let found = self.blobs.get(key).await?;
        // A missing registration is not kept: it may be written at any moment.
        if let Some(found) = &found {
            self.known.keep(key, found.clone(), TTL);
        }
        Ok(found)
    }

    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Option<Bytes>> {
        self.blobs.get_range(key, range).await
    }

    async fn put(&self, key: &str, content: Bytes, when: Precondition) -> Result<PutOutcome> {
        self.known.forget(key);
        self.blobs.put(key, content, when).await
    }

    async fn delete(&self, key: &str) -> Result<()> {
        self.known.forget(key);
        self.blobs.delete(key).await
    }

    async fn delete_version(&self, key: &str, version: &Version) -> Result<bool> {
        self.known.forget(key);
        self.blobs.delete_version(key, version).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<BlobEntry>> {
        self.blobs.list(prefix).await
    }

    async fn list_some(&self, prefix: &str, most: usize) -> Result<Vec<BlobEntry>> {
        self.blobs.list_some(prefix, most).await
    }

    async fn size(&self, key: &str) -> Result<Option<u64>> {
        self.blobs.size(key).await
    }

    async fn set_aside(&self, key: &str, version: &Version) -> Result<()> {
        self.known.forget(key);
        self.blobs.set_aside(key, version).await
    }

    fn url(&self, key: &str) -> String {
        self.blobs.url(key)
    }

    async fn link(&self, key: &str, valid: Duration) -> Result<Option<String>> {
        self.blobs.link(key, valid).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driftless_memory::MemoryBlobs;

    #[tokio::test]
    async fn registrations_are_kept_and_other_records_are_not() {
        let bucket = Arc::<MemoryBlobs>::default();
        let cache = HubSettingsCache::new(bucket.clone());
        let content = async |key: &str| cache.get(key).await.unwrap().map(|(bytes, _)| bytes);
        let write = async |key: &str, text: &'static str| {
            let put = bucket.put(key, text.into(), Precondition::None);
            put.await.unwrap();
        };
        assert_eq!(content("hubs/a.json").await, None);
        for key in ["hubs/a.json", "objects/a.json"] {
            write(key, "old").await;
            assert_eq!(content(key).await.unwrap(), "old", "absence is not kept");
            write(key, "new").await;
        }
        assert_eq!(content("hubs/a.json").await.unwrap(), "old");
        assert_eq!(content("objects/a.json").await.unwrap(), "new");
        let put = cache.put("hubs/a.json", "own".into(), Precondition::None);
        put.await.unwrap();
        assert_eq!(content("hubs/a.json").await.unwrap(), "own");
    }
}
