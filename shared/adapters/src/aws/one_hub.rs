//! The bucket of an installation that serves one hub alone.

use async_trait::async_trait;
use bytes::Bytes;
use driftless_kernel::hub;
use driftless_kernel::ports::{
    BlobEntry, Blobs, ErrorKind, PortError, Precondition, PutOutcome, Result, Version,
};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// A bucket whose registrations of other hubs are neither read nor written: whatever works on a hub
/// reads its registration first.
pub struct OneHub {
    blobs: Arc<dyn Blobs>,
    name: String,
}

impl OneHub {
    /// Creates a bucket for the hub of this name.
    pub fn new(blobs: Arc<dyn Blobs>, name: impl Into<String>) -> Self {
        let name = name.into();
        Self { blobs, name }
    }

    fn check(&self, key: &str) -> Result<()> {
        match hub::name_of(key) {
            Some(other) if other != self.name => {
                let message = hub::of_another_stack(&self.name, &other);
                Err(PortError::new(ErrorKind::Unsupported, message))
            }
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Blobs for OneHub {
    async fn get(&self, key: &str) -> Result<Option<(Bytes, Version)>> {
        self.check(key)?;
        self.blobs.get(key).await
    }

    async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Option<Bytes>> {
        self.check(key)?;
        self.blobs.get_range(key, range).await
    }

    async fn put(&self, key: &str, content: Bytes, when: Precondition) -> Result<PutOutcome> {
        self.check(key)?;
        self.blobs.put(key, content, when).await
    }

    async fn delete(&self, key: &str) -> Result<()> {
        self.blobs.delete(key).await
    }

    async fn delete_version(&self, key: &str, version: &Version) -> Result<bool> {
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
    use driftless_kernel::hub::Settings;
    use driftless_memory::MemoryBlobs;

    #[tokio::test]
    async fn another_hub_is_refused_and_not_registered() {
        let bucket = Arc::<MemoryBlobs>::default();
        let mut ports = driftless_memory::ports(bucket.clone(), Arc::default(), Arc::default());
        let of = |name: &str| Settings {
            name: name.to_owned(),
            ..Settings::default()
        };
        hub::register(&ports, &of("b")).await.unwrap();
        ports.blobs = Arc::new(OneHub::new(bucket.clone(), "a"));
        hub::register(&ports, &of("a")).await.unwrap();
        assert_eq!(hub::settings(&ports, "a").await.unwrap(), of("a"));
        for name in ["b", "c", "a/x"] {
            let failure = hub::settings(&ports, name).await.unwrap_err();
            let expected = format!(
                "this installation serves hub 'a' alone (parameter Hub of its stack): register hub '{name}' \
                 with another stack"
            );
            assert_eq!(failure.message, expected);
            let refused = hub::register(&ports, &of(name)).await.unwrap_err();
            assert_eq!(refused.message, expected);
        }
        // A registration that is there already is seen, so that its sweep reports what is wrong.
        assert_eq!(hub::names(&ports).await.unwrap(), ["a", "b"]);
    }
}
