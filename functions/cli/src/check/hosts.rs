//! The hosts that a check asks: none, or those of remote bases and of the files that kustomizations name.

use async_trait::async_trait;
use bytes::Bytes;
use driftless_adapters::charts::HttpCharts;
use driftless_adapters::git::BASE_NOT_FETCHED;
use driftless_adapters::offline::Offline;
use driftless_core::ports::{
    Charts, Connection, ErrorKind, Fetched, Layer, Manifest, PortError, Referrer, Result, Validator,
};

/// No host at all but, where that is allowed, those of files.
pub struct FilesAlone(pub Option<HttpCharts>);

#[async_trait]
impl Charts for FilesAlone {
    async fn get(
        &self,
        url: &str,
        how: &Connection,
        known: &Validator,
        limit: u64,
    ) -> Result<Fetched> {
        Offline.get(url, how, known, limit).await
    }

    async fn file(&self, url: &str, how: &Connection, limit: u64) -> Result<Fetched> {
        match &self.0 {
            Some(files) => files.file(url, how, limit).await,
            None => Err(PortError::new(ErrorKind::Unsupported, BASE_NOT_FETCHED)),
        }
    }

    async fn tags(&self, repository: &str, how: &Connection) -> Result<Vec<String>> {
        Offline.tags(repository, how).await
    }

    async fn manifest(
        &self,
        repository: &str,
        reference: &str,
        how: &Connection,
    ) -> Result<Manifest> {
        Offline.manifest(repository, reference, how).await
    }

    async fn referrers(
        &self,
        repository: &str,
        digest: &str,
        how: &Connection,
    ) -> Result<Vec<Referrer>> {
        Offline.referrers(repository, digest, how).await
    }

    async fn layer(
        &self,
        repository: &str,
        layer: &Layer,
        how: &Connection,
        limit: u64,
    ) -> Result<Bytes> {
        Offline.layer(repository, layer, how, limit).await
    }
}
